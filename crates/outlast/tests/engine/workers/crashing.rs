//! Workers that die: real processes that are killed or stopped from outside.
//!
//! A worker here is this program, started again with only the test [`a_worker`]. It reports on its
//! standard output.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support;
use crate::support::through::Through;
use crate::support::{LONG, insert};
use outlast::engine::EngineBuilder;
use outlast::prelude::*;
use outlast::store::{Answer, Count, Filter, Inspect, Store};
use outlast::{Client, Failure, Handle, Note, Roles, Sqlite, Status};
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};

/// Short, so that tests are fast, and long enough for a heartbeat on a busy machine.
const LEASE: Duration = Duration::from_secs(1);

/// How many steps a worker runs at a time. `OUTLAST_TEST_SLOTS` overrides it.
const SLOTS: usize = 4;
const MANY_SLOTS: usize = 100;

/// Makes a test on an SQLite file and on PostgreSQL from every function named. Each function takes
/// the store and the place where another process finds it.
macro_rules! on_both_databases {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    let folder = tempfile::tempdir().unwrap();
                    let file = folder.path().join("outlast.db");
                    let store = outlast::Sqlite::open(&file).unwrap();
                    super::$name(store.clone(), &format!("sqlite {}", file.display())).await;
                    outlast::store::Store::close(&store).await;
                }
            )+
        }

        mod postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    crate::support::on_postgres(async |store| {
                        let place = format!("postgres {}", store.schema());
                        super::$name(store, &place).await;
                    })
                    .await;
                }
            )+
        }
    };
}

on_both_databases!(
    the_step_of_a_killed_worker_runs_again_as_a_new_attempt_without_on_failure,
    a_step_that_was_killed_between_two_effects_runs_again_from_its_start,
    every_instance_of_a_killed_worker_runs_again,
    the_late_outcome_of_a_worker_that_was_declared_dead_is_dropped,
    a_step_that_takes_its_worker_down_too_often_fails_its_instance,
    heartbeats_keep_the_claim_of_a_step_that_runs_for_several_leases,
    after_two_kills_of_a_busy_worker_all_instances_run_together,
    a_step_that_kills_its_worker_fails_and_its_neighbours_do_not,
);

/// A machine whose steps depend on the process: they kill the worker, and end in the test.
#[derive(Clone, Default)]
struct Victim {
    dies: bool,
    steps: Arc<AtomicU32>,
    handled: Arc<AtomicU32>,
}

#[steps]
enum Fate {
    /// Never ends in the worker.
    Linger,
    /// Runs in the worker without an await until its claim is lost, then still returns an outcome.
    Haunt,
    /// Kills the worker.
    Abort,
    /// Writes to the file, awaits, and writes again. In the worker the await never ends.
    Write(PathBuf),
    /// Takes several leases.
    Long,
    /// Takes this long, in the worker too.
    Steady(Duration),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Ended {
    by: String,
    attempt: u32,
    crashes: u32,
    handled: u32,
}

impl Machine for Victim {
    const NAME: &'static str = "victim";
    type State = Fate;
    type Output = Ended;

    async fn step(&self, state: Fate, cx: &Context) -> StepResult<Self> {
        self.steps.fetch_add(1, Ordering::SeqCst);
        if self.dies {
            say(&format!("running {}", cx.id()));
            match state {
                Fate::Linger | Fate::Long => std::future::pending().await,
                Fate::Haunt => {
                    // A step that awaits would be dropped there.
                    tokio::task::block_in_place(|| {
                        while !cx.is_cancelled() {
                            std::thread::sleep(Duration::from_millis(5));
                        }
                    });
                    say("cancelled");
                }
                Fate::Write(file) => {
                    write(&file, "first");
                    say("written");
                    std::future::pending().await
                }
                Fate::Abort => std::process::abort(),
                Fate::Steady(time) => tokio::time::sleep(time).await,
            }
        } else if let Fate::Long = state {
            tokio::time::sleep(LEASE * 3).await;
        } else if let Fate::Steady(time) = state {
            tokio::time::sleep(time).await;
        } else if let Fate::Write(file) = state {
            write(&file, "first");
            tokio::task::yield_now().await;
            write(&file, "second");
        }
        done(Ended {
            by: if self.dies { "worker" } else { "test" }.into(),
            attempt: cx.attempt(),
            crashes: cx.crashes(),
            handled: self.handled.load(Ordering::SeqCst),
        })
    }

