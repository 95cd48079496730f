//! What parents and children are to each other beside the join of everybody: when a fan-out wakes its parent, what
//! becomes of those that still live, and how that is carried down a tree.

use crate::limits::{self, BATCH_MAX};
use crate::{InstanceId, Invalid, Note, QueueNames, Status, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What becomes of a child that still lives: when its parent ends, or when its parent's join was decided without it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClosePolicy {
    /// It goes on.
    #[default]
    Abandon,
    /// It is asked to end, and decides itself how.
    RequestCancel,
    /// It is ended.
    Terminate,
}

impl ClosePolicy {
    /// Every policy.
    pub const ALL: [ClosePolicy; 3] = [
        ClosePolicy::Abandon,
        ClosePolicy::RequestCancel,
        ClosePolicy::Terminate,
    ];

    /// The word used in SQL, JSON, the command line and the dashboard.
    pub fn as_str(self) -> &'static str {
        match self {
            ClosePolicy::Abandon => "abandon",
            ClosePolicy::RequestCancel => "request_cancel",
            ClosePolicy::Terminate => "terminate",
        }
    }
}

impl fmt::Display for ClosePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for ClosePolicy {
    type Err = Invalid;

    fn from_str(word: &str) -> Result<ClosePolicy, Invalid> {
        ClosePolicy::ALL
            .into_iter()
            .find(|policy| policy.as_str() == word)
            .ok_or_else(|| {
                Invalid::new(
                    "close policy",
                    format!("{word:?} is none of abandon, request_cancel, terminate"),
                )
            })
    }
}

/// How a fan-out joins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Join {
    /// What wakes the parent.
    pub until: Until,
    /// How long it waits at most, from the fan-out on.
    pub deadline: Option<Duration>,
    /// How many of the children run at a time; `None` starts all of them.
    pub window: Option<u32>,
    /// What becomes of the children that still live when the parent is woken without them.
    pub rest: ClosePolicy,
}

impl Join {
    /// Whether it can be waited for.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.until == Until::Quorum(0) {
            return Err(Invalid::new(
                "quorum",
                "is of none; it takes at least one success, or none is waited for",
            ));
        }
        if self.window == Some(0) {
            return Err(Invalid::new(
                "window",
                "has no places, so no child could ever start; give it at least one",
            ));
        }
        match self.deadline {
            Some(deadline) => limits::check_delay("join deadline", deadline),
            None => Ok(()),
        }
    }
}

/// What wakes a parent that has fanned out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Until {
    /// Every child has ended, well or badly.
    #[default]
    All,
    /// Every child has ended, or one of them badly.
    FailFast,
    /// So many children are done, or so many can no longer be.
    Quorum(u32),
}

impl Until {
    /// Whether a join is decided, and why, when of `started` children `pending` still live and `failed` have failed
    /// or were cancelled.
    pub fn decided(self, started: i32, pending: i32, failed: i32) -> Option<Joined> {
        match self {
            Until::FailFast if failed > 0 => Some(Joined::Failure),
            Until::All | Until::FailFast => (pending == 0).then_some(Joined::All),
            Until::Quorum(needed) => {
                let needed = i64::from(needed);
                let done = i64::from(started - pending - failed);
                if done >= needed {
                    Some(Joined::Quorum)
                } else if done + i64::from(pending) < needed {
                    Some(Joined::Impossible)
                } else {
                    None
                }
            }
        }
    }
}

/// Why a parent was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Joined {
    /// Every child has ended.
    All,
    /// A child has failed or was cancelled.
    Failure,
    /// Enough children are done.
    Quorum,
    /// Enough children can no longer be done.
    Impossible,
    /// The time was up.
    Deadline,
}

impl Joined {
    /// Every reason.
    pub const ALL: [Joined; 5] = [
        Joined::All,
        Joined::Failure,
        Joined::Quorum,
        Joined::Impossible,
        Joined::Deadline,
    ];

    /// The word used in SQL, JSON, the command line and the dashboard.
    pub fn as_str(self) -> &'static str {
        match self {
            Joined::All => "all",
            Joined::Failure => "failure",
            Joined::Quorum => "quorum",
            Joined::Impossible => "impossible",
            Joined::Deadline => "deadline",
        }
    }
}

impl fmt::Display for Joined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Joined {
    type Err = Invalid;

    fn from_str(word: &str) -> Result<Joined, Invalid> {
        Joined::ALL
            .into_iter()
            .find(|joined| joined.as_str() == word)
            .ok_or_else(|| Invalid::new("joined", format!("{word:?} is no reason of a join")))
    }
}

