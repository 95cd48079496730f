//! Signals: the rules of the specification, and the remedies for its defects (I7).

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{
    Answer, Claim, Commit, Delivery, InstanceId, NewInstance, NewSignal, Scope, Status, Target,
    limits,
};

pub async fn a_signal_of_the_awaited_name_wakes_the_instance(subject: &Subject) {
    let (worker, id) = subject.parked(&["paid"]).await;
    subject.pass(seconds(3));
    let answer = subject.store.deliver(vec![signal(id, "paid")], None).await;
    let delivered = answer.unwrap();
    assert!(delivered.woken.contains(QUEUE));
    let row = subject.get(id).await;
    assert_eq!(
        (row.status, row.step.as_str()),
        (Status::Runnable, "waited")
    );
    assert_eq!(row.eligible_at, subject.now());
    assert_eq!(row.awaits, Some(vec!["paid".into()]), "kept for the step");
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(names_of(claim.awaited()), ["paid"]);
}

pub async fn a_signal_of_any_awaited_name_wakes_the_instance(subject: &Subject) {
    for name in ["a", "b", "c"] {
        let (worker, id) = subject.parked(&["a", "b", "c"]).await;
        let (_, woke) = subject.arrives(signal(id, name)).await;
        assert!(woke, "{name}");
        let claim = subject.claim_the(worker, id).await;
        assert_eq!(names_of(claim.awaited()), [name]);
        subject.commit(&claim, done()).await;
    }
}

pub async fn a_signal_of_another_name_waits_in_the_inbox(subject: &Subject) {
    let (worker, id) = subject.parked(&["paid"]).await;
    let before = subject.get(id).await;
    let (_, woke) = subject.arrives(signal(id, "PAID")).await;
    assert!(!woke);
    subject.assert_unchanged(&before).await;
    subject.arrives(signal(id, "paid")).await;
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(names_of(claim.awaited()), ["paid"]);
    assert_eq!(names_of(&claim.inbox), ["PAID", "paid"]);
}

pub async fn a_delivery_without_a_wake_does_not_change_the_instance(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let before = subject.get(claim.id).await;
    subject.pass(seconds(1));
    subject.arrives(signal(claim.id, "early")).await;
    subject.assert_unchanged(&before).await;
}

/// No lost wake-up: the signal arrives before the wait.
pub async fn a_signal_that_came_early_is_found_by_the_wait(subject: &Subject) {
    let worker = subject.worker().await;
    let id = subject.insert(task()).await;
    subject.arrives(signal(id, "paid")).await;
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(
        names_of(claim.awaited()),
        [""; 0],
        "no signal is awaited yet"
    );
    assert_eq!(names_of(&claim.inbox), ["paid"]);
    let status = subject.commit(&claim, wait_for(&["paid"])).await;
    assert_eq!(status, Status::Runnable);
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(names_of(claim.awaited()), ["paid"]);
}

/// No lost wake-up: the signal arrives while the step still runs.
pub async fn a_signal_that_comes_while_the_step_runs_is_found_by_the_wait(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    let (_, woke) = subject.arrives(signal(claim.id, "paid")).await;
    assert!(!woke);
    let outcome = wait_at_most(&["paid"], seconds(10));
    assert_eq!(subject.commit(&claim, outcome).await, Status::Runnable);
    let row = subject.get(claim.id).await;
    assert_eq!(row.await_deadline, None, "the instance does not wait");
    subject.claim_the(worker, claim.id).await;
}

/// Commits a wait whose step received exactly `received`.
async fn wait_again(
    subject: &Subject,
    claim: &Claim,
    received: Vec<outlast_core::SignalId>,
) -> Status {
    let commit = Commit {
        claim: claim.reference(),
        received,
        outcome: wait_for(&["a", "b", "c"]),
        answers_cancel: false,
        links: claim.links(),
        events: Vec::new(),
        position: None,
        views: Vec::new(),
        replies: Vec::new(),
    };
    match subject.commit_all(vec![commit]).await.answers.remove(0) {
        Answer::Committed { status, .. } => status,
        answer @ (Answer::Cancel(_) | Answer::Lost | Answer::Rejected(_)) => panic!("{answer:?}"),
    }
}

