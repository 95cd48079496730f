//! Correlation keys: which instance holds a key, and for how long.
//!
//! A released key never comes back (docs/protocol.md, I9 and defect 4).

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{
    CollectRequest, Delivery, Filter, Inserted, InstanceId, KeyText, ListRequest, NewInstance,
    Scope, SignalOrInsert, Status, key, limits,
};
use std::time::Duration;

const KEY: &str = "order:42";

fn unique() -> NewInstance {
    task().correlation_key(KEY)
}

fn scoped(statuses: &[Status]) -> NewInstance {
    let scope = Scope::of(statuses.iter().copied()).unwrap();
    task().correlation(KEY, scope)
}

async fn assert_held(subject: &Subject, holder: InstanceId) {
    let holder = Some(holder);
    let answer = subject.try_insert(unique()).await;
    assert_eq!(answer, Inserted::Duplicate { holder });
    let found = subject.store.find("task", KEY).await.unwrap();
    assert_eq!(found.map(|row| row.id), holder);
}

async fn assert_free(subject: &Subject) {
    let found = subject.store.find("task", KEY).await.unwrap();
    assert!(found.is_none_or(|row| !row.holds_key));
    let id = subject.insert(unique()).await;
    subject
        .store
        .terminate(vec![id], Extent::One, note())
        .await
        .unwrap();
}

/// I9. A duplicate is an answer, not an error.
pub async fn an_occupied_key_makes_a_duplicate(subject: &Subject) {
    let id = subject.insert(unique()).await;
    assert!(subject.get(id).await.holds_key);
    assert_held(subject, id).await;
}

pub async fn rows_without_a_key_are_never_duplicates(subject: &Subject) {
    let ids = subject.insert_all(vec![task(); 3]).await;
    assert_eq!(ids.len(), 3);
    assert!(!subject.get(ids[0]).await.holds_key);
}

/// Section 7 of docs/specification.md: duplicates within a batch are found too, in the caller's
/// order.
pub async fn the_first_row_of_a_batch_gets_the_key(subject: &Subject) {
    let rows = vec![
        task().correlation_key("b"),
        unique(),
        task().correlation_key("a"),
        unique(),
        task(),
    ];
    let rows = subject.store.insert(rows, None).await.unwrap().rows;
    let ids: Vec<Option<InstanceId>> = rows.iter().map(Inserted::new_id).collect();
    let holder = ids[1];
    assert_eq!(rows[3], Inserted::Duplicate { holder });
    let given: Vec<InstanceId> = ids.into_iter().flatten().collect();
    assert_eq!(given.len(), 4);
    assert!(given.is_sorted(), "ids in the caller's order");
}

pub async fn keys_are_per_machine(subject: &Subject) {
    subject.insert(unique()).await;
    let other = NewInstance::new("other", "start", json("{}")).correlation_key(KEY);
    subject.insert(other).await;
    let versions = subject.try_insert(unique().version(2)).await;
    assert!(
        matches!(versions, Inserted::Duplicate { .. }),
        "keys are not per version"
    );
}

pub async fn keys_are_kept_verbatim(subject: &Subject) {
    let keys = ["k", "K", " k", "k ", "k\u{301}", "\u{1E31}", "%", "\\", "'"];
    let rows = keys.map(|key| task().correlation_key(key));
    let ids = subject.insert_all(rows.into()).await;
    for (key, id) in keys.iter().zip(ids) {
        let found = subject.store.find("task", key).await.unwrap().unwrap();
        assert_eq!(
            (found.id, found.correlation_key.as_deref()),
            (id, Some(*key))
        );
    }
}

/// Bytes that a text column could confuse or refuse: NUL, line breaks, invalid UTF-8, what looks
/// like the stored form of another key, and the longest keys.
fn odd_keys() -> Vec<Vec<u8>> {
    vec![
        b"\0".to_vec(),
        b"\0\0".to_vec(),
        b"\x00\xff".to_vec(),
        b"\x0100ff".to_vec(),
        br"\x00ff".to_vec(),
        b"00ff".to_vec(),
        b"a\nb".to_vec(),
        b"a\tb\x7f".to_vec(),
        "\u{85}".into(),
        "a\u{202e}b".into(),
        b"\xff\xfe".to_vec(),
        b"\xc3\x28".to_vec(),
        "\u{d7ff}".as_bytes()[..2].to_vec(),
        vec![0; limits::KEY_BYTES_MAX],
        vec![0xff; limits::KEY_BYTES_MAX],
        vec![b'x'; limits::KEY_BYTES_MAX],
    ]
}

