//! What goes wrong in a workflow.

use super::replay::events::{Ended, Failed};
use outlast_core::{InstanceId, Invalid, Json};
use std::error::Error;
use std::fmt;

/// The error of a workflow, and what a call of [`Flow`](super::Flow) fails with. `?` makes one of any error, of
/// `anyhow::Error`, of `Box<dyn Error + Send + Sync>` and of a text. Its text has the causes too.
///
/// ```
/// use outlast::prelude::*;
///
/// fn load() -> anyhow::Result<u64> {
///     anyhow::bail!("no such order")
/// }
///
/// fn check(n: u64) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
///     Ok(n)
/// }
///
/// async fn code(flow: Flow) -> FlowResult<u64> {
///     // Inside a step as well.
///     let loaded = flow.step("load", async || Ok::<_, StepFailure>(check(load()?)?)).await?;
///     Ok(check(loaded)?)
/// }
///
/// # use outlast::workflow::StepFailure;
/// let error: FlowError = load().map_err(|error| error.context("order 7")).unwrap_err().into();
/// assert_eq!(error.to_string(), "order 7: no such order");
/// ```
///
/// A `Box<dyn Error>` without `Send + Sync` does not become one: an error may travel to another thread. Make it a text,
/// `.map_err(|error| error.to_string())?`, or add the bounds.
///
/// It does not implement [`std::error::Error`] itself, so that every error can become one.
pub struct FlowError {
    kind: FlowErrorKind,
    call: Option<i32>,
    child: Option<InstanceId>,
    source: Box<dyn Error + Send + Sync>,
    /// What the next run begins with, of [`Flow::continue_as_new`](super::Flow::continue_as_new).
    renewal: Option<Json>,
    /// Whether the history has an answer that the code has no type for.
    is_unreadable: bool,
}

/// What failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FlowErrorKind {
    /// A [`step`](super::Flow::step): it returned an error, panicked, took too long, or its result cannot be stored.
    Step,
    /// A job that was started as an [activity](super::Flow::activity) has failed.
    ActivityFailed,
    /// Such a job was cancelled.
    ActivityCancelled,
    /// A child has failed.
    ChildFailed,
    /// A child was cancelled.
    ChildCancelled,
    /// A child was terminated.
    ChildTerminated,
    /// A child was not started since somebody else held its key, or an operator has removed it.
    ChildGone,
    /// The workflow itself is to end. Calls inside [`Flow::uncancellable`](super::Flow::uncancellable) still work.
    Cancelled,
    /// What a call was given or came to cannot be stored.
    Invalid,
    /// The workflow's own.
    Other,
}

impl FlowErrorKind {
    /// One word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            FlowErrorKind::Step => "step",
            FlowErrorKind::ActivityFailed => "activity_failed",
            FlowErrorKind::ActivityCancelled => "activity_cancelled",
            FlowErrorKind::ChildFailed => "child_failed",
            FlowErrorKind::ChildCancelled => "child_cancelled",
            FlowErrorKind::ChildTerminated => "child_terminated",
            FlowErrorKind::ChildGone => "child_gone",
            FlowErrorKind::Cancelled => "cancelled",
            FlowErrorKind::Invalid => "invalid",
            FlowErrorKind::Other => "other",
        }
    }
}

impl FlowError {
    /// An error from a text, a boxed error, or whatever becomes one.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> FlowError {
        FlowError::with(FlowErrorKind::Other, error)
    }

    fn with(kind: FlowErrorKind, error: impl Into<Box<dyn Error + Send + Sync>>) -> FlowError {
        FlowError {
            kind,
            call: None,
            child: None,
            source: error.into(),
            renewal: None,
            is_unreadable: false,
        }
    }

    pub(super) fn cancelled(reason: &str) -> FlowError {
        FlowError::with(FlowErrorKind::Cancelled, reason)
    }

    pub(super) fn invalid(invalid: Invalid) -> FlowError {
        FlowError::with(FlowErrorKind::Invalid, invalid)
    }

    pub(super) fn unreadable(invalid: Invalid) -> FlowError {
        FlowError {
            is_unreadable: true,
            ..FlowError::invalid(invalid)
        }
    }

    pub(super) fn is_unreadable(&self) -> bool {
        self.is_unreadable
    }

    pub(super) fn renewal(input: Json) -> FlowError {
        let text = "the run ends here, and another one begins; return this error from the workflow";
        FlowError {
            renewal: Some(input),
            ..FlowError::new(text)
        }
    }

    /// How a call ended badly, as history has it.
    pub(super) fn of_step(call: i32, name: &str, failed: Failed) -> FlowError {
        let kind = match failed.kind.as_str() {
            "invalid" => FlowErrorKind::Invalid,
            _ => FlowErrorKind::Step,
        };
        FlowError {
            call: Some(call),
            ..FlowError::with(kind, format!("step {name}: {}", failed.error))
        }
    }

    pub(super) fn of_child(kind: FlowErrorKind, call: i32, name: &str, ended: &Ended) -> FlowError {
        let how = match kind {
            FlowErrorKind::ActivityFailed | FlowErrorKind::ChildFailed => "failed",
            FlowErrorKind::ActivityCancelled | FlowErrorKind::ChildCancelled => "was cancelled",
            FlowErrorKind::ChildTerminated => "was terminated",
            FlowErrorKind::ChildGone
            | FlowErrorKind::Step
            | FlowErrorKind::Cancelled
            | FlowErrorKind::Invalid
            | FlowErrorKind::Other => "was not started, or was removed",
        };
        let reason = ended.error.as_deref().unwrap_or("no reason given");
        FlowError {
            call: Some(call),
            child: ended.child,
            ..FlowError::with(kind, format!("{name} {how}: {reason}"))
        }
    }

    /// What failed.
    pub fn kind(&self) -> FlowErrorKind {
        self.kind
    }

    /// Whether the workflow itself is to end.
    pub fn is_cancelled(&self) -> bool {
        self.kind == FlowErrorKind::Cancelled
    }

    /// The call that failed, as [`ChildRef::call`](super::ChildRef::call) numbers it.
    pub fn call(&self) -> Option<i32> {
        self.call
    }

    /// The child that failed.
    pub fn child(&self) -> Option<InstanceId> {
        self.child
    }

    /// The error it was made from, to look at by type. One that comes from history is a text.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.source.downcast_ref()
    }

    pub(super) fn is_renewal(&self) -> bool {
        self.renewal.is_some()
    }

    pub(super) fn into_renewal(self) -> Result<Json, FlowError> {
        match self.renewal {
            Some(input) => Ok(input),
            None => Err(self),
        }
    }
}

/// Any error, a boxed one, an `anyhow::Error`, a text.
impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for FlowError {
    fn from(error: E) -> FlowError {
        FlowError::new(error)
    }
}

impl fmt::Display for FlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::machine::write_chain(self.source.as_ref(), f)
    }
}

impl fmt::Debug for FlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowError")
            .field("kind", &self.kind)
            .field("call", &self.call)
            .field("child", &self.child)
            .field("source", &self.source)
            .finish()
    }
}
