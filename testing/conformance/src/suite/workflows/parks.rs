//! Parks of workflows for signals, a deadline and children at once, and how a cancel meets them.

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{
    Answer, CancelAnswer, CancelRequest, Claim, Commit, Due, EventKind, HistoryPosition, Instance,
    InstanceId, Joined, Outcome, Park, SignalOrInsert, Status, TerminateAnswer, WorkerId,
};

/// Makes a worker and a new workflow that parks like this.
async fn parked(subject: &Subject, until: Park) -> (WorkerId, InstanceId) {
    let (worker, claim) = subject.running(task()).await;
    let expected = match until.names.is_empty() {
        true => Status::Sleeping,
        false => Status::AwaitingSignal,
    };
    let status = subject.commit(&claim, park(until)).await;
    assert_eq!(status, expected);
    (worker, claim.id)
}

/// Fires deadlines and returns the woken instances.
async fn fired(subject: &Subject) -> Vec<InstanceId> {
    subject.store.fire(100).await.unwrap().woken_instances
}

pub async fn a_workflow_that_parks_for_a_signal_stays_at_its_step(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    subject.pass(seconds(1));
    let before = subject.get(claim.id).await;
    let outcome = park(for_signals(&["go", "stop"]));
    assert_eq!(
        subject.commit(&claim, outcome).await,
        Status::AwaitingSignal
    );
    let expected = Instance {
        status: Status::AwaitingSignal,
        revision: claim.revision.next(),
        locked_by: None,
        awaits: Some(vec!["go".into(), "stop".into()]),
        eligible_at: subject.now(),
        updated_at: subject.now(),
        ..before
    };
    assert_eq!(subject.get(claim.id).await, expected);
    let (_, woke) = subject.arrives(signal(claim.id, "other")).await;
    assert!(!woke);
    let (_, woke) = subject.arrives(signal(claim.id, "stop")).await;
    assert!(woke);
    let again = subject.claim_the(worker, claim.id).await;
    assert_eq!(names_of(again.awaited()), ["stop"]);
    assert_eq!(names_of(&again.inbox), ["other", "stop"]);
    assert_eq!(again.entered, claim.entered);
}

/// I2 and defect 2 (docs/protocol.md).
pub async fn a_signal_in_the_inbox_keeps_the_workflow_from_parking(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    subject.arrives(signal(claim.id, "go")).await;
    subject.pass(seconds(1));
    let until = Park {
        deadline: for_time(5).deadline,
        ..for_signals(&["go"])
    };
    let committed = subject.commit_all(vec![commit_of(&claim, park(until))]);
    assert!(committed.await.woken.contains(QUEUE));
    let row = subject.get(claim.id).await;
    assert_eq!((row.status, row.await_deadline), (Status::Runnable, None));
    assert_eq!(row.eligible_at, subject.now());
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!(names_of(claim.awaited()), ["go"]);
}

/// Defect 11 (docs/protocol.md): received signals are consumed before the check.
pub async fn a_consumed_signal_does_not_wake_the_workflow_again(subject: &Subject) {
    let (worker, id) = parked(subject, for_signals(&["go"])).await;
    subject.arrives(signal(id, "go")).await;
    let claim = subject.claim_the(worker, id).await;
    let again = subject.commit(&claim, park(for_signals(&["go"]))).await;
    assert_eq!(again, Status::AwaitingSignal);
    assert_eq!(subject.inbox(id).await, [""; 0]);
    subject.arrives(signal(id, "go")).await;
    subject.arrives(signal(id, "go")).await;
    let claim = subject.claim_the(worker, id).await;
    let some = Commit {
        received: claim.awaited().map(|it| it.id).take(1).collect(),
        ..commit_of(&claim, park(for_signals(&["go"])))
    };
    subject.commit_all(vec![some]).await;
    assert_eq!(
        subject.status(id).await,
        Status::Runnable,
        "one signal is left"
    );
}