/// How the last fan-out of an instance stands.
///
/// It is counted while the parent waits for it: what ends after the parent was woken changes nothing here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// What wakes the parent.
    pub until: Until,
    /// How many of the children run at a time.
    pub window: Option<u32>,
    /// What becomes of the children that still live when it is woken.
    pub rest: ClosePolicy,
    /// How many children were started.
    pub started: i32,
    /// How many of them have failed or were cancelled.
    pub failed: i32,
    /// The child whose end was the first bad one to be counted; of several in one transaction, the first in the order
    /// they were asked for. Once there, it stays (unless an operator retries that very child while the parent waits).
    pub first_failure: Option<InstanceId>,
    /// Why the parent was woken; `None` while it waits, and when a cancel woke it.
    pub joined: Option<Joined>,
}

/// A wish that an instance ends.
#[derive(Clone, PartialEq, Eq)]
pub struct CancelRequest {
    /// Who wished it and why: [`Note::cancellation`].
    pub reason: String,
    /// Since when.
    pub requested_at: Timestamp,
    /// Whether the machine has decided what to do about it. What it does now is what it decided.
    pub answered: bool,
}

impl fmt::Debug for CancelRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelRequest")
            .field("reason", &limits::Hidden(&self.reason))
            .field("requested_at", &self.requested_at)
            .field("answered", &self.answered)
            .finish()
    }
}

/// Whom a cancel or a terminate is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// The instance.
    #[default]
    One,
    /// The instance and all that descend from it, whatever their policies say. The descendants are told by
    /// [`cascade`](crate::Store::cascade).
    Tree,
}

/// What the children of an ended parent are told with.
pub fn ended_note(parent: InstanceId, status: Status) -> Note {
    Note::by("parent").because(format!("parent {parent} ended as {status}"))
}

/// Whether somebody was told with [`ended_note`]: because `parent` has ended, and not by a join or an operator.
pub fn is_ended_note(parent: InstanceId, by: &str, reason: Option<&str>) -> bool {
    let ends = Status::ALL.into_iter().filter(|it| it.is_terminal());
    let mut notes = ends.map(|status| ended_note(parent, status));
    notes.any(|note| note.by == by && note.reason.as_deref() == reason)
}

/// What the children that a join was decided without are told with.
pub fn joined_note(parent: InstanceId, joined: Joined) -> Note {
    Note::by("parent").because(format!("the join of parent {parent} was decided: {joined}"))
}

/// What the children that a cascade is for are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CascadeAction {
    /// Each what its own policy says.
    Policy,
    /// All of them to decide how to end.
    Cancel,
    /// All of them that they have ended.
    Terminate,
}

impl CascadeAction {
    /// The word used in SQL.
    pub fn as_str(self) -> &'static str {
        match self {
            CascadeAction::Policy => "policy",
            CascadeAction::Cancel => "cancel",
            CascadeAction::Terminate => "terminate",
        }
    }

    /// What a join leaves for those that it was decided without; `None` when they go on.
    pub fn of_rest(rest: ClosePolicy) -> Option<CascadeAction> {
        match rest {
            ClosePolicy::Abandon => None,
            ClosePolicy::RequestCancel => Some(CascadeAction::Cancel),
            ClosePolicy::Terminate => Some(CascadeAction::Terminate),
        }
    }

    /// What becomes of a child that is under this policy.
    pub fn for_child(self, policy: ClosePolicy) -> ClosePolicy {
        match self {
            CascadeAction::Policy => policy,
            CascadeAction::Cancel => ClosePolicy::RequestCancel,
            CascadeAction::Terminate => ClosePolicy::Terminate,
        }
    }
}

impl FromStr for CascadeAction {
    type Err = Invalid;

    fn from_str(word: &str) -> Result<CascadeAction, Invalid> {
        [
            CascadeAction::Policy,
            CascadeAction::Cancel,
            CascadeAction::Terminate,
        ]
        .into_iter()
        .find(|action| action.as_str() == word)
        .ok_or_else(|| Invalid::new("cascade", format!("{word:?} is no action of one")))
    }
}

/// What a cascade asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CascadeRequest {
    /// How many children to look at, at most.
    pub max: usize,
}

impl CascadeRequest {
    /// Whether it can be answered.
    pub fn check(&self) -> Result<(), Invalid> {
        limits::check_batch("cascade", self.max, BATCH_MAX)
    }
}

