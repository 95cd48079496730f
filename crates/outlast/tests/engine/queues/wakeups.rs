//! Wakeups: a runnable instance starts within milliseconds, without waiting for a poll.
//!
//! Each engine here polls once a minute, so an instance that runs within a second had a hint.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support;
use crate::support::through::Through;
use crate::support::{LONG, insert, on_both_stores};
use outlast::engine::EngineBuilder;
use outlast::prelude::*;
use outlast::store::{Inspect, RetryAnswer, Store, Timestamp};
use outlast::{Client, Note, Outcome, Roles, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tokio::sync::Semaphore;

on_both_stores!(
    an_inserted_instance_runs_at_once,
    an_instance_inserted_by_another_client_runs_at_once,
    a_signal_wakes_its_target_at_once,
    the_end_of_a_child_wakes_its_parent_at_once,
    a_retry_runs_at_its_time,
    a_wait_ends_at_its_deadline,
    a_delayed_instance_runs_at_its_time,
    an_instance_inserted_for_a_moment_runs_at_that_moment,
    an_instance_due_soon_does_not_wait_behind_one_due_later,
    a_resumed_queue_gives_out_its_work_at_once,
    an_instance_retried_by_an_operator_runs_at_once,
    the_next_instance_of_a_partition_key_runs_at_once,
    a_requeued_instance_runs_at_once,
    a_slot_that_comes_free_is_used_at_once,
    without_notifications_everything_is_found_by_polling,
);

const POLL: Duration = MINUTE;
/// Much shorter than the poll interval, and long enough for a busy machine.
const AT_ONCE: Duration = Duration::from_secs(1);
/// The promised lateness of timers (docs/performance.md). It holds for the median of [`TIMERS`]
/// timers: a pause of a busy machine makes a few of them late, and a slow engine makes all late.
const LATENESS_MAX: Duration = Duration::from_millis(50);
/// How late a single timer may be on a busy machine.
const LATENESS_OF_ONE_MAX: Duration = Duration::from_millis(500);
const TIMERS: u32 = 15;

/// Returns the time of its last step, by the database's clock.
#[derive(Clone)]
struct Sleeper {
    fails: Arc<AtomicBool>,
    started: Arc<Semaphore>,
    go: Arc<Semaphore>,
}

impl Default for Sleeper {
    fn default() -> Sleeper {
        Sleeper {
            fails: Arc::default(),
            started: Arc::new(Semaphore::new(0)),
            go: Arc::new(Semaphore::new(0)),
        }
    }
}

#[steps]
enum Nap {
    /// Fails while `fails` is set.
    Now,
    Retry {
        delay: Duration,
    },
    Sleep {
        duration: Duration,
    },
    Wait,
    Parent,
    Requeue,
    /// Runs until the test lets it go on.
    Hold,
}

#[derive(Signal, Serialize, Deserialize)]
struct Go;

impl Machine for Sleeper {
    const NAME: &'static str = "sleeper";
    type State = Nap;
    type Output = Timestamp;

    async fn step(&self, state: Nap, cx: &Context) -> StepResult<Self> {
        match state {
            Nap::Now if self.fails.load(Ordering::SeqCst) => fail("as asked"),
            Nap::Now => done(cx.client().admin().now().await?),
            Nap::Retry { delay } if cx.attempt() == 0 => retry(delay, "not yet"),
            Nap::Retry { .. } => done(cx.client().admin().now().await?),
            Nap::Sleep { duration } => sleep(duration).then(Nap::Now),
            Nap::Wait => wait_for::<Go>().then(Nap::Now),
            Nap::Parent => fan_out([Sleeper::with(Nap::Wait).key("child")]).then(Nap::Now),
            Nap::Requeue => Ok(Outcome::requeue(Nap::Now)),
            Nap::Hold => {
                self.started.add_permits(1);
                self.go.acquire().await?.forget();
                done(cx.client().admin().now().await?)
            }
        }
    }
}

/// An engine whose polls find work only after half a minute or more.
fn patient(store: impl Store + Inspect, sleeper: Sleeper) -> EngineBuilder {
    Engine::builder(store)
        .register(sleeper)
        .queue("default", 10)
        .poll_interval(POLL)
}

/// Starts an engine and lets it run one instance, so that its first claims are over.
async fn at_rest(builder: EngineBuilder) -> Engine {
    let engine = builder.start().await.unwrap();
    let first = insert(engine.client(), Sleeper::with(Nap::Now)).await;
    first.output().timeout(LONG).await.unwrap();
    engine
}

/// Prints how long it took, and checks that it is less than `AT_ONCE`.
fn was_at_once(what: &str, since: Instant) {
    let took = since.elapsed();
    eprintln!("{what}: {took:?}");
    assert!(took < AT_ONCE, "{what} took {took:?}");
}

/// When the steps of several timers were due, and when they ran.
struct Lateness {
    what: &'static str,
    late: Vec<Duration>,
}

impl Lateness {
    fn of(what: &'static str) -> Lateness {
        Lateness {
            what,
            late: Vec::new(),
        }
    }

    /// Adds a timer. It must not be early, and not late by half a second.
    fn add(&mut self, due: Timestamp, ran: Timestamp) {
        let what = self.what;
        assert!(ran >= due, "{what} was {:?} early", due.since(ran));
        let late = ran.since(due);
        assert!(late < LATENESS_OF_ONE_MAX, "{what} was {late:?} late");
        self.late.push(late);
    }

    /// Prints the lateness. Checks that the median is less than `LATENESS_MAX`.
    fn check(mut self) {
        assert_eq!(self.late.len(), TIMERS as usize);
        self.late.sort();
        let (median, most) = (
            self.late[self.late.len() / 2],
            self.late[self.late.len() - 1],
        );
        let what = self.what;
        eprintln!("{what}: {median:?} late in the median, {most:?} at most");
        assert!(median < LATENESS_MAX, "{what}: {:?}", self.late);
    }
}

/// The delays of the timers of a test. They are apart, so that none waits for another.
fn delays() -> impl Iterator<Item = Duration> {
    (0..TIMERS).map(|n| Duration::from_millis(150) + n * Duration::from_millis(10))
}

async fn an_inserted_instance_runs_at_once<S: Store + Inspect + Clone>(store: S) {
    let engine = at_rest(patient(store, Sleeper::default())).await;

    let since = Instant::now();
    let handle = insert(engine.client(), Sleeper::with(Nap::Now)).await;
    handle.output().timeout(LONG).await.unwrap();

    was_at_once("insert to end", since);
    engine.shutdown().await.unwrap();
}

async fn an_instance_inserted_by_another_client_runs_at_once<S: Store + Inspect + Clone>(store: S) {
    let engine = at_rest(patient(store.clone(), Sleeper::default())).await;
    let client = Client::new(store);

    let since = Instant::now();
    let handle = insert(&client, Sleeper::with(Nap::Now)).await;
    handle.output().timeout(LONG).await.unwrap();

    was_at_once("insert of another client to end", since);
    engine.shutdown().await.unwrap();
}

async fn a_signal_wakes_its_target_at_once<S: Store + Inspect + Clone>(store: S) {
    let engine = at_rest(patient(store, Sleeper::default())).await;
    let handle = insert(engine.client(), Sleeper::with(Nap::Wait)).await;
    handle.settled().timeout(LONG).await.unwrap();

    let since = Instant::now();
    handle.signal(Go).await.unwrap();
    handle.output().timeout(LONG).await.unwrap();

    was_at_once("signal to end", since);
    engine.shutdown().await.unwrap();
}

async fn the_end_of_a_child_wakes_its_parent_at_once<S: Store + Inspect + Clone>(store: S) {
    let engine = at_rest(patient(store, Sleeper::default())).await;
    let parent = insert(engine.client(), Sleeper::with(Nap::Parent)).await;
    parent.settled().timeout(LONG).await.unwrap();
    let child = engine.handle(Sleeper::key("child")).await.unwrap();
    let settled = child.settled().timeout(LONG).await.unwrap();
    assert_eq!(settled.status, Status::AwaitingSignal);

    let since = Instant::now();
    child.signal(Go).await.unwrap();
    parent.output().timeout(LONG).await.unwrap();

    was_at_once("signal to a child to end of its parent", since);
    engine.shutdown().await.unwrap();
}

async fn a_retry_runs_at_its_time<S: Store + Inspect + Clone>(store: S) {
    let engine = at_rest(patient(store, Sleeper::default())).await;
    let mut handles = Vec::new();
    for delay in delays() {
        let handle = insert(engine.client(), Sleeper::with(Nap::Retry { delay })).await;
        handles.push((handle, delay));
    }
    let mut lateness = Lateness::of("retry");
    for (handle, delay) in handles {
        let ran = handle.output().timeout(LONG).await.unwrap();
        let instance = handle.instance().await.unwrap();
        assert!(instance.eligible_at.since(instance.inserted_at) >= delay);
        lateness.add(instance.eligible_at, ran);
    }
    lateness.check();
    engine.shutdown().await.unwrap();
}

async fn a_wait_ends_at_its_deadline<S: Store + Inspect + Clone>(store: S) {
    let engine = at_rest(patient(store, Sleeper::default())).await;
    let mut handles = Vec::new();
    for delay in delays() {
        let duration = delay * 2;
        let handle = insert(engine.client(), Sleeper::with(Nap::Sleep { duration })).await;
        let parked = handle.settled().timeout(LONG).await.unwrap();
        handles.push((handle, parked.await_deadline.expect("the instance sleeps")));
    }
    let mut lateness = Lateness::of("deadline");
    for (handle, deadline) in handles {
        lateness.add(deadline, handle.output().timeout(LONG).await.unwrap());
    }
    lateness.check();
    engine.shutdown().await.unwrap();
}

async fn a_delayed_instance_runs_at_its_time<S: Store + Inspect + Clone>(store: S) {
    let engine = at_rest(patient(store, Sleeper::default())).await;
    let mut handles = Vec::new();
    for delay in delays() {
        let handle = insert(engine.client(), Sleeper::with(Nap::Now).delay(delay)).await;
        handles.push((handle, delay));
    }
    let mut lateness = Lateness::of("delayed insert");
    for (handle, delay) in handles {
        let ran = handle.output().timeout(LONG).await.unwrap();
        let instance = handle.instance().await.unwrap();
        assert_eq!(instance.eligible_at, instance.inserted_at + delay);
        lateness.add(instance.eligible_at, ran);
    }
    lateness.check();
    engine.shutdown().await.unwrap();
}

async fn an_instance_inserted_for_a_moment_runs_at_that_moment<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = at_rest(patient(store, Sleeper::default())).await;
    let now = engine.client().admin().now().await.unwrap();
    let mut handles = Vec::new();
    for delay in delays() {
        let moment = now + delay * 2;
        let handle = insert(engine.client(), Sleeper::with(Nap::Now).at(moment.into())).await;
        handles.push((handle, moment));
    }
    let mut lateness = Lateness::of("insert for a moment");
    for (handle, moment) in handles {
        lateness.add(moment, handle.output().timeout(LONG).await.unwrap());
    }
    lateness.check();
    engine.shutdown().await.unwrap();
}