pub async fn a_park_with_a_deadline_wakes_when_it_comes(subject: &Subject) {
    let at = subject.now() + seconds(7);
    let until_then = Park {
        deadline: Some(Due::At(at)),
        ..Park::default()
    };
    let (worker, id) = parked(subject, until_then).await;
    let (_, other) = parked(subject, for_time(7)).await;
    for id in [id, other] {
        let row = subject.get(id).await;
        assert_eq!((row.awaits, row.await_deadline), (None, Some(at)));
    }
    subject.pass(seconds(6));
    assert_eq!(fired(subject).await, []);
    let next = subject.store.fire(1).await.unwrap().next_due_in;
    assert_eq!(next, Some(seconds(1)));
    subject.pass(seconds(1));
    assert_eq!(fired(subject).await, [id, other]);
    let claim = subject.claim_the(worker, id).await;
    assert_eq!((claim.joined, claim.attempt), (None, 0));
}

pub async fn a_park_with_a_passed_deadline_wakes_at_once(subject: &Subject) {
    subject.pass(seconds(60));
    let past = Park {
        deadline: Some(Due::At(subject.now() - seconds(30))),
        ..Park::default()
    };
    let (worker, id) = parked(subject, past).await;
    let deadline = subject.get(id).await.await_deadline;
    assert_eq!(deadline, Some(subject.now() - seconds(30)));
    assert_eq!(fired(subject).await, [id]);
    subject.claim_the(worker, id).await;
}

pub async fn a_park_stores_its_signals_its_deadline_and_its_join_set(subject: &Subject) {
    let until = for_anything(for_ends(&[1], &[], 2));
    let (_, id, _) = subject.awaiting(tasks(2), until).await;
    let row = subject.get(id).await;
    assert_eq!(row.awaits, Some(vec!["go".into()]));
    assert_eq!(row.await_deadline, Some(subject.now() + seconds(10)));
    let sets = Some(vec![joining(&[1], 2)]);
    assert_eq!((row.joining, row.children_pending), (sets, 2));
}

/// Later signals, finished children and the deadline do not wake the workflow again.
pub async fn a_signal_wakes_a_workflow_that_waits_for_children(subject: &Subject) {
    let until = for_anything(for_ends(&[1], &[], 2));
    let (worker, id, children) = subject.awaiting(tasks(2), until).await;
    let (_, woke) = subject.arrives(signal(id, "other")).await;
    assert!(!woke, "the park does not name this signal");
    subject.pass(seconds(1));
    let (_, woke) = subject.arrives(signal(id, "go")).await;
    assert!(woke);
    let woken = subject.get(id).await;
    assert_eq!(woken.status, Status::Runnable);
    assert_eq!((joined(&woken), woken.await_deadline), (None, None));
    assert_eq!(woken.eligible_at, subject.now());
    let (_, woke) = subject.arrives(signal(id, "go")).await;
    assert!(!woke);
    subject.commit(&children[0], stop()).await;
    subject.pass(seconds(20));
    assert_eq!(fired(subject).await, []);
    subject.assert_unchanged(&woken).await;
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(names_of(claim.awaited()), ["go", "go"]);
    assert_eq!((claim.joined, claim.first_failure), (None, None));
    assert_eq!(subject.claim_ids(worker, 9).await, []);
}

pub async fn a_deadline_wakes_a_workflow_that_waits_for_children(subject: &Subject) {
    let until = for_anything(for_ends(&[1], &[], 2));
    let (worker, id, children) = subject.awaiting(tasks(2), until).await;
    subject.pass(seconds(10));
    let fired = subject.store.fire(9).await.unwrap();
    assert_eq!(fired.woken_instances, [id]);
    assert!(!fired.cascades, "the children go on");
    let woken = subject.get(id).await;
    assert_eq!(joined(&woken), Some(Joined::Deadline));
    assert_eq!(
        (woken.status, woken.await_deadline),
        (Status::Runnable, None)
    );
    let (_, woke) = subject.arrives(signal(id, "go")).await;
    assert!(!woke);
    subject.finish_all(&children).await;
    subject.assert_unchanged(&woken).await;
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(claim.joined, Some(Joined::Deadline));
}

