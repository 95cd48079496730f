//! Runs each test on both stores, with a clock that the test sets. The workflow of a test is a
//! closure in the test.

#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "each module uses its part"
)]

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use outlast::prelude::*;
// `Kid::with` needs it.
pub(crate) use outlast::Workflow;
use outlast::store::{
    Child, Event, EventKind, HistoryRequest, Inspect, Instance, ManualClock, Store, Target,
};
use outlast::testing::{Harness, HarnessBuilder};
use outlast::workflow::Call;
use outlast::{Client, Durable, Id, InstanceId, JobError, Note, Status};
use outlast_postgres::Postgres;
use outlast_sqlite::Sqlite;
use outlast_testbed::shared::{connect, return_schema, take_schema, url};
pub(crate) use serde_json::{Value, json};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Makes one test per store of each function `async fn a_sentence(ground: Ground)`.
macro_rules! on_both_stores {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                crate::support::on_sqlite(super::$name).await;
            })+
        }

        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                crate::support::on_postgres(super::$name).await;
            })+
        }
    };
}
pub(crate) use on_both_stores;

/// The environment of one test: its own store and its clock.
pub(crate) struct Ground {
    pub(crate) clock: ManualClock,
    pub(crate) store: Arc<dyn TestStore>,
    pub(crate) client: Client,
    harness: Box<dyn Fn() -> HarnessBuilder + Send + Sync>,
    raw: Raw,
}

pub(crate) trait TestStore: Store + Inspect {}

impl<S: Store + Inspect> TestStore for S {}

/// How to reach the database without the store.
enum Raw {
    Sqlite(PathBuf),
    Postgres(String),
}

impl Ground {
    fn new(store: impl Store + Inspect + Clone, clock: ManualClock, raw: Raw) -> Ground {
        let (kept, time) = (store.clone(), clock.clone());
        Ground {
            clock,
            client: Client::new(store.clone()),
            store: Arc::new(store),
            harness: Box::new(move || Harness::on(kept.clone(), time.clone())),
            raw,
        }
    }

    /// Creates a worker that can run the children that tests start.
    pub(crate) fn worker(&self) -> HarnessBuilder {
        let worker = (self.harness)().jumps_max(100);
        worker
            .register(double)
            .register(fails)
            .register(Turnstile)
            .register(Kid)
    }

    /// Creates a worker that runs this workflow and the children.
    pub(crate) async fn runs(&self, script: Script) -> Harness {
        self.worker().register(script).build().await.unwrap()
    }

    /// Creates a worker that runs only children.
    pub(crate) async fn runs_children(&self) -> Harness {
        self.worker().build().await.unwrap()
    }

    /// Creates a worker that runs only the workflow of the test.
    pub(crate) async fn runs_only(&self, script: Script) -> Harness {
        (self.harness)().register(script).build().await.unwrap()
    }

    /// Creates a worker that has no machines yet.
    pub(crate) fn bare(&self) -> HarnessBuilder {
        (self.harness)()
    }

    /// Runs SQL on the database without the store.
    pub(crate) async fn tamper(&self, sql: &str) {
        match &self.raw {
            Raw::Sqlite(path) => {
                let connection = rusqlite::Connection::open(path).unwrap();
                connection.busy_timeout(Duration::from_secs(10)).unwrap();
                connection.execute_batch(sql).unwrap();
            }
            Raw::Postgres(schema) => {
                let client = connect(&url()).await;
                let sql = format!("set search_path to \"{schema}\"; {sql}");
                client.batch_execute(&sql).await.unwrap();
            }
        }
    }

    /// Returns a list of one number as the store writes it.
    pub(crate) fn list_of_one(&self, number: i32) -> String {
        match &self.raw {
            Raw::Sqlite(_) => format!("[{number}]"),
            Raw::Postgres(_) => format!("{{{number}}}"),
        }
    }