/// Signals accumulate until all are consumed.
pub async fn signals_gather_over_several_waits_and_are_consumed_together(subject: &Subject) {
    let names = ["a", "b", "c"];
    let (worker, id) = subject.parked(&names).await;
    for have in 1..=3 {
        subject.arrives(signal(id, names[have - 1])).await;
        let claim = subject.claim_the(worker, id).await;
        assert_eq!(names_of(claim.awaited()), names[..have]);
        if have < 3 {
            let status = subject.commit(&claim, wait_for(&names)).await;
            assert_eq!(status, Status::AwaitingSignal);
        } else {
            subject.commit(&claim, requeue("packed")).await;
        }
    }
    assert_eq!(subject.inbox(id).await, [""; 0]);
}

/// Defect 11 (docs/protocol.md).
pub async fn a_received_signal_does_not_wake_the_next_wait_for_its_name(subject: &Subject) {
    let (worker, id) = subject.parked(&["a", "b"]).await;
    subject.arrives(signal(id, "a")).await;
    let claim = subject.claim_the(worker, id).await;
    let status = subject.commit(&claim, wait_for(&["a", "b"])).await;
    assert_eq!(status, Status::AwaitingSignal);
    assert_eq!(subject.claim_ids(worker, 1).await, []);
    let (_, woke) = subject.arrives(signal(id, "a")).await;
    assert!(woke, "a new signal of the same name wakes the instance");
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(names_of(claim.awaited()), ["a", "a"]);
}

/// Defect 11 (docs/protocol.md): ids commit out of order, so a mark of the highest id would miss
/// the others.
pub async fn an_older_signal_that_the_step_did_not_receive_wakes_the_instance(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    let (older, _) = subject.arrives(signal(claim.id, "a")).await;
    let (newer, _) = subject.arrives(signal(claim.id, "b")).await;
    assert!(older < newer);
    let status = wait_again(subject, &claim, vec![newer]).await;
    assert_eq!(status, Status::Runnable);
    let claim = subject.claim_the(worker, claim.id).await;
    let status = wait_again(subject, &claim, vec![newer, older]).await;
    assert_eq!(status, Status::AwaitingSignal);
}

/// The step did not receive a signal that arrived after the claim.
pub async fn progress_consumes_only_the_signals_that_the_step_received(subject: &Subject) {
    for outcome in [requeue("b"), keep("b"), fan_out(vec![])] {
        let (worker, id) = subject.parked(&["a"]).await;
        subject.arrives(signal(id, "other")).await;
        subject.arrives(signal(id, "a")).await;
        let claim = subject.claim_the(worker, id).await;
        subject.arrives(signal(id, "a")).await;
        subject.arrives(signal(id, "late")).await;
        subject.commit(&claim, outcome).await;
        assert_eq!(subject.inbox(id).await, ["other", "a", "late"]);
        subject
            .store
            .terminate(vec![id], Extent::One, note())
            .await
            .unwrap();
    }
}

pub async fn a_wait_consumes_no_signals(subject: &Subject) {
    let (worker, id) = subject.parked(&["a"]).await;
    subject.arrives(signal(id, "a")).await;
    let claim = subject.claim_the(worker, id).await;
    subject.commit(&claim, wait_for(&["b"])).await;
    assert_eq!(subject.inbox(id).await, ["a"]);
}

pub async fn a_retry_sees_the_same_signals_again(subject: &Subject) {
    let (worker, id) = subject.parked(&["a"]).await;
    subject.arrives(signal(id, "a")).await;
    let first = subject.claim_the(worker, id).await;
    subject.commit(&first, again(seconds(0))).await;
    let second = subject.claim_the(worker, id).await;
    assert_eq!(second.inbox, first.inbox);
    assert_eq!(second.awaits, first.awaits);
    assert_eq!(second.attempt, 1);
}

/// Signals must not outlive the instance that would have received them (I7).
pub async fn an_end_empties_the_inbox(subject: &Subject) {
    for outcome in [done(), stop(), cancel()] {
        let (_, claim) = subject.running(task()).await;
        subject.arrives(signal(claim.id, "a")).await;
        subject.arrives(signal(claim.id, "b").dedup_key("b1")).await;
        subject.commit(&claim, outcome).await;
        let left = subject.signals(claim.id).await;
        assert_eq!(left.len(), 1, "only the tombstone is left");
        assert_eq!(left[0].consumed_at, Some(subject.now()));
        assert_eq!(left[0].payload, None);
    }
}

