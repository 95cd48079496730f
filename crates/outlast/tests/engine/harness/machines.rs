//! The harness that users test their machines with, on both stores.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support;
use outlast::prelude::*;
use outlast::store::{ManualClock, Store};
use outlast::testing::{Harness, HarnessBuilder, Point, RunReport};
use outlast::{Job, JobError, Status, StepError};
use outlast_postgres::Postgres;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// Makes a test for each store from every function named. Each function takes a builder.
macro_rules! on_both_harnesses {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                super::$name(outlast::testing::Harness::builder()).await;
            })+
        }

        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                crate::harness::machines::on_postgres(super::$name).await;
            })+
        }
    };
}
pub(crate) use on_both_harnesses;

on_both_harnesses!(
    a_run_ends_when_nothing_can_run_and_reports_its_steps,
    time_stands_still_until_it_is_moved,
    run_all_moves_the_time_past_every_delay_and_deadline,
    fire_deadline_fires_the_deadline_of_one_instance,
    a_step_runs_once_when_its_worker_dies_before_it,
    a_step_runs_twice_when_its_worker_dies_before_the_commit,
    a_step_runs_once_when_its_worker_dies_after_the_commit,
    after_a_crash_the_whole_step_runs_again,
    a_step_without_a_timeout_of_its_own_is_dropped_after_five_minutes,
    children_and_jobs_run_in_every_queue,
    a_failed_expectation_shows_the_actual_instance,
    run_all_panics_when_a_machine_waits_again_and_again,
);

pub(crate) async fn on_postgres<T: Future<Output = ()>>(test: impl FnOnce(HarnessBuilder) -> T) {
    let schema = support::take_schema();
    let clock = ManualClock::default();
    let options = Postgres::options(&support::url()).unwrap().schema(&schema);
    let store = options.clock(clock.clone()).connect().await.unwrap();
    test(Harness::on(store.clone(), clock)).await;
    Store::close(&store).await;
    support::return_schema(&schema).await;
}

/// Retries with growing delays, then waits a day for an answer.
#[derive(Default)]
struct Ask {
    asked: Arc<AtomicU32>,
}

#[steps]
enum Question {
    Ask { answers_at: u32 },
    Think,
    Wait,
    Judge,
}

#[derive(Signal, Serialize, Deserialize)]
struct Answer(String);

impl Machine for Ask {
    const NAME: &'static str = "ask";
    type State = Question;
    type Output = String;

    async fn step(&self, state: Question, cx: &Context) -> StepResult<Self> {
        match state {
            Question::Ask { answers_at } => {
                self.asked.fetch_add(1, Ordering::SeqCst);
                if cx.attempt() < answers_at {
                    return retry(HOUR * (cx.attempt() + 1), "no answer");
                }
                next(Question::Think)
            }
            Question::Think => next(Question::Wait),
            Question::Wait => wait_for::<Answer>().timeout(DAY).then(Question::Judge),
            Question::Judge => match cx.received::<Answer>()? {
                Some(Answer(answer)) => done(answer),
                None => fail("nobody answered"),
            },
        }
    }
}

async fn a_run_ends_when_nothing_can_run_and_reports_its_steps(builder: HarnessBuilder) {
    let mut harness = builder.register(Ask::default()).build().await.unwrap();
    let ask = harness
        .start(Ask::with(Question::Ask { answers_at: 0 }))
        .await
        .unwrap();
    let report = harness.run().await;
    let expected = RunReport {
        steps: 3,
        next: 2,
        waits: 1,
        ..RunReport::default()
    };
    assert_eq!(report, expected);
    harness
        .expect(&ask)
        .await
        .awaits(["answer"])
        .at_step("judge")
        .tried(0);

    let answer = Answer("yes".into());
    ask.signal(answer).await.unwrap();
    assert_eq!(harness.run().await.done, 1);
    harness.expect(&ask).await.is_done_with(&"yes".to_owned());
    assert_eq!(harness.run().await, RunReport::default());
}

