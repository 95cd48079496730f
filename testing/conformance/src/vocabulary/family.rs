//! Helpers for rules about parents and children.

use super::{note, task};
use crate::Subject;
pub(crate) use outlast_core::Extent;
use outlast_core::{
    Answer, CancelAnswer, CascadeRequest, Cascaded, Child, Claim, Instance, InstanceId, Join,
    Joined, NewInstance, Operation, Outcome, Revision, Status, TerminateAnswer, Until, WorkerId,
};

/// Makes a join with this condition and defaults otherwise.
pub(crate) fn until(until: Until) -> Join {
    Join {
        until,
        ..Join::default()
    }
}

/// Makes a join that waits for all children, with a window of this many places.
pub(crate) fn window(places: u32) -> Join {
    Join {
        window: Some(places),
        ..Join::default()
    }
}

pub(crate) fn fan_out_with(children: Vec<NewInstance>, join: Join) -> Outcome {
    Outcome::FanOut {
        children,
        join,
        step: "joined".into(),
        state: super::json(r#"{"at":"fan"}"#),
    }
}

/// Returns why the last join of `row` woke it.
pub(crate) fn joined(row: &Instance) -> Option<Joined> {
    row.barrier.and_then(|barrier| barrier.joined)
}

/// Returns the pending and the failed children of the last fan-out, as counted.
pub(crate) fn counts(row: &Instance) -> (i32, i32) {
    let failed = row.barrier.map_or(0, |barrier| barrier.failed);
    (row.children_pending, failed)
}

impl Subject {
    /// The answer to an outcome written now, without a pending cancel.
    pub(crate) fn committed(&self, revision: Revision, status: Status) -> Answer {
        Answer::Committed {
            revision,
            status,
            cancel: None,
            latest_signal: None,
            at: self.now(),
        }
    }

    /// Makes a worker and a parent that has fanned out, and claims the started children.
    pub(crate) async fn joining(
        &self,
        children: Vec<NewInstance>,
        join: Join,
    ) -> (WorkerId, InstanceId, Vec<Claim>) {
        let (worker, claim) = self.running(task()).await;
        let parked = self.commit(&claim, fan_out_with(children, join)).await;
        assert_eq!(parked, Status::AwaitingChildren);
        (worker, claim.id, self.claim(worker, 1_000).await)
    }

    /// Requests a cancel and returns the answer.
    pub(crate) async fn cancel(&self, id: InstanceId) -> CancelAnswer {
        let cancelled = self.store.cancel(vec![id], Extent::One, note()).await;
        cancelled.unwrap().answers[0]
    }

    /// Terminates an instance and returns the answer.
    pub(crate) async fn terminate(&self, id: InstanceId) -> TerminateAnswer {
        let terminated = self.store.terminate(vec![id], Extent::One, note()).await;
        terminated.unwrap().answers[0]
    }

    /// Calls the cascade verb once.
    pub(crate) async fn cascade(&self, max: usize) -> Cascaded {
        let cascaded = self.store.cascade(CascadeRequest { max }).await;
        cascaded.unwrap()
    }

    /// Runs all cascades to their end.
    pub(crate) async fn cascade_all(&self) {
        while self.cascade(100).await.more {}
    }

    /// Asserts that no cascade is left to run.
    pub(crate) async fn assert_no_cascade_is_left(&self) {
        assert_eq!(self.cascade(100).await, Cascaded::default());
    }

    /// Returns the children of a round, by position.
    pub(crate) async fn children(&self, parent: InstanceId, round: i32) -> Vec<Child> {
        let children = self.store.children(parent, Some(round), None).await;
        children.unwrap().rows
    }

    /// Returns the ids of the children of a round.
    pub(crate) async fn child_ids(&self, parent: InstanceId, round: i32) -> Vec<InstanceId> {
        let children = self.children(parent, round).await.into_iter();
        children.map(|child| child.id).collect()
    }

    /// Returns the statuses of the children of a round.
    pub(crate) async fn child_statuses(&self, parent: InstanceId, round: i32) -> Vec<Status> {
        let children = self.children(parent, round).await.into_iter();
        children.map(|child| child.status).collect()
    }

    /// Returns the operations on `id`, newest first.
    pub(crate) async fn operations_on(&self, id: InstanceId) -> Vec<Operation> {
        self.store.operations(Some(id)).await.unwrap()
    }

    /// Returns the reason of the cancel of `id`, if one was requested.
    pub(crate) async fn cancel_reason(&self, id: InstanceId) -> Option<String> {
        self.get(id).await.cancel.map(|cancel| cancel.reason)
    }
}
