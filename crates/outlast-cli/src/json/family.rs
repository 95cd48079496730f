//! Fan-outs and cancel requests as JSON.

use super::counts;
use crate::format::rfc3339;
use outlast::Status;
use outlast::store::{CancelRequest, Count, Instance, Parent, Until};
use serde::Serialize;
use serde_json::{Value, json};

#[derive(Serialize)]
pub(super) struct ParentObject {
    id: String,
    round: i32,
}

impl ParentObject {
    pub(super) fn of(parent: Parent) -> ParentObject {
        ParentObject {
            id: parent.id.to_string(),
            round: parent.round,
        }
    }
}

/// A request to cancel an instance.
#[derive(Serialize)]
pub(super) struct CancelObject {
    reason: String,
    requested_at: String,
    answered: bool,
}

impl CancelObject {
    pub(super) fn of(request: &CancelRequest) -> CancelObject {
        CancelObject {
            reason: request.reason.clone(),
            requested_at: rfc3339(request.requested_at),
            answered: request.answered,
        }
    }
}

/// The join of the last fan-out, and its progress.
#[derive(Serialize)]
pub(super) struct BarrierObject {
    until: &'static str,
    needs: Option<u32>,
    window: Option<u32>,
    rest: &'static str,
    started: i32,
    pending: i32,
    failed: i32,
    first_failure: Option<String>,
    joined: Option<&'static str>,
    deadline: Option<String>,
}

impl BarrierObject {
    pub(super) fn of(it: &Instance) -> Option<BarrierObject> {
        let barrier = it.barrier.as_ref()?;
        let (until, needs) = match barrier.until {
            Until::All => ("all", None),
            Until::FailFast => ("fail_fast", None),
            Until::Quorum(needs) => ("quorum", Some(needs)),
        };
        // With `needs_all`, the deadline is a lower bound and does not end the join.
        let is_bound = it.status == Status::AwaitingChildren && !it.needs_all;
        Some(BarrierObject {
            until,
            needs,
            window: barrier.window,
            rest: barrier.rest.as_str(),
            started: barrier.started,
            pending: it.children_pending,
            failed: barrier.failed,
            first_failure: barrier.first_failure.map(|id| id.to_string()),
            joined: barrier.joined.map(|joined| joined.as_str()),
            deadline: it.await_deadline.filter(|_| is_bound).map(rfc3339),
        })
    }
}

/// The counts of families.
pub(crate) fn family(live: Count, members: &[(Status, u64)]) -> Value {
    let (live, complete) = match live {
        Count::Exactly(live) => (live, true),
        Count::AtLeast(live) => (live, false),
    };
    json!({"members": counts(members), "live": live, "complete": complete})
}