async fn time_stands_still_until_it_is_moved(builder: HarnessBuilder) {
    let machine = Ask::default();
    let asked = machine.asked.clone();
    let mut harness = builder.register(machine).build().await.unwrap();
    let ask = harness
        .start(Ask::with(Question::Ask { answers_at: 1 }))
        .await
        .unwrap();
    assert_eq!(harness.run().await.retries, 1);
    harness
        .expect(&ask)
        .await
        .is(Status::Runnable)
        .tried(1)
        .has_error("no answer");

    harness.advance(HOUR - Duration::from_micros(1)).await;
    assert_eq!(harness.run().await.steps, 0);
    harness.advance(Duration::from_micros(1)).await;
    assert_eq!(harness.run().await.waits, 1);
    assert_eq!(asked.load(Ordering::SeqCst), 2);

    // A lease lasts a day at most. The time may move further.
    harness.set_time(harness.time() + 30 * DAY).await;
    assert_eq!(harness.run().await.failed, 1);
    harness.expect(&ask).await.is_failed_with("nobody answered");
}

async fn run_all_moves_the_time_past_every_delay_and_deadline(builder: HarnessBuilder) {
    let mut harness = builder.register(Ask::default()).build().await.unwrap();
    let start = harness.time();
    let new = Ask::with(Question::Ask { answers_at: 2 }).delay(HOUR);
    let ask = harness.start(new).await.unwrap();
    let report = harness.run_all().await;
    assert_eq!((report.retries, report.timeouts, report.failed), (2, 1, 1));
    harness.expect(&ask).await.is_failed_with("nobody answered");
    assert_eq!(harness.time().since(start), (1 + 1 + 2 + 24) * HOUR);
}

async fn fire_deadline_fires_the_deadline_of_one_instance(builder: HarnessBuilder) {
    let mut harness = builder.register(Ask::default()).build().await.unwrap();
    let start = harness.time();
    let first = harness.start(Ask::with(Question::Wait)).await.unwrap();
    harness.run().await;
    harness.advance(HOUR).await;
    let second = harness.start(Ask::with(Question::Wait)).await.unwrap();
    harness.run().await;

    harness.fire_deadline(&first).await;
    assert_eq!(harness.time().since(start), DAY);
    harness.run().await;
    harness
        .expect(&first)
        .await
        .is_failed_with("nobody answered");
    harness.expect(&second).await.awaits(["answer"]);
}

/// Counts its effects, and reports the attempts that its steps saw.
#[derive(Default)]
struct Pay {
    paid: Arc<AtomicU32>,
}

#[steps]
enum Payment {
    Charge,
    Receipt { key: String, attempt: u32 },
}

impl Machine for Pay {
    const NAME: &'static str = "pay";
    type State = Payment;
    type Output = (String, u32, u32);

    async fn step(&self, state: Payment, cx: &Context) -> StepResult<Self> {
        match state {
            Payment::Charge => {
                self.paid.fetch_add(1, Ordering::SeqCst);
                next(Payment::Receipt {
                    key: cx.idempotency_key(),
                    attempt: cx.attempt(),
                })
            }
            Payment::Receipt { key, attempt } => done((key, attempt, cx.attempt())),
        }
    }
}

/// Runs a payment whose worker crashes once at this point. Returns the attempts that its two steps
/// saw, and the number of effects.
async fn charge_with_a_crash(builder: HarnessBuilder, point: Point) -> ((u32, u32), u32) {
    let machine = Pay::default();
    let paid = machine.paid.clone();
    let mut harness = builder.register(machine).build().await.unwrap();
    let pay = harness.start(Pay::with(Payment::Charge)).await.unwrap();
    harness.crash::<Pay>("charge", point);
    let report = harness.run().await;
    assert_eq!((report.crashes, report.done), (1, 1));
    let (key, first, second) = harness.expect(&pay).await.is_done().output();
    // The key is the same for every run of the same visit.
    assert_eq!(key, format!("{}:charge:0", pay.id()));
    ((first, second), paid.load(Ordering::SeqCst))
}

