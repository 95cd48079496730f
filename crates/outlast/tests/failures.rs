//! Every failed attempt is one line in the log, one count and one span status. This is a program
//! of its own, because it records the whole log of its process.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

#[path = "engine/support/mod.rs"]
mod support;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use outlast::prelude::*;
use outlast::store::{
    ClaimRequest, Inspect, Json, MachineVersion, NewInstance, NewWorker, Store, limits,
};
use outlast::{Client, Failure, InstanceId, Job, JobError, StepError};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, OnceLock};
use support::{LONG, eventually, insert, on_both_stores};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::Record;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context as LayerContext, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

on_both_stores!(
    each_failed_attempt_of_a_machine_is_reported_once,
    each_failed_attempt_of_a_job_is_reported_once,
    each_failed_attempt_of_a_workflow_and_its_activities_is_reported_once,
    a_crashed_attempt_is_reported_once,
    the_engine_warns_once_of_a_machine_that_no_live_worker_serves,
    waiting_for_a_window_or_a_partition_key_is_not_counted_as_start_delay,
);

/// Tests of one process share its log and its recorder.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

type Fields = BTreeMap<&'static str, String>;

/// The events and the statuses of spans that a layer has recorded.
#[derive(Default)]
struct Recorded {
    events: Mutex<Vec<Fields>>,
    statuses: Mutex<Vec<Fields>>,
}

impl Recorded {
    fn failures_of(&self, id: InstanceId) -> Vec<Fields> {
        let events = self.events.lock().unwrap().clone().into_iter();
        let is_failure = |it: &Fields| {
            it.get("message").is_some_and(|it| it == "the step failed")
                && it.get("instance") == Some(&id.to_string())
        };
        events.filter(is_failure).collect()
    }
}