async fn an_instance_due_soon_does_not_wait_behind_one_due_later<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let engine = at_rest(patient(store, Sleeper::default())).await;
    let late = insert(engine.client(), Sleeper::with(Nap::Now).delay(HOUR)).await;
    let asleep = insert(
        engine.client(),
        Sleeper::with(Nap::Sleep { duration: HOUR }),
    )
    .await;
    asleep.settled().timeout(LONG).await.unwrap();

    let mut handles = Vec::new();
    for soon in delays() {
        let delayed = insert(engine.client(), Sleeper::with(Nap::Now).delay(soon)).await;
        let duration = soon * 2;
        let sleeping = insert(engine.client(), Sleeper::with(Nap::Sleep { duration })).await;
        let deadline = sleeping.settled().timeout(LONG).await.unwrap();
        let deadline = deadline.await_deadline.expect("the instance sleeps");
        handles.push((delayed, sleeping, deadline));
    }
    let mut delayed_before_a_later_one = Lateness::of("delayed before a later one");
    let mut deadline_before_a_later_one = Lateness::of("deadline before a later one");
    for (delayed, sleeping, deadline) in handles {
        let ran = delayed.output().timeout(LONG).await.unwrap();
        let due = delayed.instance().await.unwrap().eligible_at;
        delayed_before_a_later_one.add(due, ran);
        let ran = sleeping.output().timeout(LONG).await.unwrap();
        deadline_before_a_later_one.add(deadline, ran);
    }
    delayed_before_a_later_one.check();
    deadline_before_a_later_one.check();
    let late = late.instance().await.unwrap();
    assert_eq!((late.status, late.revision.0), (Status::Runnable, 0));
    engine.shutdown().await.unwrap();
}

