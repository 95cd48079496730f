//! Databases of their own for tests, and runs of the program on them.

use outlast::prelude::*;
use outlast::{Postgres, Sqlite, Store};
use outlast_testbed::shared::{drop_schema, unique_schema, url};
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Longer than anything here takes.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// Makes a test on each database of every function named: `async fn a_sentence(site: &Site)`.
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

/// A database that is migrated, and the store to look at it with.
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

    /// Removes what a test leaves on the server.
    pub(crate) async fn clear(self) {
        if self.is_postgres {
            drop_schema(&self.schema).await;
        }
    }

    /// The program with these arguments, on this database.
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

    /// The same with something to read.
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

    /// An engine with the clerk, until it is shut down.
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

    /// What to say to `demo` so that it runs here.
    pub(crate) fn database(&self) -> &str {
        &self.database
    }
}

/// The program without any database, and without what the person who runs the tests has set.
pub(crate) fn bare() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlast"));
    for name in ["OUTLAST_DATABASE", "OUTLAST_SCHEMA", "OUTLAST_TOKENS"] {
        command.env_remove(name);
    }
    command.env("USER", "ada");
    command
}

/// An engine in the test's own process.
pub(crate) struct Running {
    engine: Engine,
    store: Box<dyn Store>,
}

impl Running {
    async fn start(store: impl Store + outlast::Inspect + Clone) -> Running {
        let builder = Engine::builder(store.clone()).machine(Clerk);
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

/// Does what it is told.
pub(crate) struct Clerk;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
pub(crate) enum Task {
    Answer { number: u64 },
    Fail,
    Park { number: u64 },
    FanOut,
    Joined,
}

impl Machine for Clerk {
    const NAME: &'static str = "clerk";
    type State = Task;
    type Output = u64;

    async fn step(&self, task: Task, _cx: &Context) -> StepResult<Self> {
        Ok(match task {
            Task::Answer { number } => Outcome::done(number),
            Task::Fail => Outcome::stop("out of stock"),
            Task::Park { number } => wait_for(["paid"])
                .timeout(Duration::from_secs(3600))
                .then(Task::Answer { number }),
            Task::FanOut => {
                let one = New::<Clerk>(Task::Answer { number: 1 });
                fan_out([one, New(Task::Fail), New(Task::Park { number: 2 })]).then(Task::Joined)
            }
            Task::Joined => Outcome::done(0),
        })
    }
}

/// What became of a run.
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

    /// It must have ended with 0.
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

    /// What was printed, without the line's end.
    pub(crate) fn line(&self) -> String {
        self.out().trim_end().to_owned()
    }

    /// One JSON document per line.
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