struct RecordingLayer(&'static Recorded);

struct FieldVisitor(Fields);

impl Visit for FieldVisitor {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for RecordingLayer {
    fn on_record(&self, _: &tracing::span::Id, values: &Record<'_>, _: LayerContext<'_, S>) {
        let mut visitor = FieldVisitor(Fields::new());
        values.record(&mut visitor);
        self.0.statuses.lock().unwrap().push(visitor.0);
    }

    fn on_event(&self, event: &tracing::Event<'_>, _: LayerContext<'_, S>) {
        let mut visitor = FieldVisitor(Fields::new());
        event.record(&mut visitor);
        self.0.events.lock().unwrap().push(visitor.0);
    }
}

struct Telemetry {
    info: &'static Recorded,
    warn: &'static Recorded,
    metrics: Snapshotter,
}

/// Installs two layers for the process, of which one records only warnings.
fn telemetry() -> &'static Telemetry {
    static TELEMETRY: OnceLock<Telemetry> = OnceLock::new();
    let telemetry = TELEMETRY.get_or_init(|| {
        let info: &'static Recorded = Box::leak(Box::default());
        let warn: &'static Recorded = Box::leak(Box::default());
        let subscriber = tracing_subscriber::registry()
            .with(RecordingLayer(info).with_filter(LevelFilter::INFO))
            .with(RecordingLayer(warn).with_filter(LevelFilter::WARN));
        tracing::subscriber::set_global_default(subscriber).unwrap();
        let recorder = DebuggingRecorder::new();
        let metrics = recorder.snapshotter();
        recorder.install().unwrap();
        Telemetry {
            info,
            warn,
            metrics,
        }
    });
    for recorded in [telemetry.info, telemetry.warn] {
        recorded.events.lock().unwrap().clear();
        recorded.statuses.lock().unwrap().clear();
    }
    drop(telemetry.metrics.snapshot());
    telemetry
}

impl Telemetry {
    /// Returns the failures of an instance from the layer for warnings, which is called last.
    fn failures_of(&self, id: impl Into<InstanceId>) -> Vec<Fields> {
        self.warn.failures_of(id.into())
    }

    /// Waits until an instance has this many failures, and returns them. An attempt is reported
    /// after its outcome is written, so others may see the outcome first.
    async fn reported(&self, id: impl Into<InstanceId>, many: usize) -> Vec<Fields> {
        let id = id.into();
        eventually("the failures are told", async || {
            self.failures_of(id).len() >= many
        })
        .await;
        let failures = self.failures_of(id);
        assert_eq!(failures.len(), many, "{failures:?}");
        assert_eq!(
            failures,
            self.info.failures_of(id),
            "no filter hides a failure"
        );
        failures
    }

    /// Returns the counted failures by `machine step kind next`.
    fn counted(&self) -> BTreeMap<String, u64> {
        let mut counted = BTreeMap::new();
        for (key, _, _, value) in self.metrics.snapshot().into_vec() {
            if let DebugValue::Counter(count) = value
                && key.key().name() == outlast::metrics::FAILURES
                && count > 0
            {
                let labels: Vec<_> = key.key().labels().map(|it| it.value()).collect();
                *counted.entry(labels.join(" ")).or_default() += count;
            }
        }
        counted
    }

    /// Returns how many spans have the status of an error.
    fn failed_spans(&self) -> usize {
        let statuses = self.info.statuses.lock().unwrap();
        let failed = statuses.iter();
        let failed = failed.filter(|it| it.get("otel.status_code").is_some_and(|it| it == "ERROR"));
        failed.count()
    }
}

fn expect(failure: &Fields, expected: &[(&str, &str)]) {
    for (field, value) in expected {
        let found = failure.get(field).map(String::as_str).unwrap_or_default();
        assert!(found.contains(value), "{field}: {value} in {failure:?}");
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot post")]
struct CannotPost(#[source] std::io::Error);

fn cannot_post() -> CannotPost {
    CannotPost(std::io::Error::other("refused"))
}

struct Breaks;

#[steps]
enum Way {
    Error,
    Fatal,
    Panic,
    Hang,
    TooLarge,
    Handled,
    HandleFails,
    Retry,
    Stop,
    Number(u64),
    Fine,
}

impl Machine for Breaks {
    const NAME: &'static str = "breaks";
    const STEP_TIMEOUT: Duration = Duration::from_millis(50);
    type State = Way;
    type Output = String;

    async fn step(&self, state: Way, cx: &Context) -> StepResult<Self> {
        match state {
            Way::Error | Way::Handled | Way::HandleFails => Err(cannot_post())?,
            Way::Fatal => Err(StepError::fatal(cannot_post()))?,
            Way::Panic => std::panic::resume_unwind(Box::new("as asked".to_owned())),
            Way::Hang => std::future::pending().await,
            Way::TooLarge => done("x".repeat(limits::JSON_BYTES_MAX + 1)),
            Way::Retry if cx.attempt() == 0 => retry(Duration::ZERO, "not yet"),
            Way::Stop => fail("no use"),
            Way::Retry | Way::Number(_) | Way::Fine => done("fine".into()),
        }
    }

    async fn on_failure(&self, state: Way, failure: Failure, _: &Context) -> StepResult<Self> {
        match state {
            Way::Handled => next(Way::Fine),
            Way::HandleFails => Err(StepError::new("so does handle"))?,
            Way::Error
            | Way::Fatal
            | Way::Panic
            | Way::Hang
            | Way::TooLarge
            | Way::Retry
            | Way::Stop
            | Way::Number(_)
            | Way::Fine => fail(failure),
        }
    }
}

async fn each_failed_attempt_of_a_machine_is_reported_once<S: Store + Inspect + Clone>(store: S) {
    let _alone = ALONE.lock().await;
    let telemetry = telemetry();
    let engine = Engine::builder(store).register(Breaks).queue("default", 4);
    let engine = engine.start().await.unwrap();
    let cases = [
        (
            Way::Error,
            "error",
            "error",
            "cannot post: refused",
            "failed",
        ),
        (
            Way::Fatal,
            "fatal",
            "fatal",
            "cannot post: refused",
            "failed",
        ),
        (Way::Panic, "panic", "panic", "as asked", "failed"),
        (Way::Hang, "hang", "timeout", "50ms", "failed"),
        (Way::TooLarge, "too_large", "outcome", "1048576", "failed"),
        (
            Way::Handled,
            "handled",
            "error",
            "refused",
            "handled: goes on with step fine",
        ),
        (
            Way::HandleFails,
            "handle_fails",
            "error",
            "so does handle",
            "failed",
        ),
        (
            Way::Retry,
            "retry",
            "error",
            "not yet",
            "tried again in 0 s",
        ),
        (Way::Stop, "stop", "error", "no use", "failed"),
    ];
    let many = cases.len();
    let mut counted = BTreeMap::new();
    for (way, step, kind, error, next) in cases {
        let broken = insert(engine.client(), Breaks::with(way)).await;
        broken.ended().timeout(LONG).await.unwrap();
        let failures = telemetry.reported(&broken, 1).await;
        expect(
            &failures[0],
            &[
                ("machine", "breaks"),
                ("step", step),
                ("attempt", "1"),
                ("kind", kind),
                ("error", error),
                ("next", next),
            ],
        );
        let word = match next.split([':', ' ']).next().unwrap() {
            "tried" => "retry",
            word => word,
        };
        counted.insert(format!("breaks {step} {kind} {word}"), 1);
    }
    assert_eq!(telemetry.failed_spans(), many);
    assert_eq!(telemetry.counted(), counted);
    // The log does not quote a state that does not decode.
    let row = NewInstance::new("breaks", "number", Json::of("a secret").unwrap());
    let admin = engine.client().admin();
    let id = admin.insert_rows(vec![row]).await.unwrap()[0]
        .new_id()
        .unwrap();
    admin.wait_ended(id, LONG).await.unwrap();
    let failures = telemetry.reported(id, 1).await;
    expect(
        &failures[0],
        &[
            ("kind", "fatal"),
            ("error", "does not decode"),
            ("next", "failed"),
        ],
    );
    assert!(!format!("{failures:?}").contains("a secret"));
    engine.shutdown().await.unwrap();
}

struct Post;

impl Job for Post {
    const NAME: &'static str = "post";
    const MAX_ATTEMPTS: u32 = 4;
    type Args = String;
    type Output = ();

    async fn perform(&self, args: String, _: &Context) -> Result<(), JobError> {
        match args.as_str() {
            "hang" => std::future::pending().await,
            "give up" => Err(JobError::fatal(cannot_post())),
            "never mind" => Err(JobError::cancel("nothing to do")),
            _ => Err(cannot_post())?,
        }
    }

    fn backoff(&self, _: u32) -> Duration {
        Duration::from_millis(1)
    }
}

async fn each_failed_attempt_of_a_job_is_reported_once<S: Store + Inspect + Clone>(store: S) {
    let _alone = ALONE.lock().await;
    let telemetry = telemetry();
    let engine = Engine::builder(store).register(Post).queue("default", 4);
    let engine = engine.start().await.unwrap();
    let letter = insert(engine.client(), Post::with("letter".to_owned())).await;
    letter.ended().timeout(LONG).await.unwrap();
    let failures = telemetry.reported(&letter, 4).await;
    for (nth, failure) in (1..).zip(&failures) {
        let next = if nth == 4 {
            "failed"
        } else {
            "tried again in 0.001 s"
        };
        let attempt = nth.to_string();
        let error = "cannot post: refused";
        expect(
            failure,
            &[
                ("machine", "post"),
                ("step", "perform"),
                ("attempt", &attempt),
                ("kind", "error"),
                ("error", error),
                ("next", next),
            ],
        );
    }
    let fatal = insert(engine.client(), Post::with("give up".to_owned())).await;
    fatal.ended().timeout(LONG).await.unwrap();
    telemetry.reported(&fatal, 1).await;
    // An attempt that ends as cancelled is no failure.
    let cancelled = insert(engine.client(), Post::with("never mind".to_owned())).await;
    cancelled.ended().timeout(LONG).await.unwrap();
    assert_eq!(telemetry.failures_of(&cancelled), []);
    assert_eq!(telemetry.failed_spans(), 5);
    let counted = [
        ("post perform error failed", 2),
        ("post perform error retry", 3),
    ];
    assert_eq!(
        telemetry.counted(),
        counted.map(|(key, count)| (key.to_owned(), count)).into()
    );
    engine.shutdown().await.unwrap();
}

/// A workflow that fails as its input says.
#[workflow]
async fn plan(flow: Flow, way: String) -> FlowResult<()> {
    match way.as_str() {
        "step" => {
            let failed = flow.step("guess", async || Err::<(), _>("wrong".to_owned()));
            failed.await.unwrap_err();
            Ok(())
        }
        "activity" => {
            let post = Post::with("hang".to_owned())
                .max_attempts(2)
                .attempt_timeout(Duration::from_millis(5));
            flow.run(post).await
        }
        _ => std::future::pending().await,
    }
}

async fn each_failed_attempt_of_a_workflow_and_its_activities_is_reported_once<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let _alone = ALONE.lock().await;
    let telemetry = telemetry();
    let engine = Engine::builder(store).register(plan).register(Post);
    let engine = engine.queue("default", 4).start().await.unwrap();
    let start = async |way: &str| engine.start(plan::with(way.to_owned())).await.unwrap();
    // The code gets the error of a failed step, and goes on.
    let step = start("step").await;
    step.output().timeout(LONG).await.unwrap();
    let failures = telemetry.reported(&step, 1).await;
    let expected = [
        ("machine", "plan"),
        ("step", "guess"),
        ("error", "wrong"),
        ("next", "passed to the code"),
    ];
    expect(&failures[0], &expected);

    let activity = start("activity").await;
    activity.ended().timeout(LONG).await.unwrap();
    let failures = telemetry.reported(&activity, 1).await;
    expect(
        &failures[0],
        &[("machine", "plan"), ("step", "run"), ("next", "failed")],
    );
    let child = activity.children().await.unwrap()[0].id;
    let failures = telemetry.reported(child, 2).await;
    for (failure, next) in failures.iter().zip(["tried again", "failed"]) {
        expect(
            failure,
            &[
                ("machine", "post"),
                ("kind", "timeout"),
                ("error", "5ms"),
                ("next", next),
            ],
        );
    }

    let blocked = start("waits for what is not durable").await;
    let failure = &telemetry.reported(&blocked, 1).await[0];
    expect(
        failure,
        &[
            ("machine", "plan"),
            ("kind", "replay"),
            ("error", "blocked: "),
            ("next", "blocked, tried again in 1 s"),
        ],
    );
    assert_eq!(telemetry.counted()["plan run replay blocked"], 1);
    engine.shutdown().await.unwrap();
}

async fn a_crashed_attempt_is_reported_once<S: Store + Inspect + Clone>(store: S) {
    let _alone = ALONE.lock().await;
    let telemetry = telemetry();
    let client = Client::new(store.clone());
    let crashed = insert(&client, Breaks::with(Way::Fine)).await;
    let dead = NewWorker {
        name: "dead".into(),
        host: "nowhere".into(),
        version: "1".into(),
        machines: Vec::new(),
        queues: vec!["default".into()],
        lease: limits::LEASE_MIN,
    };
    let request = ClaimRequest {
        worker: store.register(dead).await.unwrap(),
        queue: "default".into(),
        machines: [MachineVersion::new("breaks", 1)].into(),
        max: 1,
    };
    assert_eq!(store.claim(request).await.unwrap().claims.len(), 1);
    let engine = Engine::builder(store).register(Breaks).queue("default", 4);
    let engine = engine.lease(limits::LEASE_MIN * 5).start().await.unwrap();
    crashed.output().timeout(LONG).await.unwrap();
    let failures = telemetry.reported(&crashed, 1).await;
    expect(
        &failures[0],
        &[
            ("machine", "breaks"),
            ("step", "fine"),
            ("kind", "crash"),
            ("next", "tried again"),
        ],
    );
    assert_eq!(telemetry.counted()["breaks fine crash retry"], 1);
    engine.shutdown().await.unwrap();
}

/// A job with a queue of its own.
#[job(queue = "far")]
async fn elsewhere() -> Result<(), JobError> {
    Ok(())
}

/// A workflow that runs a job which no worker may have registered.
#[workflow]
async fn asks(flow: Flow) -> FlowResult<()> {
    flow.run(elsewhere::with()).await
}

async fn the_engine_warns_once_of_a_machine_that_no_live_worker_serves<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let _alone = ALONE.lock().await;
    let telemetry = telemetry();
    let warned = || {
        let events = telemetry.warn.events.lock().unwrap();
        let warned = events
            .iter()
            .filter(|it| it["message"].starts_with("no live worker"));
        warned.cloned().collect::<Vec<_>>()
    };
    // No worker serves the queue of the machine.
    let engine = Engine::builder(store.clone()).register(elsewhere);
    let engine = engine.queue("default", 1).only_named_queues();
    let lonely = engine.start().await.unwrap();
    assert_eq!(warned().len(), 1, "{:?}", warned());
    expect(
        &warned()[0],
        &[
            ("machine", "elsewhere"),
            ("queue", "far"),
            ("message", "EngineBuilder::queue(\"far\", ..)"),
        ],
    );
    lonely.shutdown().await.unwrap();

    // No worker has registered the job.
    let telemetry = self::telemetry();
    let warned = || {
        let events = telemetry.warn.events.lock().unwrap();
        let warned = events
            .iter()
            .filter(|it| it["message"].starts_with("no live worker"));
        warned.cloned().collect::<Vec<_>>()
    };
    let engine = Engine::builder(store.clone()).register(asks);
    let asking = engine.queue("default", 1).start().await.unwrap();
    assert_eq!(warned(), []);
    let first = asking.start(asks::with()).await.unwrap();
    eventually("the warning is logged", async || !warned().is_empty()).await;
    expect(
        &warned()[0],
        &[
            ("parent", "asks"),
            ("machine", "elsewhere"),
            ("queue", "far"),
        ],
    );

    // Another worker serves the machine, so neither engine warns again.
    let engine = Engine::builder(store).register(elsewhere);
    let serving = engine.queue("far", 1).start().await.unwrap();
    first.output().timeout(LONG).await.unwrap();
    let second = asking.start(asks::with()).await.unwrap();
    second.output().timeout(LONG).await.unwrap();
    assert_eq!(warned().len(), 1, "{:?}", warned());
    asking.shutdown().await.unwrap();
    serving.shutdown().await.unwrap();
}

/// A machine that starts slow children, one at a time or all at once.
struct Lines;

#[steps]
enum Line {
    Window,
    Key,
    Plain,
    Slow,
    End,
}

impl Machine for Lines {
    const NAME: &'static str = "lines";
    type State = Line;
    type Output = ();

    async fn step(&self, state: Line, _: &Context) -> StepResult<Self> {
        let slow = || (0..4).map(|_| Lines::with(Line::Slow).queue("slow"));
        match state {
            Line::Window => fan_out(slow()).window(1).then(Line::End),
            Line::Key => fan_out(slow().map(|it| it.partition_key("one"))).then(Line::End),
            Line::Plain => fan_out(slow()).then(Line::End),
            Line::Slow => {
                tokio::time::sleep(Duration::from_millis(400)).await;
                done(())
            }
            Line::End => done(()),
        }
    }
}

async fn waiting_for_a_window_or_a_partition_key_is_not_counted_as_start_delay<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let _alone = ALONE.lock().await;
    let telemetry = telemetry();
    let engine = Engine::builder(store).register(Lines).queue("default", 4);
    let engine = engine.queue("slow", 4).start().await.unwrap();
    for (line, started) in [(Line::Window, 0), (Line::Key, 0), (Line::Plain, 4)] {
        let lines = insert(engine.client(), Lines::with(line)).await;
        lines.output().timeout(LONG).await.unwrap();
        let mut delays = Vec::new();
        for (key, _, _, value) in telemetry.metrics.snapshot().into_vec() {
            let is_slow = key.key().labels().any(|it| it.value() == "slow");
            if let DebugValue::Histogram(values) = value
                && key.key().name() == outlast::metrics::START_DELAY_SECONDS
                && is_slow
            {
                delays.extend(values.into_iter().map(|it| it.into_inner()));
            }
        }
        assert_eq!(delays.len(), started, "{delays:?}");
    }
    engine.shutdown().await.unwrap();
}
