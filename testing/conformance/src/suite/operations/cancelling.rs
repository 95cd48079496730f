//! Cancel: a request that the machine answers.
//!
//! A cancel wakes a parked instance and keeps a running claim.

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{
    Answer, CancelAnswer, CancelRequest, Claim, ClosePolicy, Delivery, ErrorKind, Extent, Instance,
    InstanceId, Note, RetryAnswer, Status, TerminateAnswer, Verb, limits,
};

const REASON: &str = "cancelled by ada: a rule asks for it";

/// A cancel that was requested now and has no answer.
fn pending_cancel(subject: &Subject) -> Option<CancelRequest> {
    Some(CancelRequest {
        reason: REASON.into(),
        requested_at: subject.now(),
        answered: false,
    })
}

/// Makes the claim of a new task that is cancelled while it runs.
async fn cancelled_while_running(subject: &Subject) -> Claim {
    let (_, claim) = subject.running(task()).await;
    let answer = subject.cancel(claim.id).await;
    assert_eq!(answer, CancelAnswer::Requested(Status::Executing));
    claim
}

pub async fn a_cancel_wakes_an_instance_that_waits_for_a_signal(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    let outcome = wait_at_most(&["paid"], seconds(90));
    subject.commit(&claim, outcome).await;
    let before = subject.get(claim.id).await;
    subject.pass(seconds(1));
    let cancelled = subject
        .store
        .cancel(vec![claim.id], Extent::One, note())
        .await;
    let cancelled = cancelled.unwrap();
    let found = CancelAnswer::Requested(Status::AwaitingSignal);
    assert_eq!(cancelled.answers, [found]);
    assert!(cancelled.woken.contains(QUEUE) && !cancelled.cascades);
    let expected = Instance {
        status: Status::Runnable,
        eligible_at: subject.now(),
        await_deadline: None,
        cancel: pending_cancel(subject),
        updated_at: subject.now(),
        ..before
    };
    assert_eq!(subject.get(claim.id).await, expected);
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!(claim.cancel, pending_cancel(subject));
    assert!(claim.is_to_answer_cancel());
    assert_eq!(claim.awaits, ["paid"]);
}

pub async fn a_cancel_wakes_a_parent_that_waits_for_children(subject: &Subject) {
    let join = outlast_core::Join {
        deadline: Some(seconds(90)),
        ..Default::default()
    };
    let (worker, parent, claims) = subject.joining(tasks(2), join).await;
    let answer = subject.cancel(parent).await;
    assert_eq!(answer, CancelAnswer::Requested(Status::AwaitingChildren));
    let row = subject.get(parent).await;
    assert_eq!((row.status, row.await_deadline), (Status::Runnable, None));
    assert_eq!((joined(&row), counts(&row)), (None, (2, 0)));
    let claim = subject.claim_the(worker, parent).await;
    assert_eq!(claim.joined, None, "a cancel does not decide a join");
    assert_eq!(claim.children.len(), 2);
    subject.finish_all(&claims).await;
    let row = subject.get(parent).await;
    assert_eq!(counts(&row), (2, 0), "the parent no longer waits for them");
}

pub async fn a_cancel_makes_a_delayed_instance_eligible_at_once(subject: &Subject) {
    let worker = subject.worker().await;
    let id = subject.insert(later(task(), seconds(100))).await;
    assert_eq!(
        subject.cancel(id).await,
        CancelAnswer::Requested(Status::Runnable)
    );
    assert_eq!(subject.get(id).await.eligible_at, subject.now());
    assert!(subject.claim_the(worker, id).await.is_to_answer_cancel());
}

pub async fn a_cancel_of_an_eligible_instance_keeps_its_place_in_the_queue(subject: &Subject) {
    let id = subject.insert(task()).await;
    let before = subject.get(id).await;
    subject.pass(seconds(5));
    subject.cancel(id).await;
    let row = subject.get(id).await;
    assert_eq!(row.eligible_at, before.eligible_at);
    assert_eq!((row.status, row.revision), (before.status, before.revision));
}

