//! What people do to instances and queues. Each act is recorded beside its effect, in one transaction.

use crate::limits;
use crate::{InstanceId, Invalid, QueueNames, Status};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Who acts, and why: what is recorded with an operator's verb.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Who.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
}

impl Note {
    /// By `by`, for a reason nobody asked for.
    pub fn by(by: impl Into<String>) -> Note {
        Note {
            by: by.into(),
            reason: None,
        }
    }

    /// With a reason.
    pub fn because(mut self, reason: impl Into<String>) -> Note {
        self.reason = Some(reason.into());
        self
    }

    /// Whether it can be stored. The reason is an error text and is cleaned instead.
    pub fn check(&self) -> Result<(), Invalid> {
        limits::check_new_name("operator", &self.by)
    }

    /// The reason of a cancel with this note, and the error of an instance that ends by it.
    pub fn cancellation(&self) -> String {
        self.said("cancelled")
    }

    /// The error of an instance that was terminated with this note.
    pub fn termination(&self) -> String {
        self.said("terminated")
    }

    fn said(&self, what: &str) -> String {
        match &self.reason {
            Some(reason) => limits::clean_error(&format!("{what} by {}: {reason}", self.by)),
            None => format!("{what} by {}", self.by),
        }
    }

    /// The reason as it is recorded.
    pub fn clean_reason(&self) -> Option<String> {
        self.reason.as_deref().map(limits::clean_error)
    }
}

/// The verb of a recorded operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// An instance was asked to end.
    Cancel,
    /// An instance was ended.
    Terminate,
    /// A failed or cancelled instance was started again.
    Retry,
    /// A queue stopped giving out work.
    Pause,
    /// A queue gives out work again.
    Resume,
    /// An ended instance was removed.
    Delete,
}

impl Verb {
    /// The word used in SQL and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Cancel => "cancel",
            Verb::Terminate => "terminate",
            Verb::Retry => "retry",
            Verb::Pause => "pause",
            Verb::Resume => "resume",
            Verb::Delete => "delete",
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
        ]
        .into_iter()
        .find(|verb| verb.as_str() == word)
        .ok_or_else(|| Invalid::new("verb", format!("{word:?} is unknown")))
    }
}

/// What a cancel found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelAnswer {
    /// It is asked to end; this is what it was.
    Requested(Status),
    /// It has been asked before, and has not ended yet; nothing was written.
    AlreadyRequested(Status),
    /// It is cancelled: it still waited for a place in the window of its parent's children, so nothing of it has run
    /// and nothing is to be decided.
    NeverStarted,
    /// It had already ended like this; nothing was written.
    AlreadyEnded(Status),
    /// There is no such instance.
    NotFound,
}

/// The answer to a cancel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cancelled {
    /// One per id, in the caller's order.
    pub answers: Vec<CancelAnswer>,
    /// The queues in which something may now be claimed.
    pub woken: QueueNames,
    /// Whether descendants are to be told: [`cascade`](crate::Store::cascade) has something to do.
    pub cascades: bool,
}

/// What a terminate found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminateAnswer {
    /// It is cancelled; this is what it was.
    Terminated(Status),
    /// It had already ended like this; nothing was written.
    AlreadyEnded(Status),
    /// There is no such instance.
    NotFound,
}

/// The answer to a terminate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terminated {
    /// One per id, in the caller's order.
    pub answers: Vec<TerminateAnswer>,
    /// The queues in which something may now be claimed.
    pub woken: QueueNames,
    /// Whether children are to be told: [`cascade`](crate::Store::cascade) has something to do.
    pub cascades: bool,
}

/// What a retry found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAnswer {
    /// It is runnable again.
    Retried,
    /// It has not failed and was not cancelled; nothing was written.
    NotEndedBadly(Status),
    /// There is no such instance.
    NotFound,
}

/// The answer to a retry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retried {
    /// One per id, in the caller's order.
    pub answers: Vec<RetryAnswer>,
    /// The queues in which something may now be claimed.
    pub woken: QueueNames,
}

/// What a delete found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteAnswer {
    /// It is gone.
    Deleted,
    /// It has not ended; nothing was written.
    NotEnded(Status),
    /// Its parent lives and may still read its result; nothing was written.
    ParentLives(InstanceId),
    /// Its children are still to be told of its end ([`cascade`](crate::Store::cascade)); nothing was written.
    Cascading,
    /// There is no such instance.
    NotFound,
}
