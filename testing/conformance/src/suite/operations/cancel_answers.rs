//! Answers to a cancel: how an outcome meets a pending cancel, and how it answers one.
//!
//! An outcome that does not answer the cancel starts nothing new. The answer itself may.

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{Answer, Claim, Commit, Instance, InstanceId, Outcome, Status, WorkerId};

/// Makes a worker, and the claim of a step that is cancelled while it runs.
async fn interrupted(subject: &Subject) -> (WorkerId, Claim) {
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
    cancel.expect("it was asked to end").answered
}

/// I2, I13: an instance with a pending cancel never parks.
pub async fn a_step_that_would_wait_comes_to_its_answer_at_once(subject: &Subject) {
    let (worker, claim) = interrupted(subject).await;
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
pub async fn a_step_that_would_fan_out_starts_nobody(subject: &Subject) {
    let (worker, claim) = interrupted(subject).await;
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

pub async fn a_step_that_would_try_again_later_comes_to_its_answer_at_once(subject: &Subject) {
    let (worker, claim) = interrupted(subject).await;
    subject.pass(seconds(1));
    subject.commit(&claim, again(seconds(900))).await;
    let row = subject.get(claim.id).await;
    assert_eq!((row.eligible_at, row.attempt), (subject.now(), 1));
    let claim = subject.claim_the(worker, claim.id).await;
    assert!(claim.is_to_answer_cancel());
}

pub async fn a_step_that_goes_on_comes_to_its_answer_next(subject: &Subject) {
    let (worker, claim) = interrupted(subject).await;
    let status = subject.commit(&claim, requeue("b")).await;
    assert_eq!(status, Status::Runnable);
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!(claim.step, "b");
    assert!(claim.is_to_answer_cancel());
}

pub async fn a_step_that_ends_has_ended_as_it_said(subject: &Subject) {
    let ends = [
        (done(), Status::Done),
        (stop(), Status::Failed),
        (cancel(), Status::Cancelled),
    ];
    for (outcome, status) in ends {
        let (_, claim) = interrupted(subject).await;
        assert_eq!(subject.commit(&claim, outcome).await, status);
        assert!(!is_answered(subject, claim.id).await, "nobody has");
    }
}

pub async fn every_outcome_but_a_retry_answers(subject: &Subject) {
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

pub async fn an_answer_that_is_tried_again_answers_nothing_yet(subject: &Subject) {
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
pub async fn what_was_decided_runs_like_anything(subject: &Subject) {
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

pub async fn an_answer_of_a_stale_claim_answers_nothing(subject: &Subject) {
    let (worker, claim) = answering(subject).await;
    subject.release(&claim, seconds(0)).await;
    subject.claim_the(worker, claim.id).await;
    let row = subject.get(claim.id).await;
    assert_eq!(subject.try_commit(&claim, cancel()).await, Answer::Lost);
    subject.assert_unchanged(&row).await;
}

pub async fn an_answer_that_cannot_be_stored_answers_nothing(subject: &Subject) {
    let (_, claim) = answering(subject).await;
    let row = subject.get(claim.id).await;
    let answer = subject.try_commit(&claim, requeue("")).await;
    assert!(matches!(answer, Answer::Rejected(_)), "{answer:?}");
    subject.assert_unchanged(&row).await;
}

pub async fn an_answer_to_nothing_is_an_outcome_like_any(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let commit = Commit {
        answers_cancel: true,
        ..commit_of(&claim, wait_for(&["a"]))
    };
    subject.commit_all(vec![commit]).await;
    let row = subject.get(claim.id).await;
    assert_eq!((row.status, row.cancel), (Status::AwaitingSignal, None));
    // And it does not answer a later cancel.
    subject.cancel(claim.id).await;
    assert!(!is_answered(subject, claim.id).await);
}

/// Each outcome of a batch meets only the cancel of its instance.
pub async fn a_batch_may_mix_answers_and_interrupted_steps(subject: &Subject) {
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
    let stands = |row: &Instance| (row.status, row.cancel.as_ref().map(|it| it.answered));
    let expected = [
        (Status::AwaitingSignal, Some(true)),
        (Status::Runnable, Some(false)),
        (Status::Runnable, Some(false)),
        (Status::AwaitingSignal, None),
    ];
    assert_eq!(rows.iter().map(stands).collect::<Vec<_>>(), expected);
    assert_eq!(rows[1].eligible_at, subject.now() + seconds(5));
}
