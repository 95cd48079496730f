//! Failures of a step: errors, panics, timeouts, and outcomes that cannot be stored.

use outlast_core::{Invalid, Json, Outcome};
use serde::Serialize;
use std::any::Any;
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// The error of a step.
///
/// `?` converts any error, `anyhow::Error`, `Box<dyn Error + Send + Sync>` and text. Its text
/// includes the causes.
///
/// It goes to [`Machine::on_failure`](super::Machine::on_failure). A fatal error fails the
/// instance without that call. It does not implement [`std::error::Error`], so that every error
/// can be converted.
pub struct StepError {
    source: Box<dyn Error + Send + Sync>,
    fatal: bool,
}

impl StepError {
    /// Creates an error from a text, a boxed error, or any convertible value.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> StepError {
        StepError {
            source: error.into(),
            fatal: false,
        }
    }

    /// Creates a fatal error, which fails the instance.
    ///
    /// The engine does not call [`on_failure`](super::Machine::on_failure).
    pub fn fatal(error: impl Into<Box<dyn Error + Send + Sync>>) -> StepError {
        StepError {
            source: error.into(),
            fatal: true,
        }
    }

    /// Whether it fails the instance without `on_failure`.
    pub fn is_fatal(&self) -> bool {
        self.fatal
    }

    /// Returns the original error, if it is of this type.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.source.downcast_ref()
    }
}

/// Converts any error, a boxed error, an `anyhow::Error` or a text.
impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for StepError {
    fn from(error: E) -> StepError {
        StepError::new(error)
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_chain(self.source.as_ref(), f)
    }
}

impl fmt::Debug for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.source, f)
    }
}

/// Writes an error with its causes: `charge: connect: refused`.
///
/// Skips a cause that its error already quotes.
pub(crate) fn write_chain(error: &dyn Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut previous = error.to_string();
    write!(f, "{previous}")?;
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !previous.contains(&text) {
            write!(f, ": {text}")?;
        }
        previous = text;
        cause = error.source();
    }
    Ok(())
}

/// The value of an error, for callers that read it by type ([`Fails`](crate::Fails)).
#[derive(Clone, Debug)]
pub struct ErrorValue(Result<Json, Invalid>);

impl ErrorValue {
    pub(crate) fn of(error: &impl Serialize) -> ErrorValue {
        ErrorValue(Json::of(error))
    }

    /// Creates the outcome of a failure.
    ///
    /// A value that cannot be stored must not hide the failure, so the reason says so.
    pub(crate) fn outcome(value: Option<ErrorValue>, reason: String) -> Outcome {
        match value.map(|it| it.0) {
            None => Outcome::fail(reason),
            Some(Ok(value)) => Outcome::Fail {
                reason,
                error: Some(value),
            },
            Some(Err(invalid)) => {
                Outcome::fail(format!("{reason} (its value cannot be stored: {invalid})"))
            }
        }
    }
}

/// Why a step has no outcome.
#[derive(Debug)]
pub enum Failure {
    /// It returned an error.
    Error(StepError),
    /// It panicked with this message.
    Panic(String),
    /// It took longer than this.
    Timeout(Duration),
    /// Its outcome cannot be stored: it does not serialise, is too large, or violates a limit.
    Outcome(Invalid),
}

impl Failure {
    /// Returns one word for it, for metrics and logs.
    pub fn kind(&self) -> &'static str {
        match self {
            Failure::Error(_) => "error",
            Failure::Panic(_) => "panic",
            Failure::Timeout(_) => "timeout",
            Failure::Outcome(_) => "outcome",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Error(error) => error.fmt(f),
            Failure::Panic(message) => write!(f, "the step panicked: {message}"),
            Failure::Timeout(limit) => write!(f, "the step took longer than {limit:?}"),
            Failure::Outcome(invalid) => {
                write!(f, "the step's outcome cannot be stored: {invalid}")
            }
        }
    }
}

/// The error of an attempt that exceeded its time limit.
///
/// It becomes [`Failure::Timeout`], like the engine's limit.
#[derive(Debug, thiserror::Error)]
#[error("the step took longer than {0:?}")]
pub(crate) struct AttemptTimedOut(pub(crate) Duration);

/// Why user code has no outcome to commit.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// `on_failure` decides about it.
    Failure(Failure),
    /// The instance fails with this reason, without `on_failure`.
    Fatal(String),
    /// The instance fails because its state does not decode. The reason quotes the state.
    Undecodable(String),
    /// The store did not answer a query that the code needs. Another worker may try, or this one
    /// later.
    Store(outlast_core::Error),
}

/// Returns the message of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a value that is no text".to_owned())
}

impl From<StepError> for Trouble {
    fn from(error: StepError) -> Trouble {
        if error.is_fatal() {
            Trouble::Fatal(error.to_string())
        } else if let Some(AttemptTimedOut(limit)) = error.downcast_ref() {
            Trouble::Failure(Failure::Timeout(*limit))
        } else {
            Trouble::Failure(Failure::Error(error))
        }
    }
}

impl From<Invalid> for Trouble {
    fn from(invalid: Invalid) -> Trouble {
        Trouble::Failure(Failure::Outcome(invalid))
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Failure(failure) => failure.fmt(f),
            Trouble::Fatal(reason) | Trouble::Undecodable(reason) => f.write_str(reason),
            Trouble::Store(error) => error.fmt(f),
        }
    }
}
