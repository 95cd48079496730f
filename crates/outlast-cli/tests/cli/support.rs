//! One database per test, and runs of the program on it.

use outlast::machine::{FanOut, fail_with, wait_for_named};
use outlast::prelude::*;
use outlast::store::{
    ChildRange, ClaimRequest, ClosePolicy, Commit, Flowing, Inspect, Instance, JoinSet, JoinSets,
    Json, MachineVersion, NewInstance, NewWorker, Park, Store,
};
use outlast::{Client, Fails, History, InstanceId, Outcome, Postgres, Sqlite};
use outlast_testbed::shared::{drop_schema, unique_schema, url};
use serde_json::Value;
use std::fmt::{self, Display, Formatter};
use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

/// Longer than any step of these tests takes.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// Defines one test per database for each named function: `async fn a_sentence(site: &Site)`.
macro_rules! on_both_databases {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    let site = crate::support::Site::sqlite().await;
                    super::$name(&site).await;
                    site.clear().await;
                }
            )+
        }

        mod postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    let site = crate::support::Site::postgres().await;
                    super::$name(&site).await;
                    site.clear().await;
                }
            )+
        }
    };
}
pub(crate) use on_both_databases;

/// A migrated database, and a folder for files.
pub(crate) struct Site {
    pub(crate) folder: TempDir,
    database: String,
    schema: String,
    is_postgres: bool,
}

impl Site {
    pub(crate) async fn sqlite() -> Site {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("shop.db").display().to_string();
        let site = Site {
            folder,
            database,
            schema: "outlast".into(),
            is_postgres: false,
        };
        site.run(["migrate"]).succeeds();
        site
    }

    pub(crate) async fn postgres() -> Site {
        let site = Site {
            folder: tempfile::tempdir().unwrap(),
            database: url(),
            schema: unique_schema(),
            is_postgres: true,
        };
        site.run(["migrate"]).succeeds();
        site
    }

    /// Drops the schema on the server.
    pub(crate) async fn clear(self) {
        if self.is_postgres {
            drop_schema(&self.schema).await;
        }
    }

    /// Returns a command that runs the program with these arguments on this database.
    pub(crate) fn command<const N: usize>(&self, arguments: [&str; N]) -> Command {
        let mut command = bare();
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("OUTLAST_DATABASE", &self.database)
            .env("OUTLAST_SCHEMA", &self.schema);
        command
    }

    pub(crate) fn run<const N: usize>(&self, arguments: [&str; N]) -> Ran {
        Ran::of(self.command(arguments))
    }

    /// Runs the program with this input.
    pub(crate) fn run_with<const N: usize>(&self, arguments: [&str; N], input: &str) -> Ran {
        let mut command = self.command(arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        Ran(child.wait_with_output().unwrap())
    }

    /// Makes an instance that nothing would wake.
    pub(crate) async fn lost(&self) -> InstanceId {
        match self.is_postgres {
            true => {
                let options = Postgres::options(&self.database).unwrap();
                let store = options.schema(&self.schema).connect().await.unwrap();
                let id = lost(&store).await;
                store.close().await;
                id
            }
            false => {
                let store = Sqlite::open(&self.database).unwrap();
                let id = lost(&store).await;
                store.close().await;
                id
            }
        }
    }

    /// Starts an engine in the process of the test.
    pub(crate) async fn engine(&self) -> Running {
        match self.is_postgres {
            true => {
                let options = Postgres::options(&self.database).unwrap();
                let store = options.schema(&self.schema).connect().await.unwrap();
                Running::start(store).await
            }
            false => Running::start(Sqlite::open(&self.database).unwrap()).await,
        }
    }

    /// Whether other processes receive hints.
    pub(crate) fn has_hints(&self) -> bool {
        self.is_postgres
    }

    /// Returns the database as the program takes it.
    pub(crate) fn database(&self) -> &str {
        &self.database
    }
}

/// Returns the program without a database, and without variables of the surrounding environment.
pub(crate) fn bare() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlast"));
    for name in [
        "OUTLAST_DATABASE",
        "OUTLAST_SCHEMA",
        "OUTLAST_SERVER",
        "OUTLAST_TOKEN",
        "OUTLAST_TOKENS",
    ] {
        command.env_remove(name);
    }
    command.env("USER", "ada");
    command
}

