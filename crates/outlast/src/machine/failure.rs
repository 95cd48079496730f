//! What goes wrong in a step.

use outlast_core::Invalid;
use std::any::Any;
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// The error of a step. `?` makes one of any error, of `anyhow::Error`, of `Box<dyn Error + Send + Sync>` and of a text.
/// Its text has the causes too.
///
/// It goes to [`Machine::on_failure`](super::Machine::on_failure); a fatal one stops the instance without asking.
/// It does not implement [`std::error::Error`] itself, so that every error can become one.
pub struct StepError {
    source: Box<dyn Error + Send + Sync>,
    fatal: bool,
}

impl StepError {
    /// An error from a text, a boxed error, or whatever becomes one.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> StepError {
        StepError {
            source: error.into(),
            fatal: false,
        }
    }

    /// An error that stops the instance: nothing that [`on_failure`](super::Machine::on_failure) could do would
    /// help.
    pub fn fatal(error: impl Into<Box<dyn Error + Send + Sync>>) -> StepError {
        StepError {
            source: error.into(),
            fatal: true,
        }
    }

    /// Whether it stops the instance.
    pub fn is_fatal(&self) -> bool {
        self.fatal
    }

    /// The error it was made from, to look at by type.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.source.downcast_ref()
    }
}

/// Any error, a boxed one, an `anyhow::Error`, a text.
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

/// An error with its causes, the way people read them: `charge: connect: refused`. A cause that its
/// error already quotes is not told twice.
pub(crate) fn write_chain(error: &dyn Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut told = error.to_string();
    write!(f, "{told}")?;
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !told.contains(&text) {
            write!(f, ": {text}")?;
        }
        told = text;
        cause = error.source();
    }
    Ok(())
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
    /// Its outcome cannot be stored: it does not serialise, is too large, or asks for the impossible.
    Outcome(Invalid),
}

impl Failure {
    /// One word for it, as metrics and logs have it.
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

/// The error of a try that took longer than its own limit. It becomes [`Failure::Timeout`], as the engine's limit does.
#[derive(Debug, thiserror::Error)]
#[error("the step took longer than {0:?}")]
pub(crate) struct TimedOut(pub(crate) Duration);

/// Why user code has no outcome to commit.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// To be decided by `on_failure`.
    Failure(Failure),
    /// The end, with this reason: nobody is asked.
    Fatal(String),
    /// The end, since the state does not decode. The reason quotes the state.
    Undecodable(String),
    /// The store could not be asked what the code has to know: somebody else may, or later.
    Store(outlast_core::Error),
}

/// What a panic says.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a value that is no text".to_owned())
}

impl From<StepError> for Trouble {
    fn from(error: StepError) -> Trouble {
        if error.is_fatal() {
            Trouble::Fatal(error.to_string())
        } else if let Some(TimedOut(limit)) = error.downcast_ref() {
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
