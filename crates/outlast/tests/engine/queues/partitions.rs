//! Partition keys: instances that share one run one at a time, in order. Others pass them.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::{LONG, insert, on_both_stores};
use outlast::machine::wait_for_named;
use outlast::prelude::*;
use outlast::store::{Inspect, Store};
use outlast::{InstanceId, Job, JobError, New, Status};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::{Barrier, Semaphore};

on_both_stores!(
    instances_of_one_key_never_run_at_the_same_time_and_run_in_order,
    instances_of_different_keys_run_in_parallel,
    different_machines_share_partition_keys,
    a_busy_partition_key_at_the_head_of_the_queue_does_not_hold_up_others,
    an_instance_that_waits_for_a_signal_does_not_hold_its_partition_key,
    an_instance_that_waits_for_a_retry_does_not_hold_its_partition_key,
    an_instance_holds_its_partition_key_from_step_to_step,
    a_failed_instance_frees_its_partition_key,
);

/// The running and the started instances, by partition key.
#[derive(Default)]
struct Seen {
    running: HashMap<String, u32>,
    started: HashMap<String, Vec<InstanceId>>,
    overlaps: Vec<String>,
}

#[derive(Clone)]
struct Turn {
    seen: Arc<Mutex<Seen>>,
    barrier: Arc<Barrier>,
    started: Arc<Semaphore>,
    go: Arc<Semaphore>,
}

impl Turn {
    fn new(together: usize) -> Turn {
        Turn {
            seen: Arc::default(),
            barrier: Arc::new(Barrier::new(together)),
            started: Arc::new(Semaphore::new(0)),
            go: Arc::new(Semaphore::new(0)),
        }
    }

    fn begin(&self, cx: &Context) -> String {
        let key = cx.partition_key().unwrap_or("none").to_owned();
        let mut seen = self.seen.lock().unwrap();
        seen.started.entry(key.clone()).or_default().push(cx.id());
        let running = seen.running.entry(key.clone()).or_default();
        *running += 1;
        if *running > 1 && key != "none" {
            seen.overlaps.push(key.clone());
        }
        key
    }

    fn end(&self, key: &str) {
        *self.seen.lock().unwrap().running.get_mut(key).unwrap() -= 1;
    }

    fn started_of(&self, key: &str) -> Vec<InstanceId> {
        let seen = self.seen.lock().unwrap();
        seen.started.get(key).cloned().unwrap_or_default()
    }
}

#[steps]
enum Play {
    Short,
    Meet,
    Hold,
    Wait,
    Retry,
    Chain(u32),
    Panic,
}

impl Machine for Turn {
    const NAME: &'static str = "turn";
    type State = Play;
    type Output = ();

    async fn step(&self, state: Play, cx: &Context) -> StepResult<Self> {
        let key = self.begin(cx);
        let outcome = match state {
            Play::Short => {
                tokio::time::sleep(Duration::from_millis(2)).await;
                done(())
            }
            Play::Meet => {
                self.barrier.wait().await;
                done(())
            }
            Play::Hold => {
                self.started.add_permits(1);
                self.go.acquire().await?.forget();
                done(())
            }
            Play::Wait => wait_for_named(["never"]).then(Play::Short),
            Play::Retry if cx.attempt() == 0 => retry(HOUR, "later"),
            Play::Retry => done(()),
            Play::Chain(0) => done(()),
            Play::Chain(left) => {
                tokio::task::yield_now().await;
                next(Play::Chain(left - 1))
            }
            Play::Panic => {
                self.end(&key);
                panic!("as asked");
            }
        };
        self.end(&key);
        outcome
    }
}

/// Shares the keys of `Turn`.
struct Twin(Turn);

impl Job for Twin {
    const NAME: &'static str = "twin";
    type Args = ();
    type Output = ();

    async fn perform(&self, (): (), cx: &Context) -> Result<(), JobError> {
        let key = self.0.begin(cx);
        tokio::time::sleep(Duration::from_millis(2)).await;
        self.0.end(&key);
        Ok(())
    }
}

async fn engine(store: impl Store + Inspect, turn: &Turn, slots: usize) -> Engine {
    let builder = Engine::builder(store).register(turn.clone());
    let builder = builder.register(Twin(turn.clone()));
    builder.queue("default", slots).start().await.unwrap()
}

fn keyed(play: Play, key: &str) -> New<Turn> {
    Turn::with(play).partition_key(key)
}

async fn instances_of_one_key_never_run_at_the_same_time_and_run_in_order<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let turn = Turn::new(1);
    let one = engine(store.clone(), &turn, 10).await;
    let two = engine(store, &turn, 10).await;
    let news = (0..60).map(|nth| keyed(Play::Short, ["a", "b", "c"][nth % 3]));
    let turns = one.client().start_many(news).await.unwrap();

    for turn in &turns {
        turn.output().timeout(LONG).await.unwrap();
    }

    assert_eq!(turn.seen.lock().unwrap().overlaps, Vec::<String>::new());
    for (nth, key) in ["a", "b", "c"].into_iter().enumerate() {
        let of_key = turns.iter().skip(nth).step_by(3);
        let expected: Vec<_> = of_key.map(|turn| turn.id().get()).collect();
        assert_eq!(turn.started_of(key), expected, "key {key}");
    }
    one.shutdown().await.unwrap();
    two.shutdown().await.unwrap();
}

