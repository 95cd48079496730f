//! Partition keys: one row at a time, in order (docs/protocol.md, I8 and defect 8).
//!
//! A busy key must not block other keys.

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{NewInstance, Status, limits};
use std::time::Duration;

fn keyed(key: &str) -> NewInstance {
    task().partition_key(key)
}

/// I8.
pub async fn a_claim_takes_only_the_first_row_of_a_partition_key(subject: &Subject) {
    let worker = subject.worker().await;
    let rows = vec![keyed("a"), keyed("a"), keyed("b"), keyed("a")];
    let ids = subject.insert_all(rows).await;
    assert_eq!(subject.claim_ids(worker, 10).await, [ids[0], ids[2]]);
    assert_eq!(subject.claim_ids(worker, 10).await, []);
}

/// I8.
pub async fn the_next_row_of_a_partition_key_runs_when_the_first_has_ended(subject: &Subject) {
    let worker = subject.worker().await;
    let ids = subject.insert_all(vec![keyed("a"); 3]).await;
    for id in ids {
        let claims = subject.claim(worker, 10).await;
        assert_eq!(ids_of(&claims), [id]);
        subject.commit(&claims[0], done()).await;
    }
}

/// I8: by priority first, then by time, then by id.
pub async fn rows_of_a_partition_key_run_in_the_order_of_the_queue(subject: &Subject) {
    let worker = subject.worker().await;
    let last = subject.insert(keyed("a").priority(1)).await;
    let middle = subject.insert(keyed("a")).await;
    subject.pass(seconds(1));
    let late = subject.insert(keyed("a")).await;
    let first = subject.insert(keyed("a").priority(-1)).await;
    for id in [first, middle, late, last] {
        let claim = subject.claim_the(worker, id).await;
        subject.commit(&claim, done()).await;
    }
}

/// I8: a claim reads a bounded part of the queue, and may continue where the last one stopped.
pub async fn a_returned_row_runs_before_a_later_row_of_its_key_in_a_long_queue(subject: &Subject) {
    let worker = subject.worker().await;
    let others = || vec![NewInstance::new("foreign", "start", json("{}")); 600];
    subject.insert_all(others()).await;
    let first = subject.insert(keyed("a")).await;
    subject.insert_all(others()).await;
    let second = subject.insert(keyed("a")).await;

    let claim = subject.claim_until(worker, first).await;
    // This claim stops between the two rows, or sets the second one aside.
    assert_eq!(subject.claim_ids(worker, 1).await, []);
    subject.release(&claim, Duration::ZERO).await;
    let claim = subject.claim_until(worker, first).await;
    subject.commit(&claim, done()).await;
    subject.claim_until(worker, second).await;
}

/// The outage of defect 8 (docs/protocol.md): a busy key at the head of a queue stopped it.
pub async fn a_busy_partition_key_at_the_head_does_not_block_the_other_rows(subject: &Subject) {
    let worker = subject.worker().await;
    subject
        .insert_all(vec![keyed("busy").priority(-1); 300])
        .await;
    let running = subject.claim_one(worker).await;
    let free = subject
        .insert_all(vec![task(), keyed("idle"), task()])
        .await;
    assert_eq!(subject.claim_ids(worker, 3).await, free);
    assert_eq!(running.partition_key.as_deref(), Some("busy"));
}

/// I8: over many rows, no wake-up of the next row is lost.
pub async fn hundreds_of_rows_of_one_partition_key_run_in_order(subject: &Subject) {
    let worker = subject.worker().await;
    let ids = subject.insert_all(vec![keyed("busy"); 300]).await;
    for id in ids {
        let claim = subject.claim_the(worker, id).await;
        let committed = subject.commit_all(vec![commit_of(&claim, done())]).await;
        assert_eq!(committed.answers.len(), 1);
    }
    assert_eq!(subject.claim_ids(worker, 10).await, []);
    subject.assert_sound().await;
}

pub async fn a_partition_key_counts_in_every_queue(subject: &Subject) {
    let worker = subject.worker().await;
    let here = subject.insert(keyed("a")).await;
    let there = subject.insert(keyed("a").queue("mail")).await;
    let claim = subject.claim_the(worker, here).await;
    assert_eq!(subject.ask(worker, "mail", 10).await.claims, []);
    subject.commit(&claim, done()).await;
    let mail = subject.ask(worker, "mail", 10).await.claims;
    assert_eq!(ids_of(&mail), [there]);
}

pub async fn a_partition_key_is_free_while_its_instance_is_parked(subject: &Subject) {
    let worker = subject.worker().await;
    let ids = subject.insert_all(vec![keyed("a"); 2]).await;
    let first = subject.claim_the(worker, ids[0]).await;
    subject.commit(&first, wait_for(&["go"])).await;
    let second = subject.claim_the(worker, ids[1]).await;
    subject.arrives(signal(ids[0], "go")).await;
    assert_eq!(subject.claim_ids(worker, 10).await, []);
    subject.commit(&second, done()).await;
    assert_eq!(subject.claim_ids(worker, 10).await, [ids[0]]);
}