async fn a_resumed_queue_gives_out_its_work_at_once<S: Store + Inspect + Clone>(store: S) {
    let engine = at_rest(patient(store, Sleeper::default()).queue("other", 1)).await;
    let admin = engine.client().admin();
    admin.pause("default", Note::by("ada")).await.unwrap();
    let held = insert(engine.client(), Sleeper::with(Nap::Now)).await;
    // Both pickers had a hint. Only the instance of the other queue runs.
    let other = insert(engine.client(), Sleeper::with(Nap::Now).queue("other")).await;
    other.output().timeout(LONG).await.unwrap();
    let waiting = held.instance().await.unwrap();
    assert_eq!((waiting.status, waiting.revision.0), (Status::Runnable, 0));

    let since = Instant::now();
    admin.resume("default", Note::by("ada")).await.unwrap();
    held.output().timeout(LONG).await.unwrap();

    was_at_once("resume to end", since);
    engine.shutdown().await.unwrap();
}

async fn an_instance_retried_by_an_operator_runs_at_once<S: Store + Inspect + Clone>(store: S) {
    let sleeper = Sleeper::default();
    let engine = at_rest(patient(store, sleeper.clone())).await;
    sleeper.fails.store(true, Ordering::SeqCst);
    let handle = insert(engine.client(), Sleeper::with(Nap::Now)).await;
    let failed = handle.ended().timeout(LONG).await.unwrap();
    assert_eq!(failed.status, Status::Failed);
    sleeper.fails.store(false, Ordering::SeqCst);

    let since = Instant::now();
    let admin = engine.client().admin();
    let answer = admin.retry(&handle, Note::by("ada")).await.unwrap();
    assert_eq!(answer, RetryAnswer::Retried);
    handle.output().timeout(LONG).await.unwrap();

    was_at_once("operator's retry to end", since);
    engine.shutdown().await.unwrap();
}