/// I8.
pub async fn a_cancelled_instance_keeps_its_turn_in_its_partition_key(subject: &Subject) {
    let (worker, claim) = subject.running(task().partition_key("p")).await;
    let next = subject.insert(task().partition_key("p")).await;
    let last = subject
        .insert(later(task().partition_key("p"), seconds(50)))
        .await;
    subject.pass(seconds(1));
    subject.cancel(last).await;
    assert_eq!(subject.claim_ids(worker, 3).await, []);
    subject.commit(&claim, done()).await;
    let claim = subject.claim_the(worker, next).await;
    assert_eq!(subject.claim_ids(worker, 3).await, []);
    subject.commit(&claim, done()).await;
    subject.claim_the(worker, last).await;
    subject.assert_sound().await;
}

pub async fn a_cancel_does_not_lose_the_claim_of_a_running_step(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let before = subject.get(claim.id).await;
    subject.pass(seconds(1));
    subject.cancel(claim.id).await;
    let expected = Instance {
        cancel: pending_cancel(subject),
        updated_at: subject.now(),
        ..before
    };
    assert_eq!(subject.get(claim.id).await, expected);
    assert_eq!(subject.commit(&claim, done()).await, Status::Done);
}

pub async fn a_commit_that_keeps_its_claim_returns_the_cancel(subject: &Subject) {
    let mut claim = cancelled_while_running(subject).await;
    let revision = claim.revision.next();
    let expected = Answer::Committed {
        revision,
        status: Status::Executing,
        cancel: pending_cancel(subject),
        latest_signal: None,
        at: subject.now(),
    };
    assert_eq!(subject.try_commit(&claim, keep("b")).await, expected);
    claim.revision = revision;
    claim.cancel = pending_cancel(subject);
    // From now on the answers carry no cancel.
    let answer = subject.try_commit(&claim, keep("undo")).await;
    let expected = subject.committed(revision.next(), Status::Executing);
    assert_eq!(answer, expected);
    let cancel = subject.get(claim.id).await.cancel.unwrap();
    assert!(cancel.answered);
}

pub async fn a_commit_that_gives_up_its_claim_returns_no_cancel(subject: &Subject) {
    for outcome in [requeue("b"), again(seconds(0)), done(), stop()] {
        let claim = cancelled_while_running(subject).await;
        match subject.try_commit(&claim, outcome).await {
            Answer::Committed { cancel, .. } => assert_eq!(cancel, None),
            answer @ (Answer::Cancel(_) | Answer::Lost | Answer::Rejected(_)) => {
                panic!("{answer:?}")
            }
        }
        subject.terminate(claim.id).await;
    }
}

pub async fn the_claims_of_a_worker_carry_their_unanswered_cancels(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    assert_eq!(subject.held_claims(worker).await[0].cancel, None);
    subject.cancel(claim.id).await;
    let held = subject.held_claims(worker).await;
    assert_eq!(held[0].claim, claim.reference());
    assert_eq!(held[0].cancel, pending_cancel(subject));
    let mut claim = claim;
    claim.cancel = pending_cancel(subject);
    subject.commit(&claim, keep("undo")).await;
    let held = subject.held_claims(worker).await;
    assert_eq!(held[0].cancel, None, "the cancel is answered");
}

pub async fn a_cancel_of_an_ended_instance_changes_nothing(subject: &Subject) {
    for end in [done(), stop(), cancel()] {
        let (_, claim) = subject.running(task()).await;
        let status = subject.commit(&claim, end).await;
        let row = subject.get(claim.id).await;
        let answer = subject.cancel(claim.id).await;
        assert_eq!(answer, CancelAnswer::AlreadyEnded(status));
        subject.assert_unchanged(&row).await;
        assert_eq!(subject.operations_on(claim.id).await, []);
    }
}