/// An engine in the process of the test.
pub(crate) struct Running {
    engine: Engine,
    store: Box<dyn Store>,
}

impl Running {
    async fn start(store: impl Store + Inspect + Clone) -> Running {
        let builder = Engine::builder(store.clone())
            .register(Clerk)
            .register(Ledger)
            .register(errand)
            .register(crowd)
            .register(shelf)
            .register(stuck);
        let engine = builder
            .queue("default", 10)
            .name("desk")
            .start()
            .await
            .unwrap();
        Running {
            engine,
            store: Box::new(store),
        }
    }

    /// Reads an instance until it matches, because another task makes it match.
    pub(crate) async fn until(&self, id: &str, matches: impl Fn(&Instance) -> bool) -> Instance {
        let id = InstanceId(id.parse().unwrap());
        let begun = std::time::Instant::now();
        loop {
            let it = self.find(id).await.unwrap().unwrap();
            if matches(&it) {
                return it;
            }
            assert!(
                begun.elapsed() < LONG,
                "instance {id} never matches: {it:?}"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) async fn stop(self) {
        self.engine.shutdown().await.unwrap();
        self.store.close().await;
    }
}

impl std::ops::Deref for Running {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.engine.client()
    }
}

/// Does one task, named by its first step.
pub(crate) struct Clerk;

#[steps]
pub(crate) enum Task {
    Answer {
        number: u64,
    },
    Fail,
    /// Fails with an error value.
    Decline {
        left: u64,
    },
    Park {
        number: u64,
    },
    /// Sleeps for an hour.
    Doze,
    FanOut,
    Joined,
    /// Waits for `paid`. When it is cancelled, it waits for `undo` before it ends.
    Careful,
    /// Runs until it is cancelled.
    Run,
    Kept,
    Undone,
    /// Starts other clerks, and joins them in this way.
    Crew {
        joins: Joins,
    },
    /// Starts two crews.
    Clan,
}

/// How a crew joins.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Joins {
    /// Two of three run at a time. They are cancelled with their parent.
    Window,
    /// Needs two of four. One is done, one has failed, two wait.
    Quorum,
    /// Joins at the first failure, and terminates the child that waits.
    FailFast,
}

/// The error value of a clerk.
#[derive(Serialize)]
pub(crate) struct TooFew {
    left: u64,
}

impl Display for TooFew {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "only {} left", self.left)
    }
}

impl Fails for Clerk {
    type Error = TooFew;
}

impl Machine for Clerk {
    const NAME: &'static str = "clerk";
    type State = Task;
    type Output = u64;

    async fn step(&self, task: Task, cx: &Context) -> StepResult<Self> {
        match task {
            Task::Answer { number } => done(number),
            Task::Fail => fail("out of stock"),
            Task::Decline { left } => fail_with(TooFew { left }),
            Task::Park { number } => wait_for::<Paid>()
                .timeout(HOUR)
                .then(Task::Answer { number }),
            Task::Doze => sleep(HOUR).then(Task::Answer { number: 1 }),
            Task::FanOut => {
                let tasks = [
                    Task::Answer { number: 1 },
                    Task::Fail,
                    Task::Park { number: 2 },
                ];
                fan_out(tasks.map(Clerk::with)).then(Task::Joined)
            }
            Task::Joined => done(0),
            Task::Careful => wait_for::<Paid>().then(Task::Kept),
            Task::Run => {
                cx.cancelled().await;
                Ok(Outcome::requeue(Task::Run))
            }
            Task::Kept => done(1),
            Task::Undone => Ok(Outcome::cancelled(format!(
                "{}, undone",
                cx.cancel_reason().unwrap_or("?")
            ))),
            Task::Crew { joins } => joins.fan_out().then(Task::Joined),
            Task::Clan => {
                let crew = || Task::Crew {
                    joins: Joins::Window,
                };
                fan_out([crew(), crew()].map(Clerk::with)).then(Task::Joined)
            }
        }
    }

