//! Payloads of an instance are visible to its steps and to callers that ask the store for them.
//! They are not in the log at any level, and not in `Debug` output (docs/security.md). This is a
//! program of its own, because it records the whole log of its process.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

#[path = "engine/support/mod.rs"]
mod support;

use outlast::prelude::*;
use outlast::store::{
    Claim, ClaimRequest, Commit, Inspect, Join, Json, ListRequest, MachineVersion, NewInstance,
    NewSignal, NewWorker, Outcome as Written, Proceed, SignalOrInsert, Store, Target,
};
use outlast::{Client, Failure, InstanceId, Job, JobError, Outcome, Postgres, StepError};
use std::error::Error as StdError;
use std::fmt::{Debug, Write};
use std::sync::{Mutex, Once};
use support::{LONG, insert, on_both_stores};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id as SpanId, Record};
use tracing_subscriber::layer::{Context as LayerContext, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

on_both_stores!(
    payloads_of_instances_are_not_in_the_log_or_in_debug_output,
    failures_are_in_the_log_by_default_and_payloads_are_not,
    with_a_codec_failures_are_logged_only_when_failures_in_logs_is_set,
);

/// The payload that only the steps may see.
const SECRET: &str = "xyzzy-4711";

/// All that was logged in this process, and all that was printed with `Debug` here.
static SEEN: Mutex<String> = Mutex::new(String::new());

fn note(line: &str) {
    let mut seen = SEEN.lock().unwrap();
    seen.push_str(line);
    seen.push('\n');
}

fn note_debug(what: &impl Debug) {
    note(&format!("debug: {what:?} {what:#?}"));
}

/// Notes an error with all its causes.
fn note_error(error: &(dyn StdError + 'static)) {
    let mut cause = Some(error);
    while let Some(error) = cause {
        note(&format!("error: {error} {error:?}"));
        cause = error.source();
    }
}

/// Notes everything that is logged from now on, at every level.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let subscriber = tracing_subscriber::registry().with(Everything);
        tracing::subscriber::set_global_default(subscriber).unwrap();
        log::set_logger(&Everything).unwrap();
        log::set_max_level(log::LevelFilter::Trace);
    });
}

struct Everything;

impl log::Log for Everything {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        note(&format!("log: {} {}", record.target(), record.args()));
    }

    fn flush(&self) {}
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> tracing_subscriber::Layer<S> for Everything {
    fn on_new_span(&self, span: &Attributes<'_>, _: &SpanId, _: LayerContext<'_, S>) {
        let mut fields = Fields(format!("span: {}", span.metadata().name()));
        span.record(&mut fields);
        note(&fields.0);
    }

    fn on_record(&self, _: &SpanId, values: &Record<'_>, _: LayerContext<'_, S>) {
        let mut fields = Fields("record:".into());
        values.record(&mut fields);
        note(&fields.0);
    }

    fn on_event(&self, event: &tracing::Event<'_>, _: LayerContext<'_, S>) {
        let mut fields = Fields(format!("event: {}", event.metadata().target()));
        event.record(&mut fields);
        note(&fields.0);
    }
}

/// A machine that goes through every outcome with the secret in its state.
struct Keeper;

#[steps]
#[derive(Clone)]
enum Way {
    Start(String),
    Told(String),
    Joined(String),
    Done(String),
    Retry(String),
    Stop(String),
    Cancel(String),
    Fail(String),
    Fatal(String),
    Panic(String),
    FailTwice(String),
    TooLarge(String),
    Number(u64),
}

#[derive(Signal, Serialize, Deserialize)]
struct Told {
    secret: String,
}

#[derive(Signal, Serialize, Deserialize)]
#[signal(name = "told")]
struct Numbered {
    secret: u64,
}

impl Machine for Keeper {
    const NAME: &'static str = "keeper";
    type State = Way;
    type Output = String;