pub async fn a_cancel_that_is_requested_again_changes_nothing(subject: &Subject) {
    let (worker, id) = subject.parked(&["a"]).await;
    subject.cancel(id).await;
    let row = subject.get(id).await;
    subject.pass(seconds(5));
    let again = Note::by("grace").because("another reason");
    let cancelled = subject.store.cancel(vec![id], Extent::One, again).await;
    let found = CancelAnswer::AlreadyRequested(Status::Runnable);
    assert_eq!(cancelled.unwrap().answers, [found]);
    subject.assert_unchanged(&row).await;
    // The request stays recorded after the answer too.
    let claim = subject.claim_the(worker, id).await;
    subject.commit(&claim, wait_for(&["undone"])).await;
    let row = subject.get(id).await;
    let found = CancelAnswer::AlreadyRequested(Status::AwaitingSignal);
    assert_eq!(subject.cancel(id).await, found);
    subject.assert_unchanged(&row).await;
    assert_eq!(subject.operations_on(id).await.len(), 1);
}

pub async fn a_cancel_is_recorded(subject: &Subject) {
    let (_, id) = subject.parked(&["a"]).await;
    subject.pass(seconds(2));
    subject.cancel(id).await;
    let records = subject.operations_on(id).await;
    assert_eq!(records.len(), 1);
    let record = &records[0];
    assert_eq!((record.verb, record.instance), (Verb::Cancel, Some(id)));
    assert_eq!((record.by.as_str(), record.cause), ("ada", None));
    assert_eq!(record.reason.as_deref(), Some("a rule asks for it"));
    assert_eq!(record.status_before, Some(Status::AwaitingSignal));
    assert_eq!(record.at, subject.now());
    assert_eq!(subject.store.close_actions(id, None).await.unwrap(), []);
}

pub async fn a_batch_of_cancels_answers_in_the_callers_order(subject: &Subject) {
    let (_, waiting) = subject.parked(&["a"]).await;
    let ids = subject.insert_all(tasks(2)).await;
    subject.terminate(ids[1]).await;
    let missing = InstanceId(987_654_321);
    let batch = vec![ids[1], waiting, missing, ids[0], waiting];
    let cancelled = subject.store.cancel(batch, Extent::One, note()).await;
    let expected = [
        CancelAnswer::AlreadyEnded(Status::Cancelled),
        CancelAnswer::Requested(Status::AwaitingSignal),
        CancelAnswer::NotFound,
        CancelAnswer::Requested(Status::Runnable),
        CancelAnswer::AlreadyRequested(Status::Runnable),
    ];
    assert_eq!(cancelled.unwrap().answers, expected);
    assert_eq!(subject.operations_on(waiting).await.len(), 1);
}

pub async fn a_terminate_ends_an_instance_with_a_pending_cancel(subject: &Subject) {
    let claim = cancelled_while_running(subject).await;
    let answer = subject.terminate(claim.id).await;
    assert_eq!(answer, TerminateAnswer::Terminated(Status::Executing));
    assert_eq!(subject.try_commit(&claim, done()).await, Answer::Lost);
    let row = subject.get(claim.id).await;
    assert_eq!(row.status, Status::Cancelled);
    assert_eq!(
        row.cancel,
        pending_cancel(subject),
        "the request stays on the row"
    );
    assert_eq!(
        row.last_error.as_deref(),
        Some("terminated by ada: a rule asks for it")
    );
}

pub async fn a_signal_to_an_instance_with_a_pending_cancel_waits_in_its_inbox(subject: &Subject) {
    let (worker, id) = subject.parked(&["a"]).await;
    subject.cancel(id).await;
    let delivered = subject.deliver_for(worker, vec![signal(id, "a")]).await;
    assert!(matches!(
        delivered.answers[0],
        Delivery::Delivered { woke: false, .. }
    ));
    assert_eq!(delivered.claims, []);
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(names_of(claim.awaited()), ["a"]);
    assert!(claim.is_to_answer_cancel());
}

