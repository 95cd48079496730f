//! Correlation keys: which instance holds a key, for how long, and answers to duplicates.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::{LONG, insert, on_both_stores, running};
use outlast::prelude::*;
use outlast::store::{ErrorKind, Inspect, Scope, Store};
use outlast::{Client, Handle, New, Note, Status};
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::task::JoinSet;

on_both_stores!(
    a_second_instance_with_the_same_key_is_a_duplicate_of_the_first,
    a_key_is_free_again_when_its_holder_is_done,
    a_key_is_free_again_after_a_failure,
    a_key_is_free_again_after_a_terminate,
    a_key_that_is_held_forever_is_free_only_after_a_delete,
    a_key_that_is_held_while_runnable_is_free_when_the_step_begins,
    an_instance_that_frees_its_key_at_a_park_does_not_take_it_back,
    a_key_with_a_scope_that_includes_failed_is_kept_by_a_failed_instance,
    a_retried_instance_does_not_take_its_key_back,
    one_of_many_concurrent_inserts_with_one_key_wins,
    each_duplicate_within_a_batch_is_answered_with_its_holder,
    different_machines_can_use_the_same_key,
    a_scope_without_a_key_is_refused_and_the_error_names_the_fix,
    a_key_of_any_bytes_starts_finds_and_signals_an_instance,
);

/// Ends as its state says, when its signal or the test allows it.
#[derive(Clone, Default)]
struct Guest {
    here: Arc<Notify>,
    go_on: Arc<Notify>,
}

#[steps]
enum Stay {
    Wait,
    Leave,
    Fail,
    Hold,
    Linger,
}

#[derive(Signal, Serialize, Deserialize)]
struct Leave;

impl Machine for Guest {
    const NAME: &'static str = "guest";
    type State = Stay;
    type Output = ();

    async fn step(&self, stay: Stay, _cx: &Context) -> StepResult<Self> {
        match stay {
            Stay::Wait => wait_for::<Leave>().then(Stay::Leave),
            Stay::Leave => done(()),
            Stay::Fail => fail("no room"),
            Stay::Hold => {
                self.here.notify_one();
                self.go_on.notified().await;
                done(())
            }
            // Leads from runnable to parked and to runnable again.
            Stay::Linger => wait_for::<Leave>().then(Stay::Hold),
        }
    }
}

async fn a_key_of_any_bytes_starts_finds_and_signals_an_instance<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store, Guest::default()).await;
    let guest = || Guest::with(Stay::Wait).key(b"\x00\xff");
    let first = engine.start(guest()).await.unwrap();
    let second = engine.start(guest()).await.unwrap();
    assert!(first.is_new() && !second.is_new());
    // The key of a handle is a text, and names the same key again.
    let text = first.key().unwrap();
    assert_eq!(*outlast::store::key::bytes(text), *b"\x00\xff");
    let bytes: Vec<u8> = vec![0, 0xff];
    for found in [
        engine.handle::<Guest>(text).await.unwrap(),
        engine.handle::<Guest>(b"\x00\xff").await.unwrap(),
        engine.handle::<Guest>(&bytes).await.unwrap(),
        engine.handle(Guest::key(bytes.as_slice())).await.unwrap(),
    ] {
        assert_eq!(found.id(), first.id());
    }
    let client = engine.client();
    let listed = client.list().key(&bytes).await.unwrap();
    assert_eq!(listed.instances.len(), 1);
    let nobody = engine.handle::<Guest>(b"\xff").await.unwrap_err();
    assert!(nobody.to_string().contains(r"the key \xff;"), "{nobody}");

    first.settled().timeout(LONG).await.unwrap();
    let leave = || client.signal(Guest::key(&bytes), Leave).dedup(b"\n");
    let sent = leave().await.unwrap();
    assert_eq!((sent.instance, sent.is_new), (first.id().get(), true));
    assert!(!leave().await.unwrap().is_new);
    first.output().timeout(LONG).await.unwrap();
    engine.shutdown().await.unwrap();
}

