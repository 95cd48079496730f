//! `FlowError`: the error of a workflow and of its calls.

use super::Flow;
use super::replay::events::{Ended, Failed};
use crate::definition::Fails;
use crate::machine::ErrorValue;
use outlast_core::{InstanceId, Invalid, Json};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::type_name;
use std::error::Error;
use std::fmt;

/// The error of a workflow and of a failed call of [`Flow`](super::Flow).
///
/// `?` converts any error, `anyhow::Error`, `Box<dyn Error + Send + Sync>` and texts into it. Its
/// text includes the causes.
///
/// ```
/// use outlast::FlowError;
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
/// A `Box<dyn Error>` without `Send + Sync` is not converted, because an error may move to another
/// thread. Turn it into a text with `.map_err(|error| error.to_string())?`, or add the bounds.
///
/// It does not implement [`std::error::Error`], so that every error can be converted into it.
pub struct FlowError {
    kind: FlowErrorKind,
    call: Option<i32>,
    child: Option<InstanceId>,
    source: Box<dyn Error + Send + Sync>,
    /// The value with which a child failed.
    recorded: Option<Box<RecordedValue>>,
    /// The value with which the workflow fails.
    value: Option<Box<ErrorValue>>,
    /// The input of the next run, from [`Flow::continue_as_new`](super::Flow::continue_as_new).
    renewal: Option<Json>,
    /// Whether the history has an answer that does not fit the type in the code.
    is_unreadable: bool,
}

/// An error value in the history.
struct RecordedValue {
    call: i32,
    machine: String,
    value: Json,
    /// The workflow whose history has it.
    flow: Option<Flow>,
}

/// The kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FlowErrorKind {
    /// A [`step`](super::Flow::step) failed.
    ///
    /// It returned an error, panicked, took too long, or returned a value that cannot be stored.
    Step,
    /// A job that the workflow [ran](super::Flow::run) has failed.
    ActivityFailed,
    /// Such a job was cancelled.
    ActivityCancelled,
    /// A child has failed.
    ChildFailed,
    /// A child was cancelled.
    ChildCancelled,
    /// A child was terminated.
    ChildTerminated,
    /// A child was not started or is deleted.
    ///
    /// Another instance held its key, or an operator has deleted it.
    ChildGone,
    /// The workflow itself was asked to end. Calls inside
    /// [`Flow::uncancellable`](super::Flow::uncancellable) still work.
    Cancelled,
    /// The arguments or the result of a call cannot be stored.
    Invalid,
    /// An error of the workflow's code.
    Other,
}

impl FlowErrorKind {
    /// Returns one word for the kind.
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
    /// Creates an error from a text or from any error.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> FlowError {
        FlowError::with(FlowErrorKind::Other, error)
    }

    fn with(kind: FlowErrorKind, error: impl Into<Box<dyn Error + Send + Sync>>) -> FlowError {
        FlowError {
            kind,
            call: None,
            child: None,
            source: error.into(),
            recorded: None,
            value: None,
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

    /// Creates the error of a failed step from its recorded failure.
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
        let is_failed = how == "failed";
        let value = ended.result.clone().filter(|_| is_failed);
        FlowError {
            call: Some(call),
            child: ended.child,
            recorded: value.map(|value| {
                Box::new(RecordedValue {
                    call,
                    machine: name.to_owned(),
                    value,
                    flow: None,
                })
            }),
            ..FlowError::with(kind, format!("{name} {how}: {reason}"))
        }
    }

    /// Names the workflow whose history has the error.
    pub(super) fn within(mut self, flow: &Flow) -> FlowError {
        if let Some(recorded) = &mut self.recorded {
            recorded.flow = Some(flow.clone());
        }
        self
    }

    /// Returns the error with which a child of `D` failed; otherwise the unchanged error.
    ///
    /// A child of `D` that failed with a text, or ended otherwise, has no such error. A stored
    /// value that `D::Error` does not read blocks the workflow, as any other mismatch with the
    /// history does: neither side guesses.
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// #[derive(Debug, thiserror::Error, Serialize, Deserialize)]
    /// enum ChargeError {
    ///     #[error("the card was declined")]
    ///     Declined,
    ///     #[error("the bank is closed until {0}")]
    ///     Closed(String),
    /// }
    ///
    /// #[job(attempts = 1)]
    /// async fn charge(amount: u64) -> Result<u64, ChargeError> {
    ///     Err(ChargeError::Declined)
    /// }
    ///
    /// #[workflow]
    /// async fn pay(flow: Flow, amount: u64) -> FlowResult<String> {
    ///     let error = match flow.run(charge::with(amount)).await {
    ///         Ok(receipt) => return Ok(format!("receipt {receipt}")),
    ///         Err(error) => error.downcast::<charge>()?,
    ///     };
    ///     Ok(match error {
    ///         ChargeError::Declined => "ask for another card".into(),
    ///         ChargeError::Closed(until) => format!("try again after {until}"),
    ///     })
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> outlast::Result<()> {
    /// # let engine = Engine::sqlite_in_memory()?.register(pay).register(charge).start().await?;
    /// # let paid = engine.start(pay::with(100)).await?;
    /// # assert_eq!(paid.output().await?, "ask for another card");
    /// # engine.shutdown().await
    /// # }
    /// ```
    pub fn downcast<D: Fails>(self) -> Result<D::Error, FlowError>
    where
        D::Error: Error + DeserializeOwned + Send + Sync + 'static,
    {
        let recorded = self.recorded.as_ref();
        let Some(recorded) = recorded.filter(|it| it.machine == D::NAME) else {
            return self.downcast_source();
        };
        match recorded.value.decode() {
            Ok(error) => Ok(error),
            Err(invalid) => {
                if let Some(flow) = &recorded.flow {
                    let found = format!(
                        "the type {}, which does not read the stored error: {invalid}",
                        type_name::<D::Error>()
                    );
                    flow.lock().block_unread(recorded.call, found);
                }
                Err(self)
            }
        }
    }

    fn downcast_source<E: Error + 'static>(self) -> Result<E, FlowError> {
        match self.source.downcast::<E>() {
            Ok(error) => Ok(*error),
            Err(source) => Err(FlowError { source, ..self }),
        }
    }

    /// Stores the error as a value too, if it is of type `D::Error`: callers can read it by type.
    ///
    /// `#[workflow(error = ..)]` does so itself.
    pub fn typed<D: Fails>(mut self) -> FlowError
    where
        D::Error: Error + Serialize + 'static,
    {
        let error = self.source.downcast_ref::<D::Error>();
        let value = error.map(|error| Box::new(ErrorValue::of(error)));
        self.value = value.or(self.value);
        self
    }

    pub(super) fn take_value(&mut self) -> Option<ErrorValue> {
        self.value.take().map(|value| *value)
    }

    /// Returns the kind of failure.
    pub fn kind(&self) -> FlowErrorKind {
        self.kind
    }

    /// Returns whether the workflow itself was asked to end.
    pub fn is_cancelled(&self) -> bool {
        self.kind == FlowErrorKind::Cancelled
    }

    /// Returns the call that failed, as [`ChildRef::call`](super::ChildRef::call) numbers it.
    pub fn call(&self) -> Option<i32> {
        self.call
    }

    /// Returns the child that failed.
    pub fn child(&self) -> Option<InstanceId> {
        self.child
    }

    /// Returns the original error if it has this type.
    ///
    /// An error that comes from the history is a text; [`downcast`](FlowError::downcast) reads
    /// its value.
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

/// Converts any error, a boxed error, an `anyhow::Error` or a text.
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
