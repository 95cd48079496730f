//! Shutdowns: running steps get the grace, and other claims are given back untouched.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::through::{Break, Through};
use crate::support::{LONG, deliver, eventually, insert, on_both_stores};
use outlast::engine::EngineBuilder;
use outlast::prelude::*;
use outlast::store::{Count, Delivery, Filter, Inspect, Instance, ListRequest, Store, limits};
use outlast::{Client, Error, Status};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tokio::sync::Semaphore;

on_both_stores!(
    a_step_that_ends_within_the_grace_has_its_outcome_written,
    a_step_that_does_not_end_is_given_back_untouched_and_runs_elsewhere,
    claims_that_were_not_started_are_given_back_untouched,
    run_ahead_ends_with_the_shutdown,
    an_engine_claims_nothing_after_its_shutdown,
    an_instance_woken_by_a_signal_during_the_shutdown_is_left_to_others,
    an_idle_engine_shuts_down_without_waiting_for_the_grace,
    shutting_down_twice_is_harmless,
    two_concurrent_shutdowns_are_harmless,
    the_worker_is_deregistered_after_every_shutdown,
    an_engine_that_is_dropped_leaves_its_steps_to_others,
    a_claim_whose_release_failed_is_given_back_before_the_worker_deregisters,
);

#[derive(Clone)]
struct Patience {
    started: Arc<Semaphore>,
    gate: Arc<Semaphore>,
    /// Whether [`Pace::Long`] ends in this build.
    ends: bool,
}

impl Patience {
    fn new(ends: bool) -> Patience {
        Patience {
            started: Arc::new(Semaphore::new(0)),
            gate: Arc::new(Semaphore::new(0)),
            ends,
        }
    }

    async fn started(&self, steps: u32) {
        self.started.acquire_many(steps).await.unwrap().forget();
    }
}

#[steps]
enum Pace {
    /// Ends when the engine shuts down.
    UntilStop,
    /// Goes on to the next step when the engine shuts down.
    ThenOn,
    /// Notifies the test when the engine shuts down, then waits for it.
    Gate,
    Wait,
    /// Ends only in a build with `ends`.
    Long,
    End,
}

#[derive(Signal, Serialize, Deserialize)]
struct Go;

impl Machine for Patience {
    const NAME: &'static str = "patience";
    type State = Pace;
    type Output = u32;

    async fn step(&self, state: Pace, cx: &Context) -> StepResult<Self> {
        self.started.add_permits(1);
        match state {
            Pace::UntilStop => {
                stopping(cx).await;
                done(cx.attempt())
            }
            Pace::ThenOn => {
                stopping(cx).await;
                next(Pace::End)
            }
            Pace::Gate => {
                stopping(cx).await;
                self.started.add_permits(1);
                self.gate.acquire().await?.forget();
                done(cx.attempt())
            }
            Pace::Wait => wait_for::<Go>().then(Pace::End),
            Pace::Long if self.ends => done(cx.attempt()),
            Pace::Long => pending().await,
            Pace::End => done(cx.attempt()),
        }
    }
}

async fn stopping(cx: &Context) {
    while !cx.is_stopping() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn builder(store: impl Store + Inspect, machine: &Patience) -> EngineBuilder {
    let builder = Engine::builder(store).register(machine.clone());
    builder.queue("default", 2).grace(LONG)
}

async fn all(client: &Client) -> Vec<Instance> {
    let request = ListRequest {
        limit: 100,
        ..ListRequest::default()
    };
    client.admin().list(request).await.unwrap().instances
}

/// Checks that no worker and no claim is left after the shutdown of the only engine (I11).
async fn nothing_is_left(client: &Client) {
    assert_eq!(client.admin().workers().await.unwrap(), []);
    let executing = all(client).await.into_iter();
    let executing: Vec<_> = executing
        .filter(|instance| instance.status == Status::Executing || instance.locked_by.is_some())
        .collect();
    assert_eq!(executing, []);
}

/// Shuts an engine down whose steps do not end within the grace.
async fn ends_late(engine: &Engine) {
    let late = engine.shutdown().await.unwrap_err();
    assert!(matches!(late, Error::Shutdown(_)), "{late:?}");
}

async fn a_step_that_ends_within_the_grace_has_its_outcome_written<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let machine = Patience::new(true);
    let engine = builder(store.clone(), &machine).start().await.unwrap();
    let handle = insert(engine.client(), Patience::with(Pace::UntilStop)).await;
    machine.started(1).await;

    engine.shutdown().await.unwrap();

    let client = Client::new(store);
    let handle = client.handle(&handle).await.unwrap();
    assert_eq!(handle.output().timeout(Duration::ZERO).await.unwrap(), 0);
    nothing_is_left(&client).await;
}