pub async fn a_signal_sent_again_under_its_dedup_key_is_a_duplicate(subject: &Subject) {
    let (_, id) = subject.parked(&["paid"]).await;
    let paid = signal(id, "other").dedup_key("evt-7");
    subject.arrives(paid.clone()).await;
    let duplicate = Delivery::Duplicate { instance: id };
    assert_eq!(subject.deliver(paid).await, duplicate);
    let renamed = signal(id, "paid").dedup_key("evt-7");
    assert_eq!(subject.deliver(renamed).await, duplicate);
    assert_eq!(subject.status(id).await, Status::AwaitingSignal);
    assert_eq!(subject.inbox(id).await, ["other"]);
}

/// I7 and defect 9 (docs/protocol.md).
pub async fn a_consumed_signal_is_still_a_duplicate_when_sent_again(subject: &Subject) {
    let (worker, id) = subject.parked(&["paid"]).await;
    let paid = signal(id, "paid").dedup_key("evt-7");
    let (signal_id, _) = subject.arrives(paid.clone()).await;
    let claim = subject.claim_the(worker, id).await;
    subject.commit(&claim, wait_for(&["paid"])).await;
    subject.arrives(signal(id, "paid")).await;
    let claim = subject.claim_the(worker, id).await;
    subject.commit(&claim, requeue("paid")).await;

    assert_eq!(
        subject.deliver(paid).await,
        Delivery::Duplicate { instance: id }
    );
    let rows = subject.signals(id).await;
    assert_eq!(rows.len(), 1, "the signal without a dedup key is gone");
    assert_eq!((rows[0].id, &rows[0].payload), (signal_id, &None));
    assert_eq!(rows[0].consumed_at, Some(subject.now()));
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(claim.inbox, [], "a tombstone is not in the inbox");
}

pub async fn a_tombstone_outlasts_an_operators_retry(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let keyed = signal(claim.id, "a").dedup_key("once");
    subject.arrives(keyed.clone()).await;
    subject.commit(&claim, stop()).await;
    subject.store.retry(vec![claim.id], note()).await.unwrap();
    let instance = claim.id;
    assert_eq!(
        subject.deliver(keyed).await,
        Delivery::Duplicate { instance }
    );
}

/// I7: an answer must not change because the instance has finished meanwhile.
///
/// The rule covers a consumed signal, and a signal that the end dropped.
pub async fn a_signal_sent_again_after_the_end_is_a_duplicate(subject: &Subject) {
    for outcome in [done(), stop(), cancel()] {
        let (worker, claim) = subject.running(task().correlation_key("order:1")).await;
        let instance = claim.id;
        let consumed = [signal(instance, "a"), signal_to_key("order:1", "a")];
        let consumed = consumed.map(|it| it.dedup_key("consumed"));
        subject.arrives(consumed[0].clone()).await;
        subject.commit(&claim, wait_for(&["a"])).await;
        let claim = subject.claim_the(worker, instance).await;
        subject.commit(&claim, requeue("b")).await;
        let claim = subject.claim_the(worker, instance).await;
        let dropped = [signal(instance, "b"), signal_to_key("order:1", "b")];
        let dropped = dropped.map(|it| it.dedup_key("dropped"));
        subject.arrives(dropped[1].clone()).await;
        subject.commit(&claim, outcome).await;

        let stored = subject.signals(instance).await;
        let known: Vec<NewSignal> = consumed.into_iter().chain(dropped).collect();
        let all = subject.store.deliver(known.clone(), None).await.unwrap();
        assert_eq!(all.answers, [Delivery::Duplicate { instance }; 4]);
        let new = signal(instance, "a").dedup_key("new");
        assert_eq!(subject.deliver(new).await, Delivery::NoTarget);
        let new = signal_to_key("order:1", "a").dedup_key("new");
        assert_eq!(subject.deliver(new).await, Delivery::NoTarget);
        assert_eq!(subject.signals(instance).await, stored);

        subject.store.delete(vec![instance], note()).await.unwrap();
        let all = subject.store.deliver(known, None).await.unwrap();
        assert_eq!(
            all.answers,
            [Delivery::NoTarget; 4],
            "the instance is no longer stored"
        );
    }
}