async fn a_step_runs_once_when_its_worker_dies_before_it(builder: HarnessBuilder) {
    let charged = charge_with_a_crash(builder, Point::BeforeStep).await;
    assert_eq!(charged, ((1, 0), 1));
}

async fn a_step_runs_twice_when_its_worker_dies_before_the_commit(builder: HarnessBuilder) {
    let charged = charge_with_a_crash(builder, Point::BeforeCommit).await;
    assert_eq!(charged, ((1, 0), 2));
}

async fn a_step_runs_once_when_its_worker_dies_after_the_commit(builder: HarnessBuilder) {
    let charged = charge_with_a_crash(builder, Point::AfterCommit).await;
    assert_eq!(charged, ((0, 1), 1));
}

/// Writes what its step does, before and after inner awaits.
#[derive(Default)]
struct Bundle {
    effects: Arc<Mutex<Vec<&'static str>>>,
}

#[steps]
enum Bundled {
    All,
    After,
}

impl Machine for Bundle {
    const NAME: &'static str = "bundle";
    type State = Bundled;
    type Output = ();

    async fn step(&self, state: Bundled, cx: &Context) -> StepResult<Self> {
        let effect = |effect| self.effects.lock().unwrap().push(effect);
        match state {
            Bundled::All => {
                effect("first");
                tokio::task::yield_now().await;
                effect("second");
                // Also an await of the database.
                cx.client().admin().now().await?;
                effect("third");
                next(Bundled::After)
            }
            Bundled::After => {
                effect("after");
                done(())
            }
        }
    }
}

/// Section 1 of docs/specification.md: no part of a step is remembered, so all of it runs again.
async fn after_a_crash_the_whole_step_runs_again(builder: HarnessBuilder) {
    let machine = Bundle::default();
    let effects = machine.effects.clone();
    let mut harness = builder.register(machine).build().await.unwrap();
    let bundle = harness.start(Bundle::with(Bundled::All)).await.unwrap();
    harness.crash::<Bundle>("all", Point::BeforeCommit);
    let report = harness.run().await;
    assert_eq!((report.crashes, report.done), (1, 1));
    harness.expect(&bundle).await.is_done();
    let expected = [
        "first", "second", "third", "first", "second", "third", "after",
    ];
    assert_eq!(*effects.lock().unwrap(), expected);
}

/// Never ends. It says how long it ran.
struct Endless;

/// The clock of the runtime jumps to the next timer while a step holds this.
struct Jump {
    begun: tokio::time::Instant,
    ran: Arc<Mutex<Duration>>,
}

impl Jump {
    fn new(ran: &Arc<Mutex<Duration>>) -> Jump {
        tokio::time::pause();
        Jump {
            begun: tokio::time::Instant::now(),
            ran: ran.clone(),
        }
    }
}

impl Drop for Jump {
    fn drop(&mut self) {
        *self.ran.lock().unwrap() = self.begun.elapsed();
        tokio::time::resume();
    }
}

#[steps]
enum Forever {
    Run,
}

impl Machine for Endless {
    const NAME: &'static str = "endless";
    type State = Forever;
    type Output = ();

    async fn step(&self, Forever::Run: Forever, cx: &Context) -> StepResult<Self> {
        let _jump = Jump::new(&*cx.data::<Arc<Mutex<Duration>>>()?);
        std::future::pending().await
    }
}

#[job]
async fn endless_job(_: (), ran: Data<Arc<Mutex<Duration>>>) -> Result<(), JobError> {
    let _jump = Jump::new(&ran);
    std::future::pending().await
}

#[workflow]
async fn endless_step(flow: Flow, _: (), ran: Data<Arc<Mutex<Duration>>>) -> FlowResult<()> {
    let step = move || async move {
        let _jump = Jump::new(&ran);
        std::future::pending::<Result<(), String>>().await
    };
    flow.step("endless", step).await
}