pub async fn every_outcome_that_gives_up_the_claim_lets_the_next_row_run(subject: &Subject) {
    let worker = subject.worker().await;
    let ways = [
        requeue("later"),
        again(seconds(10)),
        wait_for(&["x"]),
        fan_out(vec![task().queue("mail")]),
        done(),
        stop(),
        cancel(),
    ];
    for outcome in ways {
        let first = subject.insert(keyed("a").priority(-1)).await;
        let second = subject.insert(keyed("a").priority(-1)).await;
        let claim = subject.claim_the(worker, first).await;
        assert_eq!(subject.claim_ids(worker, 10).await, []);
        subject.commit(&claim, outcome.clone()).await;
        let next = subject.claim_one(worker).await;
        assert!(next.id == second || next.id == first, "{outcome:?}");
        subject.commit(&next, done()).await;
        for id in [first, second] {
            subject
                .store
                .terminate(vec![id], Extent::One, note())
                .await
                .unwrap();
        }
    }
    subject.assert_sound().await;
}

pub async fn a_kept_claim_keeps_its_partition_key(subject: &Subject) {
    let worker = subject.worker().await;
    let ids = subject.insert_all(vec![keyed("a"); 2]).await;
    let claim = subject.claim_the(worker, ids[0]).await;
    assert_eq!(subject.commit(&claim, keep("on")).await, Status::Executing);
    assert_eq!(subject.claim_ids(worker, 10).await, []);
}

pub async fn release_terminate_and_reap_let_the_next_row_run(subject: &Subject) {
    let worker = subject.worker().await;
    let ids = subject.insert_all(vec![keyed("a"); 4]).await;
    let claim = subject.claim_the(worker, ids[0]).await;
    subject.release(&claim, seconds(1_000)).await;
    subject.claim_the(worker, ids[1]).await;
    subject
        .store
        .terminate(vec![ids[1]], Extent::One, note())
        .await
        .unwrap();
    subject.claim_the(worker, ids[2]).await;
    subject
        .store
        .terminate(vec![ids[3]], Extent::One, note())
        .await
        .unwrap();

    subject.pass(LEASE);
    assert_eq!(subject.reap().await.returned, [ids[2]]);
    let survivor = subject.worker().await;
    subject.claim_the(survivor, ids[2]).await;
    subject.assert_sound().await;
}

/// Defect 8 (docs/protocol.md): hashed locks mistook one key for another.
pub async fn partition_keys_are_compared_whole(subject: &Subject) {
    // Pairs for which PostgreSQL's `hashtext` is the same.
    const COLLIDING: [&str; 8] = [
        "key-49566",
        "key-84659",
        "key-19649",
        "key-112110",
        "key-7295",
        "key-129539",
        "key-52076",
        "key-129618",
    ];
    let worker = subject.worker().await;
    let rows = COLLIDING.map(keyed).to_vec();
    let ids = subject.insert_all(rows).await;
    assert_eq!(subject.claim_ids(worker, 100).await, ids);

    // Keys that differ in their last byte only, or in their length.
    let longest = |last: u8| [vec![b'x'; limits::KEY_BYTES_MAX - 1], vec![last]].concat();
    let similar: Vec<Vec<u8>> = vec![
        longest(b'a'),
        longest(b'b'),
        longest(0),
        longest(1),
        b"a".to_vec(),
        b"a\0".to_vec(),
        b"a\0\0".to_vec(),
        b"A".to_vec(),
    ];
    let rows = similar.into_iter().map(|key| task().partition_key(key));
    let ids = subject.insert_all(rows.collect()).await;
    assert_eq!(subject.claim_ids(worker, 100).await, ids);
}

pub async fn a_terminated_row_of_a_partition_key_does_not_block_the_next_row(subject: &Subject) {
    let worker = subject.worker().await;
    let ids = subject.insert_all(vec![keyed("a"); 3]).await;
    let claim = subject.claim_the(worker, ids[0]).await;
    subject
        .store
        .terminate(vec![ids[1]], Extent::One, note())
        .await
        .unwrap();
    subject.commit(&claim, done()).await;
    assert_eq!(subject.claim_ids(worker, 10).await, [ids[2]]);
}

pub async fn a_row_that_no_worker_can_run_does_not_block_its_partition_key(subject: &Subject) {
    let worker = subject.worker().await;
    let foreign = NewInstance::new("foreign", "start", json("{}")).partition_key("a");
    subject.insert(foreign).await;
    let mine = subject.insert(keyed("a")).await;
    assert_eq!(subject.claim_ids(worker, 10).await, [mine]);
}

pub async fn a_delayed_row_does_not_block_its_partition_key(subject: &Subject) {
    let worker = subject.worker().await;
    let urgent = subject
        .insert(later(keyed("a").priority(-1), seconds(60)))
        .await;
    let now = subject.insert(keyed("a")).await;
    let claim = subject.claim_the(worker, now).await;
    subject.pass(seconds(60));
    subject.store.heartbeat(worker, LEASE).await.unwrap();
    assert_eq!(subject.claim_ids(worker, 10).await, []);
    subject.commit(&claim, done()).await;
    assert_eq!(subject.claim_ids(worker, 10).await, [urgent]);
}
