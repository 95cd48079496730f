//! Steps without an outcome: what `on_failure` gets, what it decides, and how the instance ends.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::through::Through;
use crate::support::{LONG, insert, on_both_stores, running};
use outlast::machine::wait_for_named;
use outlast::prelude::*;
use outlast::store::{
    Commit, Inspect, Instance, Json, NewInstance, NewSignal, Outcome as Written, RetryAnswer,
    Store, limits,
};
use outlast::{Failure, Note, Outcome, Status, StepError, WaitError};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

on_both_stores!(
    on_failure_decides_after_an_error,
    on_failure_gets_an_error_with_its_causes,
    on_failure_decides_after_a_panic,
    on_failure_decides_after_a_timeout_and_the_step_is_dropped,
    on_failure_decides_when_a_state_has_keys_that_are_not_strings,
    on_failure_decides_when_a_state_holds_a_nul,
    on_failure_decides_when_a_state_is_too_deep,
    on_failure_decides_when_a_state_is_too_large,
    on_failure_decides_when_an_output_cannot_be_stored,
    on_failure_decides_when_serializing_a_state_panics,
    on_failure_decides_when_a_retry_carries_a_state_of_another_step,
    on_failure_decides_when_a_wait_is_longer_than_ten_years,
    on_failure_decides_when_a_wait_would_never_end,
    on_failure_decides_when_a_child_cannot_be_started,
    on_failure_decides_when_the_database_refuses_an_outcome,
    an_instance_fails_when_the_database_refuses_the_outcome_of_on_failure,
    on_failure_decides_when_a_signal_does_not_decode,
    on_failure_gets_the_state_and_the_attempt_of_the_step,
    an_on_failure_that_fails_ends_the_instance_with_both_reasons,
    an_on_failure_that_panics_ends_the_instance_with_both_reasons,
    an_on_failure_that_times_out_ends_the_instance_with_both_reasons,
    an_unstorable_outcome_of_on_failure_ends_the_instance_with_both_reasons,
    a_fatal_error_fails_the_instance_without_on_failure,
    a_machine_without_on_failure_fails_its_instances,
    a_reason_that_cannot_be_stored_is_cleaned_and_cut,
    a_failure_does_not_affect_other_instances,
    a_state_that_does_not_decode_fails_and_runs_in_a_build_that_decodes_it,
);

/// Fails in the way that its state says, and returns what `on_failure` was given.
#[derive(Default)]
struct Fragile {
    dropped: Arc<AtomicU32>,
    handled_failures: Arc<AtomicU32>,
}

#[steps]
enum Deed {
    Fail,
    FailDeep,
    Panic,
    Hang,
    Pairs,
    Keyed(HashMap<Pair, u8>),
    Say(String),
    Nul,
    Deep,
    Holding(serde_json::Value),
    Large,
    BadOutput,
    PanicWhileWritten,
    Mined(Mine),
    RetryElsewhere,
    SleepForAges,
    WaitForNothing,
    BadChild,
    Listen,
    Heard,
    FailOnce { number: u32 },
    Fatal,
    Then { then: OnFailure, text: String },
    Handled(Report),
}

/// What `on_failure` is to do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum OnFailure {
    Fail,
    Panic,
    Hang,
    Nul,
}

/// What `on_failure` was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Report {
    kind: String,
    text: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Pair(u8, u8);

#[derive(Deserialize)]
struct Mine;

impl Serialize for Mine {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("the mine went off");
    }
}

#[derive(Signal, Serialize, Deserialize)]
struct Number(u32);