    async fn step(&self, state: Way, cx: &Context) -> StepResult<Self> {
        note_debug(cx);
        match state {
            Way::Start(secret) => wait_for::<Told>().then(Way::Told(secret)),
            Way::Told(secret) => {
                // The payload is read as another type. The error quotes what it has found.
                let mistaken = cx.received::<Numbered>().err().unwrap();
                note(&format!("error: {mistaken} {mistaken:?}"));
                let ways = [
                    Way::Done,
                    Way::Retry,
                    Way::Stop,
                    Way::Cancel,
                    Way::Fail,
                    Way::Fatal,
                    Way::Panic,
                    Way::FailTwice,
                    Way::TooLarge,
                ];
                let children = ways.map(|way| Keeper::with(way(secret.clone())));
                let children = fan_out(children).and([Errand::with(secret.clone())]);
                note_debug(&children);
                children.then(Way::Joined(secret))
            }
            Way::Joined(secret) => {
                note_debug(&cx.children::<Keeper>()?);
                note_debug(&cx.round());
                done(secret)
            }
            Way::Done(secret) => next(Way::Joined(secret)),
            Way::Retry(secret) if cx.attempt() == 0 => retry(Duration::ZERO, secret),
            Way::Retry(secret) => Ok(Outcome::requeue(Way::Joined(secret))),
            Way::Stop(secret) => fail(secret),
            Way::Cancel(secret) => Ok(Outcome::cancelled(secret)),
            Way::Fail(secret) | Way::FailTwice(secret) => Err(StepError::new(secret)),
            Way::Fatal(secret) => Err(StepError::fatal(secret)),
            Way::Panic(secret) => std::panic::resume_unwind(Box::new(secret)),
            Way::TooLarge(secret) => done(secret.repeat(1_000_000)),
            Way::Number(_) => done(String::new()),
        }
    }

    async fn on_failure(&self, state: Way, failure: Failure, _: &Context) -> StepResult<Self> {
        if let Way::FailTwice(secret) = state {
            return Err(StepError::new(secret));
        }
        fail(failure)
    }
}

/// A job that fails with the secret.
struct Errand;

impl Job for Errand {
    const NAME: &'static str = "errand";
    const MAX_ATTEMPTS: u32 = 2;
    type Args = String;
    type Output = String;

    async fn perform(&self, secret: String, _: &Context) -> Result<String, JobError> {
        Err(JobError::retry_after(Duration::ZERO, secret))
    }
}

async fn payloads_of_instances_are_not_in_the_log_or_in_debug_output<S: Store + Inspect + Clone>(
    store: S,
) {
    listen();
    let engine = Engine::builder(store.clone())
        .register(Keeper)
        .register(Errand)
        .queue("default", 4)
        .failures_not_in_logs()
        .start()
        .await
        .unwrap();
    note_debug(&engine);
    let client = engine.client();

    let new = Keeper::with(Way::Start(SECRET.into())).key("kept");
    note_debug(&new);
    note_debug(
        &client
            .prepare(Keeper::with(Way::Start(SECRET.into())))
            .unwrap(),
    );
    let keeper = insert(client, new).await;
    note_debug(&keeper);
    let signal = || Told {
        secret: SECRET.into(),
    };
    note_debug(&keeper.signal(signal()));
    keeper.signal(signal()).dedup("evt").await.unwrap();
    assert_eq!(keeper.output().timeout(LONG).await.unwrap(), SECRET);

    // The machine cannot decode this state.
    let unreadable = NewInstance::new("keeper", "number", Json::of(SECRET).unwrap());
    note_debug(&unreadable);
    let answers = client.admin().insert_rows(vec![unreadable]).await.unwrap();
    let unreadable = answers[0].new_id().unwrap();
    let ended = client.admin().wait_ended(unreadable, LONG).await.unwrap();
    note_debug(&ended);

    note_everything_stored(client, keeper.id().get()).await;
    note_wire_types(&store).await;
    engine.shutdown().await.unwrap();
    assert_nothing_leaked();
}

