//! Run counts of the engines, by the minute.
//!
//! Every engine counts in memory and adds its counts to the store every few seconds. A crash loses
//! the counts of those seconds. No decision may depend on them.

use crate::limits::{self, RUN_STATS_COUNT_MAX, RUN_STATS_MAX, RUN_STATS_MICROS_MAX};
use crate::{Invalid, Timestamp};
use std::process;
use std::time::{Duration, SystemTime};

/// The number of delay bins of [`Delays`].
pub const DELAY_BINS: usize = 24;

const MINUTE_MICROS: i64 = 60_000_000;

/// Counts to add.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunStats {
    /// Steps that ran.
    pub runs: Vec<Runs>,
    /// How long they waited before.
    pub delays: Vec<Delays>,
}

/// Steps that ran within one minute with the same outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runs {
    /// When the minute began.
    pub minute: Timestamp,
    /// The machine.
    pub machine: String,
    /// Its version.
    pub version: i32,
    /// The step that was run.
    pub step: String,
    /// The outcome, in the words of the metrics: next, retry, wait, fan_out, flow,
    /// continue_as_new, done, fail, cancel.
    pub outcome: String,
    /// The next step; empty without one.
    pub next: String,
    /// How many.
    pub count: u64,
    /// The sum of their run times, in microseconds.
    pub micros: u64,
}

/// Steps of one queue that started within one minute, after about the same delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delays {
    /// When the minute began.
    pub minute: Timestamp,
    /// The queue.
    pub queue: String,
    /// The time from eligible to started. Bin 0 is below 1 ms, bin `n` is from 2ⁿ⁻¹ to below 2ⁿ
    /// ms, the last bin is open.
    pub bin: u8,
    /// How many.
    pub count: u64,
}

impl RunStats {
    /// Checks whether it can be stored.
    pub fn check(&self) -> Result<(), Invalid> {
        limits::check_batch(
            "run_stats",
            self.runs.len() + self.delays.len(),
            RUN_STATS_MAX,
        )?;
        self.runs.iter().try_for_each(Runs::check)?;
        self.delays.iter().try_for_each(Delays::check)
    }

    /// Merges counts with the same key and sorts them by key.
    ///
    /// A store locks the rows in this order, so that two engines cannot deadlock.
    pub fn in_order(mut self) -> RunStats {
        self.runs.sort_by(|a, b| a.key().cmp(&b.key()));
        self.runs.dedup_by(|next, first| {
            let is_same = next.key() == first.key();
            if is_same {
                first.count = first.count.saturating_add(next.count);
                first.micros = first.micros.saturating_add(next.micros);
            }
            is_same
        });
        self.delays.sort_by(|a, b| a.key().cmp(&b.key()));
        self.delays.dedup_by(|next, first| {
            let is_same = next.key() == first.key();
            if is_same {
                first.count = first.count.saturating_add(next.count);
            }
            is_same
        });
        self
    }

    /// Whether there is nothing to add.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.delays.is_empty()
    }
}

impl Runs {
    /// Returns the key of the count.
    pub fn key(&self) -> (Timestamp, &str, i32, &str, &str, &str) {
        let Runs {
            minute,
            machine,
            version,
            step,
            outcome,
            next,
            count: _,
            micros: _,
        } = self;
        (*minute, machine, *version, step, outcome, next)
    }

    fn check(&self) -> Result<(), Invalid> {
        check_minute(self.minute)?;
        limits::check_name("machine", &self.machine)?;
        limits::check_version(self.version)?;
        limits::check_name("step", &self.step)?;
        limits::check_name("outcome", &self.outcome)?;
        if !self.next.is_empty() {
            limits::check_name("step", &self.next)?;
        }
        check_count("count", self.count, RUN_STATS_COUNT_MAX)?;
        check_count("micros", self.micros, RUN_STATS_MICROS_MAX)
    }
}

impl Delays {
    /// Returns the key of the count.
    pub fn key(&self) -> (Timestamp, &str, u8) {
        (self.minute, &self.queue, self.bin)
    }

    /// Returns the bin of a delay.
    pub fn bin_of(delay: Duration) -> u8 {
        let millis = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        let bin = u64::BITS - millis.leading_zeros();
        bin.min(DELAY_BINS as u32 - 1) as u8
    }

    /// How many rows a [check of writes](crate::Store::check_writes) writes. They take more than
    /// one page.
    pub const PROBE_MAX: usize = 64;

