//! Updates: signals that want a reply.
//!
//! `deliver` puts an update into the inbox like any other signal. The commit of the step that
//! answers it writes the reply into the row of the signal, which stays as a tombstone with its
//! dedup key: the id of the update. So an update that is sent again gets the same reply. It may be
//! consumed long before the reply, by another commit (docs/decisions/0058).

use crate::limits::{self, INBOX_MAX};
use crate::{Invalid, Json, SignalId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::str::FromStr;

/// How an update was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyKind {
    /// The code replied with a value.
    Done,
    /// The code that handled it failed. The instance itself goes on.
    Failed,
    /// The code rejected it before anything was recorded.
    Rejected,
}

impl ReplyKind {
    /// Returns the word used in SQL, JSON and the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            ReplyKind::Done => "done",
            ReplyKind::Failed => "failed",
            ReplyKind::Rejected => "rejected",
        }
    }
}

impl FromStr for ReplyKind {
    type Err = Invalid;

    fn from_str(word: &str) -> Result<ReplyKind, Invalid> {
        match word {
            "done" => Ok(ReplyKind::Done),
            "failed" => Ok(ReplyKind::Failed),
            "rejected" => Ok(ReplyKind::Rejected),
            _ => Err(Invalid::new("reply", format!("{word:?} is no kind of one"))),
        }
    }
}

/// A reply to write with an outcome.
///
/// It consumes its update, whatever the outcome. The first reply to an update stands. A reply to a
/// signal that wants none, or that belongs to another instance, is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewReply {
    /// The update.
    pub signal: SignalId,
    /// How it was answered.
    pub kind: ReplyKind,
    /// The value, or the reason as a JSON string.
    pub data: Json,
}

impl NewReply {
    /// Creates a reply that is no value, with the reason.
    pub fn because(signal: SignalId, kind: ReplyKind, reason: &str) -> NewReply {
        NewReply {
            signal,
            kind,
            // A clean text is valid JSON and far below the bound.
            data: Json::of(&limits::clean_error(reason)).unwrap_or_else(|_| Json::null()),
        }
    }

    /// Checks whether one commit can write these replies.
    pub fn check_all(replies: &[NewReply]) -> Result<(), Invalid> {
        limits::check_batch("replies", replies.len(), INBOX_MAX)?;
        let mut signals = HashSet::with_capacity(replies.len());
        for (position, reply) in replies.iter().enumerate() {
            if !signals.insert(reply.signal) {
                let what = format!("reply {position}");
                return Err(Invalid::new(
                    what,
                    "answers an update that another one answers",
                ));
            }
        }
        Ok(())
    }
}

/// A stored reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// How the update was answered.
    pub kind: ReplyKind,
    /// The value, or the reason as a JSON string.
    pub data: Json,
    /// When it was written.
    pub at: Timestamp,
}

/// What became of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: UpdateState,
}

impl Update {
    /// The stored word of an update whose instance ended without an answer and was retried since.
    pub const ENDED: &'static str = "ended";

    /// Checks the id of an update, in the text in which it is stored.
    pub fn check_id(id: &str) -> Result<(), Invalid> {
        limits::check_key("update", id)
    }
}

/// The state of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateState {
    /// It waits in the inbox, or was consumed and has no reply yet.
    Pending,
    /// It was answered. That stays so for as long as the instance is stored.
    Replied(Reply),
    /// The instance ended without an answer. An operator may have retried it since.
    Ended,
}
