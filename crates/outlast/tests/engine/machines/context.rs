//! The context of a step: the fields of its instance, its inbox, and its idempotency key.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support;
use crate::support::{LONG, insert, on_both_stores, running};
use outlast::prelude::*;
use outlast::store::{Inspect, Json, NewSignal, ReapRequest, Store};
use outlast::{Client, InstanceId, Note, Outcome, Roles};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

on_both_stores!(
    a_step_sees_the_fields_of_its_instance,
    a_step_of_an_instance_without_keys_sees_none,
    a_step_sees_the_payloads_and_dedup_keys_of_its_inbox,
    an_insert_by_a_step_belongs_to_the_trace_of_the_step,
    a_step_sees_that_its_claim_is_lost,
    a_step_sees_that_the_engine_is_stopping,
    the_idempotency_key_is_the_same_over_retries,
    the_idempotency_key_differs_on_the_next_visit_of_the_step,
    the_idempotency_key_is_the_same_when_an_operator_retries,
    the_idempotency_key_differs_from_instance_to_instance,
);

/// Returns what its context shows.
#[derive(Clone, Default)]
struct Witness {
    keys: Arc<Mutex<Vec<String>>>,
    here: Arc<Notify>,
    noticed: Arc<Notify>,
}

#[steps]
enum See {
    All,
    Inbox,
    InboxSeen,
    Insert,
    Stopping,
    Losing,
    Hold,
    RetryTwice,
    Visit { times: u32 },
    FailFirst,
}

#[derive(Signal, Serialize, Deserialize)]
struct Said(String);

impl Machine for Witness {
    const NAME: &'static str = "witness";
    const VERSION: i32 = 3;
    type State = See;
    type Output = Value;

    async fn step(&self, see: See, cx: &Context) -> StepResult<Self> {
        self.keys.lock().unwrap().push(cx.idempotency_key());
        let visit = self.keys.lock().unwrap().len();
        match see {
            See::All => done(json!({
                "id": cx.id(),
                "machine": cx.machine(),
                "version": cx.version(),
                "step": cx.step(),
                "attempt": cx.attempt(),
                "crashes": cx.crashes(),
                "queue": cx.queue(),
                "key": cx.key(),
                "partition_key": cx.partition_key(),
                "is_child": cx.parent().is_some(),
                "trace": cx.trace(),
                "awaited": cx.awaited().count(),
                "inbox": cx.inbox().len(),
                "round": cx.round().len(),
                "all_children": cx.all_children().await?.len(),
                "dropped": cx.dropped().len(),
                "is_cancelled": cx.is_cancelled(),
                "is_stopping": cx.is_stopping(),
            })),
            See::Inbox => wait_for::<Said>().then(See::InboxSeen),
            See::InboxSeen => {
                let inbox = cx.inbox().iter();
                let inbox: Vec<_> = inbox
                    .map(|message| json!([message.name, message.payload, message.dedup_key]))
                    .collect();
                done(json!({ "inbox": inbox, "awaited": cx.awaited().count() }))
            }
            See::Insert => {
                let other = Witness::with(See::All).queue("nowhere");
                let other = cx.client().start(other).await?.id();
                done(json!({ "other": other, "trace": cx.trace() }))
            }
            See::Stopping => {
                self.here.notify_one();
                until(|| cx.is_stopping()).await;
                done(json!(cx.is_cancelled()))
            }
            See::Losing if cx.crashes() == 0 => {
                self.here.notify_one();
                // A step that awaits would be dropped there.
                tokio::task::block_in_place(|| {
                    while !cx.is_cancelled() {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
                self.noticed.notify_one();
                done(json!("too late"))
            }
            See::Losing => done(json!(cx.is_cancelled())),
            See::Hold if cx.crashes() == 0 => {
                self.here.notify_one();
                std::future::pending().await
            }
            See::Hold => done(json!([cx.attempt(), cx.crashes()])),
            See::RetryTwice if cx.attempt() < 2 => retry(Duration::ZERO, "again"),
            See::RetryTwice => done(Value::Null),
            See::Visit { times: 0 } => done(Value::Null),
            See::Visit { times } if times % 2 == 0 => next(See::Visit { times: times - 1 }),
            See::Visit { times } => Ok(Outcome::requeue(See::Visit { times: times - 1 })),
            See::FailFirst if visit == 1 => fail("broken"),
            See::FailFirst => done(Value::Null),
        }
    }
}

/// Polls, as a long step would do from time to time.
async fn until(noticed: impl Fn() -> bool) {
    while !noticed() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// How long the step of a dead worker waits for another worker.
const LEASE: Duration = Duration::from_millis(300);

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

async fn a_step_sees_the_fields_of_its_instance<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Witness::default()).await;
    let new = Witness::with(See::All).key("case:1").partition_key("court");
    let handle = insert(engine.client(), new.trace(TRACE)).await;
    let seen = handle.output().timeout(LONG).await.unwrap();
    let expected = json!({
        "id": handle.id(),
        "machine": "witness",
        "version": 3,
        "step": "all",
        "attempt": 0,
        "crashes": 0,
        "queue": "default",
        "key": "case:1",
        "partition_key": "court",
        "is_child": false,
        "trace": TRACE,
        "awaited": 0,
        "inbox": 0,
        "round": 0,
        "all_children": 0,
        "dropped": 0,
        "is_cancelled": false,
        "is_stopping": false,
    });
    assert_eq!(seen, expected);
}

async fn a_step_of_an_instance_without_keys_sees_none<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Witness::default()).await;
    let handle = insert(engine.client(), Witness::with(See::All)).await;
    let seen = handle.output().timeout(LONG).await.unwrap();
    assert_eq!(
        (&seen["key"], &seen["partition_key"]),
        (&Value::Null, &Value::Null)
    );
    // Without a trace of the caller, the instance gets a new one.
    let trace = seen["trace"].as_str().unwrap();
    assert_eq!((trace.len(), &trace[..3]), (TRACE.len(), "00-"));
}