    async fn on_cancel(&self, task: Task, cx: &Context) -> StepResult<Self> {
        match task {
            Task::Kept => wait_for_named(["undo"]).then(Task::Undone),
            Task::Answer { .. }
            | Task::Fail
            | Task::Decline { .. }
            | Task::Park { .. }
            | Task::Doze
            | Task::FanOut
            | Task::Joined
            | Task::Careful
            | Task::Run
            | Task::Undone
            | Task::Crew { .. }
            | Task::Clan => Ok(Outcome::cancelled(cx.cancel_reason().unwrap_or("?"))),
        }
    }
}

impl Joins {
    fn fan_out(&self) -> FanOut {
        let park = || Clerk::with(Task::Park { number: 2 });
        let done = || Clerk::with(Task::Answer { number: 1 });
        let failed = || Clerk::with(Task::Fail);
        match self {
            Joins::Window => fan_out([park(), park(), park()])
                .window(2)
                .on_parent_close(ClosePolicy::RequestCancel),
            Joins::Quorum => fan_out([done(), failed(), park(), park()])
                .quorum(2)
                .deadline(HOUR),
            Joins::FailFast => fan_out([park(), failed()]).fail_fast().terminate_rest(),
        }
    }
}

/// Books at the second attempt, and waits for `paid`. It records its states.
pub(crate) struct Ledger;

#[steps]
pub(crate) enum Booking {
    Book { number: u64 },
    Balance { number: u64, booked: bool },
}

impl Machine for Ledger {
    const NAME: &'static str = "ledger";
    const HISTORY: History = History::States;
    type State = Booking;
    type Output = u64;

    async fn step(&self, booking: Booking, cx: &Context) -> StepResult<Self> {
        match booking {
            Booking::Book { .. } if cx.attempt() == 0 => retry(Duration::ZERO, "the book is taken"),
            Booking::Book { number } => {
                let booked = true;
                wait_for::<Paid>().then(Booking::Balance { number, booked })
            }
            Booking::Balance { number, .. } => done(number),
        }
    }
}

#[derive(Signal, Serialize, Deserialize)]
pub(crate) struct Paid {
    amount: u64,
}

/// Asks an errand for its number.
#[derive(Signal, Serialize, Deserialize)]
#[signal(reply = u64)]
pub(crate) struct Thought {
    plus: u64,
}

/// Gets a number from a clerk, then waits for `paid` and another clerk together. It continues as
/// new as often as its input says.
#[workflow]
pub(crate) async fn errand(flow: Flow, again: u64) -> FlowResult<u64> {
    let number = flow.step("think", async || Ok::<_, String>(7)).await?;
    flow.on_query(move |query: Thought| match query.plus {
        0 => Err("nothing is added".into()),
        plus => Ok(number + plus),
    })?;
    let answer = flow.run(Clerk::with(Task::Answer { number })).await?;
    if let Err(failed) = flow.run(Clerk::with(Task::Fail)).await {
        let noted = flow.step("note", async move || Ok::<_, String>(failed.to_string()));
        noted.await?;
    }
    flow.publish(
        "answer",
        &serde_json::json!({"of": "clerk", "number": answer}),
    )?;
    let park = Clerk::with(Task::Park { number: 2 }).on_parent_close(ClosePolicy::RequestCancel);
    let both = flow.all((flow.signal::<Paid>(), flow.run(park)));
    let Some((paid, _)) = both.timeout(HOUR).await? else {
        return flow.fail("never paid");
    };
    match again {
        0 => Ok(answer + paid.amount),
        _ => flow.continue_as_new(again - 1),
    }
}