    /// Returns all stored data as text: the bytes of the file and of its log, or every row.
    pub(crate) async fn everything(&self) -> String {
        match &self.raw {
            Raw::Sqlite(path) => {
                let log = path.with_extension("db-wal");
                let files = [path, &log].map(|file| std::fs::read(file).unwrap_or_default());
                String::from_utf8_lossy(&files.concat()).into_owned()
            }
            Raw::Postgres(schema) => {
                let client = connect(&url()).await;
                let tables = "select table_name::text from information_schema.tables \
                              where table_schema = $1 and table_type = 'BASE TABLE'";
                let mut everything = String::new();
                for table in client.query(tables, &[schema]).await.unwrap() {
                    let table: String = table.get(0);
                    let sql = format!("select t::text from \"{schema}\".\"{table}\" t");
                    for row in client.query(&sql, &[]).await.unwrap() {
                        everything.push_str(&row.get::<_, String>(0));
                    }
                }
                everything
            }
        }
    }
}

/// Makes one test per store of each function `async fn a_sentence(store: S)`, with the clock of
/// the store.
macro_rules! on_both_stores_in_real_time {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let store = outlast_sqlite::Sqlite::in_memory().unwrap();
                super::$name(store).await;
            })+
        }

        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                crate::support::on_postgres_in_real_time(super::$name).await;
            })+
        }
    };
}
pub(crate) use on_both_stores_in_real_time;

pub(crate) async fn on_postgres_in_real_time<T: Future<Output = ()>>(
    test: impl FnOnce(Postgres) -> T,
) {
    let schema = take_schema();
    let options = Postgres::options(&url()).unwrap().schema(&schema);
    let store = options.connect().await.unwrap();
    let tested = AssertUnwindSafe(test(store.clone())).catch_unwind().await;
    store.close().await;
    return_schema(&schema).await;
    if let Err(panic) = tested {
        std::panic::resume_unwind(panic);
    }
}

pub(crate) async fn on_sqlite<T: Future<Output = ()>>(test: impl FnOnce(Ground) -> T) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("outlast.db");
    let clock = ManualClock::default();
    let store = Sqlite::options().clock(clock.clone()).open(&path).unwrap();
    test(Ground::new(store.clone(), clock, Raw::Sqlite(path))).await;
    store.close().await;
}

pub(crate) async fn on_postgres<T: Future<Output = ()>>(test: impl FnOnce(Ground) -> T) {
    let schema = take_schema();
    let clock = ManualClock::default();
    let options = Postgres::options(&url()).unwrap().schema(&schema);
    let store = options.clock(clock.clone()).connect().await.unwrap();
    let ground = Ground::new(store.clone(), clock, Raw::Postgres(schema.clone()));
    let tested = AssertUnwindSafe(test(ground)).catch_unwind().await;
    store.close().await;
    return_schema(&schema).await;
    if let Err(panic) = tested {
        std::panic::resume_unwind(panic);
    }
}

/// A workflow whose code is a closure in the test. All scripts have the same name, so two of them
/// are two builds of one workflow.
#[derive(Clone)]
pub(crate) struct Script(Arc<Code>);

type Code = dyn Fn(Flow, Value) -> BoxFuture<'static, FlowResult<Value>> + Send + Sync;

pub(crate) fn script<T: Serialize, Fut>(
    code: impl Fn(Flow, Value) -> Fut + Send + Sync + 'static,
) -> Script
where
    Fut: Future<Output = FlowResult<T>> + Send + 'static,
{
    Script(Arc::new(move |flow, input| {
        let code = code(flow, input);
        async move { Ok(serde_json::to_value(code.await?)?) }.boxed()
    }))
}

impl Durable for Script {
    const NAME: &'static str = "script";
    type Input = Value;
    type Output = Value;
}

impl Workflow for Script {
    async fn run(&self, flow: Flow, input: Value) -> FlowResult<Value> {
        (self.0)(flow, input).await
    }
}

pub(crate) type Scripted = Id<Script>;

/// What starts, finds and signals instances: a harness, an engine or a client.
pub(crate) trait HasClient {
    fn client(&self) -> &Client;
}

