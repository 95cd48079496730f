//! Priorities, queues, slots, delays and versions of instances.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::{LONG, insert, on_both_stores, running};
use outlast::prelude::*;
use outlast::store::{Inspect, Store};
use outlast::{Client, Status};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;
use tokio::sync::Barrier;

on_both_stores!(
    one_slot_runs_instances_by_priority_and_then_in_insert_order,
    an_engine_runs_only_the_instances_of_its_queues,
    a_machine_names_its_queue_and_an_instance_may_name_another,
    as_many_steps_run_at_once_as_there_are_slots_and_no_more,
    a_delayed_start_waits_for_its_delay,
    a_start_at_a_moment_waits_for_it,
    a_start_at_a_moment_in_the_past_runs_at_once,
    a_delayed_start_is_not_in_the_way_of_others,
    old_and_new_versions_run_side_by_side,
    an_instance_of_an_unknown_version_waits_for_an_engine_that_has_it,
);

/// Notes the lines that it writes, and how many steps run at once.
#[derive(Clone)]
struct Scribe {
    log: Arc<Mutex<Vec<u32>>>,
    running: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    together: Arc<Barrier>,
}

const SLOTS: usize = 4;

impl Default for Scribe {
    fn default() -> Scribe {
        Scribe {
            log: Arc::default(),
            running: Arc::default(),
            most: Arc::default(),
            together: Arc::new(Barrier::new(SLOTS)),
        }
    }
}

#[steps]
enum Write {
    Line(u32),
    Queue,
    Together,
}

impl Machine for Scribe {
    const NAME: &'static str = "scribe";
    const QUEUE: &'static str = "desk";
    type State = Write;
    type Output = String;

    async fn step(&self, write: Write, cx: &Context) -> StepResult<Self> {
        match write {
            Write::Line(number) => self.log.lock().unwrap().push(number),
            Write::Queue => {}
            Write::Together => {
                let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
                self.most.fetch_max(running, Ordering::SeqCst);
                // No step goes on before as many steps run as there are slots.
                self.together.wait().await;
                self.running.fetch_sub(1, Ordering::SeqCst);
            }
        }
        done(cx.queue().to_owned())
    }
}

async fn at_the_desk(store: impl Store + Inspect, scribe: &Scribe, slots: usize) -> Engine {
    let builder = Engine::builder(store).register(scribe.clone());
    builder.queue("desk", slots).start().await.unwrap()
}

async fn one_slot_runs_instances_by_priority_and_then_in_insert_order<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let client = Client::new(store.clone());
    let lines = [
        (5, 1),
        (0, 2),
        (-5, 3),
        (0, 4),
        (i16::MIN, 5),
        (i16::MAX, 6),
        (-5, 7),
    ];
    let lines = lines.map(|(priority, line)| Scribe::with(Write::Line(line)).priority(priority));
    let lines = client.start_many(lines).await.unwrap();
    let scribe = Scribe::default();
    let _engine = at_the_desk(store, &scribe, 1).await;
    for line in lines {
        line.output().timeout(LONG).await.unwrap();
    }
    assert_eq!(*scribe.log.lock().unwrap(), [5, 3, 7, 2, 4, 1, 6]);
}

async fn an_engine_runs_only_the_instances_of_its_queues<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store.clone());
    let elsewhere = Scribe::with(Write::Line(1)).queue("attic").priority(-1);
    let elsewhere = insert(&client, elsewhere).await;
    let here = insert(&client, Scribe::with(Write::Line(2))).await;
    let scribe = Scribe::default();
    let _desk = at_the_desk(store.clone(), &scribe, 1).await;
    here.output().timeout(LONG).await.unwrap();
    let untouched = elsewhere.instance().await.unwrap();
    assert_eq!(
        (untouched.status, untouched.revision.0),
        (Status::Runnable, 0)
    );
    let builder = Engine::builder(store).register(scribe.clone());
    let _attic = builder.queue("attic", 1).start().await.unwrap();
    assert_eq!(elsewhere.output().timeout(LONG).await.unwrap(), "attic");
    assert_eq!(*scribe.log.lock().unwrap(), [2, 1]);
}

async fn a_machine_names_its_queue_and_an_instance_may_name_another<S: Store + Inspect + Clone>(
    store: S,
) {
    let builder = Engine::builder(store).register(Scribe::default());
    let builder = builder.queue("desk", 1).queue("attic", 1);
    let engine = builder.start().await.unwrap();
    let desk = insert(engine.client(), Scribe::with(Write::Queue)).await;
    let attic = insert(engine.client(), Scribe::with(Write::Queue).queue("attic")).await;
    assert_eq!(desk.output().timeout(LONG).await.unwrap(), "desk");
    assert_eq!(attic.output().timeout(LONG).await.unwrap(), "attic");
}

async fn as_many_steps_run_at_once_as_there_are_slots_and_no_more<S: Store + Inspect + Clone>(
    store: S,
) {
    let client = Client::new(store.clone());
    let steps = (0..6 * SLOTS).map(|_| Scribe::with(Write::Together));
    let started = client.start_many(steps).await.unwrap();
    let scribe = Scribe::default();
    let _engine = at_the_desk(store, &scribe, SLOTS).await;
    for handle in started {
        handle.output().timeout(LONG).await.unwrap();
    }
    assert_eq!(scribe.most.load(Ordering::SeqCst), SLOTS);
}