/// A signal that is sent again must not reach the next holder of the key.
pub async fn a_dedup_key_counts_for_all_holders_of_the_correlation_key(subject: &Subject) {
    let (_, claim) = subject.running(task().correlation_key("order:1")).await;
    let first = claim.id;
    let paid = signal_to_key("order:1", "paid").dedup_key("evt-7");
    subject.arrives(paid.clone()).await;
    subject.commit(&claim, done()).await;
    let second = subject.insert(task().correlation_key("order:1")).await;
    let duplicate = Delivery::Duplicate { instance: first };
    assert_eq!(subject.deliver(paid.clone()).await, duplicate);
    assert_eq!(subject.inbox(second).await, [""; 0]);

    let by_id = signal(second, "paid").dedup_key("evt-7");
    subject.arrives(by_id).await;
    let latest = Delivery::Duplicate { instance: second };
    assert_eq!(subject.deliver(paid.clone()).await, latest);
    let neighbour = subject.insert(task().correlation_key("order:2")).await;
    let other = signal_to_key("order:2", "paid").dedup_key("evt-7");
    subject.arrives(other).await;
    assert_eq!(subject.inbox(neighbour).await, ["paid"]);
    let other = NewInstance::new("other", "start", json("{}")).correlation_key("order:1");
    subject.insert(other).await;
    let target = Target::Key {
        machine: "other".into(),
        key: "order:1".into(),
    };
    let other = NewSignal::new(target, "paid", json("1")).dedup_key("evt-7");
    subject.arrives(other).await;
}

/// A live instance that has released its key counts too, also within one batch.
pub async fn a_dedup_key_counts_for_all_holders_within_a_batch_too(subject: &Subject) {
    let until_claimed = Scope::of([Status::Runnable]).unwrap();
    let row = task().correlation("order:1", until_claimed);
    let (_, claim) = subject.running(row).await;
    let (former, key) = (claim.id, signal_to_key("order:1", "a"));
    let holder = subject.insert(task().correlation_key("order:1")).await;
    let batch = vec![
        key.clone().dedup_key("2"),
        signal(former, "a").dedup_key("1"),
        key.clone().dedup_key("1"),
        signal(former, "a").dedup_key("2"),
        key.dedup_key("3"),
    ];
    let answers = subject.store.deliver(batch, None).await.unwrap().answers;
    let receiver = |answer: &Delivery| match answer {
        Delivery::Delivered { instance, .. } => Some(*instance),
        Delivery::Duplicate { .. } | Delivery::NoTarget | Delivery::InboxFull { .. } => None,
    };
    let receivers: Vec<Option<InstanceId>> = answers.iter().map(receiver).collect();
    let expected = [Some(holder), Some(former), None, Some(former), Some(holder)];
    assert_eq!(receivers, expected);
    assert_eq!(answers[2], Delivery::Duplicate { instance: former });
}

/// I7: PostgreSQL delivers such a batch with a statement for each pair.
pub async fn a_batch_that_alternates_between_an_id_and_its_key_is_delivered_in_order(
    subject: &Subject,
) {
    let (_, claim) = subject.running(task().correlation_key("order:1")).await;
    let pair = |n: usize| {
        let dedup_key = n.to_string();
        let by_id = signal(claim.id, "a").dedup_key(&dedup_key);
        [by_id, signal_to_key("order:1", "a").dedup_key(dedup_key)]
    };
    let batch = (0..40).flat_map(pair).collect();
    let answers = subject.store.deliver(batch, None).await.unwrap().answers;
    assert_eq!(answers.len(), 80);
    let duplicate = Delivery::Duplicate { instance: claim.id };
    for pair in answers.chunks(2) {
        assert!(matches!(pair[0], Delivery::Delivered { .. }), "{pair:?}");
        assert_eq!(pair[1], duplicate);
    }
    assert_eq!(subject.inbox(claim.id).await.len(), 40);
}

/// The search is bounded, so that a key with many past holders costs no more.
pub async fn a_dedup_key_counts_for_a_bounded_number_of_latest_holders(subject: &Subject) {
    let paid = signal_to_key("order:1", "paid").dedup_key("evt-7");
    let mut known = None;
    for _ in 0..limits::HOLDERS_MAX {
        let (_, claim) = subject.running(task().correlation_key("order:1")).await;
        match known {
            None => drop(subject.arrives(paid.clone()).await),
            Some(instance) => assert_eq!(
                subject.deliver(paid.clone()).await,
                Delivery::Duplicate { instance }
            ),
        }
        known = known.or(Some(claim.id));
        subject.commit(&claim, done()).await;
    }
    let instance = known.unwrap();
    let answer = subject.deliver(paid.clone()).await;
    assert_eq!(answer, Delivery::Duplicate { instance });
    subject.insert(task().correlation_key("order:1")).await;
    subject.arrives(paid).await;
}

