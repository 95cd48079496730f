//! Cancels: which instances they wake, how running steps see them, and what `on_cancel` decides.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support;
use crate::support::family::{Go, Kid, Play};
use crate::support::through::Through;
use crate::support::{LONG, eventually, insert, on_both_stores, running};
use outlast::prelude::*;
use outlast::store::{CancelAnswer, Inspect, Instance, Store};
use outlast::{
    Client, Failure, Handle, InstanceId, Job, JobError, New, Note, Outcome, Roles, Status,
    StepError, WaitError,
};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::Notify;

on_both_stores!(
    a_cancel_wakes_an_instance_that_waits_for_a_signal_and_ends_it,
    an_instance_cancelled_before_its_claim_ends_without_its_step,
    a_cancelled_instance_with_a_delay_ends_at_once,
    a_cancel_reaches_a_running_step_at_once_with_its_reason,
    a_cancelled_step_can_end_its_instance_as_done,
    cleanup_steps_after_a_cancel_run_and_are_not_cancelled_themselves,
    a_machine_may_go_on_after_a_cancel,
    on_cancel_runs_again_after_the_delay_of_its_retry,
    failures_of_on_cancel_go_to_on_failure_which_sees_the_cancel,
    a_cancel_without_its_hint_is_answered_before_the_next_step,
    a_fan_out_after_a_cancel_starts_no_children,
    a_retry_after_a_cancel_does_not_wait_for_its_delay,
    on_cancel_has_an_idempotency_key_of_its_own,
    an_instance_cancelled_while_it_waits_for_a_slot_does_not_start,
    a_cancel_of_a_cancelled_ended_or_missing_instance_is_answered,
    a_cancel_whose_hint_is_lost_still_reaches_the_step,
    a_cancelled_job_is_not_tried_again,
    a_cancel_reaches_a_running_job,
    a_cancelled_parent_sees_the_children_it_waited_for,
    a_retry_by_an_operator_clears_the_cancel,
);

/// A trip that can be undone.
#[derive(Clone, Default)]
struct Trip {
    here: Arc<Notify>,
    go_on: Arc<Notify>,
    seen: Arc<Mutex<Vec<String>>>,
    keys: Arc<Mutex<Vec<String>>>,
}

#[steps]
#[derive(Clone)]
enum Leg {
    /// Waits for the test, whether cancelled or not, then does this.
    Hold(Then),
    /// Waits for a signal. A cancel leads to the cleanup.
    Wait,
    Arrive,
    /// The cleanup: waits for a child, then for a signal, then ends.
    Refund,
    Unbook,
    Gone,
    /// This variant and those below wait for a signal. Each answers a cancel in its own way.
    Stubborn,
    Patient,
    Failing,
    Panicking,
    Slow,
}

#[derive(Clone, Serialize, Deserialize)]
enum Then {
    Next,
    FanOut,
    Retry,
}