async fn instances_of_different_keys_run_in_parallel<S: Store + Inspect + Clone>(store: S) {
    let turn = Turn::new(4);
    let engine = engine(store, &turn, 10).await;
    let mut handles = Vec::new();
    for key in ["a", "b", "c", "d"] {
        handles.push(insert(engine.client(), keyed(Play::Meet, key)).await);
    }
    // Each step waits for the three others.
    for handle in handles {
        handle.output().timeout(LONG).await.unwrap();
    }
    engine.shutdown().await.unwrap();
}

async fn different_machines_share_partition_keys<S: Store + Inspect + Clone>(store: S) {
    let turn = Turn::new(1);
    let engine = engine(store, &turn, 10).await;
    let mut turns = Vec::new();
    let mut twins = Vec::new();
    for _ in 0..10 {
        turns.push(insert(engine.client(), keyed(Play::Short, "a")).await);
        twins.push(insert(engine.client(), Twin::with(()).partition_key("a")).await);
    }
    for (turn, twin) in turns.into_iter().zip(twins) {
        turn.output().timeout(LONG).await.unwrap();
        twin.output().timeout(LONG).await.unwrap();
    }
    assert_eq!(turn.seen.lock().unwrap().overlaps, Vec::<String>::new());
    assert_eq!(turn.started_of("a").len(), 20);
    engine.shutdown().await.unwrap();
}

async fn a_busy_partition_key_at_the_head_of_the_queue_does_not_hold_up_others<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let turn = Turn::new(1);
    let engine = engine(store, &turn, 2).await;
    let holder = insert(engine.client(), keyed(Play::Hold, "a")).await;
    turn.started.acquire().await.unwrap().forget();
    let behind = (0..100).map(|_| keyed(Play::Short, "a").priority(-1));
    let behind = engine.client().start_many(behind).await.unwrap();

    let free = insert(engine.client(), Turn::with(Play::Short)).await;
    let other = insert(engine.client(), keyed(Play::Short, "b")).await;
    free.output().timeout(LONG).await.unwrap();
    other.output().timeout(LONG).await.unwrap();

    assert_eq!(turn.started_of("a"), [holder.id().get()]);
    turn.go.add_permits(1);
    for new in behind {
        new.output().timeout(LONG).await.unwrap();
    }
    assert_eq!(turn.seen.lock().unwrap().overlaps, Vec::<String>::new());
    engine.shutdown().await.unwrap();
}

async fn an_instance_that_waits_for_a_signal_does_not_hold_its_partition_key<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = engine(store, &Turn::new(1), 10).await;
    let parked = insert(engine.client(), keyed(Play::Wait, "a")).await;
    parked.settled().timeout(LONG).await.unwrap();

    let next = insert(engine.client(), keyed(Play::Short, "a")).await;
    next.output().timeout(LONG).await.unwrap();

    let parked = parked.instance().await.unwrap();
    assert_eq!(parked.status, Status::AwaitingSignal);
    engine.shutdown().await.unwrap();
}

async fn an_instance_that_waits_for_a_retry_does_not_hold_its_partition_key<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let engine = engine(store, &Turn::new(1), 10).await;
    let retried = insert(engine.client(), keyed(Play::Retry, "a")).await;
    let next = insert(engine.client(), keyed(Play::Short, "a")).await;
    next.output().timeout(LONG).await.unwrap();

    let retried = retried.instance().await.unwrap();
    assert_eq!((retried.status, retried.attempt), (Status::Runnable, 1));
    engine.shutdown().await.unwrap();
}

async fn an_instance_holds_its_partition_key_from_step_to_step<S: Store + Inspect + Clone>(
    store: S,
) {
    let turn = Turn::new(1);
    let engine = engine(store, &turn, 10).await;
    let chains = (0..10).map(|_| keyed(Play::Chain(5), "a"));
    let chains = engine.client().start_many(chains).await.unwrap();
    for chain in &chains {
        chain.output().timeout(LONG).await.unwrap();
    }
    // Six steps of each instance, one instance after the other.
    let steps = chains
        .iter()
        .flat_map(|chain| std::iter::repeat_n(chain.id().get(), 6));
    assert_eq!(turn.started_of("a"), steps.collect::<Vec<_>>());
    engine.shutdown().await.unwrap();
}

async fn a_failed_instance_frees_its_partition_key<S: Store + Inspect + Clone>(store: S) {
    let engine = engine(store, &Turn::new(1), 10).await;
    let failed = insert(engine.client(), keyed(Play::Panic, "a")).await;
    let next = insert(engine.client(), keyed(Play::Short, "a")).await;
    next.output().timeout(LONG).await.unwrap();
    let failed = failed.instance().await.unwrap();
    assert_eq!(failed.status, Status::Failed);
    engine.shutdown().await.unwrap();
}