pub async fn a_pending_cancel_survives_a_crash_and_a_release(subject: &Subject) {
    let claim = cancelled_while_running(subject).await;
    subject.pass(LEASE);
    let requested = subject.get(claim.id).await.cancel;
    assert_eq!(subject.reap().await.returned, [claim.id]);
    assert_eq!(subject.get(claim.id).await.cancel, requested);
    let worker = subject.worker().await;
    let claim = subject.claim_the(worker, claim.id).await;
    assert!(claim.is_to_answer_cancel());
    subject.release(&claim, seconds(0)).await;
    let claim = subject.claim_the(worker, claim.id).await;
    assert!(claim.is_to_answer_cancel());
}

pub async fn a_retried_instance_has_no_cancel(subject: &Subject) {
    let (worker, id) = subject.parked(&["a"]).await;
    subject.cancel(id).await;
    let claim = subject.claim_the(worker, id).await;
    subject.commit(&claim, cancel()).await;
    let cancel = subject.get(id).await.cancel.unwrap();
    assert!(cancel.answered);
    let retried = subject.store.retry(vec![id], note()).await.unwrap();
    assert_eq!(retried.answers, [RetryAnswer::Retried]);
    assert_eq!(subject.get(id).await.cancel, None);
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(claim.cancel, None);
    subject.commit(&claim, wait_for(&["a"])).await;
    let found = CancelAnswer::Requested(Status::AwaitingSignal);
    assert_eq!(subject.cancel(id).await, found);
}

/// I9: an instance with a pending cancel is live.
pub async fn a_correlation_key_is_held_until_the_cancelled_instance_ends(subject: &Subject) {
    let (worker, claim) = subject.running(task().correlation_key("k")).await;
    subject.cancel(claim.id).await;
    assert!(subject.get(claim.id).await.holds_key);
    subject.commit(&claim, requeue("b")).await;
    let claim = subject.claim_the(worker, claim.id).await;
    subject.commit(&claim, cancel()).await;
    assert!(!subject.get(claim.id).await.holds_key);
    subject.insert(task().correlation_key("k")).await;
}

pub async fn the_deadline_of_a_cancelled_wait_does_not_fire(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    subject
        .commit(&claim, wait_at_most(&["a"], seconds(5)))
        .await;
    subject.cancel(claim.id).await;
    let row = subject.get(claim.id).await;
    subject.pass(seconds(5));
    let fired = subject.store.fire(10).await.unwrap();
    assert_eq!(fired, outlast_core::Fired::default());
    subject.assert_unchanged(&row).await;
}

pub async fn the_reason_of_a_cancel_is_cleaned(subject: &Subject) {
    let id = subject.insert(task()).await;
    let note = Note::by("ada").because("nul \u{0} in it");
    let cancelled = subject.store.cancel(vec![id], Extent::One, note.clone());
    cancelled.await.unwrap();
    let reason = subject.cancel_reason(id).await;
    assert_eq!(reason, Some(note.cancellation()));
    assert!(!reason.unwrap().contains('\u{0}'));
}

pub async fn cancels_and_terminates_that_cannot_be_stored_are_refused(subject: &Subject) {
    let id = subject.insert(task()).await;
    let row = subject.get(id).await;
    let too_many = vec![id; limits::BATCH_MAX + 1];
    let refusals = [
        (vec![id], Note::by("")),
        (vec![id], Note::by("nul\u{0}")),
        (too_many, note()),
    ];
    for (ids, note) in refusals {
        for extent in [Extent::One, Extent::Tree] {
            let cancelled = subject.store.cancel(ids.clone(), extent, note.clone());
            assert_eq!(cancelled.await.unwrap_err().kind(), ErrorKind::Invalid);
            let terminated = subject.store.terminate(ids.clone(), extent, note.clone());
            assert_eq!(terminated.await.unwrap_err().kind(), ErrorKind::Invalid);
        }
    }
    subject.assert_unchanged(&row).await;
}

pub async fn an_instance_without_a_parent_has_no_close_policy(subject: &Subject) {
    let id = subject
        .insert(task().on_parent_close(ClosePolicy::Terminate))
        .await;
    let row = subject.get(id).await;
    assert_eq!(row.on_parent_close, ClosePolicy::Abandon);
    assert_eq!((row.position, row.held), (None, None));
    assert_eq!((row.barrier, row.cancel), (None, None));
}
