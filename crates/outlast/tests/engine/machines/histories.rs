//! Histories of machines: the events of outcomes, their states, and the bound of a history.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support;
use crate::support::through::Through;
use outlast::prelude::*;
use outlast::store::limits::{JSON_DEPTH_MAX, TRANSITIONS_MAX};
use outlast::store::{
    ClaimRequest, Commit, Event, EventKind, Inspect, Json, MachineVersion, ManualClock, NewEvent,
    NewWorker, Outcome as Written, Proceed, Store,
};
use outlast::testing::{Harness, HarnessBuilder, Point};
use outlast::workflow::EventDetail;
use outlast::{Failure, Handle, History, InstanceId, Job, JobError, Note, Status, StepError};
use outlast_postgres::Postgres;
use outlast_sqlite::Sqlite;
use serde_json::{Value, json};

/// Makes a test for each store from every function named, with the store and its clock:
/// `async fn a_sentence<S: Store + Inspect + Clone>(store: S, clock: ManualClock)`.
macro_rules! on_both_stores {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                super::on_sqlite(super::$name).await;
            })+
        }

        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                super::on_postgres(super::$name).await;
            })+
        }
    };
}

on_both_stores!(
    a_machine_records_no_history_by_default,
    each_outcome_is_recorded_with_its_next_step,
    with_states_each_event_has_the_next_state,
    an_event_says_what_woke_its_step,
    a_cancel_is_recorded_as_the_outcome_of_on_cancel,
    each_attempt_of_a_job_is_recorded,
    a_step_whose_worker_died_is_recorded_once_with_its_crashes,
    a_dropped_outcome_is_not_recorded,
    the_outcome_of_on_failure_is_recorded_instead_of_the_refused_one,
    the_history_is_the_same_with_and_without_run_ahead,
    a_machine_goes_on_when_its_history_is_full,
    states_that_do_not_fit_into_the_history_are_left_out_with_their_size,
    recording_can_begin_and_end_while_instances_live,
    a_machine_with_a_history_is_no_workflow,
);

async fn on_sqlite<T: Future<Output = ()>>(test: impl FnOnce(Sqlite, ManualClock) -> T) {
    let clock = ManualClock::default();
    let store = Sqlite::options().clock(clock.clone()).in_memory().unwrap();
    test(store.clone(), clock).await;
    store.close().await;
}

async fn on_postgres<T: Future<Output = ()>>(test: impl FnOnce(Postgres, ManualClock) -> T) {
    let schema = support::take_schema();
    let clock = ManualClock::default();
    let options = Postgres::options(&support::url()).unwrap().schema(&schema);
    let store = options.clock(clock.clone()).connect().await.unwrap();
    test(store.clone(), clock).await;
    store.close().await;
    support::return_schema(&schema).await;
}

const HOUR_US: i64 = 3_600_000_000;

/// A parcel on its way. The type says what is recorded. All of them have the same machine name.
struct Way<const RECORDED: u8>;

type Unrecorded = Way<0>;
type Recorded = Way<1>;

#[steps]
enum Parcel {
    Pack { number: u32 },
    Weigh { number: u32 },
    Send { number: u32 },
    Track { number: u32 },
    Round { left: u32 },
    Hold(Value),
    Fail,
    Vanish,
}

#[derive(Signal, Serialize, Deserialize)]
struct Paid;

impl<const RECORDED: u8> Machine for Way<RECORDED> {
    const NAME: &'static str = "parcel";
    const HISTORY: History = match RECORDED {
        0 => History::Off,
        1 => History::Transitions,
        _ => History::States,
    };
    type State = Parcel;
    type Output = ();

    async fn step(&self, parcel: Parcel, cx: &Context) -> StepResult<Self> {
        match parcel {
            Parcel::Pack { number } => next(Parcel::Weigh { number }),
            Parcel::Weigh { .. } if cx.attempt() == 0 => retry(MINUTE, "the scales are taken"),
            Parcel::Weigh { number } => wait_for::<Paid>()
                .timeout(HOUR)
                .then(Parcel::Send { number }),
            Parcel::Send { number } => match cx.received::<Paid>()? {
                Some(Paid) => {
                    let stamps = (0..2).map(|_| Stamp::with(()));
                    fan_out(stamps)
                        .deadline(HOUR)
                        .then(Parcel::Track { number })
                }
                None => fail("nobody paid"),
            },
            Parcel::Track { .. } | Parcel::Round { left: 0 } => done(()),
            Parcel::Round { left } => next(Parcel::Round { left: left - 1 }),
            Parcel::Hold(what) => sleep(HOUR).then(Parcel::Hold(what)),
            Parcel::Fail => Err(StepError::new("it fell"))?,
            Parcel::Vanish => {
                let note = Note::by("the step");
                cx.client().admin().terminate(cx.id(), note).await?;
                next(Parcel::Round { left: 0 })
            }
        }
    }

