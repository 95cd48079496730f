//! What can go wrong, sorted by what the caller should do about it.

use crate::WorkerId;
use std::error::Error as StdError;

/// The cause of an error, as a driver gave it.
pub type Source = Box<dyn StdError + Send + Sync>;

/// What a store answers with.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a store. Loops decide by [`Error::kind`], never by the text.
///
/// A lost claim, a duplicate and a missing target are not errors: they are answers of the verbs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database could not do it now: unreachable, overloaded, restarting, out of space, or two
    /// transactions in each other's way for longer than the bounded retries last.
    #[error("{operation}: {reason}")]
    Transient {
        /// The verb that was tried.
        operation: &'static str,
        /// What happened, and what to do about it where something can be done.
        reason: String,
        /// The driver's error.
        #[source]
        source: Option<Source>,
    },
    /// The lease of this worker has run out, so it must not claim: register again.
    #[error(
        "{operation}: the lease of worker {worker} has expired or was given up; register again before claiming"
    )]
    LeaseExpired {
        /// The verb that was tried.
        operation: &'static str,
        /// The worker that holds no lease any more.
        worker: WorkerId,
    },
    /// The caller asked for something that can never work; nothing was written.
    #[error("{operation}: {invalid}")]
    Invalid {
        /// The verb that was tried.
        operation: &'static str,
        /// What was wrong, and where.
        invalid: Invalid,
    },
    /// The database cannot be used as it is: a wrong password, a missing database, a file that is not
    /// SQLite, a schema of a newer version. The reason says what to do.
    #[error("{operation}: {reason}")]
    Unusable {
        /// What was tried.
        operation: &'static str,
        /// What is wrong, and what to do.
        reason: String,
        /// The driver's error.
        #[source]
        source: Option<Source>,
    },
    /// The database holds something that this version could not have written.
    #[error("{operation}: {reason}")]
    Corrupt {
        /// The verb that was tried.
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
        /// The verb that was tried.
        operation: &'static str,
    },
}

/// What to do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Try again later: nothing is wrong with the request.
    Transient,
    /// Somebody else was there first: look again before going on.
    Conflict,
    /// Never works as it is: mend the request or the configuration.
    Invalid,
    /// The data does not make sense: a person must look.
    Corrupt,
    /// The store was closed by its owner.
    Closed,
}

impl Error {
    /// What to do about it.
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

/// Input that can never be stored: what it was and why not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {reason}")]
pub struct Invalid {
    /// The part that is wrong, with its position in the batch where there is one.
    pub what: String,
    /// Why it is refused and how to mend it.
    pub reason: String,
}

impl Invalid {
    /// `what` is wrong for this `reason`; the two read as one sentence.
    pub fn new(what: impl Into<String>, reason: impl Into<String>) -> Invalid {
        Invalid {
            what: what.into(),
            reason: reason.into(),
        }
    }

    /// The same, inside `outer`: `row 3: state is too deep`.
    pub fn within(self, outer: impl std::fmt::Display) -> Invalid {
        Invalid {
            what: format!("{outer}: {}", self.what),
            reason: self.reason,
        }
    }

    /// The same, as the error of `operation`.
    pub fn during(self, operation: &'static str) -> Error {
        Error::Invalid {
            operation,
            invalid: self,
        }
    }
}

impl From<std::convert::Infallible> for Invalid {
    /// What needs no conversion cannot fail to convert.
    fn from(never: std::convert::Infallible) -> Invalid {
        match never {}
    }
}