/// Section 4 of docs/specification.md: an engine must not run a step for ever.
async fn a_step_without_a_timeout_of_its_own_is_dropped_after_five_minutes(
    builder: HarnessBuilder,
) {
    let ran = Arc::new(Mutex::new(Duration::ZERO));
    let builder = builder.register(Endless).register(endless_job);
    let builder = builder.register(endless_step).provide(ran.clone());
    let mut harness = builder.build().await.unwrap();
    for kind in ["machine", "job", "workflow"] {
        match kind {
            "machine" => drop(harness.start(Endless::with(Forever::Run)).await.unwrap()),
            "job" => drop(harness.start(endless_job::with(())).await.unwrap()),
            _ => drop(harness.start(endless_step::with(())).await.unwrap()),
        }
        harness.run().await;
        let ran = std::mem::take(&mut *ran.lock().unwrap());
        assert!(
            ran.abs_diff(5 * MINUTE) < Duration::from_secs(1),
            "{kind}: {ran:?}"
        );
    }
}

struct Sum;

#[steps]
enum Adding {
    Split(Vec<u32>),
    Add,
}

impl Machine for Sum {
    const NAME: &'static str = "sum";
    type State = Adding;
    type Output = u32;

    async fn step(&self, state: Adding, cx: &Context) -> StepResult<Self> {
        match state {
            Adding::Split(numbers) => {
                let doubles = numbers.into_iter().enumerate();
                let queue = |position: usize| format!("queue-{position}");
                fan_out(doubles.map(|(at, number)| Double::with(number).queue(queue(at))))
                    .then(Adding::Add)
            }
            Adding::Add => {
                let doubles = cx.children::<Double>()?.into_iter();
                let doubles = doubles.map(|double| double.into_output());
                done(doubles.sum::<Result<u32, StepError>>()?)
            }
        }
    }
}

struct Double;

impl Job for Double {
    const NAME: &'static str = "double";
    type Args = u32;
    type Output = u32;

    async fn perform(&self, number: u32, _cx: &Context) -> Result<u32, JobError> {
        Ok(number * 2)
    }
}

async fn children_and_jobs_run_in_every_queue(builder: HarnessBuilder) {
    let builder = builder.register(Sum).register(Double);
    let mut harness = builder.build().await.unwrap();
    let sum = harness
        .start(Sum::with(Adding::Split(vec![1, 2, 3])))
        .await
        .unwrap();
    let report = harness.run().await;
    assert_eq!((report.fan_outs, report.done), (1, 4));
    harness.expect(&sum).await.is_done_with(&12);
}

async fn a_failed_expectation_shows_the_actual_instance(builder: HarnessBuilder) {
    let mut harness = builder.register(Ask::default()).build().await.unwrap();
    let ask = harness.start(Ask::with(Question::Wait)).await.unwrap();
    harness.run().await;
    let expected = harness.expect(&ask).await;
    let message = panic_message(|| drop(expected.is_done()));
    for part in ["AwaitingSignal", "Done", "judge", "answer"] {
        assert!(message.contains(part), "{part} is not in: {message}");
    }
    let expected = harness.expect(&ask).await;
    let message = panic_message(|| drop(expected.awaits(["question"])));
    assert!(
        message.contains(r#"awaits ["answer"], not ["question"]"#),
        "{message}"
    );
}

struct Circle;

#[steps]
enum Round {
    Again,
}

impl Machine for Circle {
    const NAME: &'static str = "circle";
    type State = Round;
    type Output = ();

    async fn step(&self, _: Round, _: &Context) -> StepResult<Self> {
        sleep(HOUR).then(Round::Again)
    }
}

async fn run_all_panics_when_a_machine_waits_again_and_again(builder: HarnessBuilder) {
    let builder = builder.register(Circle).jumps_max(50);
    let mut harness = builder.build().await.unwrap();
    harness.start(Circle::with(Round::Again)).await.unwrap();
    let run = tokio::spawn(async move { harness.run_all().await });
    let panic = run.await.unwrap_err().into_panic();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("waits again and again"), "{message}");
}

fn panic_message(code: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let panic = std::panic::catch_unwind(code).unwrap_err();
    panic.downcast_ref::<String>().unwrap().clone()
}