#[derive(Debug, thiserror::Error)]
#[error("charge")]
struct Charge(#[source] Connect);

#[derive(Debug, thiserror::Error)]
#[error("connect")]
struct Connect(#[source] std::io::Error);

/// Counts its drops.
struct Guard(Arc<AtomicU32>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Machine for Fragile {
    const NAME: &'static str = "fragile";
    const STEP_TIMEOUT: Duration = Duration::from_millis(300);
    type State = Deed;
    type Output = Report;

    async fn step(&self, deed: Deed, cx: &Context) -> StepResult<Self> {
        match deed {
            Deed::Fail => Err(StepError::new("no such road")),
            Deed::FailDeep => Err(Charge(Connect(std::io::Error::other("refused"))))?,
            Deed::Panic => panic!("step {} went wrong", cx.step()),
            Deed::Hang => {
                let _guard = Guard(self.dropped.clone());
                std::future::pending().await
            }
            Deed::Pairs => next(Deed::Keyed([(Pair(1, 2), 3)].into())),
            Deed::Nul => next(Deed::Say("a\0b".to_owned())),
            Deed::Deep => next(Deed::Holding(nested(limits::JSON_DEPTH_MAX + 1))),
            Deed::Large => next(Deed::Say("x".repeat(limits::JSON_BYTES_MAX))),
            Deed::BadOutput => done(report("\0", "")),
            Deed::PanicWhileWritten => next(Deed::Mined(Mine)),
            Deed::RetryElsewhere => {
                Ok(Outcome::retry_with(Deed::Fail, Duration::ZERO, "elsewhere"))
            }
            Deed::SleepForAges => sleep(limits::DELAY_MAX * 2).then(Deed::Fail),
            Deed::WaitForNothing => wait_for_named([""; 0]).then(Deed::Fail),
            Deed::BadChild => {
                let children = [
                    Fragile::with(Deed::Fail),
                    Fragile::with(Deed::Fail).queue(""),
                ];
                fan_out(children).then(Deed::Fail)
            }
            Deed::Listen => wait_for::<Number>().then(Deed::Heard),
            Deed::Heard => {
                let heard = cx.received::<Number>()?;
                done(report("heard", heard.map_or(0, |number| number.0)))
            }
            Deed::FailOnce { number } if cx.attempt() == 0 => {
                Err(StepError::new(format!("number {number}")))
            }
            Deed::FailOnce { number } => done(report("retried", number)),
            Deed::Fatal => Err(StepError::fatal("beyond help")),
            Deed::Then { text, .. } => Err(StepError::new(text)),
            Deed::Handled(report) => done(report),
            Deed::Keyed(_) | Deed::Say(_) | Deed::Holding(_) | Deed::Mined(_) => {
                unreachable!("none of these can be stored")
            }
        }
    }

    async fn on_failure(&self, deed: Deed, failure: Failure, cx: &Context) -> StepResult<Self> {
        self.handled_failures.fetch_add(1, Ordering::SeqCst);
        if let Deed::FailOnce { number } = deed {
            let state = Deed::FailOnce { number: number + 1 };
            let error = format!("{failure} at {}", cx.attempt());
            return Ok(Outcome::retry_with(state, Duration::ZERO, error));
        }
        let Deed::Then { then, .. } = deed else {
            let report = report(failure.kind(), &failure);
            return next(Deed::Handled(report));
        };
        match then {
            OnFailure::Fail => Err(StepError::new("and no way back")),
            OnFailure::Panic => panic!("and panicked"),
            OnFailure::Hang => std::future::pending().await,
            OnFailure::Nul => next(Deed::Say("\0".to_owned())),
        }
    }
}

fn report(kind: &str, text: impl ToString) -> Report {
    Report {
        kind: kind.to_owned(),
        text: text.to_string(),
    }
}

fn nested(depth: usize) -> serde_json::Value {
    (0..depth).fold(serde_json::Value::Null, |inner, _| vec![inner].into())
}

/// What `on_failure` was given for this deed.
async fn handled(store: impl Store + Inspect, deed: Deed) -> Report {
    let engine = running(store, Fragile::default()).await;
    let handle = insert(engine.client(), Fragile::with(deed)).await;
    handle.output().timeout(LONG).await.unwrap()
}

/// How this deed ended.
async fn ended(store: impl Store + Inspect, deed: Deed) -> Instance {
    let engine = running(store, Fragile::default()).await;
    let handle = insert(engine.client(), Fragile::with(deed)).await;
    handle.ended().timeout(LONG).await.unwrap()
}

#[track_caller]
fn assert_outcome(report: &Report, part: &str) {
    assert_eq!(report.kind, "outcome", "{report:?}");
    assert!(report.text.contains("cannot be stored"), "{report:?}");
    assert!(report.text.contains(part), "{report:?}");
}

async fn on_failure_decides_after_an_error<S: Store + Inspect + Clone>(store: S) {
    let handled = handled(store, Deed::Fail).await;
    assert_eq!(handled, report("error", "no such road"));
}

async fn on_failure_gets_an_error_with_its_causes<S: Store + Inspect + Clone>(store: S) {
    let handled = handled(store, Deed::FailDeep).await;
    assert_eq!(handled, report("error", "charge: connect: refused"));
}

async fn on_failure_decides_after_a_panic<S: Store + Inspect + Clone>(store: S) {
    let handled = handled(store, Deed::Panic).await;
    let expected = "the step panicked: step panic went wrong";
    assert_eq!(handled, report("panic", expected));
}

async fn on_failure_decides_after_a_timeout_and_the_step_is_dropped<S: Store + Inspect + Clone>(
    store: S,
) {
    let machine = Fragile::default();
    let dropped = machine.dropped.clone();
    let engine = running(store, machine).await;
    let handle = insert(engine.client(), Fragile::with(Deed::Hang)).await;
    let handled = handle.output().timeout(LONG).await.unwrap();
    assert_eq!(
        handled,
        report("timeout", "the step took longer than 300ms")
    );
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

async fn on_failure_decides_when_a_state_has_keys_that_are_not_strings<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    assert_outcome(&handled(store, Deed::Pairs).await, "key must be a string");
}

async fn on_failure_decides_when_a_state_holds_a_nul<S: Store + Inspect + Clone>(store: S) {
    assert_outcome(&handled(store, Deed::Nul).await, "\\u0000");
}

async fn on_failure_decides_when_a_state_is_too_deep<S: Store + Inspect + Clone>(store: S) {
    assert_outcome(&handled(store, Deed::Deep).await, "levels deep");
}

async fn on_failure_decides_when_a_state_is_too_large<S: Store + Inspect + Clone>(store: S) {
    assert_outcome(
        &handled(store, Deed::Large).await,
        "keep large things elsewhere",
    );
}

async fn on_failure_decides_when_an_output_cannot_be_stored<S: Store + Inspect + Clone>(store: S) {
    let handled = handled(store, Deed::BadOutput).await;
    assert_outcome(&handled, "\\u0000");
    assert_outcome(&handled, "output");
}

async fn on_failure_decides_when_serializing_a_state_panics<S: Store + Inspect + Clone>(store: S) {
    let handled = handled(store, Deed::PanicWhileWritten).await;
    assert_eq!(
        handled,
        report("panic", "the step panicked: the mine went off")
    );
}

async fn on_failure_decides_when_a_retry_carries_a_state_of_another_step<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let handled = handled(store, Deed::RetryElsewhere).await;
    assert_outcome(&handled, "use Outcome::next");
}

async fn on_failure_decides_when_a_wait_is_longer_than_ten_years<S: Store + Inspect + Clone>(
    store: S,
) {
    assert_outcome(&handled(store, Deed::SleepForAges).await, "ten years");
}

async fn on_failure_decides_when_a_wait_would_never_end<S: Store + Inspect + Clone>(store: S) {
    assert_outcome(&handled(store, Deed::WaitForNothing).await, "timeout");
}

async fn on_failure_decides_when_a_child_cannot_be_started<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Fragile::default()).await;
    let handle = insert(engine.client(), Fragile::with(Deed::BadChild)).await;
    let handled = handle.output().timeout(LONG).await.unwrap();
    assert_outcome(&handled, "child 1");
    assert!(handle.children().await.unwrap().is_empty());
}

