//! Visits of a step, named by the revision they began at, and the trace that spans all of them.

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{Claim, Inserted, InstanceId, ListRequest, Revision, WorkerId};

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

async fn entered(subject: &Subject, id: InstanceId) -> Revision {
    subject.get(id).await.entered
}

/// Makes a worker, and a claim of a task at its second step, at a revision that is not 0.
async fn second_visit(subject: &Subject) -> (WorkerId, Claim) {
    let (worker, first) = subject.running(task()).await;
    subject.commit(&first, requeue("second")).await;
    let claim = subject.claim_the(worker, first.id).await;
    assert_eq!(claim.entered, first.revision.next());
    (worker, claim)
}

pub async fn every_claim_and_query_returns_the_trace(subject: &Subject) {
    let row = task().trace(TRACE).correlation_key("k");
    let (worker, claim) = subject.running(row).await;
    assert_eq!(claim.trace.as_deref(), Some(TRACE));
    subject.commit(&claim, again(seconds(0))).await;
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!(claim.trace.as_deref(), Some(TRACE), "after a retry");
    subject.commit(&claim, wait_for(&["go"])).await;
    subject.arrives(signal(claim.id, "go")).await;
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!(claim.trace.as_deref(), Some(TRACE), "at a later step");
    subject.commit(&claim, stop()).await;

    let row = subject.get(claim.id).await;
    assert_eq!(row.trace.as_deref(), Some(TRACE), "after the end");
    let all = ListRequest {
        limit: 10,
        values: true,
        ..ListRequest::default()
    };
    let listed = subject.store.list(all).await.unwrap();
    assert_eq!(listed.instances, [row]);
    subject.insert(task().trace("t").correlation_key("k")).await;
    let found = subject.store.find("task", "k").await.unwrap().unwrap();
    assert_eq!(found.trace.as_deref(), Some("t"));
}

pub async fn a_row_without_a_trace_has_none(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    assert_eq!(claim.trace, None);
    assert_eq!(subject.get(claim.id).await.trace, None);
}

pub async fn each_row_of_a_batch_has_its_own_trace(subject: &Subject) {
    let worker = subject.worker().await;
    let rows = vec![task().trace("a"), task(), task().trace("b")];
    let ids = subject.insert_all(rows).await;
    let claims = subject.claim(worker, 3).await;
    assert_eq!(ids_of(&claims), ids);
    let traces = claims.iter().map(|claim| claim.trace.as_deref());
    assert_eq!(traces.collect::<Vec<_>>(), [Some("a"), None, Some("b")]);
    let rows = vec![task().trace("c")];
    let inserts = subject.store.insert(rows, Some(worker)).await.unwrap();
    let id = inserts.rows[0].new_id().unwrap();
    assert_eq!(subject.get(id).await.trace.as_deref(), Some("c"));
}

pub async fn a_child_has_the_trace_it_was_given_and_inherits_none(subject: &Subject) {
    let (worker, parent) = subject.running(task().trace(TRACE)).await;
    let children = vec![task().trace("child"), task()];
    subject.commit(&parent, fan_out(children)).await;
    let claims = subject.claim(worker, 2).await;
    let traces = claims.iter().map(|claim| claim.trace.as_deref());
    assert_eq!(traces.collect::<Vec<_>>(), [Some("child"), None]);
    let entered = claims.iter().map(|claim| claim.entered);
    assert_eq!(entered.collect::<Vec<_>>(), [Revision(0); 2]);
    subject.finish_all(&claims).await;
    let joined = subject.claim_the(worker, parent.id).await;
    assert_eq!(joined.trace.as_deref(), Some(TRACE));
}

pub async fn the_first_visit_began_at_the_insert(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    assert_eq!(claim.entered, Revision(0));
    assert_eq!(entered(subject, claim.id).await, Revision(0));
    let inserts = subject.store.insert(tasks(1), Some(worker)).await.unwrap();
    let Inserted::New { id, claimed } = inserts.rows[0] else {
        panic!("{inserts:?}");
    };
    assert_eq!(claimed, Some(FIRST_CLAIM));
    assert_eq!(entered(subject, id).await, Revision(0));
}