    async fn on_failure(&self, _: Parcel, failure: Failure, _: &Context) -> StepResult<Self> {
        match &failure {
            Failure::Outcome(_) => next(Parcel::Round { left: 1 }),
            Failure::Error(_) | Failure::Panic(_) | Failure::Timeout(_) => fail(failure),
        }
    }
}

struct Stamp;

impl Job for Stamp {
    const NAME: &'static str = "stamp";
    const MAX_ATTEMPTS: u32 = 2;
    const HISTORY: History = History::Transitions;
    type Args = ();
    type Output = ();

    async fn perform(&self, (): (), cx: &Context) -> Result<(), JobError> {
        match cx.parent() {
            Some(_) => Ok(()),
            None => Err(JobError::retry_after(HOUR, "out of stamps")),
        }
    }
}

fn worker<const RECORDED: u8>(
    store: &(impl Store + Inspect + Clone),
    clock: &ManualClock,
) -> HarnessBuilder {
    let harness = Harness::on(store.clone(), clock.clone());
    harness.register(Way::<RECORDED>).register(Stamp)
}

async fn harness<const RECORDED: u8>(
    store: &(impl Store + Inspect + Clone),
    clock: &ManualClock,
) -> Harness {
    worker::<RECORDED>(store, clock).build().await.unwrap()
}

async fn begin<const RECORDED: u8>(harness: &Harness, parcel: Parcel) -> Handle<Way<RECORDED>> {
    support::insert(harness.client(), Way::with(parcel)).await
}

async fn events<D>(of: &Handle<D>) -> Vec<Event> {
    let admin = of.client().admin();
    admin.events_of(of.id().get(), 1).await.unwrap()
}

/// The steps with events, and the data of each event.
async fn recorded<D>(of: &Handle<D>) -> Vec<(String, Value)> {
    let events = events(of).await.into_iter();
    let recorded = events.map(|event| {
        assert_eq!((event.kind, event.call), (EventKind::Transitioned, None));
        (event.name, event.data.decode().unwrap())
    });
    recorded.collect()
}

fn at(step: &str, data: Value) -> (String, Value) {
    (step.to_owned(), data)
}

async fn a_machine_records_no_history_by_default<S: Store + Inspect + Clone>(
    store: S,
    clock: ManualClock,
) {
    assert_eq!(<Unrecorded as Machine>::HISTORY, History::Off);
    let mut harness = harness::<0>(&store, &clock).await;
    let parcel = begin::<0>(&harness, Parcel::Pack { number: 1 }).await;
    harness.run_all().await;
    let row = parcel.instance().await.unwrap();
    assert_eq!((row.status, row.events), (Status::Failed, 0));
    assert!(!row.has_history());
    assert_eq!(
        harness.client().admin().histories(&parcel).await.unwrap(),
        []
    );
}

/// Runs a parcel from its first step over a retry, a wait and children to its end.
async fn full_way<const RECORDED: u8>(harness: &mut Harness) -> Handle<Way<RECORDED>> {
    let parcel = begin::<RECORDED>(harness, Parcel::Pack { number: 7 }).await;
    harness.run().await;
    harness.advance(MINUTE).await;
    harness.run().await;
    parcel.signal(Paid).await.unwrap();
    harness.run().await;
    let ended = parcel.instance().await.unwrap();
    assert_eq!(ended.status, Status::Done);
    parcel
}

