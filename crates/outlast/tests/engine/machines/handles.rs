//! Handles: how an instance is found, what its handle reads, and what it does with it.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::through::Through;
use crate::support::{LONG, insert, on_both_stores, running};
use outlast::prelude::*;
use outlast::store::{
    CancelAnswer, DeleteAnswer, EventKind, Inspect, InstanceId, Json, NewInstance, Store, Target,
    TerminateAnswer,
};
use outlast::{
    Client, Handle, History, Id, Key, LookupError, Note, SignalError, Status, WaitError,
};
use std::time::Instant;

on_both_stores!(
    an_instance_is_found_by_its_key_and_by_its_id,
    a_key_finds_its_holder_or_else_the_last_that_held_it,
    an_id_of_another_machine_is_refused,
    a_key_of_another_machine_is_not_found,
    a_key_that_nobody_holds_is_an_error_that_says_how_to_start_one,
    an_id_that_was_never_given_is_an_error,
    a_second_start_with_the_same_key_returns_the_handle_of_the_holder,
    of_many_starts_with_the_same_key_one_is_new,
    an_instance_without_a_key_has_none,
    a_handle_reads_the_state_of_the_current_step,
    a_state_that_does_not_decode_is_an_error_of_the_handle,
    a_handle_reads_the_status_until_the_instance_is_deleted,
    a_handle_reads_the_history_in_pages,
    a_handle_reads_the_children_of_its_instance,
    a_handle_explains_what_its_instance_waits_for,
    a_cancel_through_a_handle_asks_the_machine,
    a_terminate_through_a_handle_ends_the_instance_at_once,
    a_wait_for_an_output_that_runs_out_says_what_the_instance_waits_for,
    a_wait_for_an_end_that_runs_out_has_the_instance,
    a_wait_without_a_timeout_lasts_until_the_instance_has_ended,
    a_settled_instance_is_parked_or_has_ended,
    a_handle_without_an_engine_in_its_process_does_the_same,
);

/// Waits for a delivery, for its children, or for nothing.
struct Shop;

#[steps]
#[derive(Debug, PartialEq, Eq)]
enum Order {
    Receive { number: u32 },
    Deliver { number: u32 },
    Delivered { number: u32 },
    Split { parts: u32 },
    Joined,
}

#[derive(Signal, Serialize, Deserialize)]
struct Arrived;

impl Machine for Shop {
    const NAME: &'static str = "shop";
    const HISTORY: History = History::Transitions;
    type State = Order;
    type Output = u32;

    async fn step(&self, order: Order, cx: &Context) -> StepResult<Self> {
        match order {
            Order::Receive { number } => next(Order::Deliver { number }),
            Order::Deliver { number } => wait_for::<Arrived>().then(Order::Delivered { number }),
            Order::Delivered { number } => done(number),
            Order::Split { parts } => {
                let parts = (0..parts).map(|number| Shop::with(Order::Receive { number }));
                fan_out(parts).then(Order::Joined)
            }
            Order::Joined => done(cx.round().len().try_into()?),
        }
    }
}

/// A machine with another name.
struct Depot;

impl Machine for Depot {
    const NAME: &'static str = "depot";
    type State = Order;
    type Output = u32;

    async fn step(&self, _: Order, _cx: &Context) -> StepResult<Self> {
        done(0)
    }
}

fn ada() -> Note {
    Note::by("ada").because("sold out")
}

/// Starts an order, and waits until it is parked.
async fn parked(client: &Client, key: &str) -> Handle<Shop> {
    let order = Shop::with(Order::Receive { number: 42 }).key(key);
    let order = insert(client, order).await;
    let parked = order.settled().timeout(LONG).await.unwrap();
    assert_eq!(parked.status, Status::AwaitingSignal);
    order
}

async fn an_instance_is_found_by_its_key_and_by_its_id<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store);
    let order = insert(&client, Shop::with(Order::Joined).key("order:1")).await;
    let id: Id<Shop> = order.id();
    let plain: InstanceId = id.get();
    let key: Key<Shop> = Shop::key("order:1");
    for found in [
        client.handle("order:1").await.unwrap(),
        client.handle("order:1".to_owned()).await.unwrap(),
        client.handle(key).await.unwrap(),
        client.handle(id).await.unwrap(),
        client.handle(plain).await.unwrap(),
        client.handle(&order).await.unwrap(),
    ] {
        assert_eq!((found.id(), found.key()), (id, Some("order:1")));
        // It was looked up, so this call did not start it.
        assert!(!found.is_new());
    }
}

