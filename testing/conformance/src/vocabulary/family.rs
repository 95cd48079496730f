//! The words of rules about parents and children.

use super::{note, task};
use crate::Subject;
pub(crate) use outlast_core::Extent;
use outlast_core::{
    Answer, CancelAnswer, CascadeRequest, Cascaded, Child, Claim, Instance, InstanceId, Join,
    Joined, NewInstance, Operation, Outcome, Revision, Status, TerminateAnswer, Until, WorkerId,
};

/// A join that waits like this, with nothing else special about it.
pub(crate) fn until(until: Until) -> Join {
    Join {
        until,
        ..Join::default()
    }
}

/// A join of everybody, of whom so many run at a time.
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

/// Why the last join of `row` woke it.
pub(crate) fn joined(row: &Instance) -> Option<Joined> {
    row.barrier.and_then(|barrier| barrier.joined)
}

/// How many of the last fan-out still counted as alive, and how many as badly ended.
pub(crate) fn counts(row: &Instance) -> (i32, i32) {
    let failed = row.barrier.map_or(0, |barrier| barrier.failed);
    (row.children_pending, failed)
}

impl Subject {
    /// The answer to an outcome that is written now, while nobody wishes the instance to end.
    pub(crate) fn committed(&self, revision: Revision, status: Status) -> Answer {
        Answer::Committed {
            revision,
            status,
            cancel: None,
            at: self.now(),
        }
    }

    /// A worker, a parent that has fanned out like this, and the claims of the children that have started.
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

    /// Asks one to end, and says what it found.
    pub(crate) async fn cancel(&self, id: InstanceId) -> CancelAnswer {
        let cancelled = self.store.cancel(vec![id], Extent::One, note()).await;
        cancelled.unwrap().answers[0]
    }

    /// JoinSets one, and says what it found.
    pub(crate) async fn terminate(&self, id: InstanceId) -> TerminateAnswer {
        let terminated = self.store.terminate(vec![id], Extent::One, note()).await;
        terminated.unwrap().answers[0]
    }

    /// One call of a cascade.
    pub(crate) async fn cascade(&self, max: usize) -> Cascaded {
        let cascaded = self.store.cascade(CascadeRequest { max }).await;
        cascaded.unwrap()
    }

    /// Everybody is told who is to be told.
    pub(crate) async fn cascade_all(&self) {
        while self.cascade(100).await.more {}
    }

    /// Asserts that nobody is to be told anything.
    pub(crate) async fn assert_nobody_to_tell(&self) {
        assert_eq!(self.cascade(100).await, Cascaded::default());
    }

    /// The children of a round, by position.
    pub(crate) async fn children(&self, parent: InstanceId, round: i32) -> Vec<Child> {
        let children = self.store.children(parent, Some(round), None).await;
        children.unwrap().rows
    }

    /// Their ids.
    pub(crate) async fn child_ids(&self, parent: InstanceId, round: i32) -> Vec<InstanceId> {
        let children = self.children(parent, round).await.into_iter();
        children.map(|child| child.id).collect()
    }

    /// Their statuses.
    pub(crate) async fn child_statuses(&self, parent: InstanceId, round: i32) -> Vec<Status> {
        let children = self.children(parent, round).await.into_iter();
        children.map(|child| child.status).collect()
    }

    /// What operators and parents did to `id`, newest first.
    pub(crate) async fn operations_on(&self, id: InstanceId) -> Vec<Operation> {
        self.store.operations(Some(id)).await.unwrap()
    }

    /// Who wished `id` to end and why, if anybody did.
    pub(crate) async fn cancel_reason(&self, id: InstanceId) -> Option<String> {
        self.get(id).await.cancel.map(|cancel| cancel.reason)
    }
}