async fn note_everything_stored(client: &Client, parent: InstanceId) {
    let page = ListRequest {
        limit: 100,
        ..ListRequest::default()
    };
    let page = client.admin().list(page).await.unwrap();
    let errors = page
        .instances
        .iter()
        .filter_map(|it| it.last_error.as_deref());
    let with_secret = errors.filter(|error| error.contains(SECRET)).count();
    assert!(
        with_secret >= 6,
        "the secret is where it belongs: {with_secret}"
    );
    note_debug(&page);
    let children = client.admin().children(parent).await.unwrap();
    assert_eq!(children.len(), 10);
    note_debug(&children);
    for child in children {
        note_debug(&client.find(child.id).await.unwrap());
    }
}

/// Notes the values that go to a store and come from it.
async fn note_wire_types(store: &(impl Store + Inspect)) {
    let secret = || Json::of(SECRET).unwrap();
    let row = NewInstance::new("other", "start", secret())
        .queue("other")
        .correlation_key("k");
    let signal = NewSignal::new(
        Target::Key {
            machine: "other".into(),
            key: "k".into(),
        },
        "told",
        secret(),
    );
    let both = SignalOrInsert {
        row: row.clone(),
        name: "told".into(),
        payload: secret(),
        dedup_key: None,
    };
    note_debug(&(&row, &signal, &both));
    note_debug(&store.signal_or_insert(both).await.unwrap());
    note_debug(&store.deliver(vec![signal], None).await.unwrap());
    let worker = NewWorker {
        name: "other".into(),
        host: "here".into(),
        version: "1".into(),
        machines: Vec::new(),
        queues: vec!["other".into()],
        lease: LONG,
    };
    let worker = store.register(worker).await.unwrap();
    let request = ClaimRequest {
        worker,
        queue: "other".into(),
        machines: [MachineVersion::new("other", 1)].into(),
        max: 1,
    };
    let claimed = store.claim(request).await.unwrap();
    note_debug(&claimed);
    let claim: &Claim = &claimed.claims[0];
    assert_eq!(claim.inbox.len(), 2);
    note_debug(&store.signals(claim.id, None).await.unwrap());
    let (reason, step) = (SECRET.to_owned(), "step".to_owned());
    for outcome in [
        Written::Next {
            step: step.clone(),
            state: secret(),
            proceed: Proceed::Requeue,
        },
        Written::Retry {
            state: secret(),
            delay: Duration::ZERO,
            error: Some(reason.clone()),
        },
        Written::Wait {
            names: vec!["told".into()],
            step: step.clone(),
            state: secret(),
            timeout: None,
        },
        Written::FanOut {
            children: vec![row],
            join: Join::default(),
            step,
            state: secret(),
        },
        Written::Done { result: secret() },
        Written::Cancel {
            reason: reason.clone(),
        },
        Written::Fail {
            reason,
            error: Some(secret()),
        },
    ] {
        note_debug(&Commit::of(claim, outcome));
    }
    let commit = Commit::of(claim, Written::Done { result: secret() });
    note_debug(&store.commit(vec![commit].into()).await.unwrap());
}

/// Checks that something was noted, and that no line of it has the secret.
fn assert_nothing_leaked() {
    let seen = SEEN.lock().unwrap();
    for proof in ["event: outlast", "span: step", "debug: "] {
        assert!(seen.contains(proof), "nothing was noted of {proof:?}");
    }
    let leaks: Vec<_> = seen.lines().filter(|line| line.contains(SECRET)).collect();
    assert!(leaks.is_empty(), "{leaks:#?}");
}