    async fn on_failure(&self, _: Fate, failure: Failure, _: &Context) -> StepResult<Self> {
        self.handled.fetch_add(1, Ordering::SeqCst);
        fail(failure)
    }
}

fn builder(store: impl Store + Inspect, victim: &Victim) -> EngineBuilder {
    let builder = Engine::builder(store).register(victim.clone());
    let builder = builder.queue("default", 4).lease(LEASE);
    builder.poll_interval(Duration::from_millis(50))
}

/// An effect of a step that outlives its process.
fn write(file: &Path, line: &str) {
    let file = OpenOptions::new().create(true).append(true).open(file);
    writeln!(file.unwrap(), "{line}").unwrap();
}

/// Reports something to the test, on a line of its own.
fn say(message: &str) {
    let mut out = std::io::stdout().lock();
    // The mark tells the line from those of the test runner.
    writeln!(out, "\n> {message}").unwrap();
    out.flush().unwrap();
}

/// The worker that [`Worker::start`] runs in a process of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the other tests start it as a process of its own"]
async fn a_worker() {
    let place = std::env::var("OUTLAST_TEST_WORKER").expect("a test starts it");
    let (kind, place) = place.split_once(' ').unwrap();
    match kind {
        "sqlite" => work(Sqlite::open(Path::new(place)).unwrap()).await,
        _ => work(support::postgres(place).await).await,
    }
}

async fn work(store: impl Store + Inspect) {
    let store = Through::new(store).observing(|commits, committed| {
        for (commit, answer) in commits.iter().zip(&committed.answers) {
            let answer = match answer {
                Answer::Committed { .. } => "committed",
                Answer::Cancel(_) => "cancel",
                Answer::Lost => "lost",
                Answer::Rejected(_) => "rejected",
            };
            say(&format!("{answer} {}", commit.claim.id));
        }
    });
    let victim = Victim {
        dies: true,
        ..Victim::default()
    };
    let engine = builder(store, &victim).roles(Roles::WORKER);
    let slots = std::env::var("OUTLAST_TEST_SLOTS").unwrap();
    let engine = engine.queue("default", slots.parse().unwrap());
    let _engine = engine.start().await.unwrap();
    say("started");
    std::future::pending::<()>().await;
}

/// The process of a worker. It is killed when this is dropped.
struct Worker {
    process: Child,
    messages: mpsc::Receiver<String>,
}

impl Worker {
    /// Starts a worker and waits until it is ready.
    fn start(place: &str) -> Worker {
        let worker = Worker::spawn(place);
        worker.says("started");
        worker
    }

    fn spawn(place: &str) -> Worker {
        Worker::spawn_with(place, SLOTS)
    }