/// The visit has the revision of the commit, and the following claim keeps it.
pub async fn next_wait_and_fan_out_begin_a_visit(subject: &Subject) {
    for outcome in [
        keep("second"),
        requeue("second"),
        wait_for(&["go"]),
        wait_at_most(&["go"], seconds(5)),
        fan_out(tasks(2)),
        fan_out(vec![]),
    ] {
        let (_, claim) = subject.running(task()).await;
        let kind = format!("{outcome:?}");
        subject.commit(&claim, outcome).await;
        let row = subject.get(claim.id).await;
        assert_eq!(row.revision, claim.revision.next(), "{kind}");
        assert_eq!(row.entered, row.revision, "{kind}");
        subject
            .store
            .terminate(vec![claim.id], Extent::One, note())
            .await
            .unwrap();
        let worker = subject.worker().await;
        subject.claim(worker, 10).await;
    }
}

pub async fn a_step_that_leads_to_itself_begins_another_visit(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    let mut visits = vec![claim.entered];
    let mut claim = claim;
    for _ in 0..3 {
        subject.commit(&claim, requeue(&claim.step)).await;
        claim = subject.claim_the(worker, claim.id).await;
        visits.push(claim.entered);
    }
    assert!(visits.is_sorted_by(|one, next| one < next), "{visits:?}");
}

pub async fn a_retry_and_a_release_stay_in_the_visit(subject: &Subject) {
    let (worker, claim) = second_visit(subject).await;
    let (id, visit) = (claim.id, claim.entered);
    subject.commit(&claim, again(seconds(0))).await;
    assert_eq!(entered(subject, id).await, visit, "after a retry");
    let claim = subject.claim_the(worker, id).await;
    assert_eq!((claim.entered, claim.attempt), (visit, 1));
    subject.release(&claim, seconds(0)).await;
    assert_eq!(entered(subject, id).await, visit, "after a release");
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(claim.entered, visit, "claimed after a release");
    assert!(claim.revision > visit.next().next());
}

pub async fn a_crash_stays_in_the_visit(subject: &Subject) {
    let (_, claim) = second_visit(subject).await;
    subject.pass(LEASE);
    assert_eq!(subject.reap().await.returned, [claim.id]);
    let worker = subject.worker().await;
    let again = subject.claim_the(worker, claim.id).await;
    assert_eq!((again.entered, again.crashes), (claim.entered, 1));
    subject.pass(LEASE);
    let no_more = outlast_core::ReapRequest {
        max: 10,
        crashes_max: 0,
    };
    let reaped = subject.store.reap(no_more).await.unwrap();
    assert_eq!(reaped.failed, [claim.id]);
    assert_eq!(entered(subject, claim.id).await, claim.entered);
}

/// A woken step stays in the visit that the wait or the fan-out began.
pub async fn a_wake_stays_in_the_visit(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    subject.commit(&claim, wait_for(&["go"])).await;
    let visit = entered(subject, claim.id).await;
    subject.arrives(signal(claim.id, "go")).await;
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!(claim.entered, visit, "after a signal");

    subject.commit(&claim, wait_at_most(&[], seconds(1))).await;
    let visit = entered(subject, claim.id).await;
    subject.pass(seconds(1));
    subject.store.fire(10).await.unwrap();
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!(claim.entered, visit, "after a deadline");

    subject.commit(&claim, fan_out(tasks(1))).await;
    let visit = entered(subject, claim.id).await;
    let child = subject.claim_one(worker).await;
    subject.commit(&child, done()).await;
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!(claim.entered, visit, "after a join");
}

pub async fn an_end_and_an_operators_retry_stay_in_the_visit(subject: &Subject) {
    for end in [done(), stop(), cancel()] {
        let (worker, claim) = second_visit(subject).await;
        let (id, visit) = (claim.id, claim.entered);
        subject.commit(&claim, end).await;
        assert_eq!(entered(subject, id).await, visit);
        if subject.store.retry(vec![id], note()).await.unwrap().answers
            == [outlast_core::RetryAnswer::Retried]
        {
            let claim = subject.claim_the(worker, id).await;
            assert_eq!(claim.entered, visit, "the same step again");
            subject
                .store
                .terminate(vec![id], Extent::One, note())
                .await
                .unwrap();
            assert_eq!(entered(subject, id).await, visit, "after a terminate");
        }
    }
}

pub async fn a_lost_outcome_begins_no_visit(subject: &Subject) {
    let (_, claim) = second_visit(subject).await;
    subject.release(&claim, seconds(0)).await;
    let before = subject.get(claim.id).await;
    subject.try_commit(&claim, requeue("third")).await;
    subject.assert_unchanged(&before).await;
}