async fn each_outcome_is_recorded_with_its_next_step<S: Store + Inspect + Clone>(
    store: S,
    clock: ManualClock,
) {
    let mut harness = harness::<1>(&store, &clock).await;
    let client = harness.client().clone();
    let begun = harness.time();
    let parcel = full_way::<1>(&mut harness).await;
    let expected = [
        at("pack", json!({"outcome": "next", "to": "weigh"})),
        at(
            "weigh",
            json!({"outcome": "retry", "to": "weigh", "after_us": 60_000_000, "error": "the scales are taken"}),
        ),
        at(
            "weigh",
            json!({"outcome": "wait", "to": "send", "attempt": 1, "awaits": ["paid"], "after_us": HOUR_US}),
        ),
        at(
            "send",
            json!({"outcome": "fan_out", "to": "track", "attempt": 1, "woken_by": "signal", "signals": ["paid"],
                   "children": 2, "after_us": HOUR_US}),
        ),
        at("track", json!({"outcome": "done"})),
    ];
    assert_eq!(recorded(&parcel).await, expected);
    let events = events(&parcel).await;
    let since = events.iter().map(|event| event.at.since(begun).as_secs());
    assert_eq!(since.collect::<Vec<_>>(), [0, 0, 60, 60, 60]);
    let retry = EventDetail::of(&events[1]);
    assert_eq!(retry.reason.as_deref(), Some("the scales are taken"));
    assert_eq!(retry.deadline, Some(begun + MINUTE));
    assert_eq!(retry.transition.unwrap().to.as_deref(), Some("weigh"));
    let row = parcel.instance().await.unwrap();
    assert_eq!((row.run, row.events), (1, 5));

    let failing = begin::<1>(&harness, Parcel::Fail).await;
    harness.run().await;
    let stop = [at("fail", json!({"outcome": "fail", "error": "it fell"}))];
    assert_eq!(recorded(&failing).await, stop);
    // A retry by an operator has no event. The next outcome has one.
    let note = Note::by("an operator");
    client.admin().retry(&failing, note).await.unwrap();
    harness.run().await;
    assert_eq!(outcomes(&failing).await, ["fail", "fail"]);
}

async fn outcomes<D>(of: &Handle<D>) -> Vec<String> {
    let recorded = recorded(of).await.into_iter();
    let outcomes = recorded.map(|(_, data)| data["outcome"].as_str().unwrap().to_owned());
    outcomes.collect()
}

async fn with_states_each_event_has_the_next_state<S: Store + Inspect + Clone>(
    store: S,
    clock: ManualClock,
) {
    let mut harness = harness::<2>(&store, &clock).await;
    let parcel = full_way::<2>(&mut harness).await;
    let recorded = recorded(&parcel).await;
    let states: Vec<_> = recorded.iter().map(|(_, data)| &data["state"]).collect();
    let state = json!({"number": 7});
    // An end does not change the state, so its event has none.
    assert_eq!(states, [&state, &state, &state, &state, &Value::Null]);
    // The first event also has the state of the insert, so that the history is complete.
    let began: Vec<_> = recorded.iter().map(|(_, data)| &data["began"]).collect();
    let null = &Value::Null;
    assert_eq!(began, [&state, null, null, null, null]);
}

async fn an_event_says_what_woke_its_step<S: Store + Inspect + Clone>(
    store: S,
    clock: ManualClock,
) {
    let mut harness = harness::<1>(&store, &clock).await;
    let late = begin::<1>(&harness, Parcel::Pack { number: 1 }).await;
    harness.run_all().await;
    let last = recorded(&late).await.pop().unwrap();
    let stop =
        json!({"outcome": "fail", "attempt": 1, "woken_by": "timeout", "error": "nobody paid"});
    assert_eq!(last, at("send", stop));
    let paid = full_way::<1>(&mut harness).await;
    let woken = recorded(&paid).await.into_iter();
    let woken = woken.filter_map(|(step, data)| Some((step, data.get("woken_by")?.clone())));
    assert_eq!(woken.collect::<Vec<_>>(), [at("send", json!("signal"))]);
}

async fn a_cancel_is_recorded_as_the_outcome_of_on_cancel<S: Store + Inspect + Clone>(
    store: S,
    clock: ManualClock,
) {
    let mut harness = harness::<1>(&store, &clock).await;
    let parcel = begin::<1>(&harness, Parcel::Pack { number: 1 }).await;
    harness.run().await;
    let note = Note::by("Ada").because("sold out");
    parcel.cancel(note).await.unwrap();
    harness.run().await;
    let last = recorded(&parcel).await.pop().unwrap();
    let cancelled = json!({"outcome": "cancel", "attempt": 1, "woken_by": "cancel",
                            "error": "cancelled by Ada: sold out"});
    assert_eq!(last, at("weigh", cancelled));
}

async fn each_attempt_of_a_job_is_recorded<S: Store + Inspect + Clone>(
    store: S,
    clock: ManualClock,
) {
    let mut harness = harness::<1>(&store, &clock).await;
    let stamp = support::insert(harness.client(), Stamp::with(())).await;
    harness.run_all().await;
    let expected = [
        at(
            "perform",
            json!({"outcome": "retry", "to": "perform", "after_us": HOUR_US, "error": "out of stamps"}),
        ),
        at(
            "perform",
            json!({"outcome": "fail", "attempt": 1, "error": "gave up after 2 attempts: out of stamps"}),
        ),
    ];
    assert_eq!(recorded(&stamp).await, expected);
}

