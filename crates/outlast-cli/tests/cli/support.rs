//! One database per test, and runs of the program on it.

use outlast::prelude::*;
use outlast::{FanOut, Instance, Postgres, Sqlite, Store, Target};
use outlast_testbed::shared::{drop_schema, unique_schema, url};
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Output, Stdio};
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
    for name in ["OUTLAST_DATABASE", "OUTLAST_SCHEMA", "OUTLAST_TOKENS"] {
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
    async fn start(store: impl Store + outlast::Inspect + Clone) -> Running {
        let builder = Engine::builder(store.clone())
            .machine(Clerk)
            .machine(Ledger)
            .workflow(Errand)
            .workflow(Crowd)
            .workflow(Stuck);
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
        let target = Target::Id(InstanceId(id.parse().unwrap()));
        let begun = std::time::Instant::now();
        loop {
            let it = self.get(target.clone()).await.unwrap().unwrap();
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
        self.engine.shutdown().await;
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

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
pub(crate) enum Task {
    Answer {
        number: u64,
    },
    Fail,
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

impl Machine for Clerk {
    const NAME: &'static str = "clerk";
    type State = Task;
    type Output = u64;

    async fn step(&self, task: Task, cx: &Context) -> StepResult<Self> {
        Ok(match task {
            Task::Answer { number } => Outcome::done(number),
            Task::Fail => Outcome::fail("out of stock"),
            Task::Park { number } => wait_for(["paid"])
                .timeout(Duration::from_secs(3600))
                .then(Task::Answer { number }),
            Task::Doze => {
                outlast::sleep(Duration::from_secs(3600)).then(Task::Answer { number: 1 })
            }
            Task::FanOut => {
                let one = New::<Clerk>(Task::Answer { number: 1 });
                fan_out([one, New(Task::Fail), New(Task::Park { number: 2 })]).then(Task::Joined)
            }
            Task::Joined => Outcome::done(0),
            Task::Careful => wait_for(["paid"]).then(Task::Kept),
            Task::Run => {
                cx.cancelled().await;
                Outcome::requeue(Task::Run)
            }
            Task::Kept => Outcome::done(1),
            Task::Undone => {
                Outcome::cancelled(format!("{}, undone", cx.cancel_reason().unwrap_or("?")))
            }
            Task::Crew { joins } => joins.fan_out().then(Task::Joined),
            Task::Clan => {
                let crew = || Task::Crew {
                    joins: Joins::Window,
                };
                fan_out([New::<Clerk>(crew()), New(crew())]).then(Task::Joined)
            }
        })
    }

    async fn on_cancel(&self, task: Task, cx: &Context) -> StepResult<Self> {
        Ok(match task {
            Task::Kept => wait_for(["undo"]).then(Task::Undone),
            Task::Answer { .. }
            | Task::Fail
            | Task::Park { .. }
            | Task::Doze
            | Task::FanOut
            | Task::Joined
            | Task::Careful
            | Task::Run
            | Task::Undone
            | Task::Crew { .. }
            | Task::Clan => Outcome::cancelled(cx.cancel_reason().unwrap_or("?")),
        })
    }
}

impl Joins {
    fn fan_out(&self) -> FanOut {
        let park = || New::<Clerk>(Task::Park { number: 2 });
        let done = || New::<Clerk>(Task::Answer { number: 1 });
        let failed = || New::<Clerk>(Task::Fail);
        match self {
            Joins::Window => fan_out([park(), park(), park()])
                .window(2)
                .on_parent_close(ClosePolicy::RequestCancel),
            Joins::Quorum => fan_out([done(), failed(), park(), park()])
                .quorum(2)
                .deadline(Duration::from_secs(3600)),
            Joins::FailFast => fan_out([park(), failed()]).fail_fast().terminate_rest(),
        }
    }
}

/// Books at the second attempt, and waits for `paid`. It records its states.
pub(crate) struct Ledger;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
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
        Ok(match booking {
            Booking::Book { .. } if cx.attempt() == 0 => {
                Outcome::retry(Duration::ZERO, "the book is taken")
            }
            Booking::Book { number } => {
                let booked = true;
                wait_for(["paid"]).then(Booking::Balance { number, booked })
            }
            Booking::Balance { number, .. } => Outcome::done(number),
        })
    }
}

/// Gets a number from a clerk, then waits for `paid` and another clerk together. It continues as
/// new as often as its input says.
pub(crate) struct Errand;

#[derive(Serialize, Deserialize)]
pub(crate) struct Paid {
    amount: u64,
}

impl Signal for Paid {
    const NAME: &'static str = "paid";
}

impl Workflow for Errand {
    const NAME: &'static str = "errand";
    type Input = u64;
    type Output = u64;

    async fn run(&self, flow: Flow, again: u64) -> FlowResult<u64> {
        let number = flow.step("think", async || Ok::<_, String>(7)).await?;
        let answer = flow.machine(New::<Clerk>(Task::Answer { number })).await?;
        if let Err(failed) = flow.machine(New::<Clerk>(Task::Fail)).await {
            let noted = flow.step("note", async move || Ok::<_, String>(failed.to_string()));
            noted.await?;
        }
        let park = flow.machine(New::<Clerk>(Task::Park { number: 2 }));
        let park = park.on_parent_close(ClosePolicy::RequestCancel);
        let hour = Duration::from_secs(3600);
        let paid = flow.all((flow.signal::<Paid>(), park)).timeout(hour);
        let Some((paid, _)) = paid.await? else {
            return Err(flow.fail("never paid"));
        };
        match again {
            0 => Ok(answer + paid.amount),
            _ => flow.continue_as_new(again - 1),
        }
    }
}

/// Starts three clerks that wait, two at a time.
pub(crate) struct Crowd;

impl Workflow for Crowd {
    const NAME: &'static str = "crowd";
    type Input = ();
    type Output = usize;

    async fn run(&self, flow: Flow, (): ()) -> FlowResult<usize> {
        let clerk = || flow.machine(New::<Clerk>(Task::Park { number: 2 }));
        let clerks = flow.all(vec![clerk(), clerk(), clerk()]).window(2).await?;
        Ok(clerks.len())
    }
}

/// Awaits a future that is not a call of its flow, so it is blocked.
pub(crate) struct Stuck;

impl Workflow for Stuck {
    const NAME: &'static str = "stuck";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: Flow, (): ()) -> FlowResult<()> {
        flow.step("begin", async || Ok::<_, String>(())).await?;
        std::future::pending().await
    }
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
