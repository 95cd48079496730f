//! Workers that die: real processes, killed and stopped from outside.
//!
//! A worker here is this very program, started again with only [`a_worker`] to run. It says on its standard
//! output what happens to it.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support;
use crate::support::through::Through;
use crate::support::{LONG, insert};
use outlast::prelude::*;
use outlast::{Count, EngineBuilder, Filter};
use outlast_core::{Answer, Inspect, Store};
use outlast_sqlite::Sqlite;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};

/// Short, so that tests need not wait long; long enough for a heartbeat on a busy machine.
const LEASE: Duration = Duration::from_secs(1);

/// How many steps a worker runs at a time. `OUTLAST_TEST_SLOTS` overrides it.
const SLOTS: usize = 4;
const MANY_SLOTS: usize = 100;

/// Makes a test on an SQLite file and on PostgreSQL of every function named. Each takes the store and how
/// another process finds it.
macro_rules! on_both_databases {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    let folder = tempfile::tempdir().unwrap();
                    let file = folder.path().join("outlast.db");
                    let store = outlast_sqlite::Sqlite::open(&file).unwrap();
                    super::$name(store.clone(), &format!("sqlite {}", file.display())).await;
                    outlast_core::Store::close(&store).await;
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
    the_step_of_a_killed_worker_runs_again_with_another_attempt_and_without_handle,
    everything_a_killed_worker_held_runs_again,
    the_late_outcome_of_a_worker_that_was_declared_dead_is_dropped,
    a_step_that_takes_its_worker_down_too_often_fails_its_instance,
    heartbeats_keep_a_step_alive_that_runs_for_several_leases,
    after_two_kills_of_a_busy_worker_everything_runs_at_once,
    a_step_that_kills_its_worker_is_found_among_its_neighbours,
);

/// What the steps do depends on the process: the worker dies of them, the test ends them.
#[derive(Clone, Default)]
struct Victim {
    dies: bool,
    steps: Arc<AtomicU32>,
    handled: Arc<AtomicU32>,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
enum Fate {
    /// Runs for ever in the worker.
    Linger,
    /// Runs in the worker until its claim is known to be lost, without awaiting anything, then returns all the same.
    Haunt,
    /// Takes the worker down.
    Abort,
    /// Takes several leases.
    Long,
    /// Takes a while, in the worker too.
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
                Fate::Abort => std::process::abort(),
                Fate::Steady(time) => tokio::time::sleep(time).await,
            }
        } else if let Fate::Long = state {
            tokio::time::sleep(LEASE * 3).await;
        } else if let Fate::Steady(time) = state {
            tokio::time::sleep(time).await;
        }
        Ok(Outcome::done(Ended {
            by: if self.dies { "worker" } else { "test" }.into(),
            attempt: cx.attempt(),
            crashes: cx.crashes(),
            handled: self.handled.load(Ordering::SeqCst),
        }))
    }

    async fn on_failure(&self, _: Fate, failure: Failure, _: &Context) -> StepResult<Self> {
        self.handled.fetch_add(1, Ordering::SeqCst);
        Ok(Outcome::fail(failure))
    }
}

fn builder(store: impl Store + Inspect, victim: &Victim) -> EngineBuilder {
    let builder = Engine::builder(store).machine(victim.clone());
    let builder = builder.queue("default", 4).lease(LEASE);
    builder.poll_interval(Duration::from_millis(50))
}

/// Says it to the test, on a line of its own.
fn say(word: &str) {
    let mut out = std::io::stdout().lock();
    // Without the mark it would be one more line of the test runner.
    writeln!(out, "\n> {word}").unwrap();
    out.flush().unwrap();
}

