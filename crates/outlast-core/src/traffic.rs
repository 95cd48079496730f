//! What engines have run, counted by the minute.
//!
//! Every engine counts in memory and adds its counts to the store's every few seconds. A crash loses the counts of
//! those seconds and nothing else: no decision depends on them.

use crate::limits::{self, TRAFFIC_MAX};
use crate::{Invalid, Timestamp};

/// How many delays there are to tell apart, see [`Delays`].
pub const DELAY_BINS: usize = 24;

/// Counts to be added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Steps that were run.
    pub runs: Vec<Runs>,
    /// How long they had waited.
    pub delays: Vec<Delays>,
}

/// Steps that were run within a minute and came to the same outcome.
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
    /// What it came to, in the words of the metrics: next, retry, wait, fan_out, done, stop, cancel.
    pub outcome: String,
    /// The step that follows; empty when none does.
    pub next: String,
    /// How many.
    pub count: u64,
    /// How long they ran, taken together, in microseconds.
    pub micros: u64,
}

/// Steps that were started within a minute from one queue, after about the same delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delays {
    /// When the minute began.
    pub minute: Timestamp,
    /// The queue.
    pub queue: String,
    /// From eligible to started: bin 0 is below 1 ms, bin `n` is from 2ⁿ⁻¹ to below 2ⁿ ms, and the last has no end.
    pub bin: u8,
    /// How many.
    pub count: u64,
}

impl Traffic {
    /// Whether it can be stored.
    pub fn check(&self) -> Result<(), Invalid> {
        limits::check_batch("traffic", self.runs.len() + self.delays.len(), TRAFFIC_MAX)?;
        for runs in &self.runs {
            limits::check_name("machine", &runs.machine)?;
            limits::check_name("step", &runs.step)?;
            limits::check_name("outcome", &runs.outcome)?;
            if !runs.next.is_empty() {
                limits::check_name("step", &runs.next)?;
            }
        }
        for delays in &self.delays {
            limits::check_name("queue", &delays.queue)?;
            if usize::from(delays.bin) >= DELAY_BINS {
                let reason = format!("is {}; the last is {}", delays.bin, DELAY_BINS - 1);
                return Err(Invalid::new("bin", reason));
            }
        }
        Ok(())
    }

    /// Whether there is nothing to add.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.delays.is_empty()
    }
}
