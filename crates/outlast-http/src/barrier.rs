//! The shapes of what parents and children are to each other.

use crate::time::Moment;
use outlast_core::{Barrier, CancelRequest, ClosePolicy, Instance, Joined, Status, Until};
use serde::Serialize;

/// How the last fan-out of an instance joins, and how that stands.
///
/// It is counted while the instance waits: what ends after it was woken changes nothing here.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Barrier)]
pub(crate) struct BarrierBody {
    /// What wakes the instance.
    until: UntilWord,
    /// How many children must be done; null unless it is a quorum.
    needs: Option<u32>,
    /// How many of the children run at a time; null when there is no such bound.
    window: Option<u32>,
    /// What becomes of children that still live when it is woken without them.
    #[schema(value_type = PolicyWord)]
    rest: ClosePolicy,
    /// How many children were started.
    started: i32,
    /// How many of them have not ended.
    pending: i32,
    /// How many of them have failed or were cancelled.
    failed: i32,
    /// The child whose bad end was counted first.
    #[schema(example = "42")]
    first_failure: Option<String>,
    /// Why the instance was woken; null while it waits, and when a cancel woke it.
    #[schema(value_type = Option<JoinedWord>)]
    joined: Option<Joined>,
    /// Until when it waits at most; null when there is no such moment, or it waits no longer.
    deadline: Option<Moment>,
}

/// What wakes an instance that has fanned out.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Until)]
pub(crate) enum UntilWord {
    /// Every child has ended.
    All,
    /// Every child has ended, or one of them badly.
    FailFast,
    /// Enough children are done, or that can no longer be.
    Quorum,
}

/// What becomes of a child that still lives.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ClosePolicy, rename_all = "snake_case")]
#[allow(dead_code, reason = "only its schema is used")]
pub(crate) enum PolicyWord {
    Abandon,
    RequestCancel,
    Terminate,
}

/// Why an instance was woken.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Joined, rename_all = "snake_case")]
#[allow(dead_code, reason = "only its schema is used")]
pub(crate) enum JoinedWord {
    All,
    Failure,
    Quorum,
    Impossible,
    Deadline,
}

/// A wish that an instance ends.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = CancelRequest)]
pub(crate) struct CancelBody {
    /// Who wished it and why.
    pub(crate) reason: String,
    pub(crate) requested_at: Moment,
    /// Whether the machine has decided what to do about it. What it does now is what it decided.
    pub(crate) answered: bool,
}

impl BarrierBody {
    /// The barrier of an instance, if it has fanned out.
    pub(crate) fn of(instance: &Instance) -> Option<BarrierBody> {
        let Barrier {
            until,
            window,
            rest,
            started,
            failed,
            first_failure,
            joined,
        } = instance.barrier?;
        let (until, needs) = match until {
            Until::All => (UntilWord::All, None),
            Until::FailFast => (UntilWord::FailFast, None),
            Until::Quorum(needs) => (UntilWord::Quorum, Some(needs)),
        };
        // The moment of one that needs all decides no join.
        let is_bound = instance.status == Status::AwaitingChildren && !instance.needs_all;
        Some(BarrierBody {
            until,
            needs,
            window,
            rest,
            started,
            pending: instance.children_pending,
            failed,
            first_failure: first_failure.map(|child| child.to_string()),
            joined,
            deadline: instance.await_deadline.filter(|_| is_bound).map(Moment),
        })
    }
}

impl From<CancelRequest> for CancelBody {
    fn from(cancel: CancelRequest) -> CancelBody {
        CancelBody {
            reason: cancel.reason,
            requested_at: Moment(cancel.requested_at),
            answered: cancel.answered,
        }
    }
}
