//! The statuses of an instance, and the legal transitions between them.

use crate::Invalid;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The status of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// In a queue; claimable when `eligible_at` has passed.
    Runnable,
    /// Claimed by a worker.
    Executing,
    /// Parked until a signal of an awaited name arrives or the deadline passes. A workflow may
    /// wait until both have.
    AwaitingSignal,
    /// Parked until the deadline passes; it waits for nothing else.
    ///
    /// Stores keep such a row as `awaiting_signal` without names, and derive this status when they
    /// read it.
    Sleeping,
    /// Parked until the join of the current round is decided.
    AwaitingChildren,
    /// Finished successfully, with a result.
    Done,
    /// Finished unsuccessfully, with an error and possibly an error value.
    Failed,
    /// Cancelled by an operator, its parent or its machine, with a reason.
    Cancelled,
}

impl Status {
    /// Every status, in the order of an instance's life.
    pub const ALL: [Status; 8] = [
        Status::Runnable,
        Status::Executing,
        Status::AwaitingSignal,
        Status::Sleeping,
        Status::AwaitingChildren,
        Status::Done,
        Status::Failed,
        Status::Cancelled,
    ];

    /// Returns the word used in JSON, the command line and the dashboard.
    ///
    /// SQL has the word of [`stored`](Status::stored).
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Runnable => "runnable",
            Status::Executing => "executing",
            Status::AwaitingSignal => "awaiting_signal",
            Status::Sleeping => "sleeping",
            Status::AwaitingChildren => "awaiting_children",
            Status::Done => "done",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }

    /// Returns the status as stored: `AwaitingSignal` for `Sleeping`, otherwise itself.
    pub fn stored(self) -> Status {
        match self {
            Status::Sleeping => Status::AwaitingSignal,
            Status::Runnable
            | Status::Executing
            | Status::AwaitingSignal
            | Status::AwaitingChildren
            | Status::Done
            | Status::Failed
            | Status::Cancelled => self,
        }
    }

    /// Returns the status of a row that is stored with this one.
    ///
    /// It is `Sleeping` for `AwaitingSignal` without awaited names.
    pub fn derived(self, awaits_names: bool) -> Status {
        match self {
            Status::AwaitingSignal if !awaits_names => Status::Sleeping,
            Status::AwaitingSignal
            | Status::Runnable
            | Status::Executing
            | Status::Sleeping
            | Status::AwaitingChildren
            | Status::Done
            | Status::Failed
            | Status::Cancelled => self,
        }
    }

    /// Whether the instance has ended.
    pub fn is_terminal(self) -> bool {
        match self {
            Status::Done | Status::Failed | Status::Cancelled => true,
            Status::Runnable
            | Status::Executing
            | Status::AwaitingSignal
            | Status::Sleeping
            | Status::AwaitingChildren => false,
        }
    }

    /// Whether the instance waits for something other than a worker.
    pub fn is_parked(self) -> bool {
        matches!(
            self,
            Status::AwaitingSignal | Status::Sleeping | Status::AwaitingChildren
        )
    }

    /// Whether an instance may change from this status to `to`.
    ///
    /// `Executing → Executing` is a run-ahead commit. `AwaitingSignal → Executing` is a delivery
    /// that claims the woken instance for a worker. `AwaitingChildren → AwaitingSignal` is a
    /// workflow whose children have all finished and that needs more
    /// ([`Park::needs_all`](crate::Park::needs_all)). Every live status becomes `Failed` by a
    /// timeout of the instance, and `Cancelled` by a terminate. Only an operator's recorded retry
    /// leaves a terminal status, and only failed or cancelled (I4).
    pub fn may_become(self, to: Status) -> bool {
        use Status::*;
        match self {
            Runnable => matches!(to, Executing | Failed | Cancelled),
            Executing => true,
            AwaitingSignal => matches!(to, Runnable | Executing | Sleeping | Failed | Cancelled),
            Sleeping => matches!(to, Runnable | Failed | Cancelled),
            AwaitingChildren => {
                matches!(
                    to,
                    Runnable | AwaitingSignal | Sleeping | Failed | Cancelled
                )
            }
            Done => false,
            Failed | Cancelled => matches!(to, Runnable),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Status {
    type Err = Invalid;

    fn from_str(word: &str) -> Result<Status, Invalid> {
        Status::ALL
            .into_iter()
            .find(|status| status.as_str() == word)
            .ok_or_else(|| {
                Invalid::new(
                    "status",
                    format!(
                        "{word:?} is none of runnable, executing, awaiting_signal, sleeping, awaiting_children, \
                         done, failed, cancelled"
                    ),
                )
            })
    }
}

/// The statuses in which an instance occupies its correlation key.
///
/// A scope always contains [`Status::Runnable`], the first status of an instance. A key that is
/// not held from the start would be taken later, when another instance may already hold it
/// (docs/protocol.md, defect 4). An instance that leaves its scope frees the key for good, even if
/// it returns to the scope. [`Status::AwaitingSignal`] includes [`Status::Sleeping`], because a
/// scope uses the stored status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<Status>", into = "Vec<Status>")]
pub struct Scope(u8);

impl Scope {
    /// Occupied until the instance ends. This is the default.
    pub const LIVE: Scope = Scope(0b0001_0111);
    /// Occupied until the instance is collected or deleted.
    pub const FOREVER: Scope = Scope(0b1111_0111);

    /// Creates a scope of exactly these statuses.
    ///
    /// `runnable` must be one of them, `sleeping` must not.
    pub fn of(statuses: impl IntoIterator<Item = Status>) -> Result<Scope, Invalid> {
        let statuses: Vec<Status> = statuses.into_iter().collect();
        if statuses.contains(&Status::Sleeping) {
            return Err(Invalid::new(
                "correlation scope",
                "cannot contain sleeping; awaiting_signal holds the key for sleeping instances too",
            ));
        }
        let bits = statuses.into_iter().fold(0, |bits, s| bits | bit(s));
        #[cfg(outlast_mutants)]
        if crate::mutant::is("scope-without-runnable") {
            return Ok(Scope(bits));
        }
        if bits & bit(Status::Runnable) == 0 {
            return Err(Invalid::new(
                "correlation scope",
                "must contain runnable: a key is held from the start or not at all",
            ));
        }
        Ok(Scope(bits))
    }

    /// Whether the key is occupied in `status`.
    pub fn contains(self, status: Status) -> bool {
        self.0 & bit(status) != 0
    }

    /// Returns the statuses of the scope, in the order of [`Status::ALL`].
    pub fn statuses(self) -> impl Iterator<Item = Status> {
        let stored = Status::ALL.into_iter().filter(|s| *s == s.stored());
        stored.filter(move |s| self.contains(*s))
    }
}

impl Default for Scope {
    fn default() -> Scope {
        Scope::LIVE
    }
}

impl TryFrom<Vec<Status>> for Scope {
    type Error = Invalid;

    fn try_from(statuses: Vec<Status>) -> Result<Scope, Invalid> {
        Scope::of(statuses)
    }
}

impl From<Scope> for Vec<Status> {
    fn from(scope: Scope) -> Vec<Status> {
        scope.statuses().collect()
    }
}

fn bit(status: Status) -> u8 {
    1 << status.stored() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_parses_from_its_name() {
        for status in Status::ALL {
            assert_eq!(status.as_str().parse::<Status>(), Ok(status));
            assert_eq!(
                serde_json::to_string(&status).unwrap(),
                format!("\"{status}\"")
            );
        }
        assert!("paused".parse::<Status>().is_err());
    }

    #[test]
    fn only_a_wait_without_names_is_a_sleep() {
        for status in Status::ALL {
            assert_eq!(status.derived(true), status);
            assert_eq!(status.derived(false).stored(), status.stored());
            let sleeps = status.derived(false) == Status::Sleeping;
            assert_eq!(sleeps, status.stored() == Status::AwaitingSignal);
        }
    }

    #[test]
    fn i4_an_instance_leaves_an_end_only_by_an_operators_retry() {
        for from in Status::ALL.into_iter().filter(|s| s.is_terminal()) {
            for to in Status::ALL {
                let retry = from != Status::Done && to == Status::Runnable;
                assert_eq!(from.may_become(to), retry, "{from} to {to}");
            }
        }
    }

    #[test]
    fn a_scope_without_runnable_is_refused() {
        assert!(Scope::of([Status::Executing]).is_err());
        assert!(Scope::of([]).is_err());
        let scope = Scope::of([Status::Runnable, Status::Failed]).unwrap();
        assert!(scope.contains(Status::Failed) && !scope.contains(Status::Done));
    }

    #[test]
    fn a_scope_consists_of_stored_statuses() {
        let sleeping = Scope::of([Status::Runnable, Status::Sleeping]);
        let message = sleeping.unwrap_err().to_string();
        assert!(
            message.contains("awaiting_signal holds the key"),
            "{message}"
        );
        let scope = Scope::of([Status::Runnable, Status::AwaitingSignal]).unwrap();
        assert!(scope.contains(Status::Sleeping));
        let stored = [Status::Runnable, Status::AwaitingSignal];
        assert_eq!(scope.statuses().collect::<Vec<_>>(), stored);
    }

    #[test]
    fn the_named_scopes_contain_the_right_statuses() {
        for status in Status::ALL {
            assert_eq!(Scope::LIVE.contains(status), !status.is_terminal());
            assert!(Scope::FOREVER.contains(status));
        }
    }
}