async fn a_key_finds_its_holder_or_else_the_last_that_held_it<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store, Shop).await;
    let first = insert(engine.client(), Shop::with(Order::Joined).key("order:1")).await;
    first.ended().timeout(LONG).await.unwrap();
    let found = engine.handle::<Shop>("order:1").await.unwrap();
    assert_eq!(found.id(), first.id());
    // An ended instance has released its key.
    let second = parked(engine.client(), "order:1").await;
    let found = engine.handle::<Shop>("order:1").await.unwrap();
    assert_eq!(found.id(), second.id());
    assert_ne!(first.id(), second.id());
}

async fn an_id_of_another_machine_is_refused<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store);
    let depot = insert(&client, Depot::with(Order::Joined)).await;
    let refusal = client.handle::<Shop>(depot.id().get()).await.unwrap_err();
    let message = format!("instance {} is of machine depot, not of shop", depot.id());
    assert_eq!(refusal.to_string(), message);
    let LookupError::OtherMachine {
        id,
        expected,
        found,
    } = refusal
    else {
        panic!("{refusal:?}");
    };
    assert_eq!(
        (id, expected, found.as_str()),
        (depot.id().get(), "shop", "depot")
    );
}

async fn a_key_of_another_machine_is_not_found<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store);
    insert(&client, Depot::with(Order::Joined).key("order:1")).await;
    let refusal = client.handle::<Shop>("order:1").await.unwrap_err();
    assert!(matches!(refusal, LookupError::NotFound { .. }), "{refusal}");
}

async fn a_key_that_nobody_holds_is_an_error_that_says_how_to_start_one<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let client = Client::new(store);
    let refusal = client.handle::<Shop>("order:7").await.unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "no stored instance of shop holds or held the key \"order:7\"; start one with .key(\"order:7\")"
    );
    let LookupError::NotFound { target } = refusal else {
        panic!("{refusal:?}");
    };
    assert_eq!(target, Target::from(Shop::key("order:7")));
}

async fn an_id_that_was_never_given_is_an_error<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store);
    let refusal = client.handle::<Shop>(InstanceId(4711)).await.unwrap_err();
    let message = refusal.to_string();
    assert!(
        message.starts_with("there is no instance 4711: "),
        "{message}"
    );
    let LookupError::NotFound { target } = refusal else {
        panic!("{refusal:?}");
    };
    assert_eq!(target, Target::Id(InstanceId(4711)));
}

async fn a_second_start_with_the_same_key_returns_the_handle_of_the_holder<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store, Shop).await;
    let first = parked(engine.client(), "order:1").await;
    let again = Shop::with(Order::Receive { number: 7 }).key("order:1");
    let second = engine.start(again).await.unwrap();
    assert!(first.is_new() && !second.is_new());
    assert_eq!((second.id(), second.key()), (first.id(), Some("order:1")));
    // The second handle is of the first order.
    second.signal(Arrived).await.unwrap();
    assert_eq!(second.output().timeout(LONG).await.unwrap(), 42);
}

async fn of_many_starts_with_the_same_key_one_is_new<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store);
    let keys = ["a", "b", "a", "c"];
    let orders = keys.map(|key| Shop::with(Order::Joined).key(key));
    let handles = client.start_many(orders).await.unwrap();
    let found: Vec<_> = handles.iter().map(|it| it.key().unwrap()).collect();
    assert_eq!(found, keys, "they are in the order of the call");
    let are_new: Vec<_> = handles.iter().map(Handle::is_new).collect();
    assert_eq!(are_new, [true, true, false, true]);
    assert_eq!(handles[2].id(), handles[0].id());
}

async fn an_instance_without_a_key_has_none<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store);
    let order = insert(&client, Shop::with(Order::Joined)).await;
    assert_eq!(order.key(), None);
    let found = client.handle(order.id()).await.unwrap();
    assert_eq!(found.key(), None);
}

async fn a_handle_reads_the_state_of_the_current_step<S: Store + Inspect + Clone>(store: S) {
    let before = insert(
        &Client::new(store.clone()),
        Shop::with(Order::Receive { number: 1 }),
    )
    .await;
    assert_eq!(before.state().await.unwrap(), Order::Receive { number: 1 });
    let engine = running(store, Shop).await;
    let order = parked(engine.client(), "order:1").await;
    assert_eq!(
        order.state().await.unwrap(),
        Order::Delivered { number: 42 }
    );
}