async fn a_step_whose_worker_died_is_recorded_once_with_its_crashes<S: Store + Inspect + Clone>(
    store: S,
    clock: ManualClock,
) {
    for (point, crashes) in [
        (Point::BeforeStep, 1),
        (Point::BeforeCommit, 1),
        (Point::AfterCommit, 0),
    ] {
        let mut harness = harness::<1>(&store, &clock).await;
        harness.crash::<Recorded>("pack", point);
        let parcel = begin::<1>(&harness, Parcel::Pack { number: 1 }).await;
        harness.run().await;
        let mut expected = json!({"outcome": "next", "to": "weigh"});
        if crashes > 0 {
            expected["attempt"] = json!(crashes);
            expected["crashes"] = json!(crashes);
        }
        let recorded = recorded(&parcel).await;
        assert_eq!(recorded[0], at("pack", expected), "{point:?}");
        let packed = recorded.iter().filter(|(step, _)| step == "pack").count();
        assert_eq!(packed, 1, "{point:?}");
    }
}

async fn a_dropped_outcome_is_not_recorded<S: Store + Inspect + Clone>(
    store: S,
    clock: ManualClock,
) {
    let mut harness = harness::<1>(&store, &clock).await;
    let parcel = begin::<1>(&harness, Parcel::Vanish).await;
    harness.run().await;
    let row = parcel.instance().await.unwrap();
    assert_eq!((row.status, row.events), (Status::Cancelled, 0));
    assert_eq!(events(&parcel).await, []);
}

/// A refused outcome goes to `on_failure` with the same claim. Its events are counted once.
async fn the_outcome_of_on_failure_is_recorded_instead_of_the_refused_one<
    S: Store + Inspect + Clone,
>(
    store: S,
    clock: ManualClock,
) {
    let to_weigh =
        |commit: &Commit| matches!(&commit.outcome, Written::Next { step, .. } if step == "weigh");
    let store = Through::new(store).rejecting(to_weigh);
    let mut harness = harness::<2>(&store, &clock).await;
    let parcel = begin::<2>(&harness, Parcel::Pack { number: 1 }).await;
    harness.run().await;
    let left = |left: u32| json!({"left": left});
    let expected = [
        at(
            "pack",
            json!({"outcome": "next", "to": "round", "began": {"number": 1}, "state": left(1)}),
        ),
        at(
            "round",
            json!({"outcome": "next", "to": "round", "state": left(0)}),
        ),
        at("round", json!({"outcome": "done"})),
    ];
    assert_eq!(recorded(&parcel).await, expected);
}

async fn the_history_is_the_same_with_and_without_run_ahead<S: Store + Inspect + Clone>(
    store: S,
    clock: ManualClock,
) {
    let mut histories = Vec::new();
    for run_ahead in [0, 2, 100] {
        let worker = worker::<2>(&store, &clock).run_ahead(run_ahead);
        let mut harness = worker.build().await.unwrap();
        let parcel = begin::<2>(&harness, Parcel::Round { left: 5 }).await;
        harness.run().await;
        histories.push(recorded(&parcel).await);
    }
    assert_eq!(histories[0].len(), 6);
    assert_eq!(histories[0], histories[1]);
    assert_eq!(histories[0], histories[2]);
}

/// Lengthens the history of an instance by `len` events. No engine may run meanwhile.
async fn lengthen(store: &impl Store, id: InstanceId, len: usize) {
    let worker = NewWorker {
        name: "author".into(),
        host: "here".into(),
        version: "1".into(),
        queues: vec!["default".into()],
        machines: Vec::new(),
        lease: HOUR,
    };
    let worker = store.register(worker).await.unwrap();
    let request = ClaimRequest {
        worker,
        queue: "default".into(),
        machines: vec![MachineVersion::new(Recorded::NAME, 1)].into(),
        max: 1,
    };
    let claimed = store.claim(request).await.unwrap();
    let claim = &claimed.claims[0];
    assert_eq!(claim.id, id);
    let outcome = Written::Next {
        step: claim.step.clone(),
        state: claim.state.clone(),
        proceed: Proceed::Requeue,
    };
    let mut commit = Commit::of(claim, outcome);
    let event = NewEvent {
        kind: EventKind::Transitioned,
        call: None,
        name: claim.step.clone(),
        data: Json::of(&json!({"outcome": "next"})).unwrap(),
        at: None,
    };
    commit.events = vec![event; len];
    store.commit(vec![commit].into()).await.unwrap();
    store.deregister(worker).await.unwrap();
}

