//! What the macros write into user code. Nothing here is part of the interface.

use crate::JobError;
use crate::machine::ErrorValue;
use serde::Serialize;
use std::error::Error;

pub use crate::__job_error as job_error;
pub use serde;

/// The types of a `Result`, whatever alias the user wrote.
#[diagnostic::on_unimplemented(
    message = "a job or a workflow returns a `Result`, not `{Self}`",
    label = "write `Result<{Self}, JobError>` for a job, `FlowResult<{Self}>` for a workflow"
)]
pub trait Returned {
    /// The type of the value.
    type Output;
    /// The type of the error.
    type Error;
}

#[diagnostic::do_not_recommend]
impl<T, E> Returned for Result<T, E> {
    type Output = T;
    type Error = E;
}

/// Turns the error of a job into a [`JobError`], with its value if it can be serialised.
///
/// A macro cannot ask whether a type implements a trait. The method call can: it prefers
/// [`ByValue`], which is implemented for fewer types, because it needs one reference less.
#[doc(hidden)]
#[macro_export]
macro_rules! __job_error {
    ($error:expr) => {{
        #[allow(unused_imports, reason = "one of them is used")]
        use $crate::__private::{ByText as _, ByValue as _};
        // A job may be called `error`, and then no variable can be.
        let __error = $error;
        (&__error).conversion().job_error(__error)
    }};
}

/// Converts an error with its value.
#[derive(Debug)]
pub struct WithValue;

impl WithValue {
    /// Converts the error.
    pub fn job_error<E: Error + Serialize + Send + Sync + 'static>(self, error: E) -> JobError {
        let value = ErrorValue::of(&error);
        JobError::retry(error).with_value(value)
    }
}

/// Errors that can be serialised.
pub trait ByValue {
    /// Returns how to convert it.
    fn conversion(&self) -> WithValue {
        WithValue
    }
}

impl<E: Error + Serialize + Send + Sync + 'static> ByValue for E {}

/// Converts any other error, by its text.
#[derive(Debug)]
pub struct WithoutValue;

impl WithoutValue {
    /// Converts the error.
    pub fn job_error<E: Into<JobError>>(self, error: E) -> JobError {
        error.into()
    }
}

/// Any error.
pub trait ByText {
    /// Returns how to convert it.
    fn conversion(&self) -> WithoutValue {
        WithoutValue
    }
}

impl<E: Into<JobError>> ByText for &E {}