/// No check of the engine foresees a trigger or a constraint of another owner.
async fn on_failure_decides_when_the_database_refuses_an_outcome<S: Store + Inspect + Clone>(
    store: S,
) {
    let parks = |commit: &Commit| matches!(commit.outcome, Written::Wait { .. });
    let store = Through::new(store).rejecting(parks);
    assert_outcome(
        &handled(store, Deed::Listen).await,
        "is refused by the test",
    );
}

async fn an_instance_fails_when_the_database_refuses_the_outcome_of_on_failure<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let goes_on = |commit: &Commit| commit.outcome.end().is_none();
    let store = Through::new(store).rejecting(goes_on);
    let ended = ended(store, Deed::Listen).await;
    assert_eq!(ended.status, Status::Failed);
    let reason = ended.last_error.unwrap();
    assert!(reason.contains("nor the outcome of on_failure"), "{reason}");
    assert!(reason.contains("is refused by the test"), "{reason}");
}

async fn on_failure_decides_when_a_signal_does_not_decode<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Fragile::default()).await;
    let admin = engine.client().admin();
    let handle = insert(engine.client(), Fragile::with(Deed::Listen)).await;
    let signal = NewSignal::new((&handle).into(), Number::NAME, Json::of("seven").unwrap());
    admin.signal_rows(vec![signal]).await.unwrap();
    let handled = handle.output().timeout(LONG).await.unwrap();
    assert_eq!(handled.kind, "error");
    assert!(handled.text.contains("(number)"), "{handled:?}");
    assert!(handled.text.contains("does not decode"), "{handled:?}");
}