async fn a_state_that_does_not_decode_is_an_error_of_the_handle<S: Store + Inspect + Clone>(
    store: S,
) {
    let client = Client::new(store);
    let state = Json::of(&"no number").unwrap();
    let row = NewInstance::new("shop", "receive", state);
    let inserted = client.admin().insert_rows(vec![row]).await.unwrap();
    let id = inserted[0].new_id().unwrap();
    let order = client.handle::<Shop>(id).await.unwrap();
    let refusal = order.state().await.unwrap_err();
    let message = refusal.to_string();
    assert!(
        message.starts_with(&format!("instance {id}: ")) && message.contains("does not decode"),
        "{message}"
    );
    assert!(matches!(refusal, LookupError::Undecodable { id: of, .. } if of == id));
    // The row itself can be read.
    assert_eq!(order.instance().await.unwrap().step, "receive");
}

async fn a_handle_reads_the_status_until_the_instance_is_deleted<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store, Shop).await;
    let order = parked(engine.client(), "order:1").await;
    assert_eq!(order.status().await.unwrap(), Status::AwaitingSignal);
    order.signal(Arrived).await.unwrap();
    order.ended().timeout(LONG).await.unwrap();
    assert_eq!(order.status().await.unwrap(), Status::Done);

    let deleted = engine.client().admin().delete(&order, ada()).await.unwrap();
    assert_eq!(deleted, DeleteAnswer::Deleted);
    let errors = [
        order.status().await.unwrap_err(),
        order.instance().await.unwrap_err(),
        order.state().await.unwrap_err(),
        order.explain().await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, LookupError::NotFound { .. }), "{error}");
    }
    let signal = order.signal(Arrived).await.unwrap_err();
    assert!(matches!(signal, SignalError::NoTarget { .. }), "{signal}");
    let output = order.output().timeout(LONG).await.unwrap_err();
    assert!(matches!(output, WaitError::NotFound), "{output}");
}

async fn a_handle_reads_the_history_in_pages<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Shop).await;
    let order = parked(engine.client(), "order:1").await;
    order.signal(Arrived).await.unwrap();
    order.ended().timeout(LONG).await.unwrap();
    let whole = order.history().await.unwrap();
    let steps: Vec<_> = whole.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(steps, ["receive", "deliver", "delivered"]);
    assert!(whole.iter().all(|it| it.kind == EventKind::Transitioned));
    assert!(!whole.more);

    let first = order.history().run(1).limit(2).await.unwrap();
    assert_eq!((&first[..], first.more), (&whole[..2], true));
    let rest = order.history().after(first[1].seq).await.unwrap();
    assert_eq!((&rest[..], rest.more), (&whole[2..], false));
    assert!(order.history().run(2).await.unwrap().is_empty());
}

async fn a_handle_reads_the_children_of_its_instance<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Shop).await;
    let order = insert(engine.client(), Shop::with(Order::Split { parts: 3 })).await;
    order.settled().timeout(LONG).await.unwrap();
    let children = order.children().await.unwrap();
    assert_eq!(children.len(), 3);
    for child in children {
        let part = engine.handle::<Shop>(child.id).await.unwrap();
        assert!(part.children().await.unwrap().is_empty());
        part.signal(Arrived).await.unwrap();
        part.ended().timeout(LONG).await.unwrap();
    }
    assert_eq!(order.output().timeout(LONG).await.unwrap(), 3);
}

async fn a_handle_explains_what_its_instance_waits_for<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Shop).await;
    let order = parked(engine.client(), "order:1").await;
    let sentence = order.explain().await.unwrap();
    assert_eq!(sentence, "waits for signal arrived, without a deadline");
}

async fn a_cancel_through_a_handle_asks_the_machine<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Shop).await;
    let order = parked(engine.client(), "order:1").await;
    let answer = order.cancel(ada()).await.unwrap();
    assert_eq!(answer, CancelAnswer::Requested(Status::AwaitingSignal));
    let cancelled = order.ended().timeout(LONG).await.unwrap();
    assert_eq!(cancelled.status, Status::Cancelled);
    let reason = "cancelled by ada: sold out";
    assert_eq!(cancelled.last_error.as_deref(), Some(reason));
    assert_eq!(cancelled.cancel.unwrap().reason, reason);
    let again = order.cancel(ada()).await.unwrap();
    assert_eq!(again, CancelAnswer::AlreadyEnded(Status::Cancelled));
}