/// The answer to a cascade.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cascaded {
    /// Children that were asked to end, by id.
    pub requested: Vec<InstanceId>,
    /// Children that were ended, by id.
    pub ended: Vec<InstanceId>,
    /// Of both, those that a worker was running, by id: for that worker to be told.
    pub running: Vec<InstanceId>,
    /// The queues in which something may now be claimed.
    pub woken: QueueNames,
    /// Whether asking again at once finds more to do.
    pub more: bool,
}

/// How an instance and all that descend from it stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Family {
    /// How many of each status there are, in the order of the statuses; those that there are none of are left out.
    pub members: Vec<(Status, u64)>,
    /// Whether all of them were counted: counting stops at [`COUNT_MAX`](crate::limits::COUNT_MAX).
    pub complete: bool,
}

impl Family {
    /// How many have not ended.
    pub fn live(&self) -> u64 {
        let live = self
            .members
            .iter()
            .filter(|(status, _)| !status.is_terminal());
        live.map(|(_, members)| members).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_reads_back() {
        for policy in ClosePolicy::ALL {
            assert_eq!(policy.as_str().parse(), Ok(policy));
        }
        for joined in Joined::ALL {
            assert_eq!(joined.as_str().parse(), Ok(joined));
        }
        for policy in ClosePolicy::ALL {
            for action in ["policy", "cancel", "terminate"] {
                let action: CascadeAction = action.parse().unwrap();
                assert_eq!(action.as_str().parse(), Ok(action));
                let told = action.for_child(policy);
                assert_eq!(
                    told == policy,
                    action == CascadeAction::Policy
                        || CascadeAction::of_rest(policy) == Some(action)
                );
            }
        }
        assert!("abandon".parse::<CascadeAction>().is_err());
        assert!("cancel".parse::<ClosePolicy>().is_err());
        assert!("cancel".parse::<Joined>().is_err());
    }

    #[test]
    fn the_end_of_a_parent_is_told_from_other_reasons() {
        let parent = InstanceId(7);
        let is_end = |note: &Note| is_ended_note(parent, &note.by, note.reason.as_deref());
        assert!(is_end(&ended_note(parent, Status::Done)));
        assert!(is_end(&ended_note(parent, Status::Cancelled)));
        assert!(!is_end(&ended_note(InstanceId(77), Status::Done)));
        assert!(!is_end(&joined_note(parent, Joined::Quorum)));
        assert!(!is_end(&Note::by("ada").because("parent 7 ended as done")));
        assert!(!is_end(&Note::by("parent")));
    }

    #[test]
    fn everybody_is_waited_for_unless_a_failure_is_enough() {
        assert_eq!(Until::All.decided(3, 1, 2), None);
        assert_eq!(Until::All.decided(3, 0, 3), Some(Joined::All));
        assert_eq!(Until::FailFast.decided(3, 1, 0), None);
        assert_eq!(Until::FailFast.decided(3, 2, 1), Some(Joined::Failure));
        assert_eq!(Until::FailFast.decided(3, 0, 0), Some(Joined::All));
        assert_eq!(Until::All.decided(0, 0, 0), Some(Joined::All));
    }

    #[test]
    fn a_quorum_is_reached_or_becomes_impossible() {
        let two = Until::Quorum(2);
        assert_eq!(two.decided(3, 2, 0), None);
        assert_eq!(two.decided(3, 1, 0), Some(Joined::Quorum));
        assert_eq!(two.decided(3, 1, 1), None);
        assert_eq!(two.decided(3, 1, 2), Some(Joined::Impossible));
        assert_eq!(two.decided(1, 1, 0), Some(Joined::Impossible));
        assert_eq!(two.decided(2, 0, 0), Some(Joined::Quorum));
        assert_eq!(
            Until::Quorum(u32::MAX).decided(2, 0, 0),
            Some(Joined::Impossible)
        );
    }

    #[test]
    fn joins_that_nothing_could_decide_are_refused() {
        let join = Join::default();
        assert!(join.check().is_ok());
        let none = Join {
            until: Until::Quorum(0),
            ..join
        };
        assert!(none.check().unwrap_err().to_string().contains("quorum"));
        let closed = Join {
            window: Some(0),
            ..join
        };
        assert!(closed.check().unwrap_err().to_string().contains("window"));
        let late = Join {
            deadline: Some(Duration::MAX),
            ..join
        };
        assert!(late.check().is_err());
    }
}
