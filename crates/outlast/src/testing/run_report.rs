//! The report of a run of the harness.

use outlast_core::Outcome;

/// Counts of what ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunReport {
    /// Outcomes that were written, of all kinds.
    pub steps: u32,
    /// Outcomes that went to another step.
    pub next: u32,
    /// Outcomes that run the same step again.
    pub retries: u32,
    /// Outcomes that parked for signals or a while.
    pub waits: u32,
    /// Outcomes that parked for children.
    pub fan_outs: u32,
    /// Workflows that continued or waited.
    pub flows: u32,
    /// Workflows that continued as new.
    pub continued_as_new: u32,
    /// Instances that are done.
    pub done: u32,
    /// Instances that failed.
    pub failed: u32,
    /// Instances that were cancelled.
    pub cancelled: u32,
    /// Workers that crashed because the test requested it.
    pub crashes: u32,
    /// Waits that were woken by their deadline.
    pub timeouts: u32,
}

impl RunReport {
    pub(super) fn count(&mut self, outcome: &Outcome) {
        self.steps += 1;
        let kind = match outcome {
            Outcome::Next { .. } => &mut self.next,
            Outcome::Retry { .. } => &mut self.retries,
            Outcome::Wait { .. } => &mut self.waits,
            Outcome::FanOut { .. } => &mut self.fan_outs,
            Outcome::Flow { .. } => &mut self.flows,
            Outcome::ContinueAsNew { .. } => &mut self.continued_as_new,
            Outcome::Done { .. } => &mut self.done,
            Outcome::Fail { .. } => &mut self.failed,
            Outcome::Cancel { .. } => &mut self.cancelled,
        };
        *kind += 1;
    }
}
