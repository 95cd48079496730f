//! Signals that arrive while a claim is kept.

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{
    Answer, Claim, ClaimRef, Delivery, Extent, InstanceId, NewSignal, Outcome, Signal, SignalId,
    SignalOrInsert, Status,
};

/// Commits an outcome that keeps the claim. Returns the latest signal that it names.
async fn named(subject: &Subject, claim: &Claim, outcome: Outcome) -> Option<SignalId> {
    match subject.try_commit(claim, outcome).await {
        Answer::Committed {
            status: Status::Executing,
            latest_signal,
            ..
        } => latest_signal,
        answer @ (Answer::Committed { .. }
        | Answer::Cancel(_)
        | Answer::Lost
        | Answer::Rejected(_)) => panic!("the claim is not kept: {answer:?}"),
    }
}

async fn inbox_of(subject: &Subject, claim: ClaimRef) -> Option<Vec<Signal>> {
    subject.store.inbox(claim).await.unwrap()
}

pub async fn a_commit_that_keeps_its_claim_names_the_latest_signal_since_the_claim(
    subject: &Subject,
) {
    let (_, claim) = subject.running(task()).await;
    assert_eq!(named(subject, &claim, keep("a")).await, None);
    let claim = kept(&claim);
    let (first, _) = subject.arrives(signal(claim.id, "x")).await;
    assert_eq!(named(subject, &claim, keep("b")).await, Some(first));
    // The worker compares it with the signals that it has seen.
    let claim = kept(&claim);
    assert_eq!(named(subject, &claim, keep("c")).await, Some(first));
    let claim = kept(&claim);
    subject.arrives(signal(claim.id, "y")).await;
    let (last, _) = subject.arrives(signal(claim.id, "x")).await;
    assert_eq!(named(subject, &claim, keep("d")).await, Some(last));
}

