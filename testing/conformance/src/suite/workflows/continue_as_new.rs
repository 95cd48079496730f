//! Continue-as-new: the instance starts another run, and keeps its signals, children and keys.

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{
    Answer, Claim, ClosePolicy, Commit, Instance, InstanceId, Outcome, Status, limits,
};

async fn runs_kept(subject: &Subject, id: InstanceId) -> Vec<i32> {
    let runs = subject.runs(id).await.into_iter();
    runs.map(|run| run.run).collect()
}

pub async fn continue_as_new_begins_a_run_with_an_empty_history(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    subject.commit_events(&claim, flow_on(), events(2)).await;
    subject.pass(seconds(1));
    let before = subject.get(claim.id).await;
    let commits = vec![commit_with(&kept(&claim), renew(), events(1))];
    let committed = subject.commit_all(commits).await;
    assert!(committed.woken.contains(QUEUE));
    let revision = before.revision.next();
    let expected = Instance {
        state: json(r#"{"at":"renewed"}"#),
        status: Status::Runnable,
        revision,
        entered: revision,
        eligible_at: subject.now(),
        locked_by: None,
        run: 2,
        events: 0,
        updated_at: subject.now(),
        ..before
    };
    assert_eq!(subject.get(claim.id).await, expected);
    assert_eq!(subject.event_names(claim.id, 1).await, ["e0", "e1", "e0"]);
    assert_eq!(subject.history(claim.id, 2).await, []);
    assert_eq!(runs_kept(subject, claim.id).await, [1]);
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!((claim.run, claim.events), (2, 0));
    assert_eq!(claim.entered, revision);
    subject.commit_events(&claim, flow_on(), events(1)).await;
    assert_eq!(subject.history(claim.id, 2).await[0].seq, 1);
}

pub async fn continue_as_new_resets_attempts_crashes_and_the_last_error(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    let outcome = Outcome::Retry {
        state: json("1"),
        delay: seconds(0),
        error: Some("not yet".into()),
    };
    subject.commit(&claim, outcome).await;
    subject.claim_the(worker, claim.id).await;
    subject.pass(LEASE);
    subject.reap().await;
    let worker = subject.worker().await;
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!((claim.attempt, claim.crashes), (2, 1));
    subject.commit(&claim, renew()).await;
    let row = subject.get(claim.id).await;
    assert_eq!((row.attempt, row.crashes), (0, 0));
    assert_eq!((row.last_error, row.step), (None, claim.step));
}

pub async fn the_histories_of_the_last_runs_are_kept(subject: &Subject) {
    let (worker, mut claim) = subject.running(task()).await;
    for run in 1..=limits::RUNS_KEPT + 3 {
        assert_eq!(claim.run, run);
        // One run has no events.
        let added = events(usize::from(run != 7));
        subject.commit_events(&claim, renew(), added).await;
        let oldest = (run + 1 - limits::RUNS_KEPT + 1).max(1);
        let expected: Vec<i32> = (oldest..=run).filter(|run| *run != 7).collect();
        assert_eq!(runs_kept(subject, claim.id).await, expected);
        claim = subject.claim_the(worker, claim.id).await;
    }
    assert_eq!(subject.history(claim.id, 1).await, []);
    let other = subject.insert(task()).await;
    let others = subject.claim_the(worker, other).await;
    subject.commit_events(&others, flow_on(), events(1)).await;
    subject.commit_events(&claim, renew(), events(1)).await;
    assert_eq!(
        runs_kept(subject, other).await,
        [1],
        "runs of another instance stay"
    );
}

pub async fn continue_as_new_consumes_received_signals_and_keeps_the_others(subject: &Subject) {
    let (worker, id) = subject.parked(&["a"]).await;
    subject.arrives(signal(id, "a")).await;
    subject.arrives(signal(id, "b")).await;
    let claim = subject.claim_the(worker, id).await;
    subject.arrives(signal(id, "a")).await;
    subject.commit(&claim, renew()).await;
    assert_eq!(subject.inbox(id).await, ["b", "a"]);
    let row = subject.get(id).await;
    assert_eq!((row.awaits, row.await_deadline), (None, None));
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(names_of(&claim.inbox), ["b", "a"]);
}

pub async fn continue_as_new_keeps_children_and_rounds(subject: &Subject) {
    let children = |n| {
        let strict = |it: outlast_core::NewInstance| it.on_parent_close(ClosePolicy::Terminate);
        tasks(n).into_iter().map(strict).collect()
    };
    let (worker, claim) = subject.flowing(children(2)).await;
    let before = subject.get(claim.id).await;
    let committed = subject.commit_all(vec![commit_of(&claim, renew())]).await;
    assert!(!committed.cascades, "no instance has ended");
    subject.assert_no_cascade_is_left().await;
    let row = subject.get(claim.id).await;
    assert_eq!((row.round, &row.joining), (1, &before.joining));
    assert_eq!(row.barrier, before.barrier);
    let claims = subject.claim(worker, 9).await;
    assert_eq!(claims.len(), 3);
    let claim = claims.iter().find(|it| it.id == row.id).unwrap();
    assert_eq!((claim.run, claim.round), (2, 1));
    // The next run continues the numbering of rounds, and may wait for earlier children.
    let first = subject.child_ids(row.id, 1).await;
    let until = for_ends(&[1, 2], &first, 3);
    subject
        .commit(claim, start_and_park(children(1), until))
        .await;
    let rounds = subject.store.rounds(row.id).await.unwrap();
    assert_eq!(rounds.len(), 2);
    let ended = claims.iter().filter(|it| it.id != row.id);
    let ended: Vec<Claim> = ended.cloned().collect();
    subject.finish_all(&ended).await;
    assert_eq!(subject.status(row.id).await, Status::AwaitingChildren);
    let last = subject.claim_one(worker).await;
    subject.commit(&last, done()).await;
    subject.claim_the(worker, row.id).await;
}

pub async fn a_child_that_continues_as_new_has_not_ended_for_its_parent(subject: &Subject) {
    let (worker, parent, claims) = subject.awaiting(tasks(1), for_ends(&[1], &[], 1)).await;
    subject.commit_events(&claims[0], renew(), events(1)).await;
    assert_eq!(subject.status(parent).await, Status::AwaitingChildren);
    let child = &subject.children(parent, 1).await[0];
    assert_eq!((child.run, child.status), (2, Status::Runnable));
    let claim = subject.claim_the(worker, child.id).await;
    assert_eq!(claim.parent, claims[0].parent);
    subject.commit(&claim, done()).await;
    subject.claim_the(worker, parent).await;
    // A machine also sees the run of its children.
    let (worker, _, claims) = subject.joining(tasks(1), until(Default::default())).await;
    subject.commit(&claims[0], renew()).await;
    let claim = subject.claim_the(worker, claims[0].id).await;
    subject.commit(&claim, done()).await;
    let joined = subject.claim_one(worker).await;
    assert_eq!(joined.children[0].run, 2);
}

pub async fn continue_as_new_keeps_the_correlation_key(subject: &Subject) {
    let (_, claim) = subject.running(task().correlation_key("k")).await;
    subject.commit(&claim, renew()).await;
    assert!(subject.get(claim.id).await.holds_key);
    let again = subject.try_insert(task().correlation_key("k")).await;
    assert_eq!(again.new_id(), None);
    let (id, _) = subject.arrives(signal_to_key("k", "go")).await;
    assert_eq!(subject.signals(claim.id).await[0].id, id);
}

/// I3.
pub async fn a_lost_continue_as_new_changes_nothing(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    subject.commit_events(&claim, flow_on(), events(1)).await;
    let before = subject.get(claim.id).await;
    let lost = subject.try_commit_events(&claim, renew(), events(1)).await;
    assert_eq!(lost, Answer::Lost);
    subject.assert_unchanged(&before).await;
    assert_eq!(subject.history(claim.id, 1).await.len(), 1);
    assert_eq!(subject.claim_ids(worker, 1).await, []);
}

pub async fn continue_as_new_answers_a_cancel_or_is_followed_by_its_answer(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    subject.cancel(claim.id).await;
    let status = subject.commit(&claim, renew()).await;
    assert_eq!(
        status,
        Status::Runnable,
        "the step did not know of the cancel"
    );
    let claim = subject.claim_the(worker, claim.id).await;
    assert!(claim.is_to_answer_cancel());
    subject.commit(&claim, renew()).await;
    let row = subject.get(claim.id).await;
    assert!(row.cancel.unwrap().answered);
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!((claim.run, claim.is_to_answer_cancel()), (3, false));
}

pub async fn continue_as_new_lets_the_next_row_of_its_partition_key_run(subject: &Subject) {
    let keyed = || task().partition_key("p");
    let (worker, claim) = subject.running(keyed()).await;
    let next = subject.insert(keyed()).await;
    assert_eq!(subject.claim_ids(worker, 9).await, []);
    subject.pass(seconds(1));
    let commit = Commit::of(&claim, renew());
    let committed = subject.commit_all(vec![commit]).await;
    assert!(committed.woken.contains(QUEUE));
    let other = subject.claim_the(worker, next).await;
    subject.commit(&other, done()).await;
    subject.claim_the(worker, claim.id).await;
    subject.assert_sound().await;
}