    /// Creates the rows of a check of writes.
    ///
    /// Their minute is so old that they are the first to be removed. Two processes write different
    /// rows, so that neither waits for the other's lock.
    pub fn probes() -> Vec<Delays> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let writer = (process::id(), now.map_or(0, |now| now.as_nanos()));
        let queue = |n| format!("{:x<200}", format!("{:x}-{:x}-{n}-", writer.0, writer.1));
        let row = |n| Delays {
            minute: Timestamp(0),
            queue: queue(n),
            bin: 0,
            count: 1,
        };
        (0..Delays::PROBE_MAX).map(row).collect()
    }

    fn check(&self) -> Result<(), Invalid> {
        check_minute(self.minute)?;
        limits::check_name("queue", &self.queue)?;
        if usize::from(self.bin) >= DELAY_BINS {
            let reason = format!("is {}; the last is {}", self.bin, DELAY_BINS - 1);
            return Err(Invalid::new("bin", reason));
        }
        check_count("count", self.count, RUN_STATS_COUNT_MAX)
    }
}

/// Returns the minute of a moment.
pub fn minute_of(moment: Timestamp) -> Timestamp {
    Timestamp(moment.0 - moment.0.rem_euclid(MINUTE_MICROS))
}

fn check_minute(minute: Timestamp) -> Result<(), Invalid> {
    limits::check_moment("minute", minute)?;
    if minute_of(minute) != minute {
        let reason = format!("{} µs does not begin a minute", minute.0);
        return Err(Invalid::new("minute", reason));
    }
    Ok(())
}

fn check_count(what: &'static str, count: u64, max: u64) -> Result<(), Invalid> {
    if count > max {
        let reason = format!("is {count}; at most {max} is added at once");
        return Err(Invalid::new(what, reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(minute: i64, step: &str, count: u64) -> Runs {
        Runs {
            minute: Timestamp(minute * MINUTE_MICROS),
            machine: "order".into(),
            version: 1,
            step: step.into(),
            outcome: "next".into(),
            next: "ship".into(),
            count,
            micros: 10 * count,
        }
    }

    #[test]
    fn counts_of_one_key_are_added_and_keys_go_in_order() {
        let delay = |bin, count| Delays {
            minute: Timestamp(0),
            queue: "default".into(),
            bin,
            count,
        };
        let stats = RunStats {
            runs: vec![runs(1, "b", 1), runs(0, "z", 2), runs(1, "b", 3)],
            delays: vec![delay(4, 1), delay(0, 1), delay(4, 1)],
        };
        let stats = stats.in_order();
        assert_eq!(stats.runs, [runs(0, "z", 2), runs(1, "b", 4)]);
        assert_eq!(stats.delays, [delay(0, 1), delay(4, 2)]);
    }

    #[test]
    fn a_bin_ends_below_the_power_of_two_that_begins_the_next() {
        let bin = |micros| Delays::bin_of(Duration::from_micros(micros));
        assert_eq!((bin(0), bin(999), bin(1_000), bin(1_999)), (0, 0, 1, 1));
        assert_eq!((bin(2_000), bin(3_999), bin(4_000)), (2, 2, 3));
        let last = DELAY_BINS as u8 - 1;
        assert_eq!(Delays::bin_of(Duration::from_millis(1 << 22)), last);
        assert_eq!(
            Delays::bin_of(Duration::from_millis((1 << 22) - 1)),
            last - 1
        );
        assert_eq!(Delays::bin_of(Duration::MAX), last);
    }

    #[test]
    fn run_stats_with_an_invalid_minute_or_count_are_refused() {
        let check = |runs| {
            let delays = Vec::new();
            let runs = vec![runs];
            RunStats { runs, delays }.check()
        };
        assert!(check(runs(1, "a", 1)).is_ok());
        let odd = Timestamp(MINUTE_MICROS + 1);
        let odd_minute = Runs {
            minute: odd,
            ..runs(1, "a", 1)
        };
        assert!(check(odd_minute).is_err());
        assert_eq!(minute_of(odd), Timestamp(MINUTE_MICROS));
        assert_eq!(minute_of(Timestamp(-1)), Timestamp(-MINUTE_MICROS));
        assert!(check(runs(i64::MAX / MINUTE_MICROS, "a", 1)).is_err());
        assert!(check(runs(1, "", 1)).is_err());
        assert!(check(runs(1, "a", RUN_STATS_COUNT_MAX + 1)).is_err());
        let endless = Runs {
            micros: RUN_STATS_MICROS_MAX + 1,
            ..runs(1, "a", 1)
        };
        assert!(check(endless).is_err());
    }
}