async fn a_step_sees_the_payloads_and_dedup_keys_of_its_inbox<S: Store + Inspect + Clone>(
    store: S,
) {
    let client = Client::new(store.clone());
    let handle = insert(&client, Witness::with(See::Inbox)).await;
    let other = NewSignal::new((&handle).into(), "other", Json::of(&[1, 2]).unwrap());
    client.admin().signal_rows(vec![other]).await.unwrap();
    let said = Said("so".to_owned());
    handle.signal(said).dedup("event-1").await.unwrap();
    let _engine = running(store, Witness::default()).await;
    let seen = handle.output().timeout(LONG).await.unwrap();
    let expected = json!([["other", [1, 2], null], ["said", "so", "event-1"]]);
    assert_eq!(seen, json!({ "inbox": expected, "awaited": 1 }));
}

async fn an_insert_by_a_step_belongs_to_the_trace_of_the_step<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store, Witness::default()).await;
    let handle = insert(engine.client(), Witness::with(See::Insert).trace(TRACE)).await;
    let seen = handle.output().timeout(LONG).await.unwrap();
    let other: InstanceId = serde_json::from_value(seen["other"].clone()).unwrap();
    let other = engine.handle::<Witness>(other).await.unwrap();
    let other = other.instance().await.unwrap();
    assert_eq!(other.trace.as_deref(), Some(TRACE));
}

async fn a_step_sees_that_its_claim_is_lost<S: Store + Inspect + Clone>(store: S) {
    let witness = Witness::default();
    let builder = Engine::builder(store.clone()).register(witness.clone());
    let builder = builder.queue("default", 2).lease(LEASE);
    // Without maintenance, only the test reaps the worker.
    let engine = builder.roles(Roles::WORKER).start().await.unwrap();
    let admin = engine.client().admin();
    let handle = insert(engine.client(), Witness::with(See::Losing)).await;
    witness.here.notified().await;
    // The test reaps the worker. A heartbeat or a claim under way can prevent that, so it repeats.
    let worker = admin.workers().await.unwrap()[0].id;
    let request = ReapRequest {
        crashes_max: 10,
        max: 10,
    };
    let returned = loop {
        store.deregister(worker).await.unwrap();
        let reaped = store.reap(request).await.unwrap();
        if !reaped.returned.is_empty() {
            break reaped.returned;
        }
    };
    assert_eq!(returned, [handle.id().get()]);
    witness.noticed.notified().await;
    // The engine registers a new worker and runs the step again. The first outcome is dropped.
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), false);
    let workers = admin.workers().await.unwrap();
    assert!(workers.iter().all(|known| known.id != worker));
    engine.shutdown().await.unwrap();
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), false);
}