/// Another machine.
struct Thief;

#[steps]
enum Sneak {
    Sneak,
}

impl Machine for Thief {
    const NAME: &'static str = "thief";
    type State = Sneak;
    type Output = ();

    async fn step(&self, _: Sneak, _cx: &Context) -> StepResult<Self> {
        done(())
    }
}

fn room(stay: Stay) -> New<Guest> {
    Guest::with(stay).key("room:1")
}

/// Checks that this instance holds the key.
async fn assert_held(client: &Client, holder: &Handle<Guest>) {
    let duplicate = client.start(room(Stay::Wait)).await.unwrap();
    assert!(!duplicate.is_new());
    assert_eq!(duplicate.id(), holder.id());
    let found = client.find(Guest::key("room:1")).await.unwrap().unwrap();
    assert_eq!(found.id, holder.id().get());
}

/// Checks that the key is free. A new instance holds it afterwards.
async fn assert_free(client: &Client) {
    let last = client.find(Guest::key("room:1")).await.unwrap();
    assert!(last.is_none_or(|last| !last.holds_key));
    let next = insert(client, room(Stay::Wait)).await;
    assert_held(client, &next).await;
}

async fn a_second_instance_with_the_same_key_is_a_duplicate_of_the_first<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store, Guest::default()).await;
    let first = insert(engine.client(), room(Stay::Wait)).await;
    assert_held(engine.client(), &first).await;
    first.settled().timeout(LONG).await.unwrap();
    assert_held(engine.client(), &first).await;
    // A client can wait for the answer of an insert, duplicate or not.
    let duplicate = engine.start(room(Stay::Wait)).await.unwrap();
    assert!(!duplicate.is_new());
    first.signal(Leave).await.unwrap();
    duplicate.output().timeout(LONG).await.unwrap();
}

async fn a_key_is_free_again_when_its_holder_is_done<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Guest::default()).await;
    let first = insert(engine.client(), room(Stay::Leave)).await;
    first.output().timeout(LONG).await.unwrap();
    assert_free(engine.client()).await;
}

async fn a_key_is_free_again_after_a_failure<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Guest::default()).await;
    let first = insert(engine.client(), room(Stay::Fail)).await;
    first.ended().timeout(LONG).await.unwrap();
    assert_free(engine.client()).await;
}

async fn a_key_is_free_again_after_a_terminate<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store);
    let first = insert(&client, room(Stay::Wait)).await;
    first.terminate(Note::by("porter")).await.unwrap();
    assert_free(&client).await;
}

async fn a_key_that_is_held_forever_is_free_only_after_a_delete<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store, Guest::default()).await;
    let first = insert(engine.client(), room(Stay::Leave).scope(Scope::FOREVER)).await;
    first.output().timeout(LONG).await.unwrap();
    assert_held(engine.client(), &first).await;
    let admin = engine.client().admin();
    admin.delete(&first, Note::by("porter")).await.unwrap();
    assert_free(engine.client()).await;
}

async fn a_key_that_is_held_while_runnable_is_free_when_the_step_begins<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let client = Client::new(store.clone());
    let scope = Scope::of([Status::Runnable]).unwrap();
    let first = insert(&client, room(Stay::Hold).scope(scope)).await;
    assert_held(&client, &first).await;
    let guest = Guest::default();
    let _engine = running(store, guest.clone()).await;
    guest.here.notified().await;
    assert_free(&client).await;
    guest.go_on.notify_one();
    first.output().timeout(LONG).await.unwrap();
}

async fn an_instance_that_frees_its_key_at_a_park_does_not_take_it_back<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let guest = Guest::default();
    let engine = running(store, guest.clone()).await;
    let scope = Scope::of([Status::Runnable, Status::Executing]).unwrap();
    let first = insert(engine.client(), room(Stay::Linger).scope(scope)).await;
    first.settled().timeout(LONG).await.unwrap();
    assert_free(engine.client()).await;
    // Back in its scope, the instance stays without the key, which another one holds.
    first.signal(Leave).await.unwrap();
    guest.here.notified().await;
    let executing = first.instance().await.unwrap();
    assert_eq!(executing.status, Status::Executing);
    assert!(!executing.holds_key);
    guest.go_on.notify_one();
    first.output().timeout(LONG).await.unwrap();
    let holder = engine.handle(Guest::key("room:1")).await.unwrap();
    assert_ne!(holder.id(), first.id());
}