async fn a_step_that_does_not_end_is_given_back_untouched_and_runs_elsewhere<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let stuck = Patience::new(false);
    let engine = builder(store.clone(), &stuck).grace(Duration::from_millis(50));
    let engine = engine.start().await.unwrap();
    let handle = insert(engine.client(), Patience::with(Pace::Long)).await;
    stuck.started(1).await;

    ends_late(&engine).await;

    let client = Client::new(store.clone());
    let given_back = handle.instance().await.unwrap();
    assert_eq!(given_back.status, Status::Runnable);
    // One claim and one release.
    assert_eq!(given_back.revision.0, 2);
    assert_eq!((given_back.attempt, given_back.crashes), (0, 0));
    nothing_is_left(&client).await;

    let other = builder(store, &Patience::new(true)).start().await.unwrap();
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), 0);
    other.shutdown().await.unwrap();
}

async fn claims_that_were_not_started_are_given_back_untouched<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let machine = Patience::new(true);
    let client = Client::new(store.clone());
    let steps = (0..10).map(|_| Patience::with(Pace::UntilStop));
    client.start_many(steps).await.unwrap();
    // Two slots, and one claim read ahead.
    let engine = builder(store, &machine).start().await.unwrap();
    machine.started(2).await;

    engine.shutdown().await.unwrap();

    let instances = all(&client).await;
    let with = |status, revision| {
        let with = instances.iter().filter(|instance| {
            (instance.status, instance.revision.0, instance.attempt) == (status, revision, 0)
        });
        with.count()
    };
    assert_eq!(with(Status::Done, 2), 2);
    assert_eq!(with(Status::Runnable, 2), 1, "claimed and given back");
    assert_eq!(with(Status::Runnable, 0), 7, "never touched");
    nothing_is_left(&client).await;
}

async fn run_ahead_ends_with_the_shutdown<S: Store + Inspect + Clone>(store: S) {
    let machine = Patience::new(true);
    let engine = builder(store.clone(), &machine).start().await.unwrap();
    let handle = insert(engine.client(), Patience::with(Pace::ThenOn)).await;
    machine.started(1).await;

    engine.shutdown().await.unwrap();

    let client = Client::new(store.clone());
    let requeued = handle.instance().await.unwrap();
    assert_eq!(
        (requeued.status, requeued.step.as_str()),
        (Status::Runnable, "end")
    );
    assert_eq!(requeued.attempt, 0);
    assert_eq!(
        machine.started.available_permits(),
        0,
        "the next step does not run in this engine"
    );
    nothing_is_left(&client).await;

    let other = builder(store, &machine).start().await.unwrap();
    handle.output().timeout(LONG).await.unwrap();
    other.shutdown().await.unwrap();
}

async fn an_engine_claims_nothing_after_its_shutdown<S: Store + Inspect + Clone>(store: S) {
    let machine = Patience::new(true);
    let stopped = builder(store.clone(), &machine).start().await.unwrap();
    stopped.shutdown().await.unwrap();

    // A stopped engine is still a client.
    let handle = insert(stopped.client(), Patience::with(Pace::End)).await;
    let other = Patience::new(true);
    let other = builder(store, &other).start().await.unwrap();
    handle.output().timeout(LONG).await.unwrap();

    assert_eq!(machine.started.available_permits(), 0);
    other.shutdown().await.unwrap();
}

async fn an_instance_woken_by_a_signal_during_the_shutdown_is_left_to_others<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let machine = Patience::new(true);
    let engine = builder(store.clone(), &machine).start().await.unwrap();
    let handle = insert(engine.client(), Patience::with(Pace::Wait)).await;
    handle.settled().timeout(LONG).await.unwrap();
    insert(engine.client(), Patience::with(Pace::Gate)).await;
    machine.started(2).await;

    let signalled = async {
        machine.started(1).await;
        let answer = deliver(engine.client(), &handle, Go).await;
        assert!(matches!(answer, Delivery::Delivered { woke: true, .. }));
        machine.gate.add_permits(1);
    };
    let (stopped, ()) = tokio::join!(engine.shutdown(), signalled);
    stopped.unwrap();
    let client = Client::new(store.clone());
    nothing_is_left(&client).await;
    let woken = handle.instance().await.unwrap();
    // A claim under way may have taken the instance, and then gave it back.
    assert_eq!(woken.status, Status::Runnable);
    assert_eq!((woken.attempt, woken.crashes), (0, 0));
    assert_eq!(machine.started.available_permits(), 0, "no step ran");

    let other = builder(store, &machine).start().await.unwrap();
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), 0);
    other.shutdown().await.unwrap();
}

