//! Response bodies for fan-outs and cancel requests.

use crate::bodies::time::Moment;
use outlast_core::{Barrier, CancelRequest, ClosePolicy, Instance, Joined, Status, Until};
use serde::Serialize;

/// The join of an instance's last fan-out, and its progress.
///
/// Counted while the instance waits. Children that finish after it was woken change nothing here.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Barrier)]
pub(crate) struct BarrierBody {
    /// The condition that wakes the instance.
    until: UntilWord,
    /// The number of children that must be done; null unless the join is a quorum.
    needs: Option<u32>,
    /// The number of children that run at a time; null when there is no window.
    window: Option<u32>,
    /// The policy for children that are still live when the instance is woken without them.
    #[schema(value_type = PolicyWord)]
    rest: ClosePolicy,
    /// The number of children that were started.
    started: i32,
    /// The number of children that have not finished.
    pending: i32,
    /// The number of children that failed or were cancelled.
    failed: i32,
    /// The first child that was counted as failed or cancelled.
    #[schema(example = "42")]
    first_failure: Option<String>,
    /// Why the instance was woken; null while it waits, and when a cancel woke it.
    #[schema(value_type = Option<JoinedWord>)]
    joined: Option<Joined>,
    /// The latest time at which the wait ends; null without a deadline, and after the wait.
    deadline: Option<Moment>,
}

/// The condition that wakes an instance after a fan-out.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Until)]
pub(crate) enum UntilWord {
    /// Every child has finished.
    All,
    /// Every child has finished, or one has failed or was cancelled.
    FailFast,
    /// Enough children are done, or too few are left for that.
    Quorum,
}

/// The policy for a child that is still live.
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

/// A request to cancel an instance.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = CancelRequest)]
pub(crate) struct CancelBody {
    /// The name of the caller and the reason.
    pub(crate) reason: String,
    pub(crate) requested_at: Moment,
    /// Whether the machine has answered the request. If so, its current steps are its answer.
    pub(crate) answered: bool,
}

impl BarrierBody {
    /// Returns the barrier of an instance, or `None` if it has never fanned out.
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
        // With `needs_all`, the deadline is a lower bound and does not end the join.
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