async fn a_key_with_a_scope_that_includes_failed_is_kept_by_a_failed_instance<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let live_or_failed = [
        Status::Runnable,
        Status::Executing,
        Status::AwaitingSignal,
        Status::AwaitingChildren,
        Status::Failed,
    ];
    let scope = Scope::of(live_or_failed).unwrap();
    let engine = running(store, Guest::default()).await;
    let failed = insert(engine.client(), room(Stay::Fail).scope(scope)).await;
    failed.ended().timeout(LONG).await.unwrap();
    assert_held(engine.client(), &failed).await;
    let done = Guest::with(Stay::Leave).key("room:2").scope(scope);
    let done = insert(engine.client(), done).await;
    done.output().timeout(LONG).await.unwrap();
    let last = engine.client().find(Guest::key("room:2")).await;
    let last = last.unwrap().unwrap();
    assert_eq!((last.id, last.holds_key), (done.id().get(), false));
}

async fn a_retried_instance_does_not_take_its_key_back<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Guest::default()).await;
    let failed = insert(engine.client(), room(Stay::Fail)).await;
    failed.ended().timeout(LONG).await.unwrap();
    let next = insert(engine.client(), room(Stay::Wait)).await;
    let admin = engine.client().admin();
    admin.retry(&failed, Note::by("porter")).await.unwrap();
    let ended = failed.ended().timeout(LONG).await.unwrap();
    assert_eq!(ended.correlation_key.as_deref(), Some("room:1"));
    assert!(!ended.holds_key);
    assert_held(engine.client(), &next).await;
}

async fn one_of_many_concurrent_inserts_with_one_key_wins<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store);
    let mut inserts = JoinSet::new();
    for _ in 0..20 {
        let client = client.clone();
        inserts.spawn(async move { client.start(room(Stay::Wait)).await.unwrap() });
    }
    let answers = inserts.join_all().await;
    let winners: Vec<_> = answers.iter().filter(|answer| answer.is_new()).collect();
    assert_eq!(winners.len(), 1);
    let winner = winners[0].id();
    assert!(answers.iter().all(|answer| answer.id() == winner));
}

async fn each_duplicate_within_a_batch_is_answered_with_its_holder<S: Store + Inspect + Clone>(
    store: S,
) {
    let client = Client::new(store);
    let guests = ["a", "b", "a", "c", "b"].map(|key| Guest::with(Stay::Wait).key(key));
    let answers = client.start_many(guests).await.unwrap();
    let new: Vec<_> = answers.iter().map(Handle::is_new).collect();
    assert_eq!(new, [true, true, false, true, false]);
    assert_eq!(answers[2].id(), answers[0].id());
    assert_eq!(answers[4].id(), answers[1].id());
}

async fn different_machines_can_use_the_same_key<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store);
    let guest = insert(&client, room(Stay::Wait)).await;
    let thief = insert(&client, Thief::with(Sneak::Sneak).key("room:1")).await;
    assert_ne!(guest.id().get(), thief.id().get());
    let found = client.find(Thief::key("room:1")).await.unwrap().unwrap();
    assert_eq!(found.id, thief.id().get());
}

async fn a_scope_without_a_key_is_refused_and_the_error_names_the_fix<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let client = Client::new(store);
    let keyless = Guest::with(Stay::Wait).scope(Scope::FOREVER);
    let refusal = client.start(keyless).await.unwrap_err();
    assert_eq!(refusal.kind(), ErrorKind::Invalid);
    assert!(
        refusal.to_string().contains("call .key(..) too"),
        "{refusal}"
    );
}