async fn the_next_instance_of_a_partition_key_runs_at_once<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let sleeper = Sleeper::default();
    let engine = at_rest(patient(store, sleeper.clone())).await;
    let holder = insert(engine.client(), Sleeper::with(Nap::Hold).partition_key("k")).await;
    sleeper.started.acquire().await.unwrap().forget();
    let next = insert(engine.client(), Sleeper::with(Nap::Now).partition_key("k")).await;
    // An instance without the key passes it.
    let other = insert(engine.client(), Sleeper::with(Nap::Now)).await;
    other.output().timeout(LONG).await.unwrap();
    let behind = next.instance().await.unwrap();
    assert_eq!((behind.status, behind.revision.0), (Status::Runnable, 0));

    let since = Instant::now();
    sleeper.go.add_permits(1);
    holder.output().timeout(LONG).await.unwrap();
    next.output().timeout(LONG).await.unwrap();

    was_at_once("end of the holder to end of the next", since);
    engine.shutdown().await.unwrap();
}

async fn a_requeued_instance_runs_at_once<S: Store + Inspect + Clone>(store: S) {
    let engine = at_rest(patient(store, Sleeper::default())).await;

    let since = Instant::now();
    let handle = insert(engine.client(), Sleeper::with(Nap::Requeue)).await;
    handle.output().timeout(LONG).await.unwrap();

    was_at_once("insert through a requeue to end", since);
    engine.shutdown().await.unwrap();
}

async fn a_slot_that_comes_free_is_used_at_once<S: Store + Inspect + Clone>(store: S) {
    let sleeper = Sleeper::default();
    let engine = at_rest(patient(store, sleeper.clone()).queue("narrow", 1)).await;
    let hold = || Sleeper::with(Nap::Hold).queue("narrow");
    let mut held = Vec::new();
    for _ in 0..5 {
        held.push(insert(engine.client(), hold()).await);
    }

    let since = Instant::now();
    sleeper.go.add_permits(5);
    for handle in held {
        handle.output().timeout(LONG).await.unwrap();
    }

    was_at_once("five through one slot", since);
    engine.shutdown().await.unwrap();
}

