//! Each outcome of a step and its effect.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::through::Through;
use crate::support::{LONG, eventually, insert, on_both_stores, running};
use outlast::engine::EngineBuilder;
use outlast::prelude::*;
use outlast::store::{Filter, Inspect, ListRequest, Store};
use outlast::{Outcome, Status, StepError};
use std::sync::{Arc, Mutex};
use std::time::Instant;

on_both_stores!(
    next_leads_through_the_steps_to_done,
    the_new_state_is_committed_before_the_next_step_runs,
    next_goes_on_before_more_urgent_work,
    requeue_lets_more_urgent_work_go_first,
    next_of_a_machine_that_does_not_run_ahead_lets_more_urgent_work_go_first,
    next_lets_more_urgent_work_go_first_when_the_engine_does_not_run_ahead,
    retry_runs_the_same_step_with_the_same_state_after_its_delay,
    a_retry_that_waits_shows_its_error_and_its_attempt,
    retry_with_carries_another_state,
    wait_parks_until_a_signal_comes,
    sleep_parks_until_its_time,
    fan_out_parks_until_the_children_have_ended,
    done_keeps_the_output,
    fail_ends_the_instance_as_failed_with_its_reason,
    cancelled_ends_the_instance_as_cancelled_with_its_reason,
    progress_clears_the_attempt_and_the_error,
);

/// A machine with a step for every outcome.
#[derive(Clone, Default)]
struct Traveller {
    /// The entries of its steps, in the order in which they ran.
    log: Log,
}

type Log = Arc<Mutex<Vec<String>>>;

#[steps]
enum Leg {
    Down { from: u32 },
    Look,
    Seen,
    Urge { requeue: bool },
    Log(String),
    Retry { delay_ms: u64, times: u32 },
    RetryWith { carried: Vec<u32> },
    Wait,
    Waited,
    Sleep,
    Slept,
    FanOut,
    Join,
    Done(String),
    Stop(String),
    Cancel(String),
    Struggle { retries: u32 },
}

#[derive(Signal, Serialize, Deserialize)]
struct Go {
    to: String,
}

const NAP: Duration = Duration::from_millis(60);

impl Machine for Traveller {
    const NAME: &'static str = "traveller";
    type State = Leg;
    type Output = String;

    async fn step(&self, leg: Leg, cx: &Context) -> StepResult<Self> {
        match leg {
            Leg::Down { from: 0 } => done("down".to_owned()),
            Leg::Down { from } => next(Leg::Down { from: from - 1 }),
            Leg::Look => next(Leg::Seen),
            Leg::Seen => {
                let stored = cx.client().find(cx.id()).await?.unwrap();
                done(format!("{} at {}", stored.status, stored.step))
            }
            Leg::Urge { requeue } => {
                urge(&self.log, cx).await?;
                let second = Leg::Log("second".to_owned());
                match requeue {
                    true => Ok(Outcome::requeue(second)),
                    false => next(second),
                }
            }
            Leg::Log(line) => {
                self.log.lock().unwrap().push(line.clone());
                done(line)
            }
            Leg::Retry { delay_ms, times } if cx.attempt() < times => {
                self.log.lock().unwrap().push(format!("{delay_ms}"));
                retry(Duration::from_millis(delay_ms), "busy")
            }
            Leg::Retry { delay_ms, .. } => done(format!("{delay_ms} at attempt {}", cx.attempt())),
            Leg::RetryWith { mut carried } if carried.len() < 3 => {
                carried.push(cx.attempt());
                Ok(Outcome::retry_with(
                    Leg::RetryWith { carried },
                    Duration::ZERO,
                    "more",
                ))
            }
            Leg::RetryWith { carried } => done(format!("{carried:?}")),
            Leg::Wait => wait_for::<Go>().then(Leg::Waited),
            Leg::Sleep => sleep(NAP).then(Leg::Slept),
            Leg::Waited => done(
                cx.received::<Go>()?
                    .map_or("nowhere".to_owned(), |go| go.to),
            ),
            Leg::Slept => done(format!("woken by {} signals", cx.awaited().count())),
            Leg::FanOut => {
                let children = ["a", "b"].map(|name| Traveller::with(Leg::Done(name.to_owned())));
                fan_out(children).then(Leg::Join)
            }
            Leg::Join => {
                let children = cx.children::<Traveller>()?.into_iter();
                let outputs: Result<Vec<_>, _> =
                    children.map(|child| child.into_output()).collect();
                done(outputs?.join(" and "))
            }
            Leg::Done(output) => done(output),
            Leg::Stop(reason) => fail(reason),
            Leg::Cancel(reason) => Ok(Outcome::cancelled(reason)),
            Leg::Struggle { retries } if cx.attempt() < retries => retry(Duration::ZERO, "not yet"),
            Leg::Struggle { .. } => next(Leg::Wait),
        }
    }
}