/// Section 9 of docs/specification.md: `unique_key` is bytes, verbatim.
pub async fn a_key_of_any_bytes_is_unique_and_found(subject: &Subject) {
    let row = |bytes: &[u8]| task().correlation_key(bytes).partition_key(bytes);
    let rows = odd_keys().iter().map(|bytes| row(bytes)).collect();
    let ids = subject.insert_all(rows).await;
    for (bytes, id) in odd_keys().iter().zip(ids) {
        let key = KeyText::from(bytes);
        let holder = Some(id);
        let answer = subject.try_insert(row(bytes)).await;
        assert_eq!(answer, Inserted::Duplicate { holder }, "{key}");
        let found = subject.store.find("task", key.as_str()).await.unwrap();
        let found = found.unwrap();
        assert_eq!(found.id, id, "{key}");
        for stored in [found.correlation_key, found.partition_key] {
            assert_eq!(*key::bytes(&stored.unwrap()), **bytes);
        }
        let by_correlation = Filter {
            correlation_key: Some(key.clone().into()),
            ..Filter::default()
        };
        let by_partition = Filter {
            partition_key: Some(key.clone().into()),
            ..Filter::default()
        };
        for filter in [by_correlation, by_partition] {
            let request = ListRequest {
                filter,
                ..ListRequest::default()
            };
            let page = subject.store.list(request).await.unwrap();
            let listed: Vec<InstanceId> = page.instances.iter().map(|row| row.id).collect();
            assert_eq!(listed, [id], "{key}");
        }
    }
}

pub async fn a_key_of_any_bytes_orders_a_line_and_marks_a_signal(subject: &Subject) {
    let worker = subject.worker().await;
    for bytes in odd_keys() {
        let key = KeyText::from(&bytes);
        let row = task().correlation_key(&bytes).partition_key(&bytes);
        let first = subject.insert(row).await;
        let second = subject.insert(task().partition_key(&bytes)).await;
        let claims = subject.claim(worker, 10).await;
        assert_eq!(ids_of(&claims), [first], "{key}");
        let claimed = &claims[0];
        assert_eq!(claimed.partition_key.as_deref(), Some(key.as_str()));
        assert_eq!(claimed.correlation_key.as_deref(), Some(key.as_str()));

        let signal = || signal_to_key(key.as_str(), "go").dedup_key(&bytes);
        let (_, woke) = subject.arrives(signal()).await;
        assert!(!woke, "it runs");
        let again = subject.deliver(signal()).await;
        assert_eq!(again, Delivery::Duplicate { instance: first }, "{key}");
        let row = task().correlation_key(&bytes);
        let request = SignalOrInsert {
            row,
            name: "go".into(),
            payload: json("1"),
            dedup_key: Some(key.clone().into()),
        };
        let answer = subject.store.signal_or_insert(request).await.unwrap();
        assert_eq!((answer.inserted, answer.delivery), (None, again), "{key}");

        subject.commit(claimed, done()).await;
        let next = subject.claim_the(worker, second).await;
        subject.commit(&next, done()).await;
    }
    subject.assert_sound().await;
}

pub async fn a_dropped_child_is_reported_with_a_key_of_any_bytes(subject: &Subject) {
    for bytes in odd_keys() {
        subject
            .insert(later(task().correlation_key(bytes), seconds(60)))
            .await;
    }
    let (worker, claim) = subject.running(task()).await;
    let children = odd_keys().into_iter();
    let children = children.map(|bytes| task().correlation_key(bytes));
    subject.commit(&claim, fan_out(children.collect())).await;
    let claim = subject.claim_the(worker, claim.id).await;
    let dropped = claim.dropped.iter();
    let dropped: Vec<Vec<u8>> = dropped.map(|it| key::bytes(&it.key).into_owned()).collect();
    assert_eq!(dropped, odd_keys());
}

pub async fn the_default_scope_holds_the_key_until_the_end(subject: &Subject) {
    let (worker, claim) = subject.running(unique()).await;
    assert_held(subject, claim.id).await;
    subject.commit(&claim, wait_for(&["go"])).await;
    assert_held(subject, claim.id).await;
    subject.arrives(signal(claim.id, "go")).await;
    assert_held(subject, claim.id).await;
    let claim = subject.claim_the(worker, claim.id).await;
    subject.commit(&claim, fan_out(tasks(1))).await;
    assert_held(subject, claim.id).await;
    let child = subject.claim_one(worker).await;
    subject.commit(&child, done()).await;
    let claim = subject.claim_the(worker, claim.id).await;
    subject.commit(&claim, done()).await;
    assert!(!subject.get(claim.id).await.holds_key);
    assert_free(subject).await;
}

