//! The pause after a failure of the store. Every loop of the engine has one.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(5);

/// Doubles from 50 ms to 5 s. Each pause is between half and all of that, so that nodes that
/// failed together do not retry together.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Returns the next pause.
    pub(crate) fn next(&mut self) -> Duration {
        let doubled = FIRST.saturating_mul(1 << self.failures.min(10));
        self.failures = self.failures.saturating_add(1);
        jittered(doubled.min(LONGEST))
    }

    /// Starts again with the shortest pause, after a success.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Returns a random duration between half and all of `duration`.
pub(crate) fn jittered(duration: Duration) -> Duration {
    duration.mul_f64(0.5 + 0.5 * fastrand::f64())
}