impl HasClient for Client {
    fn client(&self) -> &Client {
        self
    }
}

impl HasClient for Engine {
    fn client(&self) -> &Client {
        self.client()
    }
}

impl HasClient for Harness {
    fn client(&self) -> &Client {
        self.client()
    }
}

/// Starts the workflow of the test.
pub(crate) async fn begin(on: &impl HasClient, input: impl Serialize) -> Scripted {
    let input = serde_json::to_value(input).unwrap();
    on.client().start(Script::with(input)).await.unwrap().id()
}

/// Starts the workflow of the test and runs everything that can run now.
pub(crate) async fn begin_and_run(harness: &mut Harness, input: impl Serialize) -> Scripted {
    let id = begin(harness, input).await;
    harness.run().await;
    id
}

/// The note of an operator.
pub(crate) fn ada() -> Note {
    Note::by("ada")
}

/// Returns the output of a workflow that is done.
#[track_caller]
pub(crate) fn output(instance: &Instance) -> Value {
    let error = instance.last_error.as_deref().unwrap_or_default();
    assert_eq!(instance.status, Status::Done, "{error}");
    instance.result.as_ref().unwrap().decode().unwrap()
}

/// Returns the error of a workflow that failed.
#[track_caller]
pub(crate) fn reason(instance: &Instance) -> String {
    assert_eq!(instance.status, Status::Failed);
    instance.last_error.clone().unwrap()
}

pub(crate) async fn get(on: &impl HasClient, target: impl Into<Target>) -> Instance {
    on.client().find(target).await.unwrap().unwrap()
}

/// Runs a workflow until nothing waits any more, and returns its output.
pub(crate) async fn result_of(ground: &Ground, script: Script, input: impl Serialize) -> Value {
    let mut harness = ground.runs(script).await;
    let id = begin(&harness, input).await;
    harness.run_all().await;
    output(&get(&harness, id).await)
}

pub(crate) async fn history(
    on: &impl HasClient,
    id: impl Into<InstanceId>,
    run: i32,
) -> Vec<Event> {
    let request = HistoryRequest {
        id: id.into(),
        run,
        after: 0,
        max: 10_000,
    };
    on.client().admin().history(request).await.unwrap().rows
}

/// Returns the events of the first run of a workflow, each as words.
pub(crate) async fn history_words(on: &impl HasClient, id: impl Into<InstanceId>) -> Vec<String> {
    words(&history(on, id, 1).await)
}

pub(crate) fn words(events: &[Event]) -> Vec<String> {
    let word = |event: &Event| match (event.call, event.name.as_str()) {
        (None, "") => event.kind.to_string(),
        (None, name) => format!("{} {name}", event.kind),
        (Some(call), "") => format!("{} {call}", event.kind),
        (Some(call), name) => format!("{} {call} {name}", event.kind),
    };
    events.iter().map(word).collect()
}

pub(crate) fn count(events: &[Event], kind: EventKind) -> usize {
    events.iter().filter(|event| event.kind == kind).count()
}

pub(crate) fn data(event: &Event) -> Value {
    event.data.decode().unwrap()
}

/// Returns the only event of a kind.
#[track_caller]
pub(crate) fn only_event(events: &[Event], kind: EventKind) -> &Event {
    let mut found = events.iter().filter(|event| event.kind == kind);
    let first = found.next().expect("the history has an event of this kind");
    assert!(found.next().is_none(), "there are several {kind}");
    first
}

/// The effects of the code of a test, in their order.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    pub(crate) fn entries(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn times(&self, what: &str) -> usize {
        self.entries().iter().filter(|it| *it == what).count()
    }

    /// Creates a step that notes its name and returns a number.
    pub(crate) fn step(&self, flow: &Flow, name: &'static str, result: u64) -> Call<'static, u64> {
        let log = self.clone();
        flow.step(name, async move || {
            log.note(name);
            Ok::<_, String>(result)
        })
    }
}