impl Trip {
    fn saw(&self, what: impl Into<String>) {
        self.seen.lock().unwrap().push(what.into());
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

impl Machine for Trip {
    const NAME: &'static str = "trip";
    const STEP_TIMEOUT: Duration = Duration::from_secs(2);
    type State = Leg;
    type Output = String;

    async fn step(&self, leg: Leg, cx: &Context) -> StepResult<Self> {
        // Made before the test can see that this step runs, so that no notification is lost.
        let go_on = self.go_on.notified();
        self.keys.lock().unwrap().push(cx.idempotency_key());
        let reason = cx.cancel_reason().unwrap_or("nobody");
        self.saw(format!("{} {} {reason}", cx.step(), cx.is_cancelled()));
        match leg {
            Leg::Hold(then) => {
                self.here.notify_one();
                go_on.await;
                match then {
                    Then::Next => next(Leg::Arrive),
                    Then::FanOut => fan_out([Kid::with(Play::Win(1))]).then(Leg::Arrive),
                    Then::Retry => retry(HOUR, "later"),
                }
            }
            Leg::Wait
            | Leg::Stubborn
            | Leg::Patient
            | Leg::Failing
            | Leg::Panicking
            | Leg::Slow => wait_for::<Go>().then(leg),
            Leg::Arrive => done("arrived".into()),
            Leg::Refund => fan_out([Kid::with(Play::Win(7))]).then(Leg::Unbook),
            Leg::Unbook => wait_for::<Go>().then(Leg::Gone),
            Leg::Gone => Ok(Outcome::cancelled("refunded and unbooked")),
        }
    }

    async fn on_cancel(&self, leg: Leg, cx: &Context) -> StepResult<Self> {
        self.keys.lock().unwrap().push(cx.idempotency_key());
        let reason = cx.cancel_reason().unwrap_or("nobody").to_owned();
        self.saw(format!(
            "on_cancel {} {} {reason}",
            cx.step(),
            cx.is_cancelled()
        ));
        cx.cancelled().await;
        match leg {
            Leg::Wait => next(Leg::Refund),
            Leg::Stubborn => next(Leg::Arrive),
            Leg::Patient if cx.attempt() < 2 => retry(Duration::from_millis(300), "not yet"),
            Leg::Failing => Err(StepError::new("the bank is closed")),
            Leg::Panicking => panic!("no bank at all"),
            Leg::Slow => std::future::pending().await,
            Leg::Hold(_) | Leg::Patient | Leg::Arrive | Leg::Refund | Leg::Unbook | Leg::Gone => {
                Ok(Outcome::cancelled(reason))
            }
        }
    }

    async fn on_failure(&self, _: Leg, failure: Failure, cx: &Context) -> StepResult<Self> {
        fail(format!("{failure}; {}", cx.is_cancelled()))
    }
}

fn ada() -> Note {
    Note::by("ada").because("ordered twice")
}

const REASON: &str = "cancelled by ada: ordered twice";

async fn traveling(store: impl Store + Inspect, trip: &Trip) -> Engine {
    let builder = Engine::builder(store).register(trip.clone());
    let builder = builder.register(Kid::default()).queue("default", 10);
    builder.start().await.unwrap()
}

async fn parked<M: Machine>(engine: &Engine, new: New<M>) -> Handle<M> {
    let handle = insert(engine.client(), new).await;
    let parked = handle.settled().timeout(LONG).await.unwrap();
    assert!(!parked.status.is_terminal(), "{parked:?}");
    handle
}

async fn ended<M>(handle: &Handle<M>) -> Instance {
    handle.ended().timeout(LONG).await.unwrap()
}

async fn a_cancel_wakes_an_instance_that_waits_for_a_signal_and_ends_it<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store, Kid::default()).await;
    let handle = parked(&engine, Kid::with(Play::Park(Box::new(Play::Win(1))))).await;
    let waiting = tokio::spawn({
        let handle = handle.clone();
        async move { handle.output().timeout(LONG).await }
    });
    let answer = handle.cancel(ada()).await.unwrap();
    assert_eq!(answer, CancelAnswer::Requested(Status::AwaitingSignal));
    let Err(WaitError::Ended { status, reason, .. }) = waiting.await.unwrap() else {
        panic!("a cancelled instance has no output");
    };
    assert_eq!(
        (status, reason.as_deref()),
        (Status::Cancelled, Some(REASON))
    );
    let cancel = ended(&handle).await.cancel.unwrap();
    assert_eq!((cancel.reason.as_str(), cancel.answered), (REASON, true));
}

async fn an_instance_cancelled_before_its_claim_ends_without_its_step<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let handle = insert(&Client::new(store.clone()), Trip::with(Leg::Arrive)).await;
    let answer = handle.cancel(ada()).await.unwrap();
    assert_eq!(answer, CancelAnswer::Requested(Status::Runnable));
    let trip = Trip::default();
    let _engine = traveling(store, &trip).await;
    assert_eq!(ended(&handle).await.status, Status::Cancelled);
    assert_eq!(trip.seen(), [format!("on_cancel arrive true {REASON}")]);
}

