//! Answers to a cancel: how an outcome meets a pending cancel, and how it answers one.
//!
//! An outcome that does not answer the cancel starts nothing new. The answer itself may do so.

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{Answer, Claim, Commit, Instance, InstanceId, Outcome, Status, WorkerId};

/// Makes a worker, and the claim of a step that is cancelled while it runs.
async fn cancelled_while_running(subject: &Subject) -> (WorkerId, Claim) {
    let (worker, claim) = subject.running(task()).await;
    subject.cancel(claim.id).await;
    (worker, claim)
}

/// Makes a worker, and a claim that carries an unanswered cancel.
async fn answering(subject: &Subject) -> (WorkerId, Claim) {
    let (worker, id) = subject.parked(&["a"]).await;
    subject.cancel(id).await;
    let claim = subject.claim_the(worker, id).await;
    assert!(claim.is_to_answer_cancel());
    (worker, claim)
}

async fn is_answered(subject: &Subject, id: InstanceId) -> bool {
    let cancel = subject.get(id).await.cancel;
    cancel.expect("a cancel was requested").answered
}

/// I2, I13: an instance with a pending cancel never parks.
pub async fn a_wait_with_a_pending_cancel_does_not_park(subject: &Subject) {
    let (worker, claim) = cancelled_while_running(subject).await;
    subject.pass(seconds(1));
    let outcome = wait_at_most(&["x", "y"], seconds(90));
    let committed = subject.commit_all(vec![commit_of(&claim, outcome)]).await;
    assert!(committed.woken.contains(QUEUE));
    let row = subject.get(claim.id).await;
    assert_eq!(
        (row.status, row.step.as_str()),
        (Status::Runnable, "waited")
    );
    assert_eq!((row.eligible_at, row.await_deadline), (subject.now(), None));
    assert_eq!(row.awaits, Some(vec!["x".into(), "y".into()]));
    let claim = subject.claim_the(worker, claim.id).await;
    assert!(claim.is_to_answer_cancel());
}

/// I13: a step with a pending cancel starts no children.
pub async fn a_fan_out_with_a_pending_cancel_starts_no_children(subject: &Subject) {
    let (worker, claim) = cancelled_while_running(subject).await;
    subject.pass(seconds(1));
    let holder = subject.insert(later(task(), seconds(900)).correlation_key("k"));
    let holder = holder.await;
    let children = vec![task(), task().correlation_key("k"), task()];
    let status = subject.commit(&claim, fan_out_with(children, window(1)));
    assert_eq!(status.await, Status::Runnable);
    let row = subject.get(claim.id).await;
    assert_eq!(
        (row.step.as_str(), row.eligible_at),
        ("joined", subject.now())
    );
    assert_eq!((row.round, counts(&row)), (1, (0, 0)));
    assert_eq!((joined(&row), &row.dropped[..]), (None, &[][..]));
    assert_eq!(row.barrier.map(|it| it.started), Some(0));
    assert_eq!(subject.child_ids(claim.id, 1).await, []);
    assert!(subject.get(holder).await.holds_key);
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!((claim.joined, claim.children.len()), (None, 0));
    assert!(claim.is_to_answer_cancel());
}

pub async fn a_retry_with_a_pending_cancel_runs_without_its_delay(subject: &Subject) {
    let (worker, claim) = cancelled_while_running(subject).await;
    subject.pass(seconds(1));
    subject.commit(&claim, again(seconds(900))).await;
    let row = subject.get(claim.id).await;
    assert_eq!((row.eligible_at, row.attempt), (subject.now(), 1));
    let claim = subject.claim_the(worker, claim.id).await;
    assert!(claim.is_to_answer_cancel());
}

pub async fn a_next_with_a_pending_cancel_is_followed_by_the_answer(subject: &Subject) {
    let (worker, claim) = cancelled_while_running(subject).await;
    let status = subject.commit(&claim, requeue("b")).await;
    assert_eq!(status, Status::Runnable);
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!(claim.step, "b");
    assert!(claim.is_to_answer_cancel());
}

pub async fn an_end_with_a_pending_cancel_is_written_as_decided(subject: &Subject) {
    let ends = [
        (done(), Status::Done),
        (stop(), Status::Failed),
        (cancel(), Status::Cancelled),
    ];
    for (outcome, status) in ends {
        let (_, claim) = cancelled_while_running(subject).await;
        assert_eq!(subject.commit(&claim, outcome).await, status);
        assert!(
            !is_answered(subject, claim.id).await,
            "no outcome answered the cancel"
        );
    }
}

pub async fn every_outcome_but_a_retry_answers_a_cancel(subject: &Subject) {
    let outcomes = [
        (keep("undo"), Status::Executing),
        (requeue("undo"), Status::Runnable),
        (wait_for(&["undone"]), Status::AwaitingSignal),
        (fan_out(tasks(1)), Status::AwaitingChildren),
        (fan_out(vec![]), Status::Runnable),
        (done(), Status::Done),
        (stop(), Status::Failed),
        (cancel(), Status::Cancelled),
    ];
    for (outcome, status) in outcomes {
        let (_, claim) = answering(subject).await;
        let answer = subject.try_commit(&claim, outcome).await;
        assert_eq!(answer, subject.committed(claim.revision.next(), status));
        assert!(is_answered(subject, claim.id).await);
        subject.terminate(claim.id).await;
        let children = subject.child_ids(claim.id, 1).await;
        let ended = subject.store.terminate(children, Extent::One, note());
        ended.await.unwrap();
    }
}