pub async fn a_finished_child_wakes_a_workflow_that_also_waits_for_a_signal(subject: &Subject) {
    let until = for_anything(for_ends(&[1], &[], 1));
    let (worker, id, children) = subject.awaiting(tasks(2), until).await;
    subject.commit(&children[0], done()).await;
    let woken = subject.get(id).await;
    assert_eq!(joined(&woken), Some(Joined::All));
    assert_eq!(
        (woken.status, woken.await_deadline),
        (Status::Runnable, None)
    );
    assert_eq!(
        woken.awaits,
        Some(vec!["go".into()]),
        "a wake keeps the names"
    );
    let (_, woke) = subject.arrives(signal(id, "go")).await;
    assert!(!woke);
    subject.pass(seconds(20));
    assert_eq!(fired(subject).await, []);
    subject.assert_unchanged(&woken).await;
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(names_of(claim.awaited()), ["go"]);
    subject.commit(&children[1], done()).await;
    assert_eq!(subject.claim_ids(worker, 9).await, []);
}

pub async fn a_machine_that_waits_for_children_is_not_woken_by_signals(subject: &Subject) {
    let (worker, id) = subject.parked(&["go"]).await;
    subject.arrives(signal(id, "go")).await;
    let claim = subject.claim_the(worker, id).await;
    subject.commit(&claim, fan_out(tasks(1))).await;
    let (_, woke) = subject.arrives(signal(id, "go")).await;
    assert!(!woke);
    assert_eq!(subject.status(id).await, Status::AwaitingChildren);
}

pub async fn a_signal_or_insert_wakes_a_workflow_that_waits_for_children(subject: &Subject) {
    let (_, claim) = subject.running(task().correlation_key("k")).await;
    let until = for_anything(for_ends(&[1], &[], 1));
    subject
        .commit(&claim, start_and_park(tasks(1), until))
        .await;
    let request = SignalOrInsert {
        row: task().correlation_key("k"),
        name: "go".into(),
        payload: json("1"),
        dedup_key: None,
    };
    let answer = subject.store.signal_or_insert(request).await.unwrap();
    assert_eq!(answer.inserted, None);
    assert!(answer.woken.contains(QUEUE));
    assert_eq!(subject.status(claim.id).await, Status::Runnable);
}

/// A workflow that has started children is only woken, not claimed.
pub async fn a_delivery_claims_a_workflow_that_has_started_no_children(subject: &Subject) {
    let (worker, id) = parked(subject, for_signals(&["go"])).await;
    let delivered = subject.deliver_for(worker, vec![signal(id, "go")]).await;
    assert_eq!(ids_of(&delivered.claims), [id]);
    let claim = &delivered.claims[0];
    assert_eq!(names_of(claim.awaited()), ["go"]);
    subject.commit(claim, done()).await;
    let until = for_anything(for_ends(&[1], &[], 1));
    let (worker, id, _) = subject.awaiting(tasks(1), until).await;
    let delivered = subject.deliver_for(worker, vec![signal(id, "go")]).await;
    assert_eq!(delivered.claims, []);
    assert!(delivered.woken.contains(QUEUE));
    subject.claim_the(worker, id).await;
}

pub async fn a_cancel_wakes_a_parked_workflow(subject: &Subject) {
    let (worker, id) = parked(subject, for_signals(&["go"])).await;
    let answer = subject.cancel(id).await;
    assert_eq!(answer, CancelAnswer::Requested(Status::AwaitingSignal));
    let claim = subject.claim_the(worker, id).await;
    assert!(claim.is_to_answer_cancel());
    subject.commit(&claim, cancel()).await;
    let until = for_anything(for_ends(&[1], &[], 1));
    let (worker, id, children) = subject.awaiting(tasks(1), until).await;
    let answer = subject.cancel(id).await;
    assert_eq!(answer, CancelAnswer::Requested(Status::AwaitingChildren));
    let row = subject.get(id).await;
    assert_eq!((row.status, row.await_deadline), (Status::Runnable, None));
    assert_eq!(joined(&row), None, "a cancel does not decide a join");
    subject.commit(&children[0], done()).await;
    subject.assert_unchanged(&row).await;
    let claim = subject.claim_the(worker, id).await;
    assert!(claim.is_to_answer_cancel());
}

