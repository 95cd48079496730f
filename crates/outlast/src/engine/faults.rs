//! The named points at which a test can make a step's worker die.
//!
//! The executor asks at each point. Production engines have no fault set.

use outlast_core::{Claim, Outcome};
use std::sync::Arc;

/// A point in the life of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Point {
    /// The instance is claimed, and nothing has run.
    BeforeStep,
    /// The step has run with all its effects, and its outcome is not written.
    BeforeCommit,
    /// The outcome is durable, and the worker does not know it yet.
    AfterCommit,
}

/// One point of one step.
pub(crate) struct StepPoint<'a> {
    pub(crate) point: Point,
    pub(crate) claim: &'a Claim,
    /// The outcome of the step, once there is one.
    pub(crate) outcome: Option<&'a Outcome>,
}

/// Decides at every point of every step whether its worker dies there.
///
/// The claim then stays as it is, as after the end of a process.
pub(crate) type Fault = Arc<dyn Fn(&StepPoint<'_>) -> bool + Send + Sync>;