async fn a_cancelled_instance_with_a_delay_ends_at_once<S: Store + Inspect + Clone>(store: S) {
    let engine = traveling(store, &Trip::default()).await;
    let later = Trip::with(Leg::Arrive).delay(HOUR);
    let handle = insert(engine.client(), later).await;
    handle.cancel(ada()).await.unwrap();
    assert_eq!(ended(&handle).await.status, Status::Cancelled);
}

async fn a_cancel_reaches_a_running_step_at_once_with_its_reason<S: Store + Inspect + Clone>(
    store: S,
) {
    let kid = Kid::default();
    // The lease is much longer, so only a hint is this fast.
    let engine = running(store, kid.clone()).await;
    let handle = insert(engine.client(), Kid::with(Play::Linger)).await;
    eventually("the step runs", async || {
        !kid.seen.lock().unwrap().is_empty()
    })
    .await;
    let begun = Instant::now();
    let answer = handle.cancel(ada()).await.unwrap();
    assert_eq!(answer, CancelAnswer::Requested(Status::Executing));
    let cancelled = ended(&handle).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{begun:?}");
    assert_eq!(cancelled.status, Status::Cancelled);
    assert_eq!(cancelled.last_error.as_deref(), Some(REASON));
    let seen = kid.seen.lock().unwrap();
    assert_eq!(*seen, ["linger".to_owned(), format!("cancel: {REASON}")]);
}

/// Returns the reason of its cancel.
struct Listener;

#[steps]
enum Listen {
    On,
}

impl Machine for Listener {
    const NAME: &'static str = "listener";
    type State = Listen;
    type Output = String;

    async fn step(&self, _: Listen, cx: &Context) -> StepResult<Self> {
        cx.cancelled().await;
        done(cx.cancel_reason().unwrap().to_owned())
    }
}

async fn a_cancelled_step_can_end_its_instance_as_done<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Listener).await;
    let handle = insert(engine.client(), Listener::with(Listen::On)).await;
    eventually("the step runs", async || {
        handle.instance().await.unwrap().status == Status::Executing
    })
    .await;
    handle.cancel(ada()).await.unwrap();
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), REASON);
}

async fn cleanup_steps_after_a_cancel_run_and_are_not_cancelled_themselves<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let trip = Trip::default();
    let engine = traveling(store, &trip).await;
    let handle = parked(&engine, Trip::with(Leg::Wait)).await;
    handle.cancel(ada()).await.unwrap();
    eventually("the cleanup waits for its signal", async || {
        let stored = handle.instance().await.unwrap();
        stored.status == Status::AwaitingSignal && stored.step == "gone"
    })
    .await;
    // A second cancel changes nothing.
    let answer = handle.cancel(Note::by("bob")).await.unwrap();
    assert_eq!(
        answer,
        CancelAnswer::AlreadyRequested(Status::AwaitingSignal)
    );
    handle.signal(Go).await.unwrap();
    let undone = ended(&handle).await;
    assert_eq!(undone.status, Status::Cancelled);
    assert_eq!(undone.last_error.as_deref(), Some("refunded and unbooked"));
    assert_eq!(handle.children().await.unwrap().len(), 1);
    let expected = [
        "wait false nobody".to_owned(),
        format!("on_cancel wait true {REASON}"),
        format!("refund false {REASON}"),
        format!("unbook false {REASON}"),
        format!("gone false {REASON}"),
    ];
    assert_eq!(trip.seen(), expected);
}

async fn a_machine_may_go_on_after_a_cancel<S: Store + Inspect + Clone>(store: S) {
    let engine = traveling(store, &Trip::default()).await;
    let handle = parked(&engine, Trip::with(Leg::Stubborn)).await;
    handle.cancel(ada()).await.unwrap();
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), "arrived");
}