pub async fn every_end_frees_a_key_of_the_default_scope(subject: &Subject) {
    for outcome in [done(), stop(), cancel()] {
        let (_, claim) = subject.running(unique()).await;
        subject.commit(&claim, outcome).await;
        assert_free(subject).await;
    }
    let id = subject.insert(unique()).await;
    subject
        .store
        .terminate(vec![id], Extent::One, note())
        .await
        .unwrap();
    assert_free(subject).await;
}

pub async fn a_scope_of_runnable_ends_with_the_claim(subject: &Subject) {
    let (_, claim) = subject.running(scoped(&[Status::Runnable])).await;
    let row = subject.get(claim.id).await;
    assert!(!row.holds_key);
    assert_eq!(
        row.correlation_key.as_deref(),
        Some(KEY),
        "the key can still be read"
    );
    assert_free(subject).await;
}

/// Defect 4 (docs/protocol.md): a row that returns into its scope must not conflict with the next
/// holder.
pub async fn a_released_key_never_returns_to_its_former_holder(subject: &Subject) {
    let (_, claim) = subject.running(scoped(&[Status::Runnable])).await;
    let next = subject.insert(unique().priority(9)).await;
    subject.commit(&claim, requeue("b")).await;
    assert_eq!(subject.status(claim.id).await, Status::Runnable);
    assert!(!subject.get(claim.id).await.holds_key);
    assert_held(subject, next).await;
}

/// Defect 4 (docs/protocol.md), for each verb that brings a row back into its scope.
pub async fn no_verb_takes_a_released_key_back(subject: &Subject) {
    let worker = subject.worker().await;
    let scope = [Status::Runnable];
    let rows = || scoped(&scope).priority(-1);

    let released = subject.insert(rows()).await;
    let claim = subject.claim_the(worker, released).await;
    let parked = subject.insert(rows()).await;
    let claim_parked = subject.claim_the(worker, parked).await;
    let fired = subject.insert(rows()).await;
    let claim_fired = subject.claim_the(worker, fired).await;
    let reaped = subject.insert(rows()).await;
    let doomed = subject.worker_with(seconds(1)).await;
    subject.claim_the(doomed, reaped).await;
    let holder = subject.insert(unique().priority(9)).await;

    subject.release(&claim, seconds(0)).await;
    subject.commit(&claim_parked, wait_for(&["go"])).await;
    subject.arrives(signal(parked, "go")).await;
    let nap = wait_at_most(&[], seconds(1));
    subject.commit(&claim_fired, nap).await;
    subject.pass(seconds(1));
    subject.store.fire(10).await.unwrap();
    assert_eq!(subject.reap().await.returned, [reaped]);
    for id in [released, parked, fired, reaped] {
        let row = subject.get(id).await;
        assert_eq!((row.status, row.holds_key), (Status::Runnable, false));
    }
    assert_held(subject, holder).await;
}

/// Defect 4 (docs/protocol.md): one such row stopped the reaper for a thousand others.
pub async fn a_row_that_lost_its_key_does_not_stop_the_reaper(subject: &Subject) {
    let worker = subject.worker().await;
    let first = subject.insert(scoped(&[Status::Runnable])).await;
    let mut ids = subject.insert_all(tasks(100)).await;
    assert_eq!(subject.claim(worker, 200).await.len(), 101);
    subject.insert(unique().queue("elsewhere")).await;
    subject.pass(LEASE);
    let reaped = subject.reap().await;
    ids.insert(0, first);
    assert_eq!(reaped.returned, ids);
    assert_eq!(reaped.removed, [worker]);
}

pub async fn an_operators_retry_does_not_take_the_key_back(subject: &Subject) {
    let (_, claim) = subject.running(unique()).await;
    subject.commit(&claim, stop()).await;
    let next = subject.insert(unique()).await;
    subject.store.retry(vec![claim.id], note()).await.unwrap();
    assert!(!subject.get(claim.id).await.holds_key);
    assert_held(subject, next).await;
}

