//! Operations on instances and queues. The transaction of an operation also records it.

use crate::limits;
use crate::{InstanceId, Invalid, QueueNames, Status};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The operator and the reason, recorded with an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The operator.
    pub by: String,
    /// The reason.
    pub reason: Option<String>,
}

impl Note {
    /// Creates a note of `by` without a reason.
    pub fn by(by: impl Into<String>) -> Note {
        Note {
            by: by.into(),
            reason: None,
        }
    }

    /// Adds a reason.
    pub fn because(mut self, reason: impl Into<String>) -> Note {
        self.reason = Some(reason.into());
        self
    }

    /// Checks whether it can be stored.
    ///
    /// The reason is cleaned like an error text, and never refused.
    pub fn check(&self) -> Result<(), Invalid> {
        limits::check_new_name("operator", &self.by)
    }

    /// Returns the reason of a cancel with this note: the error of an instance that ends by it.
    pub fn cancellation(&self) -> String {
        self.sentence("cancelled")
    }

    /// Returns the error of an instance that is terminated with this note.
    pub fn termination(&self) -> String {
        self.sentence("terminated")
    }

    fn sentence(&self, what: &str) -> String {
        match &self.reason {
            Some(reason) => limits::clean_error(&format!("{what} by {}: {reason}", self.by)),
            None => format!("{what} by {}", self.by),
        }
    }

    /// Returns the reason as recorded.
    pub fn clean_reason(&self) -> Option<String> {
        self.reason.as_deref().map(limits::clean_error)
    }
}

/// The verb of a recorded operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// An instance received a cancel.
    Cancel,
    /// An instance was terminated.
    Terminate,
    /// A failed or cancelled instance was restarted.
    Retry,
    /// A queue was paused.
    Pause,
    /// A queue was resumed.
    Resume,
    /// A finished instance was deleted.
    Delete,
    /// An instance that nothing would have woken was repaired.
    Repair,
}

impl Verb {
    /// Returns the word used in SQL and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Cancel => "cancel",
            Verb::Terminate => "terminate",
            Verb::Retry => "retry",
            Verb::Pause => "pause",
            Verb::Resume => "resume",
            Verb::Delete => "delete",
            Verb::Repair => "repair",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Verb {
    type Err = Invalid;

    fn from_str(word: &str) -> Result<Verb, Invalid> {
        [
            Verb::Cancel,
            Verb::Terminate,
            Verb::Retry,
            Verb::Pause,
            Verb::Resume,
            Verb::Delete,
            Verb::Repair,
        ]
        .into_iter()
        .find(|verb| verb.as_str() == word)
        .ok_or_else(|| Invalid::new("verb", format!("{word:?} is unknown")))
    }
}

/// The result of a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelAnswer {
    /// The cancel was requested; the instance had this status.
    Requested(Status),
    /// A cancel was requested before and the instance has not ended yet; nothing was written.
    AlreadyRequested(Status),
    /// The instance is cancelled. It waited for a place in a window and had run no code, so its
    /// machine had nothing to decide.
    NeverStarted,
    /// The instance had already ended with this status; nothing was written.
    AlreadyEnded(Status),
    /// There is no such instance.
    NotFound,
}

/// The answer to a cancel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cancelled {
    /// One answer per id, in the caller's order.
    pub answers: Vec<CancelAnswer>,
    /// Queues in which an instance may have become claimable.
    pub woken: QueueNames,
    /// Whether the cancel left work for [`cascade`](crate::Store::cascade).
    pub cascades: bool,
}

/// The result of a terminate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminateAnswer {
    /// The instance is cancelled; it had this status.
    Terminated(Status),
    /// The instance had already ended with this status; nothing was written.
    AlreadyEnded(Status),
    /// There is no such instance.
    NotFound,
}

/// The answer to a terminate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terminated {
    /// One answer per id, in the caller's order.
    pub answers: Vec<TerminateAnswer>,
    /// Queues in which an instance may have become claimable.
    pub woken: QueueNames,
    /// Whether the end left work for [`cascade`](crate::Store::cascade).
    pub cascades: bool,
}

/// The result of a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAnswer {
    /// The instance is runnable again.
    Retried,
    /// The instance has neither failed nor was it cancelled; nothing was written.
    NotEndedBadly(Status),
    /// There is no such instance.
    NotFound,
}

/// The answer to a retry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retried {
    /// One answer per id, in the caller's order.
    pub answers: Vec<RetryAnswer>,
    /// Queues in which an instance may have become claimable.
    pub woken: QueueNames,
}

/// The result of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteAnswer {
    /// The instance was deleted.
    Deleted,
    /// The instance has not ended; nothing was written.
    NotEnded(Status),
    /// The parent is live and may still read the result; nothing was written.
    ParentLives(InstanceId),
    /// The cascade of its end has not reached all children yet
    /// ([`cascade`](crate::Store::cascade)); nothing was written.
    Cascading,
    /// There is no such instance.
    NotFound,
}