/// Creates a step that returns a number.
pub(crate) fn number(flow: &Flow, name: &'static str, result: u64) -> Call<'static, u64> {
    flow.step(name, async move || Ok::<_, String>(result))
}

#[derive(Signal, Serialize, Deserialize)]
pub(crate) struct Go(pub(crate) u64);

#[derive(Signal, Serialize, Deserialize)]
pub(crate) struct Halt(pub(crate) u64);

#[job]
pub(crate) async fn double(n: u64) -> Result<u64, JobError> {
    Ok(2 * n)
}

/// A job that fails with its argument, or is cancelled with it.
#[job]
pub(crate) async fn fails(why: String) -> Result<u64, JobError> {
    match why.strip_prefix("cancel: ") {
        Some(reason) => Err(JobError::cancel(reason.to_owned())),
        None => Err(JobError::fatal(why)),
    }
}

/// A machine that waits for a signal.
pub(crate) struct Turnstile;

#[steps]
pub(crate) enum Turn {
    Wait(u64),
    Through(u64),
}

impl Machine for Turnstile {
    const NAME: &'static str = "turnstile";
    type State = Turn;
    type Output = u64;

    async fn step(&self, state: Turn, cx: &Context) -> StepResult<Self> {
        match state {
            Turn::Wait(n) => wait_for::<Go>().then(Turn::Through(n)),
            Turn::Through(n) => match cx.received::<Go>()? {
                Some(Go(more)) => done(n + more),
                None => fail("nobody came"),
            },
        }
    }
}

/// A workflow that does what its input says.
pub(crate) struct Kid;

#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum Say {
    /// Returns this number.
    Give(u64),
    Fail(String),
    /// Waits for [`Go`] and returns its number.
    Wait,
    /// Waits for [`Go`], and then fails.
    WaitThenFail(String),
    /// Sleeps this many milliseconds, and returns this number.
    Sleep(u64, u64),
    /// Sleeps this many milliseconds, and fails.
    SleepThenFail(u64, String),
    /// Continues as new this many times, then waits for [`Go`].
    ContinueAsNew(u64),
    /// Waits for [`Go`]. Returns this number when it is cancelled.
    Stubborn(u64),
}

impl Durable for Kid {
    const NAME: &'static str = "kid";
    type Input = Say;
    type Output = u64;
}

impl Workflow for Kid {
    async fn run(&self, flow: Flow, say: Say) -> FlowResult<u64> {
        match say {
            Say::Give(n) => Ok(n),
            Say::Fail(why) => flow.fail(why),
            Say::Wait => Ok(flow.signal::<Go>().await?.0),
            Say::WaitThenFail(why) => {
                flow.signal::<Go>().await?;
                flow.fail(why)
            }
            Say::Sleep(ms, n) => {
                flow.sleep(Duration::from_millis(ms)).await?;
                Ok(n)
            }
            Say::SleepThenFail(ms, why) => {
                flow.sleep(Duration::from_millis(ms)).await?;
                flow.fail(why)
            }
            Say::ContinueAsNew(0) => Ok(flow.signal::<Go>().await?.0),
            Say::ContinueAsNew(more) => flow.continue_as_new(Say::ContinueAsNew(more - 1)),
            Say::Stubborn(n) => match flow.signal::<Go>().await {
                Ok(_) => Ok(0),
                Err(_) => Ok(n),
            },
        }
    }
}

/// Returns the children of a workflow from the store.
pub(crate) async fn children(on: &impl HasClient, id: impl Into<InstanceId>) -> Vec<Child> {
    on.client().admin().children(id.into()).await.unwrap()
}

pub(crate) async fn statuses(on: &impl HasClient, id: impl Into<InstanceId>) -> Vec<Status> {
    let children = children(on, id).await;
    children.iter().map(|child| child.status).collect()
}

/// Sends [`Go`], which must be delivered and must be new.
pub(crate) async fn go(on: &impl HasClient, id: InstanceId, n: u64) {
    let sent = on.client().signal(id, Go(n)).await.unwrap();
    assert!(sent.is_new, "{sent:?}");
}