/// Makes a running workflow that received a signal and is cancelled while it runs.
async fn cancelled_while_running(subject: &Subject) -> (WorkerId, Claim, CancelRequest) {
    let (worker, id) = parked(subject, for_signals(&["go"])).await;
    subject.arrives(signal(id, "go")).await;
    let claim = subject.claim_the(worker, id).await;
    subject.cancel(id).await;
    let requested = subject.get(id).await.cancel.unwrap();
    (worker, claim, requested)
}

pub async fn a_workflow_that_would_park_or_start_children_gets_the_cancel_instead(
    subject: &Subject,
) {
    let (_, claim, requested) = cancelled_while_running(subject).await;
    let before = subject.get(claim.id).await;
    subject.pass(seconds(1));
    let outcomes: [Outcome; 5] = [
        park(for_signals(&["go"])),
        park(for_time(1)),
        start(tasks(2)),
        start_and_park(tasks(2), for_ends(&[1], &[], 2)),
        flow(
            tasks(1),
            outlast_core::Flowing::Proceed(outlast_core::Proceed::Requeue),
        ),
    ];
    for outcome in outcomes {
        let consumed = vec![event(EventKind::SignalConsumed, "go")];
        let commits = vec![commit_with(&claim, outcome, consumed)];
        let committed = subject.commit_all(commits).await;
        assert_eq!(committed.answers, [Answer::Cancel(requested.clone())]);
        subject.assert_unchanged(&before).await;
    }
    assert_eq!(subject.history(claim.id, 1).await, []);
    assert_eq!(
        subject.inbox(claim.id).await,
        ["go"],
        "no signal is consumed"
    );
    let count = subject.store.count(Default::default()).await.unwrap();
    assert_eq!(
        count,
        outlast_core::Count::Exactly(1),
        "no child was started"
    );
    // The claim is still valid.
    subject.commit(&claim, flow_on()).await;
    assert_eq!(subject.inbox(claim.id).await, [""; 0]);
}

pub async fn a_workflow_that_goes_on_is_committed_despite_a_cancel(subject: &Subject) {
    let (worker, claim, requested) = cancelled_while_running(subject).await;
    let answer = subject
        .try_commit_events(&claim, flow_on(), events(1))
        .await;
    let expected = Answer::Committed {
        revision: claim.revision.next(),
        status: Status::Executing,
        cancel: Some(requested),
        latest_signal: None,
        at: subject.now(),
    };
    assert_eq!(answer, expected);
    let claim = kept(&claim);
    let answer = subject.try_commit(&claim, flow_requeue()).await;
    let revision = claim.revision.next();
    assert_eq!(answer, subject.committed(revision, Status::Runnable));
    let claim = subject.claim_the(worker, claim.id).await;
    assert!(claim.is_to_answer_cancel());
    assert_eq!(claim.events, 1);
}

pub async fn a_workflow_outcome_that_answers_a_cancel_is_applied_in_full(subject: &Subject) {
    let until = for_ends(&[1], &[], 1);
    let outcomes = [
        (park(for_signals(&["go"])), Status::AwaitingSignal),
        (start(tasks(1)), Status::Executing),
        (start_and_park(tasks(1), until), Status::AwaitingChildren),
        (flow_on(), Status::Executing),
        (flow_requeue(), Status::Runnable),
    ];
    for (outcome, status) in outcomes {
        let (_, mut claim, requested) = cancelled_while_running(subject).await;
        claim.cancel = Some(requested);
        let answer = subject.try_commit(&claim, outcome).await;
        let revision = claim.revision.next();
        assert_eq!(answer, subject.committed(revision, status));
        assert!(subject.get(claim.id).await.cancel.unwrap().answered);
        subject.terminate(claim.id).await;
        for child in subject.child_ids(claim.id, 1).await {
            subject.terminate(child).await;
        }
    }
}