async fn on_cancel_runs_again_after_the_delay_of_its_retry<S: Store + Inspect + Clone>(store: S) {
    let trip = Trip::default();
    let engine = traveling(store, &trip).await;
    let handle = parked(&engine, Trip::with(Leg::Patient)).await;
    let begun = Instant::now();
    handle.cancel(ada()).await.unwrap();
    assert_eq!(ended(&handle).await.status, Status::Cancelled);
    assert!(begun.elapsed() >= Duration::from_millis(600));
    let answers = trip
        .seen()
        .into_iter()
        .filter(|it| it.starts_with("on_cancel"));
    assert_eq!(answers.count(), 3);
}

async fn failures_of_on_cancel_go_to_on_failure_which_sees_the_cancel<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = traveling(store, &Trip::default()).await;
    for (leg, expected) in [
        (Leg::Failing, "the bank is closed; true"),
        (Leg::Panicking, "the step panicked: no bank at all; true"),
        (Leg::Slow, "the step took longer than 2s; true"),
    ] {
        let handle = parked(&engine, Trip::with(leg)).await;
        handle.cancel(ada()).await.unwrap();
        let failed = ended(&handle).await;
        assert_eq!(failed.status, Status::Failed);
        assert_eq!(failed.last_error.as_deref(), Some(expected));
    }
}

/// A trip in its step `hold`, and a client whose hints do not reach the engine.
async fn held<S: Store + Inspect + Clone>(
    store: S,
    then: Then,
) -> (Trip, Engine, Client, Handle<Trip>) {
    let trip = Trip::default();
    let engine = traveling(store.clone(), &trip).await;
    let handle = insert(engine.client(), Trip::with(Leg::Hold(then))).await;
    trip.here.notified().await;
    (
        trip,
        engine,
        Client::new(Through::new(store).mute()),
        handle,
    )
}

async fn a_cancel_without_its_hint_is_answered_before_the_next_step<S: Store + Inspect + Clone>(
    store: S,
) {
    let (trip, _engine, silent, handle) = held(store, Then::Next).await;
    silent.admin().cancel(&handle, ada()).await.unwrap();
    trip.go_on.notify_one();
    assert_eq!(ended(&handle).await.status, Status::Cancelled);
    let expected = [
        "hold false nobody".to_owned(),
        format!("on_cancel arrive true {REASON}"),
    ];
    assert_eq!(trip.seen(), expected);
}

async fn a_fan_out_after_a_cancel_starts_no_children<S: Store + Inspect + Clone>(store: S) {
    let (trip, _engine, silent, handle) = held(store, Then::FanOut).await;
    silent.admin().cancel(&handle, ada()).await.unwrap();
    trip.go_on.notify_one();
    let cancelled = ended(&handle).await;
    assert_eq!((cancelled.status, cancelled.round), (Status::Cancelled, 1));
    assert!(handle.children().await.unwrap().is_empty());
}

async fn a_retry_after_a_cancel_does_not_wait_for_its_delay<S: Store + Inspect + Clone>(store: S) {
    let (trip, _engine, silent, handle) = held(store, Then::Retry).await;
    silent.admin().cancel(&handle, ada()).await.unwrap();
    trip.go_on.notify_one();
    assert_eq!(ended(&handle).await.status, Status::Cancelled);
}

/// The cleanup of an effect is another effect.
async fn on_cancel_has_an_idempotency_key_of_its_own<S: Store + Inspect + Clone>(store: S) {
    let (trip, _engine, silent, handle) = held(store, Then::Retry).await;
    silent.admin().cancel(&handle, ada()).await.unwrap();
    trip.go_on.notify_one();
    ended(&handle).await;
    let keys = trip.keys.lock().unwrap().clone();
    assert_eq!(keys.len(), 2, "{keys:?}");
    assert_eq!(keys[1], format!("{}:cancel", keys[0]));
}

