//! Repair of instances that nothing would ever wake: the requests and answers of
//! [`needing_repair`](crate::Inspect::needing_repair) and [`repair`](crate::Store::repair).
//!
//! Operators and the reconciler call them. A healthy database never needs a repair.

use crate::limits::{self, BATCH_MAX};
use crate::{InstanceId, Invalid, Note, QueueNames, Status};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What is wrong with an instance that nothing would ever wake.
///
/// No verb leaves an instance like that. A row that somebody has edited may be, and so may a row
/// that a bug in Outlast has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RepairNeed {
    /// It waits for a signal that is in its inbox. The signal came after the instance parked.
    SignalArrived,
    /// It is parked without a name, a deadline or a child to wait for.
    NothingAwaited,
    /// It waits for the children of its round, and their counts are wrong or decide its join.
    ChildrenMiscounted,
    /// It is a workflow that waits for children, and a child has ended without waking it.
    ChildrenFinished,
    /// It is set aside behind a partition key that no other instance uses.
    KeyIsFree,
    /// It waits for a place in a window in which no child runs.
    PlaceIsFree,
}

impl RepairNeed {
    /// Every need.
    pub const ALL: [RepairNeed; 6] = [
        RepairNeed::SignalArrived,
        RepairNeed::NothingAwaited,
        RepairNeed::ChildrenMiscounted,
        RepairNeed::ChildrenFinished,
        RepairNeed::KeyIsFree,
        RepairNeed::PlaceIsFree,
    ];

    /// Returns the word used in SQL and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            RepairNeed::SignalArrived => "signal_arrived",
            RepairNeed::NothingAwaited => "nothing_awaited",
            RepairNeed::ChildrenMiscounted => "children_miscounted",
            RepairNeed::ChildrenFinished => "children_finished",
            RepairNeed::KeyIsFree => "key_is_free",
            RepairNeed::PlaceIsFree => "place_is_free",
        }
    }

    /// Returns what is wrong, as a clause for people.
    pub fn clause(self) -> &'static str {
        match self {
            RepairNeed::SignalArrived => "an awaited signal is in its inbox",
            RepairNeed::NothingAwaited => "it is parked and waits for nothing",
            RepairNeed::ChildrenMiscounted => "its children are not counted as they are",
            RepairNeed::ChildrenFinished => "an awaited child has ended without waking it",
            RepairNeed::KeyIsFree => "its partition key is free",
            RepairNeed::PlaceIsFree => "no child runs in its window",
        }
    }

    /// Returns the note to record with the repair: what was wrong, then the operator's reason.
    pub fn note(self, note: &Note) -> Note {
        let clause = self.clause();
        let reason = match &note.reason {
            Some(reason) => format!("{clause}: {reason}"),
            None => clause.to_owned(),
        };
        Note::by(note.by.clone()).because(reason)
    }
}

impl fmt::Display for RepairNeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for RepairNeed {
    type Err = Invalid;

    fn from_str(word: &str) -> Result<RepairNeed, Invalid> {
        RepairNeed::ALL
            .into_iter()
            .find(|need| need.as_str() == word)
            .ok_or_else(|| Invalid::new("repair", format!("{word:?} is no need of one")))
    }
}

/// The instances to check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepairScope {
    /// One page of all instances, by id.
    Page {
        /// Start after this id; `None` starts from the beginning.
        after: Option<InstanceId>,
        /// How many instances to check.
        max: usize,
    },
    /// These instances.
    Ids(Vec<InstanceId>),
}

impl RepairScope {
    /// Checks whether a store can answer it.
    pub fn check(&self) -> Result<(), Invalid> {
        let instances = match self {
            RepairScope::Page { max, .. } => *max,
            RepairScope::Ids(ids) => ids.len(),
        };
        limits::check_batch("repair", instances, BATCH_MAX)
    }
}

/// The instances that need a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NeedingRepair {
    /// The instances and what is wrong with them, by id.
    pub found: Vec<(InstanceId, RepairNeed)>,
    /// The start of the next page; `None` after the last page, and for ids.
    pub next: Option<InstanceId>,
}

/// The result of a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairAnswer {
    /// The instance was repaired; this was wrong.
    Repaired(RepairNeed),
    /// The instance needs no repair and has this status; nothing was written.
    NotNeeded(Status),
    /// There is no such instance.
    NotFound,
}

/// The answer to a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// One answer per id, in the caller's order. An id that is named twice is answered alike.
    pub answers: Vec<RepairAnswer>,
    /// Queues in which an instance may have become claimable.
    pub woken: QueueNames,
    /// Whether the repair left work for [`cascade`](crate::Store::cascade).
    pub cascades: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_need_parses_from_its_word() {
        for need in RepairNeed::ALL {
            assert_eq!(need.as_str().parse(), Ok(need));
        }
        assert!("broken".parse::<RepairNeed>().is_err());
    }

    #[test]
    fn the_note_of_a_repair_says_what_was_wrong_and_then_why_the_operator_acted() {
        let need = RepairNeed::SignalArrived;
        let by_pass = need.note(&Note::by("reconciler"));
        assert_eq!(by_pass.by, "reconciler");
        let clause = "an awaited signal is in its inbox";
        assert_eq!(by_pass.reason.as_deref(), Some(clause));
        let by_ada = need.note(&Note::by("ada").because("ticket 7"));
        let reason = by_ada.reason.unwrap();
        assert_eq!(reason, format!("{clause}: ticket 7"));
    }
}