async fn a_step_sees_that_the_engine_is_stopping<S: Store + Inspect + Clone>(store: S) {
    let witness = Witness::default();
    let engine = running(store, witness.clone()).await;
    let handle = insert(engine.client(), Witness::with(See::Stopping)).await;
    witness.here.notified().await;
    engine.shutdown().await.unwrap();
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), false);
}

async fn the_idempotency_key_is_the_same_over_retries<S: Store + Inspect + Clone>(store: S) {
    let witness = Witness::default();
    let engine = running(store, witness.clone()).await;
    let handle = insert(engine.client(), Witness::with(See::RetryTwice)).await;
    handle.output().timeout(LONG).await.unwrap();
    let keys = witness.keys.lock().unwrap();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

/// A worker with its own store dies in the middle of a step, and another worker takes over.
async fn the_key_survives(doomed: impl Store + Inspect, store: impl Store + Inspect + Clone) {
    let witness = Witness::default();
    let handle = insert(&Client::new(store.clone()), Witness::with(See::Hold)).await;
    let process = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let engine = process.spawn(with_a_short_lease(doomed, witness.clone()));
    // An engine that is dropped gives its claims back, but a killed process drops nothing.
    std::mem::forget(engine.await.unwrap());
    witness.here.notified().await;
    process.shutdown_background();

    let _engine = with_a_short_lease(store, witness.clone()).await;
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), json!([1, 1]));
    let keys = witness.keys.lock().unwrap();
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[0], keys[1]);
}

async fn with_a_short_lease(store: impl Store + Inspect, witness: Witness) -> Engine {
    let builder = Engine::builder(store).register(witness).lease(LEASE);
    builder.queue("default", 1).start().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_idempotency_key_is_the_same_after_the_death_of_a_worker_on_sqlite() {
    support::on_sqlite(async |store| the_key_survives(store.clone(), store).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_idempotency_key_is_the_same_after_the_death_of_a_worker_on_postgresql() {
    support::on_postgres(async |store| {
        let doomed = support::postgres(store.schema()).await;
        the_key_survives(doomed, store).await;
    })
    .await;
}

async fn the_idempotency_key_differs_on_the_next_visit_of_the_step<S: Store + Inspect + Clone>(
    store: S,
) {
    let witness = Witness::default();
    let engine = running(store, witness.clone()).await;
    let handle = insert(engine.client(), Witness::with(See::Visit { times: 4 })).await;
    handle.output().timeout(LONG).await.unwrap();
    let keys = witness.keys.lock().unwrap();
    let different: std::collections::BTreeSet<_> = keys.iter().collect();
    assert_eq!((keys.len(), different.len()), (5, 5), "{keys:?}");
}

async fn the_idempotency_key_is_the_same_when_an_operator_retries<S: Store + Inspect + Clone>(
    store: S,
) {
    let witness = Witness::default();
    let engine = running(store, witness.clone()).await;
    let admin = engine.client().admin();
    let handle = insert(engine.client(), Witness::with(See::FailFirst)).await;
    handle.ended().timeout(LONG).await.unwrap();
    admin.retry(&handle, Note::by("judge")).await.unwrap();
    handle.output().timeout(LONG).await.unwrap();
    let keys = witness.keys.lock().unwrap();
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[0], keys[1]);
}

async fn the_idempotency_key_differs_from_instance_to_instance<S: Store + Inspect + Clone>(
    store: S,
) {
    let witness = Witness::default();
    let engine = running(store, witness.clone()).await;
    for _ in 0..2 {
        let handle = insert(engine.client(), Witness::with(See::Visit { times: 0 })).await;
        handle.output().timeout(LONG).await.unwrap();
    }
    let keys = witness.keys.lock().unwrap();
    assert_ne!(keys[0], keys[1]);
}
