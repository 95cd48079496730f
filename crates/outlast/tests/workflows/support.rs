//! Runs a test on both stores, at a time that the test sets, with workflows that are written where they are tested.

#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "each module uses its part"
)]

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use outlast::prelude::*;
use outlast::testing::{Harness, HarnessBuilder};
use outlast::workflow::{Call, Running};
use outlast::{Event, EventKind, HistoryRequest, Inspect, Instance, ManualClock, Store};
use outlast_postgres::Postgres;
use outlast_sqlite::Sqlite;
use outlast_testbed::shared::{connect, drop_schema, unique_schema, url};
pub(crate) use serde_json::{Value, json};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// Makes a test on each store of every function named: `async fn a_sentence(ground: Ground)`.
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

/// Where a test stands: a store of its own, and its clock.
pub(crate) struct Ground {
    pub(crate) clock: ManualClock,
    pub(crate) store: Arc<dyn Place>,
    pub(crate) client: Client,
    harness: Box<dyn Fn() -> HarnessBuilder + Send + Sync>,
    raw: Raw,
}

pub(crate) trait Place: Store + Inspect {}

impl<S: Store + Inspect> Place for S {}

/// The database itself.
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

    /// A worker here, with the children that tests start.
    pub(crate) fn worker(&self) -> HarnessBuilder {
        let worker = (self.harness)().jumps_max(100);
        worker
            .machine(Double)
            .machine(Fails)
            .machine(Turnstile)
            .workflow(Kid)
    }

    /// A worker that runs this as the workflow of the test.
    pub(crate) async fn runs(&self, script: Script) -> Harness {
        self.worker().workflow(script).build().await.unwrap()
    }

    /// A worker that runs nothing but children.
    pub(crate) async fn runs_children(&self) -> Harness {
        self.worker().build().await.unwrap()
    }

    /// A worker that runs nothing but the workflow of the test.
    pub(crate) async fn runs_only(&self, script: Script) -> Harness {
        (self.harness)().workflow(script).build().await.unwrap()
    }

    /// A worker with nothing to run yet.
    pub(crate) fn bare(&self) -> HarnessBuilder {
        (self.harness)()
    }

    /// Does something to the database behind everybody's back.
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

    /// A list of one number, as it is stored.
    pub(crate) fn list_of_one(&self, number: i32) -> String {
        match &self.raw {
            Raw::Sqlite(_) => format!("[{number}]"),
            Raw::Postgres(_) => format!("{{{number}}}"),
        }
    }

    /// All that is stored, as text: every byte of the file and of its log; every column of every table.
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

/// Makes a test on each store of every function named, in the time of its clock: `async fn a_sentence(store: S)`.
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
    let schema = unique_schema();
    let options = Postgres::options(&url()).unwrap().schema(&schema);
    let store = options.connect().await.unwrap();
    let tested = AssertUnwindSafe(test(store.clone())).catch_unwind().await;
    store.close().await;
    drop_schema(&schema).await;
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
    let schema = unique_schema();
    let clock = ManualClock::default();
    let options = Postgres::options(&url()).unwrap().schema(&schema);
    let store = options.clock(clock.clone()).connect().await.unwrap();
    let ground = Ground::new(store.clone(), clock, Raw::Postgres(schema.clone()));
    let tested = AssertUnwindSafe(test(ground)).catch_unwind().await;
    store.close().await;
    drop_schema(&schema).await;
    if let Err(panic) = tested {
        std::panic::resume_unwind(panic);
    }
}

/// A workflow that is written where it is tested. Another one of the same name is another build of it.
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

impl Workflow for Script {
    const NAME: &'static str = "script";
    type Input = Value;
    type Output = Value;

    async fn run(&self, flow: Flow, input: Value) -> FlowResult<Value> {
        (self.0)(flow, input).await
    }
}

pub(crate) type Scripted = Id<Running<Script>>;

/// Starts the workflow of the test.
pub(crate) async fn begin(client: &Client, input: impl Serialize) -> Scripted {
    let input = serde_json::to_value(input).unwrap();
    let inserted = client.insert(Run::<Script>(input)).await.unwrap();
    inserted.id().unwrap()
}

/// Starts the workflow of the test and runs everything that can run now.
pub(crate) async fn ran(harness: &mut Harness, input: impl Serialize) -> Scripted {
    let id = begin(harness, input).await;
    harness.run().await;
    id
}

/// What the workflow of the test came to.
#[track_caller]
pub(crate) fn output(instance: &Instance) -> Value {
    let error = instance.last_error.as_deref().unwrap_or_default();
    assert_eq!(instance.status, Status::Done, "{error}");
    instance.result.as_ref().unwrap().decode().unwrap()
}

/// Why it failed.
#[track_caller]
pub(crate) fn reason(instance: &Instance) -> String {
    assert_eq!(instance.status, Status::Failed);
    instance.last_error.clone().unwrap()
}

pub(crate) async fn get(client: &Client, target: impl Into<outlast::Target>) -> Instance {
    client.get(target).await.unwrap().unwrap()
}

/// What a workflow came to that is run until nothing waits any more.
pub(crate) async fn result_of(ground: &Ground, script: Script, input: impl Serialize) -> Value {
    let mut harness = ground.runs(script).await;
    let id = begin(&harness, input).await;
    harness.run_all().await;
    output(&get(&harness, id).await)
}