pub async fn a_scope_with_the_status_failed_holds_the_key_through_a_failure(subject: &Subject) {
    let row = scoped(&[Status::Runnable, Status::Executing, Status::Failed]);
    let (worker, claim) = subject.running(row).await;
    subject.commit(&claim, stop()).await;
    assert_held(subject, claim.id).await;
    subject.store.retry(vec![claim.id], note()).await.unwrap();
    let claim = subject.claim_the(worker, claim.id).await;
    assert_held(subject, claim.id).await;
    subject.commit(&claim, done()).await;
    assert_free(subject).await;
}

pub async fn an_endless_scope_holds_the_key_until_the_instance_is_collected(subject: &Subject) {
    for outcome in [done(), stop(), cancel()] {
        let (_, claim) = subject
            .running(task().correlation(KEY, Scope::FOREVER))
            .await;
        subject.commit(&claim, outcome).await;
        assert_held(subject, claim.id).await;
        let request = CollectRequest {
            retention: seconds(0),
            max: 10,
        };
        let collected = subject.store.collect(request).await.unwrap();
        assert_eq!(collected.removed, [claim.id]);
        assert_free(subject).await;
        subject.store.collect(request).await.unwrap();
    }
}

/// Section 7 of docs/specification.md: a window is nothing but a part of the key. The work starts
/// once in each window, also when it has ended before the window has.
pub async fn a_time_window_in_a_key_lets_work_start_once_in_each_window(subject: &Subject) {
    const WINDOW: u64 = 3600;
    /// A long part that all windows share, and then the start of the present window.
    fn key(subject: &Subject) -> String {
        let seconds = subject.now().0 / 1_000_000;
        let start = seconds - seconds % WINDOW as i64;
        format!("{}report:{start}", "x".repeat(400))
    }
    let report = |subject: &Subject| task().correlation(key(subject), Scope::FOREVER);
    let worker = subject.worker_with(seconds(10 * WINDOW)).await;
    let to_the_next = |subject: &Subject| {
        let passed = subject.now().0 as u64 % (WINDOW * 1_000_000);
        Duration::from_micros(WINDOW * 1_000_000 - passed)
    };
    let mut started = Vec::new();
    for end in [Some(done()), Some(stop()), Some(cancel()), None] {
        // At the first moment of the window.
        subject.pass(to_the_next(subject));
        let holder = subject.insert(report(subject)).await;
        let duplicate = Inserted::Duplicate {
            holder: Some(holder),
        };
        assert_eq!(subject.try_insert(report(subject)).await, duplicate);
        if let Some(end) = end {
            let claim = subject.claim_the(worker, holder).await;
            subject.commit(&claim, end).await;
            assert_eq!(subject.try_insert(report(subject)).await, duplicate);
        }
        // At its last moment.
        subject.pass(to_the_next(subject) - Duration::from_micros(1));
        assert_eq!(subject.try_insert(report(subject)).await, duplicate);
        started.push((key(subject), holder));
    }
    // A later window does not take the key of an earlier one.
    for (key, holder) in started {
        let found = subject.store.find("task", &key).await.unwrap().unwrap();
        assert_eq!((found.id, found.holds_key), (holder, true));
    }
}

/// Section 7 of docs/specification.md: the holder's scope decides, not that of the new row.
pub async fn the_scope_of_the_holder_decides(subject: &Subject) {
    let (_, claim) = subject
        .running(task().correlation(KEY, Scope::FOREVER))
        .await;
    subject.commit(&claim, done()).await;
    let holder = Some(claim.id);
    let newcomer = scoped(&[Status::Runnable]);
    let answer = subject.try_insert(newcomer).await;
    assert_eq!(answer, Inserted::Duplicate { holder });
}

pub async fn a_claim_at_insert_keeps_the_key_when_its_scope_allows(subject: &Subject) {
    let worker = subject.worker().await;
    let inserts = subject.store.insert(vec![unique()], Some(worker)).await;
    let row = inserts.unwrap().rows.remove(0);
    let id = row.new_id().unwrap();
    assert_eq!(subject.status(id).await, Status::Executing);
    assert_held(subject, id).await;
}

pub async fn a_duplicate_writes_nothing(subject: &Subject) {
    let holder = subject.insert(unique()).await;
    let before = subject.get(holder).await;
    subject.pass(seconds(1));
    subject
        .try_insert(unique().queue("other").priority(-9))
        .await;
    subject.assert_unchanged(&before).await;
    let count = subject.store.count(Default::default()).await.unwrap();
    assert_eq!(count, outlast_core::Count::Exactly(1));
}