async fn on_failure_gets_the_state_and_the_attempt_of_the_step<S: Store + Inspect + Clone>(
    store: S,
) {
    let machine = Fragile::default();
    let handled_failures = machine.handled_failures.clone();
    let engine = running(store, machine).await;
    let handle = insert(engine.client(), Fragile::with(Deed::FailOnce { number: 6 })).await;
    assert_eq!(
        handle.output().timeout(LONG).await.unwrap(),
        report("retried", 7)
    );
    assert_eq!(handled_failures.load(Ordering::SeqCst), 1);
    let ended = handle.instance().await.unwrap();
    assert_eq!(ended.attempt, 1);
}

async fn ends_with_both<S: Store + Inspect>(store: S, then: OnFailure, second: &str) {
    let text = "lost".to_owned();
    let ended = ended(store, Deed::Then { then, text }).await;
    assert_eq!(ended.status, Status::Failed);
    let reason = ended.last_error.unwrap();
    assert!(
        reason.starts_with("lost; then on_failure failed: "),
        "{reason}"
    );
    assert!(reason.contains(second), "{reason}");
}

async fn an_on_failure_that_fails_ends_the_instance_with_both_reasons<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    ends_with_both(store, OnFailure::Fail, "and no way back").await;
}

async fn an_on_failure_that_panics_ends_the_instance_with_both_reasons<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    ends_with_both(store, OnFailure::Panic, "and panicked").await;
}

async fn an_on_failure_that_times_out_ends_the_instance_with_both_reasons<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    ends_with_both(store, OnFailure::Hang, "longer than 300ms").await;
}

async fn an_unstorable_outcome_of_on_failure_ends_the_instance_with_both_reasons<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    ends_with_both(store, OnFailure::Nul, "\\u0000").await;
}

async fn a_fatal_error_fails_the_instance_without_on_failure<S: Store + Inspect + Clone>(store: S) {
    let machine = Fragile::default();
    let handled_failures = machine.handled_failures.clone();
    let engine = running(store, machine).await;
    let handle = insert(engine.client(), Fragile::with(Deed::Fatal)).await;
    let ended = handle.ended().timeout(LONG).await.unwrap();
    assert_eq!(ended.status, Status::Failed);
    assert_eq!(ended.last_error.as_deref(), Some("beyond help"));
    assert_eq!(handled_failures.load(Ordering::SeqCst), 0);
}

/// A machine without `on_failure`.
struct Plain;

#[steps]
enum Act {
    Fail(String),
    FailAtLength,
    Panic,
}

