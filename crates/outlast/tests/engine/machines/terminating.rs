//! Terminates: instances that end at once, in any status.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::family::{Kid, Play};
use crate::support::through::Through;
use crate::support::{LONG, eventually, insert, on_both_stores};
use outlast::TerminateAnswer;
use outlast::prelude::*;
use outlast_core::{Inspect, Store};
use std::sync::atomic::Ordering;
use std::time::Instant;

on_both_stores!(
    a_terminated_step_is_dropped_where_it_awaits_and_frees_its_slot,
    an_instance_terminated_while_it_waits_for_a_slot_does_not_start,
    a_terminated_step_is_dropped_without_the_hint,
    a_terminate_of_an_ended_or_missing_instance_is_answered,
    a_terminated_instance_frees_its_key_and_its_partition_key,
    a_terminate_ends_the_wait_of_a_client,
);

fn ada() -> Note {
    Note::by("ada").because("enough")
}

/// An engine with one slot. A step that kept it would be noticed.
async fn alone(store: impl Store + Inspect, kid: &Kid) -> Engine {
    let builder = Engine::builder(store).machine(kid.clone());
    builder.queue("default", 1).start().await.unwrap()
}

async fn lingering(engine: &Engine, kid: &Kid) -> Id<Kid> {
    let id = insert(engine, New::<Kid>(Play::Linger)).await;
    eventually("the step runs", async || {
        !kid.seen.lock().unwrap().is_empty()
    })
    .await;
    id
}

async fn a_terminated_step_is_dropped_where_it_awaits_and_frees_its_slot<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let kid = Kid::default();
    let engine = alone(store, &kid).await;
    let id = lingering(&engine, &kid).await;
    let begun = Instant::now();
    let answer = engine.terminate(id, ada()).await.unwrap();
    assert_eq!(answer, TerminateAnswer::Terminated(Status::Executing));
    eventually("the step is dropped", async || {
        kid.dropped.load(Ordering::SeqCst) == 1
    })
    .await;
    // The lease is much longer, so only a hint is this fast.
    assert!(begun.elapsed() < Duration::from_secs(5), "{begun:?}");
    let next = insert(&engine, New::<Kid>(Play::Win(7))).await;
    assert_eq!(engine.wait(next, LONG).await.unwrap(), 7);
    let ended = engine.get(id).await.unwrap().unwrap();
    assert_eq!(ended.status, Status::Cancelled);
    assert_eq!(
        ended.last_error.as_deref(),
        Some("terminated by ada: enough")
    );
    assert!(engine.shutdown().await.in_time);
}

async fn an_instance_terminated_while_it_waits_for_a_slot_does_not_start<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let kid = Kid::default();
    let builder = Engine::builder(store).machine(kid.clone());
    let engine = builder.queue("default", 2).start().await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(insert(&engine, New::<Kid>(Play::Linger)).await);
    }
    eventually("two steps run", async || {
        kid.seen.lock().unwrap().len() == 2
    })
    .await;
    let last = ids.pop().unwrap();
    engine.terminate(last, ada()).await.unwrap();
    for id in ids {
        engine.cancel(id, ada()).await.unwrap();
        engine.wait_ended(id, LONG).await.unwrap();
    }
    assert!(engine.shutdown().await.in_time);
    let seen = kid.seen.lock().unwrap();
    assert_eq!(seen.iter().filter(|it| *it == "linger").count(), 2);
    assert_eq!(kid.dropped.load(Ordering::SeqCst), 0);
}

async fn a_terminated_step_is_dropped_without_the_hint<S: Store + Inspect + Clone>(store: S) {
    let kid = Kid::default();
    let builder = Engine::builder(Through::new(store.clone()).mute()).machine(kid.clone());
    let builder = builder
        .queue("default", 1)
        .lease(Duration::from_millis(900));
    let engine = builder.start().await.unwrap();
    let id = lingering(&engine, &kid).await;
    Client::new(store).terminate(id, ada()).await.unwrap();
    eventually("the step is dropped", async || {
        kid.dropped.load(Ordering::SeqCst) == 1
    })
    .await;
    let next = insert(&engine, New::<Kid>(Play::Win(7))).await;
    assert_eq!(engine.wait(next, LONG).await.unwrap(), 7);
}

async fn a_terminate_of_an_ended_or_missing_instance_is_answered<S: Store + Inspect + Clone>(
    store: S,
) {
    let client = Client::new(store);
    let id = insert(&client, New::<Kid>(Play::Win(1))).await;
    // A cancel without its answer does not prevent a terminate.
    client.cancel(id, ada()).await.unwrap();
    let terminate = async || client.terminate(id, ada()).await.unwrap();
    assert_eq!(
        terminate().await,
        TerminateAnswer::Terminated(Status::Runnable)
    );
    assert_eq!(
        terminate().await,
        TerminateAnswer::AlreadyEnded(Status::Cancelled)
    );
    let missing = client.terminate(InstanceId(4711), ada()).await.unwrap();
    assert_eq!(missing, TerminateAnswer::NotFound);
}

async fn a_terminated_instance_frees_its_key_and_its_partition_key<S: Store + Inspect + Clone>(
    store: S,
) {
    let kid = Kid::default();
    let builder = Engine::builder(store).machine(kid.clone());
    let engine = builder.queue("default", 4).start().await.unwrap();
    let first = New::<Kid>(Play::Linger).key("room").partition_key("bed");
    let first = insert(&engine, first).await;
    eventually("the step runs", async || {
        !kid.seen.lock().unwrap().is_empty()
    })
    .await;
    let second = insert(&engine, New::<Kid>(Play::Win(2)).partition_key("bed")).await;
    engine.terminate(first, ada()).await.unwrap();
    assert_eq!(engine.wait(second, LONG).await.unwrap(), 2);
    let third = insert(&engine, New::<Kid>(Play::Win(3)).key("room")).await;
    assert_eq!(engine.wait(third, LONG).await.unwrap(), 3);
}

async fn a_terminate_ends_the_wait_of_a_client<S: Store + Inspect + Clone>(store: S) {
    let kid = Kid::default();
    let engine = alone(store, &kid).await;
    let id = lingering(&engine, &kid).await;
    let waiting = tokio::spawn({
        let client = engine.client().clone();
        async move { client.wait(id, LONG).await }
    });
    engine.terminate(id, ada()).await.unwrap();
    let Err(WaitError::Ended { status, .. }) = waiting.await.unwrap() else {
        panic!("a cancelled instance has no output");
    };
    assert_eq!(status, Status::Cancelled);
}