/// The author of a step writes the text of its failure, so the log has it by default.
async fn failures_are_in_the_log_by_default_and_payloads_are_not<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    const TEXT: &str = "for the log by default";
    listen();
    let engine = Engine::builder(store)
        .register(Keeper)
        .queue("default", 1)
        .start()
        .await
        .unwrap();
    let failing = insert(engine.client(), Keeper::with(Way::Fail(TEXT.into()))).await;
    failing.ended().timeout(LONG).await.unwrap();
    // Serde quotes a state that does not decode. The log must not.
    let unreadable = NewInstance::new("keeper", "number", Json::of(SECRET).unwrap());
    let admin = engine.client().admin();
    let answers = admin.insert_rows(vec![unreadable]).await.unwrap();
    let ended = admin.wait_ended(answers[0].new_id().unwrap(), LONG).await;
    let error = ended.unwrap().last_error.unwrap();
    assert!(error.contains(SECRET), "{error}");
    engine.shutdown().await.unwrap();
    assert!(is_logged(TEXT));
    assert_nothing_leaked();
}

/// Readers of the log must not see what is encrypted in the database.
async fn with_a_codec_failures_are_logged_only_when_failures_in_logs_is_set<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    listen();
    let fails = async |text: &str, asks: bool| {
        let keys = outlast::codec::Keyring::new("k", &[1; 32]).unwrap();
        let builder = Engine::builder(store.clone()).register(Keeper).codec(keys);
        let builder = match asks {
            true => builder.failures_in_logs(),
            false => builder,
        };
        let engine = builder.queue("default", 1).start().await.unwrap();
        let failing = insert(engine.client(), Keeper::with(Way::Fail(text.into()))).await;
        failing.ended().timeout(LONG).await.unwrap();
        engine.shutdown().await.unwrap();
    };
    fails("kept out of the log", false).await;
    fails("for the log, please", true).await;
    assert!(!is_logged("kept out of the log"));
    assert!(is_logged("for the log, please"));
}

/// Whether the log has a failure with this text.
fn is_logged(text: &str) -> bool {
    let seen = SEEN.lock().unwrap();
    let is_logged = |line: &str| line.contains("the step failed") && line.contains(text);
    seen.lines().any(is_logged)
}

/// PostgreSQL quotes whole rows in the details of its errors. The driver logs statements with
/// their parameters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_quoted_by_postgresql_are_not_in_the_log_or_in_errors() {
    support::on_postgres(refused).await;
}

async fn refused(store: Postgres) {
    listen();
    let schema = store.schema();
    let (raw, connection) = tokio_postgres::connect(&support::url(), tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    // Foreign objects in the schema: a constraint, and a trigger whose error quotes the state.
    let sql = format!(
        "alter table \"{schema}\".instances add constraint no_secrets check (result::text not like '%xyzzy%');
         create function \"{schema}\".refuse() returns trigger language plpgsql as
         $$ begin perform new.state::text::integer; return new; end $$;
         create trigger refuse before insert on \"{schema}\".instances
            for each row when (new.queue = 'refused') execute function \"{schema}\".refuse()"
    );
    raw.batch_execute(&sql).await.unwrap();

    let row = NewInstance::new("other", "start", Json::of(SECRET).unwrap());
    let error = store
        .insert(vec![row.clone().queue("refused")], None)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("invalid input syntax"),
        "{error}"
    );
    note_error(&error);

    let engine = Engine::builder(store.clone())
        .register(Keeper)
        .queue("default", 1)
        .start()
        .await
        .unwrap();
    // The database refuses the outcome, and the instance fails with that error.
    let refused = insert(engine.client(), Keeper::with(Way::Done(SECRET.into()))).await;
    let ended = refused.ended().timeout(LONG).await.unwrap();
    let last_error = ended.last_error.clone().unwrap_or_default();
    assert!(last_error.contains("no_secrets"), "{last_error}");
    assert!(!last_error.contains(SECRET), "{last_error}");
    note_debug(&ended);
    engine.shutdown().await.unwrap();
    let has_driver_log = SEEN.lock().unwrap().contains("log: tokio_postgres");
    assert!(has_driver_log, "the log of the driver is noted");
    assert_nothing_leaked();
    // With the objects above, no other test can use it.
    support::drop_schema(schema).await;
}