    fn spawn_with(place: &str, slots: usize) -> Worker {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([
            "--exact",
            "workers::crashing::a_worker",
            "--ignored",
            "--nocapture",
        ]);
        command.env("OUTLAST_TEST_WORKER", place);
        command.env("OUTLAST_TEST_SLOTS", slots.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let (sender, messages) = mpsc::sync_channel(1_000);
        std::thread::spawn(move || {
            let lines = lines.map_while(Result::ok);
            for message in lines.filter_map(|line| line.strip_prefix("> ").map(str::to_owned)) {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Worker { process, messages }
    }

    /// Waits for this message. Earlier messages are skipped.
    fn says(&self, expected: &str) {
        eprintln!("waiting for {expected:?}");
        while self.next_message() != expected {}
    }

    fn next_message(&self) -> String {
        let message = self.messages.recv_timeout(LONG);
        message.expect("the worker reports something")
    }

    /// `SIGKILL`, as when the machine loses its power.
    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Waits until the worker has died by itself.
    fn dies(&mut self) {
        let status = self.process.wait().unwrap();
        assert!(!status.success());
    }

    fn signal(&self, signal: &str) {
        let pid = self.process.id().to_string();
        let kill = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(kill.success());
    }
}

impl Worker {
    /// `SIGSTOP`, at a moment when the worker does not lock the file of the database.
    async fn freeze(&self, client: &Client) {
        const PATIENCE: Duration = Duration::from_secs(1);
        let admin = client.admin();
        loop {
            self.signal("-STOP");
            let write = admin.resume("nobody's", Note::by("the test"));
            if tokio::time::timeout(PATIENCE, write).await.is_ok() {
                return;
            }
            self.signal("-CONT");
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn running(victim: &Handle<Victim>) -> String {
    format!("running {}", victim.id())
}

async fn the_step_of_a_killed_worker_runs_again_as_a_new_attempt_without_on_failure<S>(
    store: S,
    place: &str,
) where
    S: Store + Inspect + Clone,
{
    let mut worker = Worker::start(place);
    let client = Client::new(store.clone());
    let handle = insert(&client, Victim::with(Fate::Linger)).await;
    worker.says(&running(&handle));
    worker.kill();
    // Its lease has not expired, so the claim is still held.
    let held = handle.instance().await.unwrap();
    assert_eq!((held.status, held.attempt), (Status::Executing, 0));

    let engine = builder(store, &Victim::default()).start().await.unwrap();
    let ended = handle.output().timeout(LONG).await.unwrap();

    let expected = Ended {
        by: "test".into(),
        attempt: 1,
        crashes: 1,
        handled: 0,
    };
    assert_eq!(ended, expected);
    // The dead worker is no longer listed.
    assert_eq!(engine.client().admin().workers().await.unwrap().len(), 1);
    engine.shutdown().await.unwrap();
}

/// Section 1 of docs/specification.md: the unit of a repetition is the whole step. What the killed
/// process had done remains, and the next worker does it again.
async fn a_step_that_was_killed_between_two_effects_runs_again_from_its_start<S>(
    store: S,
    place: &str,
) where
    S: Store + Inspect + Clone,
{
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("effects");
    let mut worker = Worker::start(place);
    let client = Client::new(store.clone());
    let handle = insert(&client, Victim::with(Fate::Write(file.clone()))).await;
    worker.says("written");
    worker.kill();
    assert_eq!(fs::read_to_string(&file).unwrap(), "first\n");

    let engine = builder(store, &Victim::default()).start().await.unwrap();
    let ended = handle.output().timeout(LONG).await.unwrap();

    assert_eq!((ended.attempt, ended.crashes), (1, 1));
    let effects = fs::read_to_string(&file).unwrap();
    assert_eq!(effects, "first\nfirst\nsecond\n");
    engine.shutdown().await.unwrap();
}

/// Four instances run, some are claimed ahead, and the others are in the queue.
async fn every_instance_of_a_killed_worker_runs_again<S>(store: S, place: &str)
where
    S: Store + Inspect + Clone,
{
    let mut worker = Worker::start(place);
    let client = Client::new(store.clone());
    let news = (0..10).map(|_| Victim::with(Fate::Linger));
    let handles = client.start_many(news).await.unwrap();
    let ran: BTreeSet<String> = (0..4).map(|_| worker.next_message()).collect();
    worker.kill();

    let victim = Victim::default();
    let engine = builder(store, &victim).start().await.unwrap();
    for handle in handles {
        let ended = handle.output().timeout(LONG).await.unwrap();
        assert_eq!((ended.by.as_str(), ended.handled), ("test", 0));
        if ran.contains(&running(&handle)) {
            assert_eq!((ended.attempt, ended.crashes), (1, 1), "{handle:?} ran");
        }
    }
    assert_eq!(ran.len(), 4, "{ran:?}");
    assert_eq!(victim.steps.load(Ordering::SeqCst), 10);
    engine.shutdown().await.unwrap();
}

async fn the_late_outcome_of_a_worker_that_was_declared_dead_is_dropped<S>(store: S, place: &str)
where
    S: Store + Inspect + Clone,
{
    let zombie = Worker::start(place);
    let engine = builder(store.clone(), &Victim::default());
    let client = Client::new(store);
    let handle = insert(&client, Victim::with(Fate::Haunt)).await;
    zombie.says(&running(&handle));
    zombie.freeze(&client).await;
    let engine = engine.start().await.unwrap();
    let ended = handle.output().timeout(LONG).await.unwrap();
    assert_eq!((ended.by.as_str(), ended.attempt), ("test", 1));
    let before = handle.instance().await.unwrap();

    zombie.signal("-CONT");
    // Its heartbeat finds that it was declared dead. The step is cancelled, its outcome dropped.
    zombie.says("cancelled");
    zombie.says(&format!("lost {}", handle.id()));

    let after = handle.instance().await.unwrap();
    assert_eq!(after, before);
    // The worker has registered again, and runs steps.
    assert_eq!(engine.client().admin().workers().await.unwrap().len(), 2);
    engine.shutdown().await.unwrap();
    let next = insert(&client, Victim::with(Fate::Linger)).await;
    zombie.says(&running(&next));
}

async fn a_step_that_takes_its_worker_down_too_often_fails_its_instance<S>(store: S, place: &str)
where
    S: Store + Inspect + Clone,
{
    let maintenance = builder(store, &Victim::default());
    let maintenance = maintenance.roles(Roles::MAINTENANCE).crashes_max(1);
    let maintenance = maintenance.start().await.unwrap();
    let handle = insert(maintenance.client(), Victim::with(Fate::Abort)).await;
    for _ in 0..2 {
        // The worker may die before it reports that it is ready.
        let mut worker = Worker::spawn(place);
        worker.says(&running(&handle));
        worker.dies();
    }

    let failed = handle.ended().timeout(LONG).await.unwrap();

    assert_eq!(failed.status, Status::Failed);
    let reason = failed.last_error.unwrap();
    assert!(reason.contains("took its worker down 2 times"), "{reason}");
    maintenance.shutdown().await.unwrap();
}

async fn heartbeats_keep_the_claim_of_a_step_that_runs_for_several_leases<S>(store: S, _place: &str)
where
    S: Store + Inspect + Clone,
{
    let victim = Victim::default();
    let one = builder(store.clone(), &victim).start().await.unwrap();
    let two = builder(store, &victim).start().await.unwrap();
    let handle = insert(one.client(), Victim::with(Fate::Long)).await;

    let handle = two.handle(&handle).await.unwrap();
    let ended = handle.output().timeout(LONG).await.unwrap();

    assert_eq!((ended.attempt, ended.crashes), (0, 0));
    assert_eq!(victim.steps.load(Ordering::SeqCst), 1);
    let count = two.client().count(Filter::default()).await.unwrap();
    assert_eq!(count, Count::Exactly(1));
    one.shutdown().await.unwrap();
    two.shutdown().await.unwrap();
}

/// The bound is three times the undisturbed time, with the wait for the lease.
async fn after_two_kills_of_a_busy_worker_all_instances_run_together<S>(store: S, place: &str)
where
    S: Store + Inspect + Clone,
{
    const TIME: Duration = Duration::from_secs(3);
    let maintenance = builder(store.clone(), &Victim::default());
    let maintenance = maintenance.roles(Roles::MAINTENANCE).start().await.unwrap();
    let news = (0..MANY_SLOTS).map(|_| Victim::with(Fate::Steady(TIME)));
    let handles = maintenance.client().start_many(news).await.unwrap();
    for _ in 0..2 {
        let mut worker = Worker::spawn_with(place, MANY_SLOTS);
        for _ in 0..MANY_SLOTS {
            while !worker.next_message().starts_with("running") {}
        }
        worker.kill();
    }
    let killed = std::time::Instant::now();
    let engine = builder(store, &Victim::default()).queue("default", MANY_SLOTS);
    let engine = engine.start().await.unwrap();
    for handle in handles {
        let ended = handle.output().timeout(LONG).await.unwrap();
        assert_eq!((ended.by.as_str(), ended.crashes), ("test", 2));
    }
    let took = killed.elapsed();
    eprintln!("done {took:?} after the second kill");
    assert!(took < TIME * 3, "took {took:?}");
    engine.shutdown().await.unwrap();
    maintenance.shutdown().await.unwrap();
}

/// The test restarts the worker until every instance has ended.
async fn a_step_that_kills_its_worker_fails_and_its_neighbours_do_not<S>(store: S, place: &str)
where
    S: Store + Inspect + Clone,
{
    let maintenance = builder(store, &Victim::default());
    let maintenance = maintenance.roles(Roles::MAINTENANCE).crashes_max(1);
    let maintenance = maintenance.start().await.unwrap();
    let poison = insert(maintenance.client(), Victim::with(Fate::Abort)).await;
    let slow = Fate::Steady as fn(Duration) -> Fate;
    let news = (0..3).map(|_| Victim::with(slow(Duration::from_millis(500))));
    let innocent = maintenance.client().start_many(news).await.unwrap();
    let is_over = async || {
        let filter = Filter {
            statuses: vec![Status::Runnable, Status::Executing],
            ..Filter::default()
        };
        maintenance.client().count(filter).await.unwrap() == Count::Exactly(0)
    };
    let mut deaths = 0;
    let mut worker = Worker::spawn(place);
    while !is_over().await {
        if worker.process.try_wait().unwrap().is_some() {
            deaths += 1;
            assert!(deaths < 30, "the poison has not failed yet");
            worker = Worker::spawn(place);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let failed = poison.ended().timeout(LONG).await.unwrap();
    assert_eq!(failed.status, Status::Failed);
    for handle in innocent {
        let ended = handle.ended().timeout(LONG).await.unwrap();
        assert_eq!(ended.status, Status::Done, "{:?}", ended.last_error);
    }
    eprintln!("failed after {deaths} deaths");
    assert!(deaths >= 2);
    maintenance.shutdown().await.unwrap();
}