async fn a_delayed_start_waits_for_its_delay<S: Store + Inspect + Clone>(store: S) {
    let delay = Duration::from_millis(120);
    // The engine polls once an hour, so only the delay starts the instance.
    let builder = Engine::builder(store).register(Scribe::default());
    let builder = builder.queue("desk", 1).poll_interval(HOUR);
    let engine = builder.start().await.unwrap();
    let before = engine.client().admin().now().await.unwrap();
    let handle = insert(engine.client(), Scribe::with(Write::Queue).delay(delay)).await;
    let waiting = handle.instance().await.unwrap();
    assert_eq!((waiting.status, waiting.revision.0), (Status::Runnable, 0));
    handle.output().timeout(LONG).await.unwrap();
    let ended = handle.instance().await.unwrap();
    assert!(ended.finished_at.unwrap() >= before + delay);
}

async fn a_start_at_a_moment_waits_for_it<S: Store + Inspect + Clone>(store: S) {
    let builder = Engine::builder(store).register(Scribe::default());
    let builder = builder.queue("desk", 1).poll_interval(HOUR);
    let engine = builder.start().await.unwrap();
    let moment = SystemTime::now() + Duration::from_millis(120);
    let handle = insert(engine.client(), Scribe::with(Write::Queue).at(moment)).await;
    handle.output().timeout(LONG).await.unwrap();
    let ended = handle.instance().await.unwrap();
    assert!(ended.finished_at.unwrap() >= moment.into());
}

async fn a_start_at_a_moment_in_the_past_runs_at_once<S: Store + Inspect + Clone>(store: S) {
    let engine = at_the_desk(store, &Scribe::default(), 1).await;
    let moment = SystemTime::now() - HOUR;
    let handle = insert(engine.client(), Scribe::with(Write::Queue).at(moment)).await;
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), "desk");
}

async fn a_delayed_start_is_not_in_the_way_of_others<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store.clone());
    let urgent = Scribe::with(Write::Line(1)).priority(-1);
    let urgent = insert(&client, urgent.delay(HOUR)).await;
    let other = insert(&client, Scribe::with(Write::Line(2))).await;
    let scribe = Scribe::default();
    let _engine = at_the_desk(store, &scribe, 1).await;
    other.output().timeout(LONG).await.unwrap();
    assert_eq!(*scribe.log.lock().unwrap(), [2]);
    let urgent = urgent.instance().await.unwrap();
    assert_eq!(urgent.revision.0, 0);
}

/// The first version of the machine.
struct Old;

#[steps]
enum OldOrder {
    Start { number: u32 },
    Ship { number: u32 },
}

#[derive(Signal, Serialize, Deserialize)]
struct Paid;

impl Machine for Old {
    const NAME: &'static str = "order";
    type State = OldOrder;
    type Output = String;

    async fn step(&self, order: OldOrder, cx: &Context) -> StepResult<Self> {
        match order {
            OldOrder::Start { number } => wait_for::<Paid>().then(OldOrder::Ship { number }),
            OldOrder::Ship { number } => done(format!("{number}, version {}", cx.version())),
        }
    }
}

/// The second version of the machine: the same name and steps, another state.
struct Newer;

#[steps]
enum NewOrder {
    Start { name: String },
    Ship { name: String },
}

impl Machine for Newer {
    const NAME: &'static str = "order";
    const VERSION: i32 = 2;
    type State = NewOrder;
    type Output = String;

    async fn step(&self, order: NewOrder, cx: &Context) -> StepResult<Self> {
        match order {
            NewOrder::Start { name } => wait_for::<Paid>().then(NewOrder::Ship { name }),
            NewOrder::Ship { name } => done(format!("{name}, version {}", cx.version())),
        }
    }
}

async fn old_and_new_versions_run_side_by_side<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone(), Old).await;
    let begun = insert(
        engine.client(),
        Old::with(OldOrder::Start { number: 1 }).key("begun"),
    )
    .await;
    begun.settled().timeout(LONG).await.unwrap();
    engine.shutdown().await.unwrap();

    // A new build takes over. Instances of the old version end in it.
    let builder = Engine::builder(store).register(Old).register(Newer);
    let engine = builder.queue("default", 10).start().await.unwrap();
    let old = insert(engine.client(), Old::with(OldOrder::Start { number: 2 })).await;
    let name = "three".to_owned();
    let new = insert(
        engine.client(),
        Newer::with(NewOrder::Start { name }).key("new"),
    )
    .await;
    // A key belongs to the machine, in every version.
    let client = engine.client();
    client.signal(Newer::key("begun"), Paid).await.unwrap();
    old.signal(Paid).await.unwrap();
    client.signal(Old::key("new"), Paid).await.unwrap();
    assert_eq!(begun.output().timeout(LONG).await.unwrap(), "1, version 1");
    assert_eq!(old.output().timeout(LONG).await.unwrap(), "2, version 1");
    assert_eq!(
        new.output().timeout(LONG).await.unwrap(),
        "three, version 2"
    );
}

async fn an_instance_of_an_unknown_version_waits_for_an_engine_that_has_it<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store.clone(), Newer).await;
    let old = Old::with(OldOrder::Ship { number: 1 }).priority(-1);
    let old = insert(engine.client(), old).await;
    let name = "two".to_owned();
    let new = insert(engine.client(), Newer::with(NewOrder::Ship { name })).await;
    assert_eq!(new.output().timeout(LONG).await.unwrap(), "two, version 2");
    let untouched = old.instance().await.unwrap();
    assert_eq!(
        (untouched.status, untouched.revision.0),
        (Status::Runnable, 0)
    );
    let _old = running(store, Old).await;
    assert_eq!(old.output().timeout(LONG).await.unwrap(), "1, version 1");
}
