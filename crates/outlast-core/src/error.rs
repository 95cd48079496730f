//! Errors of a store, sorted by what the caller should do about them.
//!
//! Stores create them; the engine's loops decide by [`Error::kind`].

use crate::WorkerId;
use std::error::Error as StdError;

/// The cause of an error, as the driver reported it.
pub type Source = Box<dyn StdError + Send + Sync>;

/// The result of a store's verb.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a store. Loops decide by [`Error::kind`], never by the text.
///
/// A lost claim, a duplicate and a missing target are not errors: they are answers of the verbs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database cannot do it now.
    ///
    /// It is unreachable, overloaded, restarting or out of space, or two transactions conflicted
    /// for longer than the bounded retries.
    #[error("{operation}: {reason}")]
    Transient {
        /// The verb that failed.
        operation: &'static str,
        /// What happened, and what to do about it where possible.
        reason: String,
        /// The driver's error.
        #[source]
        source: Option<Source>,
    },
    /// The lease of this worker has expired. It must register again before it claims.
    #[error(
        "{operation}: the lease of worker {worker} has expired or was given up; register again before claiming"
    )]
    LeaseExpired {
        /// The verb that failed.
        operation: &'static str,
        /// The worker without a valid lease.
        worker: WorkerId,
    },
    /// The request can never work; nothing was written.
    #[error("{operation}: {invalid}")]
    Invalid {
        /// The verb that failed.
        operation: &'static str,
        /// What is wrong, and where.
        invalid: Invalid,
    },
    /// The database cannot be used in its present form.
    ///
    /// Examples: a wrong password, a missing database, a file that is not SQLite, a newer schema.
    /// The reason says what to do.
    #[error("{operation}: {reason}")]
    Unusable {
        /// The operation that failed.
        operation: &'static str,
        /// What is wrong, and what to do.
        reason: String,
        /// The driver's error.
        #[source]
        source: Option<Source>,
    },
    /// The database holds data that this version cannot have written.
    #[error("{operation}: {reason}")]
    Corrupt {
        /// The verb that failed.
        operation: &'static str,
        /// What was found.
        reason: String,
        /// The driver's error.
        #[source]
        source: Option<Source>,
    },
    /// The store has been closed.
    #[error("{operation}: the store is closed")]
    Closed {
        /// The verb that failed.
        operation: &'static str,
    },
}

/// What to do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Try again later: the request is correct.
    Transient,
    /// Another caller was first: read again before continuing.
    Conflict,
    /// The request can never succeed: correct it or the configuration.
    Invalid,
    /// The data is inconsistent: a person must look.
    Corrupt,
    /// The owner has closed the store.
    Closed,
}

impl Error {
    /// Returns what to do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Transient { .. } => ErrorKind::Transient,
            Error::LeaseExpired { .. } => ErrorKind::Conflict,
            Error::Invalid { .. } | Error::Unusable { .. } => ErrorKind::Invalid,
            Error::Corrupt { .. } => ErrorKind::Corrupt,
            Error::Closed { .. } => ErrorKind::Closed,
        }
    }
}

/// Input that can never be stored, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {reason}")]
pub struct Invalid {
    /// The part that is wrong, with its position in the batch if there is one.
    pub what: String,
    /// Why it is refused and how to correct it.
    pub reason: String,
}

impl Invalid {
    /// Creates an error; `what` and `reason` read as one sentence.
    pub fn new(what: impl Into<String>, reason: impl Into<String>) -> Invalid {
        Invalid {
            what: what.into(),
            reason: reason.into(),
        }
    }

    /// Adds the enclosing part: `row 3: state is too deep`.
    pub fn within(self, outer: impl std::fmt::Display) -> Invalid {
        Invalid {
            what: format!("{outer}: {}", self.what),
            reason: self.reason,
        }
    }

    /// Turns it into an error of `operation`.
    pub fn during(self, operation: &'static str) -> Error {
        Error::Invalid {
            operation,
            invalid: self,
        }
    }
}

impl From<std::convert::Infallible> for Invalid {
    /// An infallible conversion never fails.
    fn from(never: std::convert::Infallible) -> Invalid {
        match never {}
    }
}
