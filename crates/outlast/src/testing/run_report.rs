//! What a run came to.

use outlast_core::Outcome;

/// What ran, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunReport {
    /// Outcomes that were written, of all kinds.
    pub steps: u32,
    /// Of these, on to another step.
    pub next: u32,
    /// The same step again.
    pub retries: u32,
    /// Parked for signals or a while.
    pub waits: u32,
    /// Parked for children.
    pub fan_outs: u32,
    /// Workflows that went on or waited.
    pub flows: u32,
    /// Workflows that began another run.
    pub renewals: u32,
    /// Ended well.
    pub done: u32,
    /// Ended badly.
    pub failed: u32,
    /// Ended because it was wished.
    pub cancelled: u32,
    /// Workers that died because the test asked for it.
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
            Outcome::ContinueAsNew { .. } => &mut self.renewals,
            Outcome::Done { .. } => &mut self.done,
            Outcome::Fail { .. } => &mut self.failed,
            Outcome::Cancel { .. } => &mut self.cancelled,
        };
        *kind += 1;
    }
}
