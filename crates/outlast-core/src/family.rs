//! Parents and children: joins, policies for children that are still live, and cascades.
//!
//! The engine and both stores use it. Nothing here reads a store.

use crate::limits::{self, BATCH_MAX};
use crate::{InstanceId, Invalid, Note, QueueNames, Status, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What happens to a live child when its parent ends, or joins without it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClosePolicy {
    /// The child continues.
    #[default]
    Abandon,
    /// The child receives a cancel and decides how it ends.
    RequestCancel,
    /// The child is terminated.
    Terminate,
}

impl ClosePolicy {
    /// Every policy.
    pub const ALL: [ClosePolicy; 3] = [
        ClosePolicy::Abandon,
        ClosePolicy::RequestCancel,
        ClosePolicy::Terminate,
    ];

    /// Returns the word used in SQL, JSON, the command line and the dashboard.
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

/// The join of a fan-out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Join {
    /// The condition that wakes the parent.
    pub until: Until,
    /// The longest wait, counted from the fan-out.
    pub deadline: Option<Duration>,
    /// How many of the children run at a time; `None` starts all of them.
    pub window: Option<u32>,
    /// What happens to the children that are still live when the parent is woken.
    pub rest: ClosePolicy,
}

impl Join {
    /// Checks whether a fan-out can join like this.
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

/// The condition that wakes a parent after a fan-out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Until {
    /// Every child has finished, successfully or not.
    #[default]
    All,
    /// Every child has finished, or one of them has failed or was cancelled.
    FailFast,
    /// This many children are done, or can no longer be done because too many have ended
    /// otherwise.
    Quorum(u32),
}

impl Until {
    /// Decides the join of `started` children, and returns the reason when it is decided.
    ///
    /// `pending` of them are live, and `failed` have failed or were cancelled.
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
    /// Every child has finished.
    All,
    /// A child has failed or was cancelled.
    Failure,
    /// Enough children are done.
    Quorum,
    /// Too many children have ended otherwise: the quorum can no longer be reached.
    Impossible,
    /// The deadline has passed.
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

    /// Returns the word used in SQL, JSON, the command line and the dashboard.
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

/// The state of an instance's last join.
///
/// It counts only while the parent waits. Children that finish after the parent was woken do not
/// change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// The condition that wakes the parent.
    pub until: Until,
    /// How many of the children run at a time.
    pub window: Option<u32>,
    /// What happens to the children that are still live when it is woken.
    pub rest: ClosePolicy,
    /// How many children were started.
    pub started: i32,
    /// How many of them have failed or were cancelled.
    pub failed: i32,
    /// The child whose failure was counted first. Of several in one transaction, the first in the
    /// order of the fan-out. It never changes, unless an operator retries that child while the
    /// parent waits.
    pub first_failure: Option<InstanceId>,
    /// Why the parent was woken; `None` while it waits, and when a cancel woke it.
    pub joined: Option<Joined>,
}

/// A request to cancel an instance.
#[derive(Clone, PartialEq, Eq)]
pub struct CancelRequest {
    /// The operator and the reason: [`Note::cancellation`].
    pub reason: String,
    /// When it was requested.
    pub requested_at: Timestamp,
    /// Whether the machine has answered it. The later steps follow from that answer.
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

/// Which instances a cancel or a terminate affects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// The instance.
    #[default]
    One,
    /// The instance and all its descendants, whatever their policies.
    /// [`cascade`](crate::Store::cascade) cancels or ends the descendants.
    Tree,
}

/// Returns the note of a cascade that follows the end of `parent`.
pub fn ended_note(parent: InstanceId, status: Status) -> Note {
    Note::by("parent").because(format!("parent {parent} ended as {status}"))
}

/// Whether an operation has the [`ended_note`] of `parent`, and no note of a join or an operator.
pub fn is_ended_note(parent: InstanceId, by: &str, reason: Option<&str>) -> bool {
    let ends = Status::ALL.into_iter().filter(|it| it.is_terminal());
    let mut notes = ends.map(|status| ended_note(parent, status));
    notes.any(|note| note.by == by && note.reason.as_deref() == reason)
}

/// Returns the note of a cascade that follows a join of `parent`.
pub fn joined_note(parent: InstanceId, joined: Joined) -> Note {
    Note::by("parent").because(format!("the join of parent {parent} was decided: {joined}"))
}

/// What a cascade does to its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CascadeAction {
    /// Applies the policy of each child.
    Policy,
    /// Cancels all of them.
    Cancel,
    /// Terminates all of them.
    Terminate,
}

impl CascadeAction {
    /// Returns the word used in SQL.
    pub fn as_str(self) -> &'static str {
        match self {
            CascadeAction::Policy => "policy",
            CascadeAction::Cancel => "cancel",
            CascadeAction::Terminate => "terminate",
        }
    }

    /// Returns the action for children that a join did not wait for.
    ///
    /// `None` when they continue.
    pub fn of_rest(rest: ClosePolicy) -> Option<CascadeAction> {
        match rest {
            ClosePolicy::Abandon => None,
            ClosePolicy::RequestCancel => Some(CascadeAction::Cancel),
            ClosePolicy::Terminate => Some(CascadeAction::Terminate),
        }
    }

    /// Returns what happens to a child with this policy.
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

/// A request for one step of a cascade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CascadeRequest {
    /// The largest number of children.
    pub max: usize,
}

impl CascadeRequest {
    /// Checks whether a store can answer it.
    pub fn check(&self) -> Result<(), Invalid> {
        limits::check_batch("cascade", self.max, BATCH_MAX)
    }
}

/// The answer to a cascade.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cascaded {
    /// Children that received a cancel, by id.
    pub requested: Vec<InstanceId>,
    /// Children that were terminated, by id.
    pub ended: Vec<InstanceId>,
    /// The children of both lists that a worker was running, by id: the engine notifies that
    /// worker.
    pub running: Vec<InstanceId>,
    /// Queues in which an instance may have become claimable.
    pub woken: QueueNames,
    /// Whether another request finds more work at once.
    pub more: bool,
}

/// An instance and its descendants, counted by status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Family {
    /// The count of each status, in the order of the statuses; zero counts are left out.
    pub members: Vec<(Status, u64)>,
    /// Whether all were counted: counting stops at [`COUNT_MAX`](crate::limits::COUNT_MAX).
    pub complete: bool,
}

impl Family {
    /// Returns how many have not ended.
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
    fn every_policy_join_and_cascade_action_parses_from_its_name() {
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
                let chosen = action.for_child(policy);
                assert_eq!(
                    chosen == policy,
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
    fn the_note_of_a_parents_end_is_recognised() {
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
    fn a_join_waits_for_all_children_unless_it_fails_fast() {
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
    fn a_join_with_a_quorum_or_window_of_zero_or_a_late_deadline_is_refused() {
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