async fn without_notifications_everything_is_found_by_polling<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let apart = Through::new(store.clone()).mute();
    let engine = patient(apart, Sleeper::default()).poll_interval(Duration::from_millis(50));
    let engine = engine.start().await.unwrap();
    let client = Client::new(store);

    let now = insert(&client, Sleeper::with(Nap::Now)).await;
    let parent = insert(&client, Sleeper::with(Nap::Parent)).await;
    let delayed = Sleeper::with(Nap::Now).delay(Duration::from_millis(100));
    let delayed = insert(&client, delayed).await;
    let retried = Nap::Retry {
        delay: Duration::from_millis(100),
    };
    let retried = insert(&client, Sleeper::with(retried)).await;
    let asleep = Nap::Sleep {
        duration: Duration::from_millis(100),
    };
    let asleep = insert(&client, Sleeper::with(asleep)).await;
    parent.settled().timeout(LONG).await.unwrap();
    client.signal(Sleeper::key("child"), Go).await.unwrap();

    for handle in [now, parent, delayed, retried, asleep] {
        handle.output().timeout(LONG).await.unwrap();
    }
    engine.shutdown().await.unwrap();
}

/// Nodes that share only the server. Hints go from one to another by `NOTIFY`.
mod across_nodes {
    use super::*;
    use crate::support::{on_postgres, url};
    use outlast::Postgres;
    use std::sync::mpsc;
    use tokio::task::JoinHandle;

    /// Starts an engine with connections of its own, as in another process.
    async fn node(store: &Postgres, sleeper: Sleeper, roles: Roles) -> Engine {
        let store = Through::new(another(store).await);
        let builder = patient(store, sleeper).roles(roles);
        builder.start().await.unwrap()
    }

    async fn another(store: &Postgres) -> Postgres {
        let options = Postgres::options(&url()).unwrap();
        options.schema(store.schema()).connect().await.unwrap()
    }