async fn a_terminate_through_a_handle_ends_the_instance_at_once<S: Store + Inspect + Clone>(
    store: S,
) {
    // Without an engine.
    let client = Client::new(store);
    let order = insert(&client, Shop::with(Order::Joined)).await;
    let answer = order.terminate(ada()).await.unwrap();
    assert_eq!(answer, TerminateAnswer::Terminated(Status::Runnable));
    let ended = order.instance().await.unwrap();
    assert_eq!(ended.status, Status::Cancelled);
    let reason = "terminated by ada: sold out";
    assert_eq!(ended.last_error.as_deref(), Some(reason));
    let again = order.terminate(ada()).await.unwrap();
    assert_eq!(again, TerminateAnswer::AlreadyEnded(Status::Cancelled));
}

/// A wait that is too short for anything.
const SHORT: Duration = Duration::from_millis(20);

async fn a_wait_for_an_output_that_runs_out_says_what_the_instance_waits_for<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store, Shop).await;
    let order = parked(engine.client(), "order:1").await;
    let begun = Instant::now();
    let error = order.output().timeout(SHORT).await.unwrap_err();
    assert!(begun.elapsed() >= SHORT);
    let message = error.to_string();
    let WaitError::TimedOut { instance, why } = error else {
        panic!("{message}");
    };
    let waits = "waits for signal arrived, without a deadline";
    assert_eq!(why.as_deref(), Some(waits));
    assert_eq!(
        (instance.id, instance.status, instance.step.as_str()),
        (order.id().get(), Status::AwaitingSignal, "delivered")
    );
    let expected = format!(
        "instance {} was still awaiting_signal at step delivered when the time was up: it {waits}",
        order.id()
    );
    assert_eq!(message, expected);
    // The instance goes on.
    order.signal(Arrived).await.unwrap();
    assert_eq!(order.output().timeout(LONG).await.unwrap(), 42);
}

async fn a_wait_for_an_end_that_runs_out_has_the_instance<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Shop).await;
    let order = parked(engine.client(), "order:1").await;
    let error = order.ended().timeout(SHORT).await.unwrap_err();
    let WaitError::TimedOut { instance, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(instance.status, Status::AwaitingSignal);
    order.terminate(ada()).await.unwrap();
    let ended = order.ended().timeout(LONG).await.unwrap();
    assert_eq!(ended.status, Status::Cancelled);
}

async fn a_wait_without_a_timeout_lasts_until_the_instance_has_ended<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store, Shop).await;
    let order = parked(engine.client(), "order:1").await;
    let waiting = tokio::spawn({
        let order = order.clone();
        async move {
            let ended = order.ended().await.unwrap();
            (ended.status, order.output().await.unwrap())
        }
    });
    order.signal(Arrived).await.unwrap();
    let waited = tokio::time::timeout(LONG, waiting).await.unwrap();
    assert_eq!(waited.unwrap(), (Status::Done, 42));
    // Nor does the longest timeout overflow.
    let longest = order.output().timeout(Duration::MAX).await;
    assert_eq!(longest.unwrap(), 42);
    let admin = engine.client().admin();
    let longest = admin.wait_ended(order.id(), Duration::MAX).await;
    assert_eq!(longest.unwrap().status, Status::Done);
}

async fn a_settled_instance_is_parked_or_has_ended<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Shop).await;
    let order = parked(engine.client(), "order:1").await;
    order.signal(Arrived).await.unwrap();
    let settled = order.settled().await.unwrap();
    assert_eq!(settled.status, Status::Done);
}

async fn a_handle_without_an_engine_in_its_process_does_the_same<S: Store + Inspect + Clone>(
    store: S,
) {
    let _engine = running(store.clone(), Shop).await;
    let web = Client::new(Through::new(store));
    let order = parked(&web, "order:1").await;
    assert_eq!(
        order.state().await.unwrap(),
        Order::Delivered { number: 42 }
    );
    let found = web.handle::<Shop>("order:1").await.unwrap();
    assert_eq!(found.id(), order.id());
    found.signal(Arrived).await.unwrap();
    assert_eq!(order.output().timeout(LONG).await.unwrap(), 42);
}