pub async fn dedup_keys_are_per_instance(subject: &Subject) {
    let ids = subject.insert_all(tasks(2)).await;
    for id in ids {
        subject.arrives(signal(id, "a").dedup_key("same")).await;
    }
}

pub async fn signals_without_a_dedup_key_are_never_duplicates(subject: &Subject) {
    let id = subject.insert(task()).await;
    for _ in 0..3 {
        subject.arrives(signal(id, "a")).await;
    }
    assert_eq!(subject.inbox(id).await, ["a", "a", "a"]);
}

pub async fn a_missing_instance_is_no_target(subject: &Subject) {
    let missing = InstanceId(987_654_321);
    let answer = subject.deliver(signal(missing, "a")).await;
    assert_eq!(answer, Delivery::NoTarget);
    let answer = subject.deliver(signal_to_key("nobody", "a")).await;
    assert_eq!(answer, Delivery::NoTarget);
}

/// Defect 10 (docs/protocol.md).
pub async fn an_ended_instance_is_no_target(subject: &Subject) {
    for outcome in [done(), stop(), cancel()] {
        let row = task().correlation("kept", Scope::FOREVER);
        let (_, claim) = subject.running(row).await;
        subject.commit(&claim, outcome).await;
        for signal in [signal(claim.id, "a"), signal_to_key("kept", "a")] {
            assert_eq!(subject.deliver(signal).await, Delivery::NoTarget);
        }
        assert_eq!(subject.signals(claim.id).await, []);
        subject.store.delete(vec![claim.id], note()).await.unwrap();
    }
}

pub async fn a_signal_to_a_released_key_has_no_target(subject: &Subject) {
    let until_claimed = Scope::of([Status::Runnable]).unwrap();
    let row = task().correlation("order:1", until_claimed);
    let (_, claim) = subject.running(row).await;
    let answer = subject.deliver(signal_to_key("order:1", "a")).await;
    assert_eq!(answer, Delivery::NoTarget);
    subject.commit(&claim, requeue("b")).await;
    let answer = subject.deliver(signal_to_key("order:1", "a")).await;
    assert_eq!(answer, Delivery::NoTarget, "the key does not come back");
}

pub async fn a_signal_to_a_key_reaches_its_holder(subject: &Subject) {
    let (worker, claim) = subject.running(task().correlation_key("order:1")).await;
    subject.insert(task().correlation_key("order:2")).await;
    subject.commit(&claim, wait_for(&["paid"])).await;
    match subject.deliver(signal_to_key("order:1", "paid")).await {
        Delivery::Delivered { instance, woke, .. } => {
            assert_eq!((instance, woke), (claim.id, true));
        }
        answer @ (Delivery::Duplicate { .. } | Delivery::NoTarget | Delivery::InboxFull { .. }) => {
            panic!("{answer:?}")
        }
    }
    let claims = subject.claim(worker, 10).await;
    assert!(ids_of(&claims).contains(&claim.id));
}

pub async fn a_signal_to_a_key_reaches_the_holder_of_the_named_machine(subject: &Subject) {
    let mine = subject.insert(task().correlation_key("k")).await;
    let other = NewInstance::new("other", "start", json("{}")).correlation_key("k");
    let theirs = subject.insert(other).await;
    let target = Target::Key {
        machine: "other".into(),
        key: "k".into(),
    };
    subject
        .arrives(NewSignal::new(target, "a", json("1")))
        .await;
    subject.arrives(signal_to_key("k", "b")).await;
    assert_eq!(subject.inbox(mine).await, ["b"]);
    assert_eq!(subject.inbox(theirs).await, ["a"]);
}