/// The history position that the commit expects does not matter.
pub async fn a_workflow_that_answers_a_cancel_does_not_get_it_again(subject: &Subject) {
    let (_, mut claim, requested) = cancelled_while_running(subject).await;
    claim.cancel = Some(requested);
    let position = HistoryPosition { run: 1, events: 7 };
    for _ in 0..2 {
        let commit = Commit {
            position: Some(position),
            ..commit_with(&claim, flow_on(), events(1))
        };
        let answers = subject.commit_all(vec![commit]).await.answers;
        let revision = claim.revision.next();
        assert_eq!(answers, [subject.committed(revision, Status::Executing)]);
        claim = kept(&claim);
    }
    assert_eq!(subject.get(claim.id).await.events, 2);
}

/// The outcome after the answer is applied in full.
pub async fn a_workflow_parks_as_usual_after_it_answered_a_cancel(subject: &Subject) {
    let (worker, mut claim, requested) = cancelled_while_running(subject).await;
    claim.cancel = Some(requested);
    subject.commit(&claim, flow_requeue()).await;
    let claim = subject.claim_the(worker, claim.id).await;
    assert!(!claim.is_to_answer_cancel());
    let outcome = start_and_park(tasks(1), for_ends(&[1], &[], 1));
    let status = subject.commit(&claim, outcome).await;
    assert_eq!(status, Status::AwaitingChildren);
}

pub async fn a_cancel_concerns_only_its_own_outcome_of_a_batch(subject: &Subject) {
    let worker = subject.worker().await;
    subject.insert_all(tasks(3)).await;
    let claims = subject.claim(worker, 3).await;
    subject.cancel(claims[1].id).await;
    let requested = subject.get(claims[1].id).await.cancel.unwrap();
    let until = park(for_signals(&["go"]));
    let mut commits: Vec<Commit> = claims
        .iter()
        .map(|claim| commit_with(claim, until.clone(), events(1)))
        .collect();
    commits.push(commit_with(&claims[1], flow_on(), events(1)));
    let answers = subject.commit_all(commits).await.answers;
    let parked = |claim: &Claim| {
        let revision = claim.revision.next();
        subject.committed(revision, Status::AwaitingSignal)
    };
    let expected = [
        parked(&claims[0]),
        Answer::Cancel(requested),
        parked(&claims[2]),
        Answer::Lost,
    ];
    assert_eq!(answers, expected);
    assert_eq!(subject.get(claims[1].id).await.events, 0);
    assert_eq!(subject.get(claims[2].id).await.events, 1);
    subject.commit(&claims[1], flow_on()).await;
}

/// A stale claim is lost, and its answer carries no cancel.
pub async fn a_lost_workflow_outcome_gets_no_pending_cancel(subject: &Subject) {
    let (_, claim, _) = cancelled_while_running(subject).await;
    subject.commit(&claim, flow_on()).await;
    let answer = subject.try_commit(&claim, park(for_time(1))).await;
    assert_eq!(answer, Answer::Lost);
    let bad = subject
        .try_commit(&kept(&claim), park(Park::default()))
        .await;
    assert!(matches!(bad, Answer::Rejected(_)), "{bad:?}");
}

pub async fn a_parked_workflow_can_be_terminated(subject: &Subject) {
    let until = for_anything(for_ends(&[1], &[], 1));
    let (_, id, children) = subject.awaiting(tasks(1), until).await;
    let answer = subject.terminate(id).await;
    assert_eq!(
        answer,
        TerminateAnswer::Terminated(Status::AwaitingChildren)
    );
    let row = subject.get(id).await;
    assert_eq!((row.awaits.clone(), row.await_deadline), (None, None));
    subject.commit(&children[0], done()).await;
    subject.pass(seconds(60));
    assert_eq!(fired(subject).await, []);
    subject.assert_unchanged(&row).await;
    subject.store.retry(vec![id], note()).await.unwrap();
    let again = subject.get(id).await;
    assert_eq!(again.status, Status::Runnable);
    assert_eq!((again.run, again.joining), (row.run, row.joining));
}
