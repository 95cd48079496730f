//! Charts of the last hour, in minutes: runs, failures and start delays.

use crate::access::tokens::TokenScope;
use crate::bodies::time::Moment;
use crate::limits::{MINUTE, WINDOW_MINUTES};
use crate::routes::is_failure;
use outlast_core::{DELAY_BINS, RunStats, Timestamp, minute_of};
use serde::Serialize;

/// The last hour, in minutes. Each list has one entry per minute; the last one is the current
/// minute.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Series)]
pub(crate) struct SeriesBody {
    /// The start of each minute.
    minutes: Vec<Moment>,
    /// Steps that were run. Empty for a token bound to queues.
    runs: Vec<u64>,
    /// Runs that ended with a retry or a failure.
    failures: Vec<u64>,
    /// Runs that completed their instance.
    done: Vec<u64>,
    /// The median delay from eligible to started; null in a minute without runs. Empty for a token
    /// bound to machines.
    delay_p50_ms: Vec<Option<f64>>,
    /// The 99th percentile of the delay from eligible to started.
    delay_p99_ms: Vec<Option<f64>>,
}

/// Returns the charts that a token may see. Runs are counted by machine and delays by queue, so a
/// token bound to one of these does not see the other.
pub(crate) fn series(stats: &RunStats, now: Timestamp, scope: &TokenScope) -> SeriesBody {
    let last = minute_of(now);
    let first = Timestamp(last.0 - (WINDOW_MINUTES - 1) * MINUTE);
    let minutes: Vec<_> = (0..WINDOW_MINUTES)
        .map(|n| Moment(Timestamp(first.0 + n * MINUTE)))
        .collect();
    let place = |minute: Timestamp| {
        let n = usize::try_from((minute.0 - first.0).div_euclid(MINUTE)).ok()?;
        (n < minutes.len()).then_some(n)
    };
    let mut body = SeriesBody {
        runs: Vec::new(),
        failures: Vec::new(),
        done: Vec::new(),
        delay_p50_ms: Vec::new(),
        delay_p99_ms: Vec::new(),
        minutes: minutes.clone(),
    };
    if scope.queues.is_none() {
        let nothing = vec![0; minutes.len()];
        (body.runs, body.failures, body.done) = (nothing.clone(), nothing.clone(), nothing);
        for runs in stats
            .runs
            .iter()
            .filter(|runs| scope.has_machine(&runs.machine))
        {
            let Some(n) = place(runs.minute) else {
                continue;
            };
            body.runs[n] += runs.count;
            if is_failure(&runs.outcome) {
                body.failures[n] += runs.count;
            }
            if runs.outcome == "done" {
                body.done[n] += runs.count;
            }
        }
    }
    if scope.machines.is_none() {
        let mut bins = vec![[0u64; DELAY_BINS]; minutes.len()];
        for delays in stats
            .delays
            .iter()
            .filter(|delays| scope.has_queue(&delays.queue))
        {
            if let Some(n) = place(delays.minute)
                && let Some(bin) = bins[n].get_mut(usize::from(delays.bin))
            {
                *bin += delays.count;
            }
        }
        body.delay_p50_ms = bins.iter().map(|bins| percentile(bins, 0.50)).collect();
        body.delay_p99_ms = bins.iter().map(|bins| percentile(bins, 0.99)).collect();
    }
    body
}

/// Estimates the delay that this fraction of all runs does not exceed, in milliseconds. It
/// interpolates within the bin.
fn percentile(bins: &[u64; DELAY_BINS], part: f64) -> Option<f64> {
    let total: u64 = bins.iter().sum();
    if total == 0 {
        return None;
    }
    let wanted = part * total as f64;
    let mut below = 0.0;
    for (bin, count) in bins.iter().enumerate().filter(|(_, count)| **count > 0) {
        let count = *count as f64;
        if below + count >= wanted {
            let (from, to) = bounds(bin);
            let within = (wanted - below) / count;
            return Some(((from + (to - from) * within) * 1000.0).round() / 1000.0);
        }
        below += count;
    }
    None
}

/// Returns the bounds of a bin in milliseconds.
fn bounds(bin: usize) -> (f64, f64) {
    let power = |exponent: usize| 2f64.powi(i32::try_from(exponent).unwrap_or(i32::MAX));
    match bin {
        0 => (0.0, 1.0),
        bin => (power(bin - 1), power(bin)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_core::{Delays, Runs};

    fn runs(minute: i64, machine: &str, outcome: &str, count: u64) -> Runs {
        Runs {
            minute: Timestamp(minute * MINUTE),
            machine: machine.into(),
            version: 1,
            step: "s".into(),
            outcome: outcome.into(),
            next: String::new(),
            count,
            micros: 0,
        }
    }

    #[test]
    fn a_chart_has_sixty_minutes_and_leaves_out_older_runs() {
        let now = Timestamp(1000 * MINUTE + 5);
        let stats = RunStats {
            runs: vec![
                runs(1000, "a", "done", 3),
                runs(1000, "a", "retry", 2),
                runs(999, "b", "fail", 1),
                runs(941, "a", "next", 7),
                runs(940, "a", "next", 100),
            ],
            delays: Vec::new(),
        };
        let all = series(&stats, now, &TokenScope::default());
        assert_eq!(all.minutes.len(), 60);
        assert_eq!((all.runs[59], all.failures[59], all.done[59]), (5, 2, 3));
        assert_eq!((all.runs[58], all.failures[58]), (1, 1));
        assert_eq!(all.runs[0], 7);
        assert_eq!(all.runs.iter().sum::<u64>(), 13);
        assert_eq!(all.delay_p50_ms, vec![None; 60]);
    }

    #[test]
    fn a_machine_scope_shows_only_runs_and_a_queue_scope_only_delays() {
        let now = Timestamp(1000 * MINUTE);
        let stats = RunStats {
            runs: vec![runs(1000, "a", "done", 3), runs(1000, "b", "done", 4)],
            delays: vec![Delays {
                minute: Timestamp(1000 * MINUTE),
                queue: "q".into(),
                bin: 3,
                count: 1,
            }],
        };
        let scope = TokenScope {
            machines: Some(["a".to_owned()].into()),
            queues: None,
        };
        let some = series(&stats, now, &scope);
        assert_eq!(some.runs[59], 3);
        assert!(some.delay_p50_ms.is_empty());
        let scope = TokenScope {
            machines: None,
            queues: Some(["q".to_owned()].into()),
        };
        let some = series(&stats, now, &scope);
        assert!(some.runs.is_empty());
        assert_eq!(some.delay_p50_ms[59], Some(6.0));
    }

    #[test]
    fn percentiles_lie_within_their_bin() {
        let mut bins = [0; DELAY_BINS];
        bins[0] = 99;
        bins[10] = 1;
        let p50 = percentile(&bins, 0.5);
        assert!(p50.is_some_and(|ms| ms > 0.0 && ms < 1.0), "{p50:?}");
        assert_eq!(percentile(&bins, 0.995), Some(512.0 + 256.0));
        assert_eq!(percentile(&[0; DELAY_BINS], 0.5), None);
    }
}