/// Inserts a more urgent instance into the queue of the running step.
async fn urge(log: &Log, cx: &Context) -> Result<(), StepError> {
    log.lock().unwrap().push("first".to_owned());
    let urgent = Traveller::with(Leg::Log("urgent".to_owned())).priority(-1);
    cx.client().start(urgent).await?;
    Ok(())
}

/// A machine whose steps go through the queue.
struct Patient {
    log: Log,
}

#[steps]
enum Walk {
    First,
    Second,
}

impl Machine for Patient {
    const NAME: &'static str = "patient";
    const RUN_AHEAD: bool = false;
    type State = Walk;
    type Output = ();

    async fn step(&self, walk: Walk, cx: &Context) -> StepResult<Self> {
        match walk {
            Walk::First => {
                urge(&self.log, cx).await?;
                next(Walk::Second)
            }
            Walk::Second => {
                self.log.lock().unwrap().push("second".to_owned());
                done(())
            }
        }
    }
}

async fn next_leads_through_the_steps_to_done<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Traveller::default()).await;
    let handle = insert(engine.client(), Traveller::with(Leg::Down { from: 3 })).await;
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), "down");
    let ended = handle.instance().await.unwrap();
    // One claim, three commits that run ahead, and the end.
    assert_eq!(ended.revision.0, 5);
    engine.shutdown().await.unwrap();
}

async fn the_new_state_is_committed_before_the_next_step_runs<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store, Traveller::default()).await;
    let handle = insert(engine.client(), Traveller::with(Leg::Look)).await;
    assert_eq!(
        handle.output().timeout(LONG).await.unwrap(),
        "executing at seen"
    );
}

/// Runs two instances on one slot, the second inserted by the first. Returns their log.
async fn order_of<M: Machine>(
    store: &Through<impl Store + Inspect>,
    builder: EngineBuilder,
    log: &Log,
    first: M::State,
) -> Vec<String> {
    let engine = builder.queue("default", 1).start().await.unwrap();
    store.first_claims(1).await;
    let handle = insert(engine.client(), M::with(first)).await;
    handle.ended().timeout(LONG).await.unwrap();
    let urgent = ListRequest {
        filter: Filter {
            machine: Some(Traveller::NAME.to_owned()),
            ..Filter::default()
        },
        limit: 1,
        ..ListRequest::default()
    };
    let urgent = engine
        .client()
        .admin()
        .list(urgent)
        .await
        .unwrap()
        .instances[0]
        .id;
    let admin = engine.client().admin();
    admin.wait_ended(urgent, LONG).await.unwrap();
    log.lock().unwrap().clone()
}

async fn next_goes_on_before_more_urgent_work<S: Store + Inspect + Clone>(store: S) {
    let store = Through::new(store);
    let machine = Traveller::default();
    let log = machine.log.clone();
    let builder = Engine::builder(store.clone()).register(machine);
    let order = order_of::<Traveller>(&store, builder, &log, Leg::Urge { requeue: false }).await;
    assert_eq!(order, ["first", "second", "urgent"]);
}

async fn requeue_lets_more_urgent_work_go_first<S: Store + Inspect + Clone>(store: S) {
    let store = Through::new(store);
    let machine = Traveller::default();
    let log = machine.log.clone();
    let builder = Engine::builder(store.clone()).register(machine);
    let order = order_of::<Traveller>(&store, builder, &log, Leg::Urge { requeue: true }).await;
    assert_eq!(order, ["first", "urgent", "second"]);
}

async fn next_of_a_machine_that_does_not_run_ahead_lets_more_urgent_work_go_first<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let store = Through::new(store);
    let machine = Traveller::default();
    let log = machine.log.clone();
    let patient = Patient { log: log.clone() };
    let builder = Engine::builder(store.clone())
        .register(machine)
        .register(patient);
    let order = order_of::<Patient>(&store, builder, &log, Walk::First).await;
    assert_eq!(order, ["first", "urgent", "second"]);
}

async fn next_lets_more_urgent_work_go_first_when_the_engine_does_not_run_ahead<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let store = Through::new(store);
    let machine = Traveller::default();
    let log = machine.log.clone();
    let builder = Engine::builder(store.clone())
        .register(machine)
        .run_ahead(0);
    let order = order_of::<Traveller>(&store, builder, &log, Leg::Urge { requeue: false }).await;
    assert_eq!(order, ["first", "urgent", "second"]);
}