async fn a_machine_goes_on_when_its_history_is_full<S: Store + Inspect + Clone>(
    store: S,
    clock: ManualClock,
) {
    for run_ahead in [0, 100] {
        let worker = worker::<1>(&store, &clock).run_ahead(run_ahead);
        let mut harness = worker.build().await.unwrap();
        let parcel = begin::<1>(&harness, Parcel::Round { left: 5 }).await;
        lengthen(&store, parcel.id().get(), TRANSITIONS_MAX - 2).await;
        harness.run().await;
        let row = parcel.instance().await.unwrap();
        assert_eq!(row.status, Status::Done);
        assert_eq!(usize::try_from(row.events), Ok(TRANSITIONS_MAX));
        let last = parcel.history().after(row.events - 2).limit(10);
        let last = last.await.unwrap().into_iter();
        let last: Vec<Value> = last.map(|event| event.data.decode().unwrap()).collect();
        let next = json!({"outcome": "next", "to": "round"});
        let full = json!({"outcome": "next", "to": "round", "is_last": true});
        assert_eq!(last, [next, full]);
    }
}

async fn states_that_do_not_fit_into_the_history_are_left_out_with_their_size<
    S: Store + Inspect + Clone,
>(
    store: S,
    clock: ManualClock,
) {
    let mut harness = harness::<2>(&store, &clock).await;
    // As deep as a state may be, so that no event can contain it.
    let nested = (0..JSON_DEPTH_MAX).fold(json!(1), |inner, _| json!([inner]));
    let large = json!("x".repeat(300 * 1024));
    let small = json!("x".repeat(1_000));
    for (state, before, is_kept) in [
        (&nested, 0, false),
        (&large, 0, false),
        (&small, 0, true),
        // The longer a history is, the less room is left for states.
        (&small, 2_000, true),
        (&small, 3_000, false),
    ] {
        let parcel = begin::<2>(&harness, Parcel::Hold(state.clone())).await;
        if before > 0 {
            lengthen(&store, parcel.id().get(), before).await;
        }
        harness.run().await;
        let after = i32::try_from(before).unwrap();
        let next = parcel.history().run(1).after(after).limit(1);
        let event = next.await.unwrap().rows.remove(0);
        let transition = EventDetail::of(&event).transition.unwrap();
        let bytes = serde_json::to_string(state).unwrap().len();
        assert_eq!(
            transition.state.is_some(),
            is_kept,
            "{bytes} after {before}"
        );
        assert_eq!(transition.left_out, (!is_kept).then_some(bytes));
        parcel.terminate(Note::by("the test")).await.unwrap();
    }
}

/// A build that records and one that does not can take turns with the same instance.
async fn recording_can_begin_and_end_while_instances_live<S: Store + Inspect + Clone>(
    store: S,
    clock: ManualClock,
) {
    let mut off = harness::<0>(&store, &clock).await;
    let parcel = begin::<0>(&off, Parcel::Pack { number: 7 }).await;
    off.run().await;
    off.advance(MINUTE).await;
    let mut on = harness::<2>(&store, &clock).await;
    on.run().await;
    let wait = json!({
        "outcome": "wait", "to": "send", "attempt": 1, "awaits": ["paid"], "after_us": HOUR_US,
        "began": {"number": 7}, "state": {"number": 7},
    });
    let seen = on.handle::<Way<2>>(parcel.id().get()).await.unwrap();
    assert_eq!(recorded(&seen).await, [at("weigh", wait.clone())]);
    parcel.signal(Paid).await.unwrap();
    off.run().await;
    assert_eq!(recorded(&seen).await, [at("weigh", wait)]);
    let row = seen.instance().await.unwrap();
    assert_eq!((row.status, row.events), (Status::Done, 1));
}

async fn a_machine_with_a_history_is_no_workflow<S: Store + Inspect + Clone>(
    store: S,
    clock: ManualClock,
) {
    let mut harness = harness::<1>(&store, &clock).await;
    let client = harness.client().clone();
    let parcel = begin::<1>(&harness, Parcel::Pack { number: 1 }).await;
    harness.run().await;
    let row = parcel.instance().await.unwrap();
    assert!(row.has_history() && !row.is_workflow());
    let text = client.admin().explain(&row).await.unwrap();
    assert!(text.starts_with("retries step weigh in "), "{text}");
    let waits = client.admin().waits(&row).await.unwrap();
    assert!(waits.open.is_empty() && waits.is_whole);
    // A machine's history cannot be replayed.
    let export = client.admin().export(&parcel, None).await.unwrap();
    assert!(export.is_none());
    harness.run_all().await;
    let row = parcel.instance().await.unwrap();
    let text = client.admin().explain(&row).await.unwrap();
    assert!(text.contains("at step send"), "{text}");
}