    /// Waits until a hint has gone from one node to the other, so that both listen.
    async fn wait_for_a_hint(web: &Engine) {
        let first = insert(web.client(), Sleeper::with(Nap::Now)).await;
        support::eventually("the worker has the hint of an insert", async || {
            web.client().wake("default");
            let first = first.instance().await.unwrap();
            first.status == Status::Done
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn inserts_and_signals_on_a_web_node_run_at_once_on_a_worker() {
        on_postgres(async |store| {
            let worker = node(&store, Sleeper::default(), Roles::WORKER).await;
            let web = node(&store, Sleeper::default(), Roles::WEB).await;
            wait_for_a_hint(&web).await;

            let since = Instant::now();
            let handle = insert(web.client(), Sleeper::with(Nap::Now)).await;
            handle.output().timeout(LONG).await.unwrap();
            was_at_once("insert on another node to end", since);

            let handle = insert(web.client(), Sleeper::with(Nap::Wait)).await;
            handle.settled().timeout(LONG).await.unwrap();
            let since = Instant::now();
            handle.signal(Go).await.unwrap();
            handle.output().timeout(LONG).await.unwrap();
            was_at_once("signal on another node to end", since);

            web.shutdown().await.unwrap();
            worker.shutdown().await.unwrap();
        })
        .await;
    }

    /// Stops the clock of the runtime, so that no timer fires.
    struct StillClock {
        go_on: mpsc::Sender<()>,
        stood_still: JoinHandle<bool>,
    }

    impl StillClock {
        /// The clock goes on by itself after `LONG`, so that a failed wait ends.
        fn stop() -> StillClock {
            let (go_on, goes_on) = mpsc::channel();
            tokio::time::pause();
            // A paused clock jumps to the next timer when all tasks are idle. A blocked thread
            // prevents that.
            let stood_still =
                tokio::task::spawn_blocking(move || goes_on.recv_timeout(LONG).is_ok());
            StillClock { go_on, stood_still }
        }

        /// Lets the clock go on. Returns whether it stood still until now.
        async fn go_on(self) -> bool {
            let _ = self.go_on.send(());
            tokio::time::resume();
            self.stood_still.await.unwrap()
        }
    }

    /// A client without a hint polls, but not while its clock stands still.
    #[tokio::test]
    async fn a_client_on_a_web_node_is_notified_of_the_end() {
        on_postgres(async |store| {
            let worker = node(&store, Sleeper::default(), Roles::WORKER).await;
            let through = Through::new(another(&store).await);
            let gets = through.gets();
            let web = patient(through, Sleeper::default()).roles(Roles::WEB);
            let web = web.start().await.unwrap();
            wait_for_a_hint(&web).await;
            let mut parked = Vec::new();
            for _ in 0..20 {
                let handle = insert(web.client(), Sleeper::with(Nap::Wait)).await;
                handle.settled().timeout(LONG).await.unwrap();
                parked.push(handle);
            }

            let clock = StillClock::stop();
            gets.forget_permits(Semaphore::MAX_PERMITS);
            let waits = parked.iter().cloned().map(|handle| {
                tokio::spawn(async move { handle.output().timeout(LONG).await.unwrap() })
            });
            let waits: Vec<_> = waits.collect();
            // Each client has read that its instance has not ended yet.
            gets.acquire_many(20).await.unwrap().forget();
            for handle in parked {
                handle.signal(Go).await.unwrap();
            }
            for wait in waits {
                wait.await.unwrap();
            }

            assert!(clock.go_on().await, "a client had no hint of the end");
            web.shutdown().await.unwrap();
            worker.shutdown().await.unwrap();
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_maintenance_node_fires_the_deadlines_of_a_worker_in_time() {
        on_postgres(async |store| {
            let worker = node(&store, Sleeper::default(), Roles::WORKER).await;
            let maintenance = node(&store, Sleeper::default(), Roles::MAINTENANCE).await;
            wait_for_a_hint(&maintenance).await;
            // The worker notifies of the deadline, the maintenance node of the wake.
            let mut deadlines = Vec::new();
            for delay in delays() {
                let duration = delay * 2;
                let handle = insert(worker.client(), Sleeper::with(Nap::Sleep { duration })).await;
                let parked = handle.settled().timeout(LONG).await.unwrap();
                deadlines.push((handle, parked.await_deadline.expect("the instance sleeps")));
            }
            let mut lateness = Lateness::of("deadline on another node");
            for (handle, deadline) in deadlines {
                lateness.add(deadline, handle.output().timeout(LONG).await.unwrap());
            }
            lateness.check();
            maintenance.shutdown().await.unwrap();
            worker.shutdown().await.unwrap();
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_retry_whose_worker_has_gone_runs_at_its_time_on_another_node() {
        on_postgres(async |store| {
            let leaving = node(&store, Sleeper::default(), Roles::WORKER).await;
            let mut handles = Vec::new();
            for delay in delays() {
                // Long enough for the other node to start.
                let delay = delay + Duration::from_millis(1500);
                let retried = Sleeper::with(Nap::Retry { delay });
                handles.push(insert(leaving.client(), retried).await);
            }
            for handle in &handles {
                support::eventually("the first attempt is over", async || {
                    handle.instance().await.unwrap().attempt == 1
                })
                .await;
            }
            leaving.shutdown().await.unwrap();
            let staying = node(&store, Sleeper::default(), Roles::WORKER).await;

            let mut lateness = Lateness::of("retry on another node");
            for handle in &handles {
                let handle = staying.handle(handle).await.unwrap();
                let ran = handle.output().timeout(LONG).await.unwrap();
                lateness.add(handle.instance().await.unwrap().eligible_at, ran);
            }
            lateness.check();
            staying.shutdown().await.unwrap();
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nodes_without_notifications_find_everything_by_polling() {
        on_postgres(async |store| {
            let silent = Postgres::options(&url()).unwrap().schema(store.schema());
            let silent = silent.without_notifications().connect().await.unwrap();
            let poll = Duration::from_millis(50);
            let worker = patient(Through::new(silent.clone()), Sleeper::default());
            let worker = worker.poll_interval(poll).start().await.unwrap();
            let web = Client::new(Through::new(silent));
            let handle = insert(&web, Sleeper::with(Nap::Wait)).await;
            handle.settled().timeout(LONG).await.unwrap();
            handle.signal(Go).await.unwrap();
            handle.output().timeout(LONG).await.unwrap();
            worker.shutdown().await.unwrap();
        })
        .await;
    }
}