async fn retry_runs_the_same_step_with_the_same_state_after_its_delay<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let machine = Traveller::default();
    let log = machine.log.clone();
    let engine = running(store, machine).await;
    let begun = Instant::now();
    let leg = Leg::Retry {
        delay_ms: 40,
        times: 2,
    };
    let handle = insert(engine.client(), Traveller::with(leg)).await;
    assert_eq!(
        handle.output().timeout(LONG).await.unwrap(),
        "40 at attempt 2"
    );
    assert!(
        begun.elapsed() >= Duration::from_millis(80),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(*log.lock().unwrap(), ["40", "40"]);
}

async fn a_retry_that_waits_shows_its_error_and_its_attempt<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Traveller::default()).await;
    let leg = Leg::Retry {
        delay_ms: 3_600_000,
        times: 1,
    };
    let handle = insert(engine.client(), Traveller::with(leg)).await;
    eventually("the first attempt is over", async || {
        handle.instance().await.unwrap().attempt > 0
    })
    .await;
    let waiting = handle.instance().await.unwrap();
    assert_eq!(waiting.status, Status::Runnable);
    assert_eq!((waiting.attempt, waiting.step.as_str()), (1, "retry"));
    assert_eq!(waiting.last_error.as_deref(), Some("busy"));
    assert!(waiting.eligible_at > waiting.updated_at);
}

async fn retry_with_carries_another_state<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Traveller::default()).await;
    let leg = Leg::RetryWith { carried: vec![] };
    let handle = insert(engine.client(), Traveller::with(leg)).await;
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), "[0, 1, 2]");
}

async fn wait_parks_until_a_signal_comes<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Traveller::default()).await;
    let handle = insert(engine.client(), Traveller::with(Leg::Wait)).await;
    let parked = handle.settled().timeout(LONG).await.unwrap();
    assert_eq!(parked.status, Status::AwaitingSignal);
    assert_eq!(parked.awaits, Some(vec!["go".to_owned()]));
    assert_eq!(parked.await_deadline, None);
    let to = "Rome".to_owned();
    handle.signal(Go { to }).await.unwrap();
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), "Rome");
}

async fn sleep_parks_until_its_time<S: Store + Inspect + Clone>(store: S) {
    // The engine polls once an hour, so only the deadline wakes the instance.
    let engine = Engine::builder(store)
        .register(Traveller::default())
        .queue("default", 10)
        .poll_interval(HOUR)
        .start()
        .await
        .unwrap();
    let begun = Instant::now();
    let handle = insert(engine.client(), Traveller::with(Leg::Sleep)).await;
    assert_eq!(
        handle.output().timeout(LONG).await.unwrap(),
        "woken by 0 signals"
    );
    assert!(begun.elapsed() >= NAP, "{:?}", begun.elapsed());
}

async fn fan_out_parks_until_the_children_have_ended<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Traveller::default()).await;
    let handle = insert(engine.client(), Traveller::with(Leg::FanOut)).await;
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), "a and b");
}

async fn done_keeps_the_output<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Traveller::default()).await;
    let handle = insert(
        engine.client(),
        Traveller::with(Leg::Done("Rome".to_owned())),
    )
    .await;
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), "Rome");
    let ended = handle.instance().await.unwrap();
    assert_eq!((ended.status, ended.step.as_str()), (Status::Done, "done"));
    assert_eq!(ended.result.unwrap().as_str(), "\"Rome\"");
    assert!(ended.finished_at.is_some() && ended.last_error.is_none());
}

async fn fail_ends_the_instance_as_failed_with_its_reason<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Traveller::default()).await;
    let handle = insert(
        engine.client(),
        Traveller::with(Leg::Stop("no road".to_owned())),
    )
    .await;
    let ended = handle.ended().timeout(LONG).await.unwrap();
    assert_eq!(ended.status, Status::Failed);
    assert_eq!(ended.last_error.as_deref(), Some("no road"));
    assert!(ended.finished_at.is_some() && ended.result.is_none());
}

async fn cancelled_ends_the_instance_as_cancelled_with_its_reason<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store, Traveller::default()).await;
    let handle = insert(
        engine.client(),
        Traveller::with(Leg::Cancel("not wanted".to_owned())),
    )
    .await;
    let ended = handle.ended().timeout(LONG).await.unwrap();
    assert_eq!(ended.status, Status::Cancelled);
    assert_eq!(ended.last_error.as_deref(), Some("not wanted"));
}

async fn progress_clears_the_attempt_and_the_error<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Traveller::default()).await;
    let handle = insert(
        engine.client(),
        Traveller::with(Leg::Struggle { retries: 2 }),
    )
    .await;
    let parked = handle.settled().timeout(LONG).await.unwrap();
    assert_eq!((parked.attempt, parked.last_error), (0, None));
}