async fn an_idle_engine_shuts_down_without_waiting_for_the_grace<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let engine = builder(store, &Patience::new(true)).grace(Duration::from_secs(600));
    let engine = engine.poll_interval(Duration::from_secs(600));
    let engine = engine.start().await.unwrap();
    let since = Instant::now();

    engine.shutdown().await.unwrap();

    assert!(since.elapsed() < Duration::from_secs(5));
}

async fn shutting_down_twice_is_harmless<S: Store + Inspect + Clone>(store: S) {
    let machine = Patience::new(true);
    let engine = builder(store, &machine).start().await.unwrap();
    let handle = insert(engine.client(), Patience::with(Pace::End)).await;
    handle.output().timeout(LONG).await.unwrap();

    engine.shutdown().await.unwrap();
    engine.shutdown().await.unwrap();

    nothing_is_left(engine.client()).await;
}

async fn two_concurrent_shutdowns_are_harmless<S: Store + Inspect + Clone>(store: S) {
    let machine = Patience::new(true);
    let engine = builder(store, &machine).start().await.unwrap();
    insert(engine.client(), Patience::with(Pace::UntilStop)).await;
    machine.started(1).await;

    let (one, two) = tokio::join!(engine.shutdown(), engine.shutdown());

    one.unwrap();
    two.unwrap();
    nothing_is_left(engine.client()).await;
}

/// A heartbeat under way must not register the worker again.
async fn the_worker_is_deregistered_after_every_shutdown<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store.clone());
    for _ in 0..10 {
        let engine = builder(store.clone(), &Patience::new(true));
        let engine = engine.lease(limits::LEASE_MIN);
        let engine = engine.start().await.unwrap();
        assert_eq!(client.admin().workers().await.unwrap().len(), 1);
        engine.shutdown().await.unwrap();
        assert_eq!(client.admin().workers().await.unwrap(), []);
    }
}

async fn an_engine_that_is_dropped_leaves_its_steps_to_others<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let stuck = Patience::new(false);
    let engine = builder(store.clone(), &stuck).start().await.unwrap();
    let handle = insert(engine.client(), Patience::with(Pace::Long)).await;
    stuck.started(1).await;

    drop(engine);

    let other = builder(store, &Patience::new(true)).start().await.unwrap();
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), 0);
    other.shutdown().await.unwrap();
}

async fn a_claim_whose_release_failed_is_given_back_before_the_worker_deregisters<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let stuck = Patience::new(false);
    let called = AtomicBool::new(false);
    let broken = Through::new(store.clone()).breaking(move |verb| {
        let first = verb == "release" && !called.swap(true, Ordering::SeqCst);
        first.then_some(Break::Before)
    });
    let engine = builder(broken, &stuck).grace(Duration::ZERO);
    let engine = engine.start().await.unwrap();
    let handle = insert(engine.client(), Patience::with(Pace::Long)).await;
    stuck.started(1).await;

    ends_late(&engine).await;

    let client = Client::new(store);
    let given_back = handle.instance().await.unwrap();
    assert_eq!(given_back.status, Status::Runnable);
    assert_eq!((given_back.attempt, given_back.crashes), (0, 0));
    nothing_is_left(&client).await;
}

/// No task of an engine or of its store outlives them.
mod leftover_tasks {
    use super::*;
    use crate::support::{drop_schema, postgres, unique_schema};
    use tokio::runtime::Handle;

    fn tasks() -> usize {
        Handle::current().metrics().num_alive_tasks()
    }

    async fn run_and_stop(store: impl Store + Inspect + Clone) {
        let stuck = Patience::new(false);
        let engine = builder(store.clone(), &stuck).grace(Duration::from_millis(20));
        let engine = engine.lease(limits::LEASE_MIN).start().await.unwrap();
        let ended = insert(engine.client(), Patience::with(Pace::End)).await;
        ended.output().timeout(LONG).await.unwrap();
        insert(engine.client(), Patience::with(Pace::Long)).await;
        stuck.started(2).await;
        ends_late(&engine).await;
        let count = engine.client().count(Filter::default()).await.unwrap();
        assert_eq!(count, Count::Exactly(2));
    }

    /// On one thread. With several, the runtime may still count a task that has ended on another.
    #[tokio::test]
    async fn no_task_is_left_after_a_shutdown_on_sqlite() {
        let before = tasks();
        let store = outlast::Sqlite::in_memory().unwrap();
        run_and_stop(store.clone()).await;
        assert_eq!(tasks(), before);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_task_is_left_after_a_shutdown_on_postgres() {
        let schema = unique_schema();
        let before = tasks();
        let store = postgres(&schema).await;
        run_and_stop(store.clone()).await;
        store.close().await;
        // The tasks of the driver end when the server has closed the connection.
        eventually("no task is left", async || tasks() == before).await;
        drop_schema(&schema).await;
    }
}