/// The worker: what [`Worker::start`] runs in a process of its own.
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
    let store = Through::new(store).overhearing(|commits, committed| {
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

/// A process that works. Killed when it is dropped.
struct Worker {
    process: Child,
    words: mpsc::Receiver<String>,
}

impl Worker {
    /// One that is ready for work.
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
        let (sender, words) = mpsc::sync_channel(1_000);
        std::thread::spawn(move || {
            let words = lines.map_while(Result::ok);
            for word in words.filter_map(|line| line.strip_prefix("> ").map(str::to_owned)) {
                if sender.send(word).is_err() {
                    return;
                }
            }
        });
        Worker { process, words }
    }

    /// Waits for this word; what it says before is passed over.
    fn says(&self, expected: &str) {
        eprintln!("waiting for {expected:?}");
        while self.next_word() != expected {}
    }

    fn next_word(&self) -> String {
        let word = self.words.recv_timeout(LONG);
        word.expect("the worker says something")
    }

    /// `SIGKILL`, as when the machine loses its power.
    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Waits until it has died of itself.
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
    /// `SIGSTOP`, at a moment when it does not hold the file that everybody writes to.
    async fn freeze(&self, client: &Client) {
        const PATIENCE: Duration = Duration::from_secs(1);
        loop {
            self.signal("-STOP");
            let write = client.resume("nobody's", Note::by("the test"));
            if tokio::time::timeout(PATIENCE, write).await.is_ok() {
                return;
            }
            self.signal("-CONT");
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn running(id: Id<Victim>) -> String {
    format!("running {id}")
}

async fn the_step_of_a_killed_worker_runs_again_with_another_attempt_and_without_handle<S>(
    store: S,
    place: &str,
) where
    S: Store + Inspect + Clone,
{
    let mut worker = Worker::start(place);
    let client = Client::new(store.clone());
    let id = insert(&client, New::<Victim>(Fate::Linger)).await;
    worker.says(&running(id));
    worker.kill();
    // Nobody knows yet: it waits for its lease.
    let held = client.get(id).await.unwrap().unwrap();
    assert_eq!((held.status, held.attempt), (Status::Executing, 0));

    let engine = builder(store, &Victim::default()).start().await.unwrap();
    let ended = engine.wait(id, LONG).await.unwrap();

    let expected = Ended {
        by: "test".into(),
        attempt: 1,
        crashes: 1,
        handled: 0,
    };
    assert_eq!(ended, expected);
    // The dead one is gone from the list.
    assert_eq!(engine.workers().await.unwrap().len(), 1);
    engine.shutdown().await;
}

/// With four running, some claimed ahead and the others in the queue, nothing is lost.
async fn everything_a_killed_worker_held_runs_again<S>(store: S, place: &str)
where
    S: Store + Inspect + Clone,
{
    let mut worker = Worker::start(place);
    let client = Client::new(store.clone());
    let news = (0..10).map(|_| New::<Victim>(Fate::Linger));
    let inserted = client.insert_many(news).await.unwrap();
    let ids: Vec<_> = inserted.iter().map(|new| new.id().unwrap()).collect();
    let ran: BTreeSet<String> = (0..4).map(|_| worker.next_word()).collect();
    worker.kill();

    let victim = Victim::default();
    let engine = builder(store, &victim).start().await.unwrap();
    for id in ids {
        let ended = engine.wait(id, LONG).await.unwrap();
        assert_eq!((ended.by.as_str(), ended.handled), ("test", 0));
        if ran.contains(&running(id)) {
            assert_eq!((ended.attempt, ended.crashes), (1, 1), "{id} ran");
        }
    }
    assert_eq!(ran.len(), 4, "{ran:?}");
    assert_eq!(victim.steps.load(Ordering::SeqCst), 10);
    engine.shutdown().await;
}

async fn the_late_outcome_of_a_worker_that_was_declared_dead_is_dropped<S>(store: S, place: &str)
where
    S: Store + Inspect + Clone,
{
    let zombie = Worker::start(place);
    let engine = builder(store.clone(), &Victim::default());
    let client = Client::new(store);
    let id = insert(&client, New::<Victim>(Fate::Haunt)).await;
    zombie.says(&running(id));
    zombie.freeze(&client).await;
    let engine = engine.start().await.unwrap();
    let ended = engine.wait(id, LONG).await.unwrap();
    assert_eq!((ended.by.as_str(), ended.attempt), ("test", 1));
    let before = engine.get(id).await.unwrap().unwrap();

    zombie.signal("-CONT");
    // Its heartbeat hears that it was declared dead, its step is told, and its outcome is not written.
    zombie.says("cancelled");
    zombie.says(&format!("lost {id}"));

    let after = engine.get(id).await.unwrap().unwrap();
    assert_eq!(after, before);
    // It has registered anew, and works.
    assert_eq!(engine.workers().await.unwrap().len(), 2);
    engine.shutdown().await;
    let next = insert(&client, New::<Victim>(Fate::Linger)).await;
    zombie.says(&running(next));
}

async fn a_step_that_takes_its_worker_down_too_often_fails_its_instance<S>(store: S, place: &str)
where
    S: Store + Inspect + Clone,
{
    let house = builder(store, &Victim::default());
    let house = house.roles(Roles::MAINTENANCE).crashes_max(1);
    let house = house.start().await.unwrap();
    let id = insert(&house, New::<Victim>(Fate::Abort)).await;
    for _ in 0..2 {
        // It may be dead before it says that it is ready.
        let mut worker = Worker::spawn(place);
        worker.says(&running(id));
        worker.dies();
    }

    let failed = house.wait_ended(id, LONG).await.unwrap();

    assert_eq!(failed.status, Status::Failed);
    let reason = failed.last_error.unwrap();
    assert!(reason.contains("took its worker down 2 times"), "{reason}");
    house.shutdown().await;
}

async fn heartbeats_keep_a_step_alive_that_runs_for_several_leases<S>(store: S, _place: &str)
where
    S: Store + Inspect + Clone,
{
    let victim = Victim::default();
    let one = builder(store.clone(), &victim).start().await.unwrap();
    let two = builder(store, &victim).start().await.unwrap();
    let id = insert(&one, New::<Victim>(Fate::Long)).await;

    let ended = two.wait(id, LONG).await.unwrap();

    assert_eq!((ended.attempt, ended.crashes), (0, 0));
    assert_eq!(victim.steps.load(Ordering::SeqCst), 1);
    let count = two.count(Filter::default()).await.unwrap();
    assert_eq!(count, Count::Exactly(1));
    one.shutdown().await;
    two.shutdown().await;
}

/// The bound is three times what it takes undisturbed, the wait for the lease included.
async fn after_two_kills_of_a_busy_worker_everything_runs_at_once<S>(store: S, place: &str)
where
    S: Store + Inspect + Clone,
{
    const TIME: Duration = Duration::from_secs(3);
    let house = builder(store.clone(), &Victim::default());
    let house = house.roles(Roles::MAINTENANCE).start().await.unwrap();
    let news = (0..MANY_SLOTS).map(|_| New::<Victim>(Fate::Steady(TIME)));
    let inserted = house.insert_many(news).await.unwrap();
    let ids: Vec<_> = inserted.iter().map(|new| new.id().unwrap()).collect();
    for _ in 0..2 {
        let mut worker = Worker::spawn_with(place, MANY_SLOTS);
        for _ in 0..MANY_SLOTS {
            while !worker.next_word().starts_with("running") {}
        }
        worker.kill();
    }
    let killed = std::time::Instant::now();
    let engine = builder(store, &Victim::default()).queue("default", MANY_SLOTS);
    let engine = engine.start().await.unwrap();
    for id in ids {
        let ended = engine.wait(id, LONG).await.unwrap();
        assert_eq!((ended.by.as_str(), ended.crashes), ("test", 2));
    }
    let took = killed.elapsed();
    eprintln!("done {took:?} after the second kill");
    assert!(took < TIME * 3, "took {took:?}");
    engine.shutdown().await;
    house.shutdown().await;
}

/// Workers are started again until nothing is left to do.
async fn a_step_that_kills_its_worker_is_found_among_its_neighbours<S>(store: S, place: &str)
where
    S: Store + Inspect + Clone,
{
    let house = builder(store, &Victim::default());
    let house = house.roles(Roles::MAINTENANCE).crashes_max(1);
    let house = house.start().await.unwrap();
    let poison = insert(&house, New::<Victim>(Fate::Abort)).await;
    let slow = Fate::Steady as fn(Duration) -> Fate;
    let news = (0..3).map(|_| New::<Victim>(slow(Duration::from_millis(500))));
    let inserted = house.insert_many(news).await.unwrap();
    let innocent: Vec<_> = inserted.iter().map(|new| new.id().unwrap()).collect();
    let is_over = async || {
        let filter = Filter {
            statuses: vec![Status::Runnable, Status::Executing],
            ..Filter::default()
        };
        house.count(filter).await.unwrap() == Count::Exactly(0)
    };
    let mut deaths = 0;
    let mut worker = Worker::spawn(place);
    while !is_over().await {
        if worker.process.try_wait().unwrap().is_some() {
            deaths += 1;
            assert!(deaths < 30, "the poison is not found");
            worker = Worker::spawn(place);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let failed = house.wait_ended(poison, LONG).await.unwrap();
    assert_eq!(failed.status, Status::Failed);
    for id in innocent {
        let ended = house.wait_ended(id, LONG).await.unwrap();
        assert_eq!(ended.status, Status::Done, "{:?}", ended.last_error);
    }
    eprintln!("found after {deaths} deaths");
    assert!(deaths >= 2);
    house.shutdown().await;
}