impl Machine for Plain {
    const NAME: &'static str = "plain";
    type State = Act;
    type Output = ();

    async fn step(&self, act: Act, _cx: &Context) -> StepResult<Self> {
        match act {
            Act::Fail(reason) => Err(StepError::new(reason)),
            Act::FailAtLength => {
                let length = "x".repeat(limits::ERROR_BYTES_MAX);
                Err(StepError::new(format!("a\0b{length}")))
            }
            Act::Panic => std::panic::panic_any(7),
        }
    }
}

async fn a_machine_without_on_failure_fails_its_instances<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Plain).await;
    let failed = insert(engine.client(), Plain::with(Act::Fail("no way".to_owned()))).await;
    let panicked = insert(engine.client(), Plain::with(Act::Panic)).await;
    let failed = failed.ended().timeout(LONG).await.unwrap();
    assert_eq!(failed.status, Status::Failed);
    assert_eq!(failed.last_error.as_deref(), Some("no way"));
    let panicked = panicked.ended().timeout(LONG).await.unwrap();
    let reason = panicked.last_error.unwrap();
    assert_eq!(reason, "the step panicked: a value that is no text");
}

async fn a_reason_that_cannot_be_stored_is_cleaned_and_cut<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Plain).await;
    let handle = insert(engine.client(), Plain::with(Act::FailAtLength)).await;
    let ended = handle.ended().timeout(LONG).await.unwrap();
    assert_eq!(ended.status, Status::Failed);
    let kept = ended.last_error.unwrap();
    assert!(kept.starts_with("a\u{fffd}bx") && kept.ends_with("(cut)"));
}

async fn a_failure_does_not_affect_other_instances<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Fragile::default()).await;
    let deeds = (0..30).map(|n| {
        Fragile::with(match n % 3 {
            0 => Deed::Panic,
            1 => Deed::Fatal,
            _ => Deed::Handled(report("fine", n)),
        })
    });
    let handles = engine.client().start_many(deeds).await.unwrap();
    for (n, handle) in handles.into_iter().enumerate() {
        let ended = handle.output().timeout(LONG).await;
        match n % 3 {
            0 => assert_eq!(ended.unwrap().kind, "panic"),
            1 => assert!(matches!(ended, Err(WaitError::Ended { .. }))),
            _ => assert_eq!(ended.unwrap(), report("fine", n)),
        }
    }
}

/// A later build of [`Plain`], which decodes more states.
struct Mended;

#[steps]
enum MendedAct {
    Fail(Option<u64>),
}

impl Machine for Mended {
    const NAME: &'static str = Plain::NAME;
    type State = MendedAct;
    type Output = u64;

    async fn step(&self, act: MendedAct, _cx: &Context) -> StepResult<Self> {
        let MendedAct::Fail(number) = act;
        done(number.unwrap_or_default())
    }
}

async fn a_state_that_does_not_decode_fails_and_runs_in_a_build_that_decodes_it<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store.clone(), Plain).await;
    let row = NewInstance::new("plain", "fail", Json::of(&7).unwrap());
    let admin = engine.client().admin();
    let inserted = admin.insert_rows(vec![row]).await.unwrap();
    let id = inserted[0].new_id().unwrap();
    let plain = engine.handle::<Plain>(id).await.unwrap();
    let ended = plain.ended().timeout(LONG).await.unwrap();
    assert_eq!(ended.status, Status::Failed);
    let reason = ended.last_error.unwrap();
    assert!(reason.contains("step fail does not decode"), "{reason}");
    assert!(reason.contains("expected a string"), "{reason}");
    engine.shutdown().await.unwrap();

    let engine = running(store, Mended).await;
    let admin = engine.client().admin();
    let answer = admin.retry(id, Note::by("operator")).await.unwrap();
    assert_eq!(answer, RetryAnswer::Retried);
    let mended = engine.handle::<Mended>(id).await.unwrap();
    assert_eq!(mended.output().timeout(LONG).await.unwrap(), 7);
}