pub async fn a_retry_does_not_answer_a_cancel(subject: &Subject) {
    let (worker, claim) = answering(subject).await;
    let status = subject.commit(&claim, again(seconds(30))).await;
    assert_eq!(status, Status::Runnable);
    let row = subject.get(claim.id).await;
    assert_eq!(
        (row.attempt, row.eligible_at),
        (1, subject.now() + seconds(30))
    );
    assert!(!is_answered(subject, claim.id).await);
    assert_eq!(subject.claim_ids(worker, 1).await, []);
    subject.pass(seconds(30));
    let claim = subject.claim_the(worker, claim.id).await;
    assert!(claim.is_to_answer_cancel());
    subject.commit(&claim, cancel()).await;
    assert!(is_answered(subject, claim.id).await);
}

/// I13: the outcome that answers the cancel is applied in full.
pub async fn an_instance_runs_as_usual_after_it_answered_a_cancel(subject: &Subject) {
    let (worker, claim) = answering(subject).await;
    subject.commit(&claim, requeue("undo")).await;
    let claim = subject.claim_the(worker, claim.id).await;
    assert!(!claim.is_to_answer_cancel());
    assert!(claim.cancel.as_ref().is_some_and(|it| it.answered));
    subject.commit(&claim, again(seconds(7))).await;
    let due = subject.get(claim.id).await.eligible_at;
    assert_eq!(due, subject.now() + seconds(7));
    subject.pass(seconds(7));
    let claim = subject.claim_the(worker, claim.id).await;
    let parked = subject.commit(&claim, wait_for(&["refunded"])).await;
    assert_eq!(parked, Status::AwaitingSignal);
    let (_, woke) = subject.arrives(signal(claim.id, "refunded")).await;
    assert!(woke);
    let claim = subject.claim_the(worker, claim.id).await;
    let parked = subject.commit(&claim, fan_out(tasks(2))).await;
    assert_eq!(parked, Status::AwaitingChildren);
    let children = subject.claim(worker, 3).await;
    subject.finish_all(&children).await;
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!(claim.children.len(), 2);
    assert_eq!(subject.commit(&claim, cancel()).await, Status::Cancelled);
}

pub async fn an_answer_of_a_stale_claim_changes_nothing(subject: &Subject) {
    let (worker, claim) = answering(subject).await;
    subject.release(&claim, seconds(0)).await;
    subject.claim_the(worker, claim.id).await;
    let row = subject.get(claim.id).await;
    assert_eq!(subject.try_commit(&claim, cancel()).await, Answer::Lost);
    subject.assert_unchanged(&row).await;
}

pub async fn an_answer_that_cannot_be_stored_changes_nothing(subject: &Subject) {
    let (_, claim) = answering(subject).await;
    let row = subject.get(claim.id).await;
    let answer = subject.try_commit(&claim, requeue("")).await;
    assert!(matches!(answer, Answer::Rejected(_)), "{answer:?}");
    subject.assert_unchanged(&row).await;
}

pub async fn an_answer_without_a_cancel_is_an_ordinary_outcome(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let commit = Commit {
        answers_cancel: true,
        ..commit_of(&claim, wait_for(&["a"]))
    };
    subject.commit_all(vec![commit]).await;
    let row = subject.get(claim.id).await;
    assert_eq!((row.status, row.cancel), (Status::AwaitingSignal, None));
    // The outcome does not answer a later cancel.
    subject.cancel(claim.id).await;
    assert!(!is_answered(subject, claim.id).await);
}

/// Each outcome of a batch meets only the cancel of its instance.
pub async fn a_batch_may_mix_answers_and_outcomes_with_a_pending_cancel(subject: &Subject) {
    let worker = subject.worker().await;
    let ids = subject.insert_all(tasks(4)).await;
    subject.cancel(ids[0]).await;
    subject.cancel(ids[1]).await;
    let claims = subject.claim(worker, 4).await;
    subject.cancel(ids[2]).await;
    let waits = |claim: &Claim| commit_of(claim, wait_for(&["x"]));
    let mut commits: Vec<Commit> = claims.iter().map(waits).collect();
    commits[1].outcome = Outcome::Retry {
        state: json("{}"),
        delay: seconds(5),
        error: None,
    };
    subject.commit_all(commits).await;
    let mut rows: Vec<Instance> = Vec::new();
    for id in ids {
        rows.push(subject.get(id).await);
    }
    let cancel_state = |row: &Instance| (row.status, row.cancel.as_ref().map(|it| it.answered));
    let expected = [
        (Status::AwaitingSignal, Some(true)),
        (Status::Runnable, Some(false)),
        (Status::Runnable, Some(false)),
        (Status::AwaitingSignal, None),
    ];
    assert_eq!(rows.iter().map(cancel_state).collect::<Vec<_>>(), expected);
    assert_eq!(rows[1].eligible_at, subject.now() + seconds(5));
}
