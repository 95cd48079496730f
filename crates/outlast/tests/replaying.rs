//! Recorded histories against code, with `outlast::testing::Replay`.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

#[path = "workflows/support.rs"]
mod support;

use outlast::prelude::*;
use outlast::store::EventKind;
use outlast::testing::{Harness, Replay, ReplayError};
use outlast::workflow::{ChildCancelAnswer, ChildSignalAnswer};
use outlast::{Durable, Fails, New, Workflow};
use serde::de::DeserializeOwned;
use std::any::type_name;
use std::error::Error;
use std::sync::LazyLock;
use std::time::SystemTime;
use support::*;

/// Answers to signals and cancels of children were strings before they were enums.
#[test]
fn a_history_that_stores_answers_as_strings_replays() {
    let code = script(|flow, _| async move {
        let kid = flow.spawn(Kid::with(Say::Wait)).await?;
        let child = kid.child();
        let signalled = [
            child.signal(Go(1)).await?,
            child.signal(Go(2)).await?,
            child.signal(Go(3)).await?,
        ];
        let cancelled = [
            child.cancel("a").await?,
            child.cancel("b").await?,
            child.cancel("c").await?,
            child.cancel("d").await?,
        ];
        assert_eq!(
            signalled,
            [
                ChildSignalAnswer::Delivered,
                ChildSignalAnswer::InboxFull,
                ChildSignalAnswer::NoTarget
            ]
        );
        assert_eq!(
            cancelled,
            [
                ChildCancelAnswer::Requested,
                ChildCancelAnswer::NeverStarted,
                ChildCancelAnswer::AlreadyEnded,
                ChildCancelAnswer::NotFound
            ]
        );
        number(&flow, "after them", 1).await
    });
    let sent = |seq: i32, name: &str, answer: &str| {
        let data = json!({ "answer": answer });
        json!({ "seq": seq, "at": 0, "kind": "child_messaged", "call": seq - 2, "name": name, "data": data })
    };
    let input = format!("{:016x}", fnv(r#""Wait""#));
    let history = json!({
        "format": 1, "instance": 7, "workflow": "script", "version": 1, "run": 1, "status": "done", "input": null,
        "events": [
            { "seq": 1, "at": 0, "kind": "run_started", "data": { "seed": 1 } },
            { "seq": 2, "at": 0, "kind": "child_scheduled", "call": 1, "name": "kid", "data": {
                "round": 1, "position": 0, "machine": "kid", "version": 1, "on_parent_close": "abandon", "input": input } },
            { "seq": 3, "at": 0, "kind": "child_started", "call": 1, "name": "kid", "data": { "child": 8, "run": 1 } },
            sent(4, "go", "delivered"),
            sent(5, "go", "inbox_full"),
            sent(6, "go", "no_target"),
            sent(7, "cancel", "requested"),
            sent(8, "cancel", "never_started"),
            sent(9, "cancel", "already_ended"),
            sent(10, "cancel", "not_found"),
            { "seq": 11, "at": 0, "kind": "step_completed", "call": 9, "name": "after them", "data": { "result": 1 } },
            { "seq": 12, "at": 0, "kind": "run_completed", "data": {} },
        ],
    });
    Replay::of(code.clone())
        .check(&history.to_string())
        .unwrap();
    let other = history.to_string().replace("after them", "another");
    assert!(difference(code, &other).contains("another"));
}

/// FNV-1a, the hash of input digests.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

on_both_stores!(
    a_replay_runs_no_step_and_sends_nothing,
    a_replay_stops_at_the_end_of_the_history,
    a_replay_compares_the_input_of_a_child_with_the_history,
    code_that_ends_too_early_differs,
    code_that_ends_in_another_way_differs,
    a_history_that_ends_with_a_panic_fits_code_that_panics,
    every_run_replays_after_continue_as_new,
    a_replay_of_code_that_reads_a_clock_names_the_call_and_flow_now,
    a_history_of_another_workflow_or_version_is_refused,
    a_replay_reads_the_values_of_failures_by_their_types,
);

/// A workflow that runs a step, starts two children, signals one and cancels the other. Then it
/// joins both.
fn parent(log: &Log) -> Script {
    parent_of(log, Say::Wait)
}

fn parent_of(log: &Log, given: Say) -> Script {
    let log = log.clone();
    script(move |flow, _| {
        let (log, given) = (log.clone(), given.clone());
        async move {
            log.step(&flow, "count", 1).await?;
            let kid = flow.spawn(Kid::with(given)).await?;
            kid.child().signal(Halt(1)).await?;
            let other = flow.spawn(Kid::with(Say::Stubborn(3))).await?;
            other.child().cancel("not needed").await?;
            Ok((kid.join().await?, other.join().await?))
        }
    })
}

/// Runs a workflow to its end. Returns its id, its history while it waits for a child, and its
/// whole history.
async fn recorded(harness: &mut Harness) -> (Scripted, String, String) {
    let id = begin_and_run(harness, ()).await;
    let waits = exported(harness, id, None).await;
    let kid = children(harness, id).await[0].id;
    go(harness, kid, 2).await;
    harness.run().await;
    assert_eq!(output(&get(harness, id).await), json!([2, 3]));
    let ended = exported(harness, id, None).await;
    (id, waits, ended)
}

async fn exported(harness: &Harness, id: Scripted, run: Option<i32>) -> String {
    let admin = harness.client().admin();
    let history = admin.export(id, run).await.unwrap().unwrap();
    serde_json::to_string(&history).unwrap()
}

#[track_caller]
fn difference(code: Script, history: &str) -> String {
    match Replay::of(code).check(history) {
        Err(ReplayError::Differs { expected, found }) => format!("{expected} | {found}"),
        other => panic!("it differs, and the answer is {other:?}"),
    }
}

/// Returns all that a run could have touched: its children, their inboxes, and every history.
async fn family(harness: &Harness, id: Scripted) -> String {
    let children = children(harness, id).await;
    let mut seen = format!("{children:?}");
    for id in children.iter().map(|child| child.id).chain([id.get()]) {
        let inbox = harness.client().admin().signals(id, None).await.unwrap();
        let events = history_words(harness, id).await;
        seen.push_str(&format!("\n{id}: {inbox:?} {events:?}"));
    }
    seen
}

async fn a_replay_runs_no_step_and_sends_nothing(ground: Ground) {
    let log = Log::default();
    let code = parent(&log);
    let mut harness = ground.runs(code.clone()).await;
    let id = begin_and_run(&mut harness, ()).await;
    let waits = exported(&harness, id, None).await;
    let (seen, stored) = (family(&harness, id).await, ground.everything().await);
    assert!(seen.contains("halt"), "the signal is in an inbox: {seen}");
    Replay::of(code.clone()).check(&waits).unwrap();
    assert_eq!(family(&harness, id).await, seen);
    assert!(ground.everything().await == stored, "nothing is written");
    let (_, waits, ended) = recorded(&mut harness).await;
    let (steps, stored) = (log.entries(), ground.everything().await);
    Replay::of(code.clone()).check(&waits).unwrap();
    Replay::of(code).check(&ended).unwrap();
    assert_eq!(log.entries(), steps);
    assert!(ground.everything().await == stored, "nothing is written");
}

/// The code stops at its first step, which this history does not have.
async fn a_replay_stops_at_the_end_of_the_history(ground: Ground) {
    let log = Log::default();
    let mut harness = ground.runs(parent(&log)).await;
    let (_, waits, _) = recorded(&mut harness).await;
    let mut history: Value = serde_json::from_str(&waits).unwrap();
    history["events"].as_array_mut().unwrap().truncate(1);
    Replay::of(parent(&log))
        .check(&history.to_string())
        .unwrap();
    assert_eq!(log.times("count"), 1);
}

async fn a_replay_compares_the_input_of_a_child_with_the_history(ground: Ground) {
    let log = Log::default();
    let mut harness = ground.runs(parent(&log)).await;
    let (_, waits, ended) = recorded(&mut harness).await;
    for history in [waits, ended] {
        let difference = difference(parent_of(&log, Say::Give(1)), &history);
        assert!(difference.contains("as it was given then"), "{difference}");
        assert!(difference.contains("given something else"), "{difference}");
    }
}

async fn code_that_ends_too_early_differs(ground: Ground) {
    let log = Log::default();
    let mut harness = ground.runs(parent(&log)).await;
    let (_, waits, ended) = recorded(&mut harness).await;
    for history in [waits, ended] {
        let short = script(|flow, _| async move { number(&flow, "count", 1).await });
        let difference = difference(short, &history);
        assert!(difference.contains("the end of the code"), "{difference}");
    }
}

#[derive(Clone, Copy)]
enum How {
    Completes,
    Fails,
    ReturnsTheCancel,
    ContinuesAsNew,
}

/// A workflow that waits, is cancelled, and ends as `how` says.
fn ends_by(how: How) -> Script {
    script(move |flow, input: Value| async move {
        if input == json!("again") {
            return Ok(0);
        }
        let asked = flow.signal::<Go>().await.err().expect("it is cancelled");
        match how {
            How::Completes => Ok(1),
            How::Fails => flow.fail("it did not like that"),
            How::ReturnsTheCancel => Err(asked),
            How::ContinuesAsNew => flow.continue_as_new(json!("again")),
        }
    })
}

async fn code_that_ends_in_another_way_differs(ground: Ground) {
    let ways = [
        (How::Completes, EventKind::RunCompleted),
        (How::Fails, EventKind::RunFailed),
        (How::ReturnsTheCancel, EventKind::RunCancelled),
        (How::ContinuesAsNew, EventKind::ContinuedAsNew),
    ];
    for (how, kind) in ways {
        let mut harness = ground.runs(ends_by(how)).await;
        let id = begin_and_run(&mut harness, ()).await;
        harness.client().admin().cancel(id, ada()).await.unwrap();
        harness.run().await;
        let history = exported(&harness, id, Some(1)).await;
        Replay::of(ends_by(how)).check(&history).unwrap();
        for (how, other) in ways.into_iter().filter(|(_, other)| *other != kind) {
            let difference = difference(ends_by(how), &history);
            let expected = format!("event 4: {kind} | its end by {other}");
            assert!(difference.starts_with(&expected), "{difference}");
            let after = "after call 1: signal \"go\"";
            assert!(difference.ends_with(after), "{difference}");
        }
    }
}

async fn a_history_that_ends_with_a_panic_fits_code_that_panics(ground: Ground) {
    let build = |panics: bool| {
        script(move |flow, _| async move {
            number(&flow, "one", 1).await?;
            assert!(!panics, "an assertion of the code");
            Ok(1)
        })
    };
    let mut harness = ground.runs(build(true)).await;
    let id = begin_and_run(&mut harness, ()).await;
    let history = exported(&harness, id, None).await;
    Replay::of(build(true)).check(&history).unwrap();
    let difference = difference(build(false), &history);
    let expected = "event 3: run_failed | its end by run_completed";
    assert!(difference.starts_with(expected), "{difference}");
}

async fn every_run_replays_after_continue_as_new(ground: Ground) {
    let build = |more: u64| {
        script(move |flow, input: Value| async move {
            let left = input.as_u64().unwrap();
            flow.run(Kid::with(Say::Give(left + more))).await?;
            match left {
                0 => Ok(flow.run_number()),
                _ => flow.continue_as_new(left - 1),
            }
        })
    };
    let mut harness = ground.runs(build(0)).await;
    let id = begin_and_run(&mut harness, 2).await;
    assert_eq!(output(&get(&harness, id).await), json!(3));
    for run in 1..=3 {
        let history = exported(&harness, id, Some(run)).await;
        Replay::of(build(0)).check(&history).unwrap();
        // A replay compares the inputs of earlier runs, too.
        let difference = difference(build(1), &history);
        assert!(difference.contains("given something else"), "{difference}");
    }
}

/// A clock that is not the workflow's: the time since the test began, and an hour.
fn clock() -> Duration {
    static BEGUN: LazyLock<SystemTime> = LazyLock::new(SystemTime::now);
    let begun = *BEGUN;
    HOUR + SystemTime::now().duration_since(begun).unwrap()
}

async fn a_replay_of_code_that_reads_a_clock_names_the_call_and_flow_now(ground: Ground) {
    let child = script(|flow, _| async move {
        let nanos = u64::try_from(clock().as_nanos()).unwrap();
        let kid = flow.spawn(Kid::with(Say::Sleep(1000, nanos))).await?;
        kid.join().await
    });
    let sleep = script(|flow, _| async move {
        number(&flow, "one", 1).await?;
        flow.sleep(clock()).await
    });
    let expected = [
        (
            child,
            "child_scheduled \"kid\" of call 1",
            "call 1: child \"kid\" given",
        ),
        (
            sleep,
            "timer_scheduled of call 2",
            "call 2: timer given something else",
        ),
    ];
    for (code, expected, found) in expected {
        let mut harness = ground.runs(code.clone()).await;
        let id = begin_and_run(&mut harness, ()).await;
        let difference = difference(code, &exported(&harness, id, None).await);
        assert!(difference.contains(expected), "{difference}");
        assert!(difference.contains(found), "{difference}");
        assert!(difference.contains("use flow.now()"), "{difference}");
    }
}

/// The next version of the workflow of the tests.
struct Second;

impl Durable for Second {
    const NAME: &'static str = Script::NAME;
    const VERSION: i32 = 2;
    type Input = Value;
    type Output = u64;
}

impl Workflow for Second {
    async fn run(&self, flow: Flow, _: Value) -> FlowResult<u64> {
        number(&flow, "count", 1).await
    }
}

async fn a_history_of_another_workflow_or_version_is_refused(ground: Ground) {
    let mut harness = ground.runs(parent(&Log::default())).await;
    let (_, waits, _) = recorded(&mut harness).await;
    let of_another = Replay::of(Kid).check(&waits).unwrap_err();
    let of_another_version = Replay::of(Second).check(&waits).unwrap_err();
    let unreadable = Replay::of(Kid).check("{}").unwrap_err();
    for refused in [&of_another, &of_another_version, &unreadable] {
        assert!(matches!(refused, ReplayError::Unreadable(_)), "{refused}");
    }
    assert_eq!(
        of_another.to_string(),
        "history is of script/1, and the code is kid/1"
    );
    assert_eq!(
        of_another_version.to_string(),
        "history is of script/1, and the code is script/2"
    );
}

/// An error of a job, and a type of another build that does not read it.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
enum Refusal {
    #[error("sold out")]
    SoldOut,
    #[error("closed")]
    Closed,
}

#[job(attempts = 1)]
async fn reserve() -> Result<u64, Refusal> {
    Err(Refusal::SoldOut)
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
enum Closed {
    #[error("closed")]
    Closed,
}

#[job(name = "reserve", attempts = 1)]
async fn reserve_later() -> Result<u64, Closed> {
    Err(Closed::Closed)
}

/// A workflow that reads the failure of its job, and goes on whether it can or not.
fn reads<D>(job: fn() -> New<D>) -> Script
where
    D: Fails<Error: Error + DeserializeOwned + Send + Sync> + Durable<Output = u64>,
{
    script(move |flow, _| async move {
        let failed = flow.run(job()).await.unwrap_err();
        let is_read = failed.downcast::<D>().is_ok();
        number(&flow, "after it", 1).await?;
        Ok(is_read)
    })
}

async fn a_replay_reads_the_values_of_failures_by_their_types(ground: Ground) {
    let code = reads(reserve::with);
    let worker = ground.worker().register(code.clone()).register(reserve);
    let mut harness = worker.build().await.unwrap();
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(output(&get(&harness, id).await), json!(true));
    let history = exported(&harness, id, None).await;
    Replay::of(code).check(&history).unwrap();
    let difference = difference(reads(reserve_later::with), &history);
    let expected = "event 3: activity_failed \"reserve\" of call 1 | the type";
    assert!(difference.starts_with(expected), "{difference}");
    assert!(difference.contains(type_name::<Closed>()), "{difference}");
    assert!(difference.contains("unknown variant"), "{difference}");
}