async fn an_instance_cancelled_while_it_waits_for_a_slot_does_not_start<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let trip = Trip::default();
    let builder = Engine::builder(store).register(trip.clone());
    let engine = builder.queue("default", 2).start().await.unwrap();
    let mut handles = Vec::new();
    for _ in 0..2 {
        handles.push(insert(engine.client(), Trip::with(Leg::Hold(Then::Next))).await);
    }
    eventually("two steps run", async || trip.seen().len() == 2).await;
    // Both slots are taken, so the third instance is claimed ahead or waits in the queue.
    let last = insert(engine.client(), Trip::with(Leg::Hold(Then::Next))).await;
    last.cancel(ada()).await.unwrap();
    trip.go_on.notify_waiters();
    assert_eq!(ended(&last).await.status, Status::Cancelled);
    for handle in handles {
        assert_eq!(handle.output().timeout(LONG).await.unwrap(), "arrived");
    }
    let started = trip.seen().into_iter().filter(|it| it.starts_with("hold"));
    assert_eq!(started.count(), 2);
}

async fn a_cancel_of_a_cancelled_ended_or_missing_instance_is_answered<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let client = Client::new(store.clone());
    let handle = insert(&client, Trip::with(Leg::Arrive)).await;
    let cancel = async || handle.cancel(ada()).await.unwrap();
    assert_eq!(cancel().await, CancelAnswer::Requested(Status::Runnable));
    assert_eq!(
        cancel().await,
        CancelAnswer::AlreadyRequested(Status::Runnable)
    );
    let _engine = traveling(store, &Trip::default()).await;
    ended(&handle).await;
    assert_eq!(
        cancel().await,
        CancelAnswer::AlreadyEnded(Status::Cancelled)
    );
    let missing = client
        .admin()
        .cancel(InstanceId(4711), ada())
        .await
        .unwrap();
    assert_eq!(missing, CancelAnswer::NotFound);
    let recorded = client
        .admin()
        .operations(Some(handle.id().get()))
        .await
        .unwrap();
    assert_eq!(recorded.len(), 1, "only the first cancel is recorded");
}

async fn a_cancel_whose_hint_is_lost_still_reaches_the_step<S: Store + Inspect + Clone>(store: S) {
    let kid = Kid::default();
    let mute = Through::new(store.clone()).mute();
    let builder = Engine::builder(mute).register(kid.clone());
    let builder = builder
        .queue("default", 2)
        .lease(Duration::from_millis(900));
    let engine = builder.start().await.unwrap();
    let handle = insert(engine.client(), Kid::with(Play::Linger)).await;
    eventually("the step runs", async || {
        !kid.seen.lock().unwrap().is_empty()
    })
    .await;
    let elsewhere = Client::new(store);
    elsewhere.admin().cancel(&handle, ada()).await.unwrap();
    let cancelled = ended(&handle).await;
    assert_eq!(cancelled.last_error.as_deref(), Some(REASON));
}

/// Fails, or waits for its cancel.
struct Errand {
    here: Arc<Notify>,
}

impl Job for Errand {
    const NAME: &'static str = "errand";
    /// Whether it waits for its cancel.
    type Args = bool;
    type Output = String;

    async fn perform(&self, waits: bool, cx: &Context) -> Result<String, JobError> {
        self.here.notify_one();
        if waits {
            cx.cancelled().await;
            return Ok(cx.cancel_reason().unwrap_or_default().to_owned());
        }
        Err(JobError::retry_after(HOUR, "closed"))
    }
}

async fn a_cancelled_job_is_not_tried_again<S: Store + Inspect + Clone>(store: S) {
    let here = Arc::new(Notify::new());
    let engine = running(store, Errand { here: here.clone() }).await;
    let handle = insert(engine.client(), Errand::with(false)).await;
    eventually("the job has failed once", async || {
        let stored = handle.instance().await.unwrap();
        (stored.status, stored.attempt) == (Status::Runnable, 1)
    })
    .await;
    handle.cancel(ada()).await.unwrap();
    let cancelled = ended(&handle).await;
    assert_eq!(cancelled.status, Status::Cancelled);
    assert_eq!(cancelled.last_error.as_deref(), Some(REASON));
}

