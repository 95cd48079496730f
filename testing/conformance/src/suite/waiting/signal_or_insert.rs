//! A signal that starts its target when the key has no holder (I7, I9).

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{
    CollectRequest, Count, Delivery, ErrorKind, Inserted, NewInstance, QueueNames, Scope,
    SignalOrInsert, SignalledOrInserted, Status,
};

const KEY: &str = "order:42";

fn order() -> NewInstance {
    task().correlation_key(KEY)
}

/// Makes the request: a signal `name` for the holder of the key, or for `row`.
fn new_request(row: NewInstance, name: &str) -> SignalOrInsert {
    SignalOrInsert {
        row,
        name: name.into(),
        payload: json(r#"{"v":1}"#),
        dedup_key: None,
    }
}

async fn send(subject: &Subject, request: SignalOrInsert) -> SignalledOrInserted {
    subject.store.signal_or_insert(request).await.unwrap()
}

fn arrived(answer: &SignalledOrInserted) -> outlast_core::InstanceId {
    match answer.delivery {
        Delivery::Delivered { instance, .. } => instance,
        Delivery::Duplicate { .. } | Delivery::NoTarget | Delivery::InboxFull { .. } => {
            panic!("not delivered: {answer:?}")
        }
    }
}

pub async fn a_free_key_starts_an_instance_with_the_signal_in_its_inbox(subject: &Subject) {
    let row = order().priority(3).partition_key("p").trace("t");
    let answer = send(subject, new_request(row.clone(), "paid")).await;
    let id = answer.inserted.expect("an instance was started");
    let signals = subject.signals(id).await;
    let expected = Delivery::Delivered {
        id: signals[0].id,
        instance: id,
        woke: false,
    };
    assert_eq!((answer.delivery, signals.len()), (expected, 1));
    assert_eq!(signals[0].payload, Some(json(r#"{"v":1}"#)));
    assert!(answer.woken.contains(QUEUE));

    // A plain insert makes the same row.
    let started = subject.get(id).await;
    subject
        .store
        .terminate(vec![id], Extent::One, note())
        .await
        .unwrap();
    let inserted = subject.insert(row).await;
    let mut inserted = subject.get(inserted).await;
    inserted.id = id;
    assert_eq!(started, inserted);
}

pub async fn the_first_step_receives_the_signal_that_started_its_instance(subject: &Subject) {
    let worker = subject.worker().await;
    let answer = send(subject, new_request(order(), "paid")).await;
    let claim = subject.claim_the(worker, answer.inserted.unwrap()).await;
    assert_eq!(names_of(&claim.inbox), ["paid"]);
    let status = subject.commit(&claim, wait_for(&["paid"])).await;
    assert_eq!(status, Status::Runnable, "the signal is already there");
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!(names_of(claim.awaited()), ["paid"]);
}

pub async fn a_live_holder_receives_the_signal_and_no_instance_is_started(subject: &Subject) {
    let holder = subject.insert(order()).await;
    let before = subject.get(holder).await;
    let other = order().queue("elsewhere").version(2).priority(7);
    let answer = send(subject, new_request(other, "paid")).await;
    assert_eq!((answer.inserted, arrived(&answer)), (None, holder));
    assert_eq!(answer.woken, QueueNames::new());
    assert_eq!(subject.inbox(holder).await, ["paid"]);
    subject.assert_unchanged(&before).await;
    let count = subject.store.count(Default::default()).await.unwrap();
    assert_eq!(count, Count::Exactly(1));
}

pub async fn a_parked_holder_is_woken(subject: &Subject) {
    let (worker, claim) = subject.running(order()).await;
    let outcome = wait_at_most(&["paid"], seconds(9));
    subject.commit(&claim, outcome).await;
    let answer = send(subject, new_request(order(), "noise")).await;
    let woke = matches!(answer.delivery, Delivery::Delivered { woke: true, .. });
    assert!(
        !woke && answer.woken.is_empty(),
        "the signal has another name"
    );
    let answer = send(subject, new_request(order().queue("elsewhere"), "paid")).await;
    let woke = matches!(answer.delivery, Delivery::Delivered { woke: true, .. });
    assert!(woke && answer.inserted.is_none());
    assert!(answer.woken.contains(QUEUE));
    assert_eq!(subject.get(claim.id).await.await_deadline, None);
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!(names_of(claim.awaited()), ["paid"]);
}

pub async fn a_signal_or_insert_sent_again_under_its_dedup_key_is_a_duplicate(subject: &Subject) {
    let worker = subject.worker().await;
    let mut request = new_request(order(), "paid");
    request.dedup_key = Some("evt-7".into());
    let id = send(subject, request.clone()).await.inserted.unwrap();
    let duplicate = SignalledOrInserted {
        inserted: None,
        delivery: Delivery::Duplicate { instance: id },
        woken: QueueNames::new(),
    };
    assert_eq!(send(subject, request.clone()).await, duplicate);
    let claim = subject.claim_the(worker, id).await;
    subject.commit(&claim, wait_for(&["paid"])).await;
    let claim = subject.claim_the(worker, id).await;
    subject.commit(&claim, requeue("paid")).await;
    assert_eq!(subject.inbox(id).await, [""; 0]);
    assert_eq!(
        send(subject, request).await,
        duplicate,
        "the signal was consumed"
    );
    assert_eq!(subject.signals(id).await.len(), 1);
}

/// A signal that is sent again after its target finished must not start another instance.
pub async fn a_signal_or_insert_sent_again_after_the_end_starts_nothing(subject: &Subject) {
    for scope in [Scope::LIVE, Scope::FOREVER] {
        let worker = subject.worker().await;
        let mut request = new_request(task().correlation(KEY, scope), "paid");
        request.dedup_key = Some("evt-7".into());
        let id = send(subject, request.clone()).await.inserted.unwrap();
        let claim = subject.claim_the(worker, id).await;
        subject.commit(&claim, done()).await;
        let duplicate = SignalledOrInserted {
            inserted: None,
            delivery: Delivery::Duplicate { instance: id },
            woken: QueueNames::new(),
        };
        assert_eq!(send(subject, request.clone()).await, duplicate);
        let count = subject.store.count(Default::default()).await.unwrap();
        assert_eq!(count, Count::Exactly(1), "no instance was started");

        subject.store.delete(vec![id], note()).await.unwrap();
        let answer = send(subject, request).await;
        let id = answer
            .inserted
            .expect("the dedup key was deleted with its instance");
        subject
            .store
            .terminate(vec![id], Extent::One, note())
            .await
            .unwrap();
        subject.store.delete(vec![id], note()).await.unwrap();
    }
}

/// A full inbox of the holder starts no other instance.
pub async fn a_holder_with_a_full_inbox_takes_no_more_signals(subject: &Subject) {
    let id = subject.insert(order()).await;
    let full = vec![signal(id, "a"); outlast_core::limits::INBOX_MAX];
    subject.store.deliver(full, None).await.unwrap();
    let answer = send(subject, new_request(order(), "a")).await;
    assert_eq!(answer.inserted, None);
    assert_eq!(answer.delivery, Delivery::InboxFull { instance: id });
}

pub async fn a_key_released_by_an_ended_holder_starts_another_instance(subject: &Subject) {
    let (_, claim) = subject.running(order()).await;
    subject.commit(&claim, done()).await;
    let answer = send(subject, new_request(order(), "paid")).await;
    let id = answer.inserted.expect("an instance was started");
    assert!(id > claim.id);
    assert_eq!(arrived(&answer), id);
    assert_eq!(subject.signals(claim.id).await, []);
}

/// A key that its live holder has released has no holder.
pub async fn a_key_released_by_a_live_holder_starts_another_instance(subject: &Subject) {
    let until_claimed = Scope::of([Status::Runnable]).unwrap();
    let (_, claim) = subject
        .running(task().correlation(KEY, until_claimed))
        .await;
    let answer = send(subject, new_request(order(), "paid")).await;
    assert_ne!(answer.inserted, None);
    assert_ne!(arrived(&answer), claim.id);
    assert_eq!(subject.inbox(claim.id).await, [""; 0]);
}

/// The holder's scope decides, not that of the row to start.
pub async fn an_ended_holder_that_keeps_its_key_is_no_target_and_not_replaced(subject: &Subject) {
    let (_, claim) = subject
        .running(task().correlation(KEY, Scope::FOREVER))
        .await;
    subject.commit(&claim, done()).await;
    let before = subject.get(claim.id).await;
    let no_target = SignalledOrInserted {
        inserted: None,
        delivery: Delivery::NoTarget,
        woken: QueueNames::new(),
    };
    assert_eq!(send(subject, new_request(order(), "paid")).await, no_target);
    subject.assert_unchanged(&before).await;
    assert_eq!(subject.signals(claim.id).await, []);
    let count = subject.store.count(Default::default()).await.unwrap();
    assert_eq!(count, Count::Exactly(1));

    let everything = CollectRequest {
        retention: seconds(0),
        max: 10,
    };
    subject.pass(seconds(1));
    subject.store.collect(everything).await.unwrap();
    let answer = send(subject, new_request(order(), "paid")).await;
    assert_ne!(answer.inserted, None, "after the holder was collected");
}

pub async fn a_holder_of_the_same_key_on_another_machine_gets_no_signal(subject: &Subject) {
    let other = NewInstance::new("other", "start", json("{}")).correlation_key(KEY);
    let other = subject.insert(other).await;
    let answer = send(subject, new_request(order(), "paid")).await;
    assert_ne!(answer.inserted, None);
    assert_eq!(subject.inbox(other).await, [""; 0]);
}

pub async fn a_delayed_instance_is_started_without_a_hint(subject: &Subject) {
    let worker = subject.worker().await;
    let row = later(order(), seconds(5));
    let answer = send(subject, new_request(row, "paid")).await;
    let id = answer.inserted.expect("an instance was started");
    assert_eq!(answer.woken, QueueNames::new());
    assert_eq!(subject.claim_ids(worker, 1).await, []);
    let again = subject.try_insert(order()).await;
    assert_eq!(again, Inserted::Duplicate { holder: Some(id) });
    subject.pass(seconds(5));
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(names_of(&claim.inbox), ["paid"]);
}

pub async fn a_signal_or_insert_without_a_key_is_refused(subject: &Subject) {
    let error = subject
        .store
        .signal_or_insert(new_request(task(), "paid"))
        .await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("no correlation key"), "{error}");
}

pub async fn a_signal_or_insert_that_cannot_be_stored_is_refused_whole(subject: &Subject) {
    let mut bad = vec![
        new_request(order(), ""),
        new_request(order(), "a\u{0}"),
        new_request(order().queue(""), "paid"),
        new_request(order().trace("\u{0}"), "paid"),
        new_request(task().correlation_key(""), "paid"),
        new_request(order(), "paid"),
    ];
    bad[5].dedup_key = Some(String::new());
    for request in bad {
        let error = subject.store.signal_or_insert(request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    let count = subject.store.count(Default::default()).await.unwrap();
    assert_eq!(count, Count::Exactly(0));
}
