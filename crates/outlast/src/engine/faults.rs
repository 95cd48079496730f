//! The named points at which a test can make a step's worker die.

use outlast_core::{Claim, Outcome};
use std::sync::Arc;

/// A moment in the life of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Point {
    /// Claimed, and nothing has run.
    BeforeStep,
    /// The step has run with all its effects, and its outcome is written nowhere.
    BeforeCommit,
    /// The outcome is durable, and the worker does not know yet.
    AfterCommit,
}

/// One point of one step.
pub(crate) struct Moment<'a> {
    pub(crate) point: Point,
    pub(crate) claim: &'a Claim,
    /// What the step decided, once it has.
    pub(crate) outcome: Option<&'a Outcome>,
}

/// Asked at every point of every step: whether its worker dies there. The claim then stays where it is, as
/// after the end of a process.
pub(crate) type Fault = Arc<dyn Fn(&Moment<'_>) -> bool + Send + Sync>;