async fn a_cancel_reaches_a_running_job<S: Store + Inspect + Clone>(store: S) {
    let here = Arc::new(Notify::new());
    let engine = running(store, Errand { here: here.clone() }).await;
    let handle = insert(engine.client(), Errand::with(true)).await;
    here.notified().await;
    handle.cancel(ada()).await.unwrap();
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), REASON);
}

/// Answers a cancel with the children that it sees.
struct Host;

#[steps]
enum Feast {
    Invite,
    Over,
}

impl Machine for Host {
    const NAME: &'static str = "host";
    type State = Feast;
    type Output = serde_json::Value;

    async fn step(&self, _: Feast, _: &Context) -> StepResult<Self> {
        let guests = [Play::Win(1), Play::Park(Box::new(Play::Win(2)))];
        fan_out(guests.map(Kid::with)).then(Feast::Over)
    }

    async fn on_cancel(&self, _: Feast, cx: &Context) -> StepResult<Self> {
        done(support::family::round(cx)?)
    }
}

async fn a_cancelled_parent_sees_the_children_it_waited_for<S: Store + Inspect + Clone>(store: S) {
    let builder = Engine::builder(store)
        .register(Host)
        .register(Kid::default());
    let engine = builder.queue("default", 4).start().await.unwrap();
    let handle = parked(&engine, Host::with(Feast::Invite)).await;
    eventually("one guest has left, the other waits", async || {
        let guests = handle.children().await.unwrap();
        let statuses: Vec<_> = guests.iter().map(|guest| guest.status).collect();
        statuses == [Status::Done, Status::AwaitingSignal]
    })
    .await;
    let answer = handle.cancel(ada()).await.unwrap();
    assert_eq!(answer, CancelAnswer::Requested(Status::AwaitingChildren));
    let seen = handle.output().timeout(LONG).await.unwrap();
    let expected = serde_json::json!({
        "joined": null,
        "kids": [[0, "done", 1, null], [1, "awaiting_signal", null, null]],
        "first_failure": null,
    });
    assert_eq!(seen, expected);
}

async fn a_retry_by_an_operator_clears_the_cancel<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Kid::default()).await;
    let admin = engine.client().admin();
    let handle = parked(&engine, Kid::with(Play::Park(Box::new(Play::Win(3))))).await;
    handle.cancel(ada()).await.unwrap();
    ended(&handle).await;
    admin.retry(&handle, Note::by("bob")).await.unwrap();
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), 3);
    assert_eq!(ended(&handle).await.cancel, None);
}

/// Only PostgreSQL notifies other nodes. The lease is too long for anything else to be in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancels_and_terminates_on_another_node_reach_the_step_at_once_on_postgresql() {
    support::on_postgres(async |store| {
        let kid = Kid::default();
        let elsewhere = support::postgres(store.schema()).await;
        let here = running(Through::new(store), kid.clone()).await;
        let there = Engine::builder(Through::new(elsewhere)).roles(Roles::WEB);
        let there = there.start().await.unwrap();
        let lingers = async |times: usize| {
            let handle = insert(here.client(), Kid::with(Play::Linger)).await;
            eventually("the step runs", async || {
                let seen = kid.seen.lock().unwrap();
                seen.iter().filter(|it| *it == "linger").count() == times
            })
            .await;
            (handle, Instant::now())
        };

        let (handle, begun) = lingers(1).await;
        // Hints are lost until both nodes listen, so the cancel is repeated.
        eventually("the instance is cancelled", async || {
            let answer = there.client().admin().cancel(&handle, ada()).await.unwrap();
            answer == CancelAnswer::AlreadyEnded(Status::Cancelled)
        })
        .await;
        assert!(begun.elapsed() < Duration::from_secs(9), "{begun:?}");

        let (handle, begun) = lingers(2).await;
        there
            .client()
            .admin()
            .terminate(&handle, ada())
            .await
            .unwrap();
        eventually("the step is dropped", async || {
            kid.dropped.load(Ordering::SeqCst) == 1
        })
        .await;
        assert!(begun.elapsed() < Duration::from_secs(4), "{begun:?}");
    })
    .await;
}