pub async fn a_batch_of_signals_arrives_as_if_sent_one_by_one(subject: &Subject) {
    let (worker, id) = subject.parked(&["a"]).await;
    let batch = vec![
        signal(id, "b").dedup_key("1"),
        signal(id, "a").dedup_key("2"),
        signal(id, "a").dedup_key("3"),
        signal(id, "a").dedup_key("2"),
        signal(InstanceId(987_654_321), "a"),
    ];
    let answers = subject.store.deliver(batch, None).await.unwrap().answers;
    let woke = |answer: &Delivery| match answer {
        Delivery::Delivered { woke, .. } => Some(*woke),
        Delivery::Duplicate { .. } | Delivery::NoTarget | Delivery::InboxFull { .. } => None,
    };
    let woken: Vec<Option<bool>> = answers.iter().map(woke).collect();
    assert_eq!(woken, [Some(false), Some(true), Some(false), None, None]);
    assert_eq!(answers[3], Delivery::Duplicate { instance: id });
    assert_eq!(answers[4], Delivery::NoTarget);
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(names_of(&claim.inbox), ["b", "a", "a"]);
    assert!(claim.inbox.is_sorted_by_key(|signal| signal.id));
}

pub async fn a_second_awaited_signal_does_not_wake_the_instance_again(subject: &Subject) {
    let (worker, id) = subject.parked(&["a"]).await;
    subject.arrives(signal(id, "a")).await;
    let woken = subject.get(id).await;
    subject.pass(seconds(1));
    let (_, woke) = subject.arrives(signal(id, "a")).await;
    assert!(!woke);
    subject.assert_unchanged(&woken).await;
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(names_of(claim.awaited()), ["a", "a"]);
}

pub async fn a_parent_that_waits_for_children_is_not_woken_by_a_signal(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    subject.commit(&claim, fan_out(tasks(1))).await;
    let (_, woke) = subject.arrives(signal(claim.id, "a")).await;
    assert!(!woke);
    assert_eq!(subject.status(claim.id).await, Status::AwaitingChildren);
}

/// I7.
pub async fn an_outcome_does_not_consume_signals_of_another_instance(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let neighbour = subject.insert(task()).await;
    let (own, _) = subject.arrives(signal(claim.id, "a")).await;
    let (foreign, _) = subject.arrives(signal(neighbour, "a")).await;
    let commit = Commit {
        claim: claim.reference(),
        received: vec![foreign, own, own, outlast_core::SignalId(987_654_321)],
        outcome: requeue("b"),
        answers_cancel: false,
        links: claim.links(),
        events: Vec::new(),
        position: None,
        views: Vec::new(),
        replies: Vec::new(),
    };
    let answers = subject.commit_all(vec![commit]).await.answers;
    assert!(matches!(answers[0], Answer::Committed { .. }));
    assert_eq!(subject.inbox(claim.id).await, [""; 0]);
    assert_eq!(subject.inbox(neighbour).await, ["a"]);
}

/// A claim loads the whole inbox, so its size is bounded.
pub async fn a_full_inbox_takes_no_more_signals(subject: &Subject) {
    let (worker, id) = subject.parked(&["go"]).await;
    let fill = vec![signal(id, "fill"); limits::INBOX_MAX - 1];
    subject.store.deliver(fill, None).await.unwrap();
    let full = Delivery::InboxFull { instance: id };
    let last = vec![
        signal(id, "last").dedup_key("last"),
        signal(id, "go"),
        signal(id, "last").dedup_key("last"),
    ];
    let answers = subject.store.deliver(last, None).await.unwrap().answers;
    assert!(matches!(answers[0], Delivery::Delivered { .. }));
    assert_eq!(answers[1], full);
    assert_eq!(answers[2], Delivery::Duplicate { instance: id });
    assert_eq!(subject.status(id).await, Status::AwaitingSignal);
    subject
        .store
        .terminate(vec![id], Extent::One, note())
        .await
        .unwrap();
    subject.store.retry(vec![id], note()).await.unwrap();
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(claim.inbox, []);
    subject.arrives(signal(id, "room again")).await;
}

/// I7: a consumed signal no longer counts.
pub async fn tombstones_do_not_fill_an_inbox(subject: &Subject) {
    let (worker, id) = subject.parked(&["a"]).await;
    for n in 0..3 {
        let key = format!("k{n}");
        subject.arrives(signal(id, "a").dedup_key(key)).await;
        let claim = subject.claim_the(worker, id).await;
        assert_eq!(names_of(&claim.inbox), ["a"]);
        subject.commit(&claim, requeue("on")).await;
        let claim = subject.claim_the(worker, id).await;
        subject.commit(&claim, wait_for(&["a"])).await;
    }
    assert_eq!(subject.signals(id).await.len(), 3);
    assert_eq!(subject.inbox(id).await, [""; 0]);
}