pub async fn the_inbox_of_a_kept_claim_has_the_signals_that_its_commit_names(subject: &Subject) {
    let (worker, id) = subject.parked(&["go"]).await;
    subject.arrives(signal(id, "other")).await;
    subject.arrives(signal(id, "go")).await;
    let claim = subject.claim_the(worker, id).await;
    let late = signal(id, "late").dedup_key("evt-7");
    let (late, _) = subject.arrives(late).await;
    assert_eq!(named(subject, &claim, keep("a")).await, Some(late));
    let claim = kept(&claim);
    let inbox = inbox_of(subject, claim.reference()).await.unwrap();
    assert_eq!(names_of(&inbox), ["other", "late"], "what was not consumed");
    let newest = &inbox[1];
    assert_eq!((newest.id, newest.inserted_at), (late, subject.now()));
    assert_eq!(newest.payload, json(r#"{"v":1}"#));
    assert_eq!(newest.dedup_key.as_deref(), Some("evt-7"));
}

/// A new claim has every earlier signal in its inbox.
pub async fn a_claim_is_told_only_of_signals_that_come_after_it(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    subject.arrives(signal(claim.id, "x")).await;
    subject.commit(&claim, requeue("a")).await;
    subject.arrives(signal(claim.id, "x")).await;
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!(claim.inbox.len(), 2);
    assert_eq!(named(subject, &claim, keep("b")).await, None);
    // Neither does a claim that a delivery makes.
    let claim = kept(&claim);
    subject.arrives(signal(claim.id, "x")).await;
    let status = subject.commit(&claim, wait_for(&["go"])).await;
    assert_eq!(status, Status::AwaitingSignal);
    let delivered = subject.deliver_for(worker, vec![signal(claim.id, "go")]);
    let claim = delivered.await.claims.remove(0);
    assert_eq!(claim.inbox.len(), 4);
    assert_eq!(named(subject, &claim, keep("c")).await, None);
}

/// Its claim is read after the last signal of the batch.
pub async fn a_claim_at_delivery_is_not_told_of_signals_of_its_batch(subject: &Subject) {
    let (worker, id) = subject.parked(&["go"]).await;
    let (_, other) = subject.running(task().correlation_key("k")).await;
    // A dedup key by id and then by key: PostgreSQL sends the rest as another statement.
    let signals = vec![
        signal(id, "go").dedup_key("evt-7"),
        signal_to_key("k", "x").dedup_key("evt-7"),
        signal(id, "late"),
    ];
    let mut delivered = subject.deliver_for(worker, signals).await;
    let claim = delivered.claims.remove(0);
    assert_eq!(names_of(&claim.inbox), ["go", "late"]);
    assert_eq!(named(subject, &claim, keep("a")).await, None);
    let named_to_other = named(subject, &other, keep("a")).await;
    assert!(named_to_other.is_some(), "this one was claimed before");
}

pub async fn every_way_to_signal_a_running_step_is_noted(subject: &Subject) {
    let row = task().correlation_key("k");
    let (_, claim) = subject.running(row.clone()).await;
    let (by_key, _) = subject.arrives(signal_to_key("k", "x")).await;
    assert_eq!(named(subject, &claim, keep("a")).await, Some(by_key));
    let claim = kept(&claim);
    let request = SignalOrInsert {
        row,
        name: "x".into(),
        payload: json("1"),
        dedup_key: None,
    };
    let answer = subject.store.signal_or_insert(request).await.unwrap();
    assert_eq!(answer.inserted, None);
    let Delivery::Delivered { id, .. } = answer.delivery else {
        panic!("{answer:?}");
    };
    assert_eq!(named(subject, &claim, keep("b")).await, Some(id));
    // A batch with two statements, a duplicate, and signals for two running steps.
    let claim = kept(&claim);
    let (_, other) = subject.running(task()).await;
    let signals: Vec<NewSignal> = vec![
        signal(claim.id, "x").dedup_key("evt-1"),
        signal(other.id, "x"),
        signal_to_key("k", "y").dedup_key("evt-1"),
        signal(claim.id, "y"),
        signal(other.id, "y"),
        signal(claim.id, "z").dedup_key("evt-1"),
    ];
    let delivered = subject.store.deliver(signals, None).await.unwrap();
    let id_of = |nth: usize| match delivered.answers[nth] {
        Delivery::Delivered { id, .. } => Some(id),
        answer @ (Delivery::Duplicate { .. } | Delivery::NoTarget | Delivery::InboxFull { .. }) => {
            panic!("{answer:?}")
        }
    };
    assert_eq!(named(subject, &claim, keep("c")).await, id_of(3));
    assert_eq!(named(subject, &other, keep("c")).await, id_of(4));
}

/// The worker does not lose its claim, and nobody sees a change of the row.
pub async fn a_signal_to_a_running_step_does_not_change_its_instance(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let before = subject.get(claim.id).await;
    subject.pass(seconds(3));
    let (_, woke) = subject.arrives(signal(claim.id, "x")).await;
    assert!(!woke);
    subject.assert_unchanged(&before).await;
}

pub async fn a_workflow_that_keeps_its_claim_is_told_of_signals(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    assert_eq!(named(subject, &claim, flow_on()).await, None);
    let claim = kept(&claim);
    let (first, _) = subject.arrives(signal(claim.id, "x")).await;
    assert_eq!(named(subject, &claim, flow_on()).await, Some(first));
    let claim = kept(&claim);
    let (second, _) = subject.arrives(signal(claim.id, "x")).await;
    let starting = named(subject, &claim, start(vec![task()])).await;
    assert_eq!(starting, Some(second));
    // What it received is consumed and not read again.
    let claim = kept(&claim);
    let mut commit = commit_with(&claim, flow_on(), events(1));
    commit.received = vec![first];
    subject.commit_all(vec![commit]).await;
    let inbox = inbox_of(subject, kept(&claim).reference()).await.unwrap();
    let ids: Vec<SignalId> = inbox.iter().map(|signal| signal.id).collect();
    assert_eq!(ids, [second]);
}

/// An answer to a cancel is written by another path of each store.
pub async fn a_commit_with_a_cancel_names_the_latest_signal_too(subject: &Subject) {
    for outcome in [keep("a"), flow_on()] {
        let (_, claim) = subject.running(task()).await;
        let (first, _) = subject.arrives(signal(claim.id, "x")).await;
        let ids = vec![claim.id];
        let cancelled = subject.store.cancel(ids, Extent::One, note());
        cancelled.await.unwrap();
        let answer = subject.try_commit(&claim, outcome.clone()).await;
        let Answer::Committed {
            cancel: Some(cancel),
            latest_signal,
            ..
        } = answer
        else {
            panic!("{answer:?}");
        };
        assert_eq!(latest_signal, Some(first));
        let claim = Claim {
            cancel: Some(cancel),
            ..kept(&claim)
        };
        assert!(claim.is_to_answer_cancel());
        let (second, _) = subject.arrives(signal(claim.id, "x")).await;
        assert_eq!(named(subject, &claim, outcome).await, Some(second));
        let row = subject.get(claim.id).await;
        assert!(row.cancel.is_some_and(|cancel| cancel.answered));
    }
}

pub async fn an_outcome_that_gives_up_its_claim_names_no_signal(subject: &Subject) {
    for outcome in [
        requeue("a"),
        again(seconds(0)),
        wait_for(&["go"]),
        fan_out(vec![]),
        flow_requeue(),
        park(for_signals(&["go"])),
        renew(),
        done(),
        stop(),
        cancel(),
    ] {
        let (_, claim) = subject.running(task()).await;
        subject.arrives(signal(claim.id, "x")).await;
        let answer = subject.try_commit(&claim, outcome).await;
        let Answer::Committed { latest_signal, .. } = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(latest_signal, None);
        let ids = vec![claim.id];
        let ended = subject.store.terminate(ids, Extent::One, note());
        ended.await.unwrap();
    }
}

/// The next worker may have consumed a part of the inbox.
pub async fn the_inbox_of_a_lost_claim_is_not_read(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    subject.arrives(signal(claim.id, "x")).await;
    let held = inbox_of(subject, claim.reference()).await.unwrap();
    assert_eq!(names_of(&held), ["x"]);
    let later = kept(&claim).reference();
    assert_eq!(inbox_of(subject, later).await, None, "not claimed yet");
    subject.pass(LEASE + seconds(1));
    subject.reap().await;
    assert_eq!(inbox_of(subject, claim.reference()).await, None);
    assert_eq!(inbox_of(subject, later).await, None, "runnable");
    let unknown = ClaimRef {
        id: InstanceId(987_654),
        ..later
    };
    assert_eq!(inbox_of(subject, unknown).await, None);
    assert!(subject.claims_of(worker).await.is_empty());
}

pub async fn reading_an_inbox_changes_nothing(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    let (id, _) = subject.arrives(signal(claim.id, "x")).await;
    let before = subject.get(claim.id).await;
    let first = inbox_of(subject, claim.reference()).await;
    assert_eq!(inbox_of(subject, claim.reference()).await, first);
    subject.assert_unchanged(&before).await;
    assert_eq!(subject.claims_of(worker).await, [claim.reference()]);
    // Reading is not consuming: the next commit names the signal again.
    assert_eq!(named(subject, &claim, keep("a")).await, Some(id));
    assert_eq!(subject.inbox(claim.id).await, ["x"]);
}