pub(crate) async fn history(client: &Client, id: impl Into<InstanceId>, run: i32) -> Vec<Event> {
    let request = HistoryRequest {
        id: id.into(),
        run,
        after: 0,
        max: 10_000,
    };
    client.history(request).await.unwrap().rows
}

/// The first run of a workflow, as words.
pub(crate) async fn told(client: &Client, id: impl Into<InstanceId>) -> Vec<String> {
    words(&history(client, id, 1).await)
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

/// The only event of a kind.
#[track_caller]
pub(crate) fn the(events: &[Event], kind: EventKind) -> &Event {
    let mut found = events.iter().filter(|event| event.kind == kind);
    let first = found.next().expect("there is one");
    assert!(found.next().is_none(), "there are several {kind}");
    first
}

/// What has happened outside, in its order.
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

    /// A step with an effect that leads to a number.
    pub(crate) fn step(&self, flow: &Flow, name: &'static str, result: u64) -> Call<'static, u64> {
        let log = self.clone();
        flow.step(name, async move || {
            log.note(name);
            Ok::<_, String>(result)
        })
    }
}

/// A step that leads to a number.
pub(crate) fn number(flow: &Flow, name: &'static str, result: u64) -> Call<'static, u64> {
    flow.step(name, async move || Ok::<_, String>(result))
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Go(pub(crate) u64);

impl Signal for Go {
    const NAME: &'static str = "go";
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Halt(pub(crate) u64);

impl Signal for Halt {
    const NAME: &'static str = "halt";
}

pub(crate) struct Double;

impl Job for Double {
    const NAME: &'static str = "double";
    type Args = u64;
    type Output = u64;

    async fn perform(&self, n: u64, _: &Context) -> Result<u64, JobError> {
        Ok(2 * n)
    }
}

/// A job that never works.
pub(crate) struct Fails;

impl Job for Fails {
    const NAME: &'static str = "fails";
    type Args = String;
    type Output = u64;

    async fn perform(&self, why: String, _: &Context) -> Result<u64, JobError> {
        match why.strip_prefix("cancel: ") {
            Some(reason) => Err(JobError::cancel(reason.to_owned())),
            None => Err(JobError::fatal(why)),
        }
    }
}

/// A machine that waits for a signal.
pub(crate) struct Turnstile;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
pub(crate) enum Turn {
    Wait(u64),
    Through(u64),
}

impl Machine for Turnstile {
    const NAME: &'static str = "turnstile";
    type State = Turn;
    type Output = u64;

    async fn step(&self, state: Turn, cx: &Context) -> StepResult<Self> {
        Ok(match state {
            Turn::Wait(n) => wait_for([Go::NAME]).then(Turn::Through(n)),
            Turn::Through(n) => match cx.received::<Go>()? {
                Some(Go(more)) => Outcome::done(n + more),
                None => Outcome::fail("nobody came"),
            },
        })
    }
}

/// A workflow that does as its parent says.
pub(crate) struct Kid;

#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum Say {
    /// End with this.
    Give(u64),
    Fail(String),
    /// Wait for [`Go`] and end with what it says.
    Wait,
    /// Wait for [`Go`], and then fail.
    WaitThenFail(String),
    /// Sleep so many milliseconds, and end with this.
    Sleep(u64, u64),
    /// Sleep so many milliseconds, and fail.
    SleepThenFail(u64, String),
    /// Begin so many more runs, then wait for [`Go`].
    Renew(u64),
    /// When it is cancelled, end with this all the same.
    Stubborn(u64),
}

impl Workflow for Kid {
    const NAME: &'static str = "kid";
    type Input = Say;
    type Output = u64;

    async fn run(&self, flow: Flow, say: Say) -> FlowResult<u64> {
        match say {
            Say::Give(n) => Ok(n),
            Say::Fail(why) => Err(flow.fail(why)),
            Say::Wait => Ok(flow.signal::<Go>().await?.0),
            Say::WaitThenFail(why) => {
                flow.signal::<Go>().await?;
                Err(flow.fail(why))
            }
            Say::Sleep(ms, n) => {
                flow.sleep(Duration::from_millis(ms)).await?;
                Ok(n)
            }
            Say::SleepThenFail(ms, why) => {
                flow.sleep(Duration::from_millis(ms)).await?;
                Err(flow.fail(why))
            }
            Say::Renew(0) => Ok(flow.signal::<Go>().await?.0),
            Say::Renew(more) => flow.continue_as_new(Say::Renew(more - 1)),
            Say::Stubborn(n) => match flow.signal::<Go>().await {
                Ok(_) => Ok(0),
                Err(_) => Ok(n),
            },
        }
    }
}

/// The children of a workflow, as the store has them.
pub(crate) async fn children(client: &Client, id: impl Into<InstanceId>) -> Vec<outlast::Child> {
    client.children(id.into()).await.unwrap()
}

pub(crate) async fn statuses(client: &Client, id: impl Into<InstanceId>) -> Vec<Status> {
    let children = children(client, id).await;
    children.iter().map(|child| child.status).collect()
}

pub(crate) async fn go(client: &Client, id: InstanceId, n: u64) {
    let delivery = client.signal(id, Go(n)).await.unwrap();
    assert!(
        matches!(delivery, Delivery::Delivered { .. }),
        "{delivery:?}"
    );
}
