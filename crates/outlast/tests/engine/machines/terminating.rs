//! Terminates: instances that end at once, in any status.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::family::{Kid, Play};
use crate::support::through::Through;
use crate::support::{LONG, eventually, insert, on_both_stores};
use outlast::prelude::*;
use outlast::store::{Inspect, Store, TerminateAnswer};
use outlast::{Client, Handle, InstanceId, Note, Status, WaitError};
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
    let builder = Engine::builder(store).register(kid.clone());
    builder.queue("default", 1).start().await.unwrap()
}

async fn lingering(engine: &Engine, kid: &Kid) -> Handle<Kid> {
    let handle = insert(engine.client(), Kid::with(Play::Linger)).await;
    eventually("the step runs", async || {
        !kid.seen.lock().unwrap().is_empty()
    })
    .await;
    handle
}

async fn a_terminated_step_is_dropped_where_it_awaits_and_frees_its_slot<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let kid = Kid::default();
    let engine = alone(store, &kid).await;
    let handle = lingering(&engine, &kid).await;
    let begun = Instant::now();
    let answer = handle.terminate(ada()).await.unwrap();
    assert_eq!(answer, TerminateAnswer::Terminated(Status::Executing));
    eventually("the step is dropped", async || {
        kid.dropped.load(Ordering::SeqCst) == 1
    })
    .await;
    // The lease is much longer, so only a hint is this fast.
    assert!(begun.elapsed() < Duration::from_secs(5), "{begun:?}");
    let next = insert(engine.client(), Kid::with(Play::Win(7))).await;
    assert_eq!(next.output().timeout(LONG).await.unwrap(), 7);
    let ended = handle.instance().await.unwrap();
    assert_eq!(ended.status, Status::Cancelled);
    assert_eq!(
        ended.last_error.as_deref(),
        Some("terminated by ada: enough")
    );
    engine.shutdown().await.unwrap();
}

async fn an_instance_terminated_while_it_waits_for_a_slot_does_not_start<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let kid = Kid::default();
    let builder = Engine::builder(store).register(kid.clone());
    let engine = builder.queue("default", 2).start().await.unwrap();
    let mut handles = Vec::new();
    for _ in 0..3 {
        handles.push(insert(engine.client(), Kid::with(Play::Linger)).await);
    }
    eventually("two steps run", async || {
        kid.seen.lock().unwrap().len() == 2
    })
    .await;
    let last = handles.pop().unwrap();
    last.terminate(ada()).await.unwrap();
    for handle in handles {
        handle.cancel(ada()).await.unwrap();
        handle.ended().timeout(LONG).await.unwrap();
    }
    engine.shutdown().await.unwrap();
    let seen = kid.seen.lock().unwrap();
    assert_eq!(seen.iter().filter(|it| *it == "linger").count(), 2);
    assert_eq!(kid.dropped.load(Ordering::SeqCst), 0);
}

async fn a_terminated_step_is_dropped_without_the_hint<S: Store + Inspect + Clone>(store: S) {
    let kid = Kid::default();
    let builder = Engine::builder(Through::new(store.clone()).mute()).register(kid.clone());
    let builder = builder
        .queue("default", 1)
        .lease(Duration::from_millis(900));
    let engine = builder.start().await.unwrap();
    let handle = lingering(&engine, &kid).await;
    let elsewhere = Client::new(store);
    elsewhere.admin().terminate(&handle, ada()).await.unwrap();
    eventually("the step is dropped", async || {
        kid.dropped.load(Ordering::SeqCst) == 1
    })
    .await;
    let next = insert(engine.client(), Kid::with(Play::Win(7))).await;
    assert_eq!(next.output().timeout(LONG).await.unwrap(), 7);
}

async fn a_terminate_of_an_ended_or_missing_instance_is_answered<S: Store + Inspect + Clone>(
    store: S,
) {
    let client = Client::new(store);
    let handle = insert(&client, Kid::with(Play::Win(1))).await;
    // A cancel without its answer does not prevent a terminate.
    handle.cancel(ada()).await.unwrap();
    let terminate = async || handle.terminate(ada()).await.unwrap();
    assert_eq!(
        terminate().await,
        TerminateAnswer::Terminated(Status::Runnable)
    );
    assert_eq!(
        terminate().await,
        TerminateAnswer::AlreadyEnded(Status::Cancelled)
    );
    let missing = client
        .admin()
        .terminate(InstanceId(4711), ada())
        .await
        .unwrap();
    assert_eq!(missing, TerminateAnswer::NotFound);
}

async fn a_terminated_instance_frees_its_key_and_its_partition_key<S: Store + Inspect + Clone>(
    store: S,
) {
    let kid = Kid::default();
    let builder = Engine::builder(store).register(kid.clone());
    let engine = builder.queue("default", 4).start().await.unwrap();
    let first = Kid::with(Play::Linger).key("room").partition_key("bed");
    let first = insert(engine.client(), first).await;
    eventually("the step runs", async || {
        !kid.seen.lock().unwrap().is_empty()
    })
    .await;
    let second = insert(
        engine.client(),
        Kid::with(Play::Win(2)).partition_key("bed"),
    )
    .await;
    first.terminate(ada()).await.unwrap();
    assert_eq!(second.output().timeout(LONG).await.unwrap(), 2);
    let third = insert(engine.client(), Kid::with(Play::Win(3)).key("room")).await;
    assert_eq!(third.output().timeout(LONG).await.unwrap(), 3);
}

async fn a_terminate_ends_the_wait_of_a_client<S: Store + Inspect + Clone>(store: S) {
    let kid = Kid::default();
    let engine = alone(store, &kid).await;
    let handle = lingering(&engine, &kid).await;
    let waiting = tokio::spawn({
        let handle = handle.clone();
        async move { handle.output().timeout(LONG).await }
    });
    handle.terminate(ada()).await.unwrap();
    let Err(WaitError::Ended { status, .. }) = waiting.await.unwrap() else {
        panic!("a cancelled instance has no output");
    };
    assert_eq!(status, Status::Cancelled);
}