/// Starts three clerks that wait, two at a time.
#[workflow]
pub(crate) async fn crowd(flow: Flow) -> FlowResult<usize> {
    let clerk = || flow.run(Clerk::with(Task::Park { number: 2 }));
    let clerks = flow.all(vec![clerk(), clerk(), clerk()]).window(2).await?;
    Ok(clerks.len())
}

/// Asks a shelf to take books. The reply is the number of its books.
#[derive(Signal, Serialize, Deserialize)]
#[signal(reply = u64)]
pub(crate) struct TakeBooks {
    books: u64,
}

/// Takes at most ten books, until it is paid.
#[workflow]
pub(crate) async fn shelf(flow: Flow) -> FlowResult<u64> {
    let held = Arc::new(AtomicU64::new(0));
    let filled = held.clone();
    flow.on_update(move |flow: Flow, take: TakeBooks| {
        let filled = filled.clone();
        async move {
            let sum = filled.load(Ordering::Relaxed).saturating_add(take.books);
            if sum > 10 {
                return flow.fail("the shelf is full");
            }
            filled.store(sum, Ordering::Relaxed);
            Ok(sum)
        }
    })?
    .validate(|take| match take.books {
        0 => Err("no book is given"),
        _ => Ok(()),
    });
    flow.signal::<Paid>().await?;
    Ok(held.load(Ordering::Relaxed))
}

/// Awaits a future that is not a call of its flow, so it is blocked.
#[workflow]
pub(crate) async fn stuck(flow: Flow) -> FlowResult<()> {
    flow.step("begin", async || Ok::<_, String>(())).await?;
    std::future::pending().await
}

/// The output of a finished run of the program.
pub(crate) struct Ran(Output);

impl Ran {
    pub(crate) fn of(mut command: Command) -> Ran {
        Ran(command.stdin(Stdio::null()).output().unwrap())
    }

    pub(crate) fn out(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).unwrap()
    }

    pub(crate) fn err(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).unwrap()
    }

    /// Panics unless the exit code is 0.
    #[track_caller]
    pub(crate) fn succeeds(self) -> Ran {
        self.ends_with(0)
    }

    #[track_caller]
    pub(crate) fn ends_with(self, code: i32) -> Ran {
        let (out, err) = (self.out(), self.err());
        assert_eq!(
            self.0.status.code(),
            Some(code),
            "stdout:\n{out}stderr:\n{err}"
        );
        self
    }

    /// Returns the output without the final newline.
    pub(crate) fn line(&self) -> String {
        self.out().trim_end().to_owned()
    }

    /// Parses one JSON document per line of the output.
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        let out = self.out();
        out.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let mut lines = self.json_lines();
        assert_eq!(lines.len(), 1, "{}", self.out());
        lines.remove(0)
    }
}

/// Makes an instance that nothing would wake: it waits for a child that it has not started.
pub(crate) async fn lost(store: &impl Store) -> InstanceId {
    let worker = NewWorker {
        name: "loser".into(),
        host: "here".into(),
        version: "1".into(),
        queues: vec!["lost".into()],
        machines: Vec::new(),
        lease: LONG,
    };
    let worker = store.register(worker).await.unwrap();
    let row = NewInstance::new("lost", "run", Json::null()).queue("lost");
    store.insert(vec![row], None).await.unwrap();
    let request = ClaimRequest {
        worker,
        queue: "lost".into(),
        machines: [MachineVersion::new("lost", 1)].into(),
        max: 1,
    };
    let claim = store.claim(request).await.unwrap().claims.remove(0);
    let set = JoinSet {
        ranges: vec![ChildRange::whole(1)],
        children: Vec::new(),
        count: 1,
    };
    let park = Park {
        join_sets: Some(JoinSets::one(set)),
        ..Park::default()
    };
    let waits = outlast::store::Outcome::Flow {
        children: Vec::new(),
        window: None,
        then: Flowing::Park(park),
    };
    let commits = vec![Commit::of(&claim, waits)];
    store.commit(commits.into()).await.unwrap();
    store.deregister(worker).await.unwrap();
    claim.id
}
