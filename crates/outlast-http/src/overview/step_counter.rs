//! Counts instances by step in the background while the dashboard is used, in slices, and caches
//! the result.
//!
//! Nothing runs without requests. It uses at most a fifth of one connection's time, whatever the
//! size of the table. A small table is counted every second, a large one as fast as this bound
//! allows.

use crate::limits::{MINUTE, WINDOW_MINUTES};
use crate::problem::{Code, Problem};
use outlast::Client;
use outlast_core::limits::STEP_COUNT_MAX;
use outlast_core::{
    InstanceId, QueueSummary, Result, RunStats, StepCount, StepCountRequest, Timestamp, Worker,
    minute_of,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How long it continues after the last request.
const IDLE: Duration = Duration::from_secs(60);
/// How often the small tables are read.
const EVERY: Duration = Duration::from_secs(1);
/// The approximate duration of one burst of slices.
const GO: Duration = Duration::from_millis(100);
/// It pauses this many times as long as it worked.
const REST: u32 = 4;
/// The shortest and the longest pause.
const REST_MIN: Duration = Duration::from_millis(20);
const REST_MAX: Duration = Duration::from_secs(30);
/// A result older than this is not returned.
const STALE: Duration = Duration::from_secs(60);
/// How long a request waits for the first result.
const PATIENCE: Duration = Duration::from_secs(5);

/// A recent view of all counts, queues and workers.
#[derive(Clone, Debug)]
pub(crate) struct OverviewSnapshot {
    taken: Instant,
    /// The database's time.
    pub(crate) now: Timestamp,
    pub(crate) queues: Vec<QueueSummary>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) stats: RunStats,
    /// The instances by step.
    pub(crate) step_counts: Arc<Vec<StepCount>>,
    /// When the count began.
    pub(crate) counted_at: Timestamp,
    /// Whether all instances were counted; false during the first count.
    pub(crate) complete: bool,
}

impl OverviewSnapshot {
    /// Returns the steps started per minute from a queue, over the current minute and the previous
    /// one.
    pub(crate) fn rate(&self, queue: &str) -> Option<f64> {
        let this_minute = minute_of(self.now);
        let recent = self
            .stats
            .delays
            .iter()
            .filter(|delays| delays.queue == queue);
        let recent = recent.filter(|delays| delays.minute.0 >= this_minute.0 - MINUTE);
        let started: u64 = recent.map(|delays| delays.count).sum();
        let seconds = 60.0 + self.now.since(this_minute).as_secs_f64();
        let known = self.stats.delays.iter().any(|delays| delays.queue == queue);
        known.then(|| (started as f64 / seconds * 600.0).round() / 10.0)
    }
}

/// Provides a recent [`OverviewSnapshot`].
#[derive(Debug)]
pub(crate) struct StepCounter {
    client: Client,
    demand: Mutex<Demand>,
    snapshots: watch::Sender<Option<Arc<OverviewSnapshot>>>,
}

#[derive(Debug)]
struct Demand {
    last: Instant,
    task: Option<JoinHandle<()>>,
}

impl StepCounter {
    pub(crate) fn new(client: Client) -> Arc<StepCounter> {
        let demand = Demand {
            last: Instant::now(),
            task: None,
        };
        Arc::new(StepCounter {
            client,
            demand: Mutex::new(demand),
            snapshots: watch::Sender::new(None),
        })
    }

    /// Returns the latest result. The first request waits until there is one.
    pub(crate) async fn snapshot(
        self: &Arc<StepCounter>,
    ) -> Result<Arc<OverviewSnapshot>, Problem> {
        self.wake();
        let mut snapshots = self.snapshots.subscribe();
        let fresh = snapshots.wait_for(|snapshot| {
            snapshot
                .as_ref()
                .is_some_and(|it| it.taken.elapsed() < STALE)
        });
        let unavailable = || {
            Problem::new(
                Code::Unavailable,
                "the database is not responding; try again later",
            )
        };
        let snapshot = tokio::time::timeout(PATIENCE, fresh)
            .await
            .map_err(|_| unavailable())?;
        let snapshot = snapshot.map_err(|_| unavailable())?;
        snapshot.clone().ok_or_else(unavailable)
    }

    /// Starts the background task if it is not running.
    fn wake(self: &Arc<StepCounter>) {
        let mut demand = lock(&self.demand);
        demand.last = Instant::now();
        // The task also ends with its runtime.
        if demand.task.as_ref().is_none_or(JoinHandle::is_finished) {
            demand.task = Some(tokio::spawn(run(Arc::downgrade(self))));
        }
    }

    /// Returns whether the last request is long ago. Called under the lock, so that a later
    /// request starts a new task.
    fn is_over(&self, now: Instant) -> bool {
        let mut demand = lock(&self.demand);
        let is_over = now.saturating_duration_since(demand.last) >= IDLE;
        if is_over {
            demand.task = None;
        }
        is_over
    }
}

async fn run(step_counter: Weak<StepCounter>) {
    let mut reader = OverviewReader::default();
    loop {
        let Some(step_counter) = step_counter
            .upgrade()
            .filter(|step_counter| !step_counter.is_over(Instant::now()))
        else {
            return;
        };
        let begun = Instant::now();
        let rest = match reader.run_once(&step_counter.client).await {
            Ok(snapshot) => {
                step_counter
                    .snapshots
                    .send_replace(Some(Arc::new(snapshot)));
                reader.rest(begun.elapsed())
            }
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "could not count instances by step"
                );
                EVERY
            }
        };
        drop(step_counter);
        tokio::time::sleep(rest).await;
    }
}

/// A scan of the table, and its counts so far.
#[derive(Debug, Default)]
struct OverviewReader {
    small: Option<SmallTables>,
    scan: TableScan,
    complete: Option<(Timestamp, Arc<Vec<StepCount>>)>,
}

/// Data that is small enough for one read.
#[derive(Debug)]
struct SmallTables {
    taken: Instant,
    now: Timestamp,
    queues: Vec<QueueSummary>,
    workers: Vec<Worker>,
    stats: RunStats,
}

#[derive(Debug, Default)]
struct TableScan {
    begun_at: Option<Timestamp>,
    after: Option<InstanceId>,
    seen: BTreeMap<(String, i32, String, &'static str), StepCount>,
}

impl OverviewReader {
    async fn run_once(&mut self, client: &Client) -> Result<OverviewSnapshot> {
        let small = match self
            .small
            .take()
            .filter(|small| small.taken.elapsed() < EVERY)
        {
            Some(small) => small,
            None => SmallTables::read(client).await?,
        };
        let begun_at = *self.scan.begun_at.get_or_insert(small.now);
        let begun = Instant::now();
        while begun.elapsed() < GO {
            if self.scan.read_slice(client).await? {
                let scan = std::mem::take(&mut self.scan);
                self.complete = Some((begun_at, Arc::new(scan.step_counts())));
                break;
            }
        }
        let (counted_at, step_counts) = match &self.complete {
            Some((at, step_counts)) => (*at, step_counts.clone()),
            None => (begun_at, Arc::new(self.scan.counts_so_far())),
        };
        let snapshot = OverviewSnapshot {
            taken: small.taken,
            now: small.now,
            queues: small.queues.clone(),
            workers: small.workers.clone(),
            stats: small.stats.clone(),
            step_counts,
            counted_at,
            complete: self.complete.is_some(),
        };
        self.small = Some(small);
        Ok(snapshot)
    }

    /// Returns the pause after this much work: until the next second once the scan is complete.
    fn rest(&self, worked: Duration) -> Duration {
        let is_done = self.scan.begun_at.is_none();
        let least = if is_done { EVERY } else { REST_MIN };
        (worked * REST).clamp(least, REST_MAX)
    }
}

impl SmallTables {
    async fn read(client: &Client) -> Result<SmallTables> {
        let admin = client.admin();
        let now = admin.now().await?;
        let since = Timestamp(minute_of(now).0 - WINDOW_MINUTES * MINUTE);
        Ok(SmallTables {
            taken: Instant::now(),
            now,
            queues: admin.queues().await?,
            workers: admin.workers().await?,
            stats: admin.run_stats(since).await?,
        })
    }
}

impl TableScan {
    /// Reads one slice. Returns whether it was the last.
    async fn read_slice(&mut self, client: &Client) -> Result<bool> {
        let request = StepCountRequest {
            after: self.after,
            limit: STEP_COUNT_MAX,
        };
        let slice = client.admin().count_by_step(request).await?;
        for count in slice.groups {
            let key = (
                count.machine.clone(),
                count.version,
                count.step.clone(),
                count.status.as_str(),
            );
            match self.seen.get_mut(&key) {
                Some(seen) => seen.add(&count),
                None => {
                    self.seen.insert(key, count);
                }
            }
        }
        self.after = slice.next;
        Ok(self.after.is_none())
    }

    fn step_counts(self) -> Vec<StepCount> {
        self.seen.into_values().collect()
    }

    fn counts_so_far(&self) -> Vec<StepCount> {
        self.seen.values().cloned().collect()
    }
}

/// The guarded value is consistent between any two statements, so a poisoned lock is usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]
    use super::*;
    use outlast::Sqlite;
    use outlast_core::{Json, NewInstance, Status};

    fn step_counter() -> Arc<StepCounter> {
        StepCounter::new(Client::new(Sqlite::in_memory().unwrap()))
    }

    #[tokio::test]
    async fn the_counter_stops_a_minute_after_the_last_request() {
        let step_counter = step_counter();
        let begun = Instant::now();
        step_counter.wake();
        assert!(!step_counter.is_over(begun + IDLE / 2));
        let again = Instant::now();
        step_counter.wake();
        assert!(!step_counter.is_over(again), "a request has just arrived");
        assert!(step_counter.is_over(Instant::now() + IDLE));
        assert!(
            lock(&step_counter.demand).task.is_none(),
            "a later request starts a new task"
        );
    }

    #[tokio::test]
    async fn the_counter_task_ends_when_the_counter_is_dropped() {
        let step_counter = step_counter();
        step_counter.snapshot().await.unwrap();
        let task = lock(&step_counter.demand).task.take().unwrap();
        drop(step_counter);
        task.await.unwrap();
    }

    #[tokio::test]
    async fn a_table_of_several_slices_is_counted_whole() {
        let step_counter = step_counter();
        let many = STEP_COUNT_MAX * 2 + 7;
        let rows = (0..many).map(|_| NewInstance::new("m", "s", Json::null()));
        let admin = step_counter.client.admin();
        admin.insert_rows(rows.collect()).await.unwrap();
        let mut reader = OverviewReader::default();
        let snapshot = loop {
            let snapshot = reader.run_once(&step_counter.client).await.unwrap();
            if snapshot.complete {
                break snapshot;
            }
        };
        let [count] = snapshot.step_counts.as_slice() else {
            panic!("{:?}", snapshot.step_counts);
        };
        assert_eq!(count.instances, many as u64);
        assert_eq!(count.status, Status::Runnable);
    }

    #[test]
    fn the_counter_rests_four_times_as_long_as_it_works() {
        let mut reader = OverviewReader::default();
        assert_eq!(
            reader.rest(Duration::from_millis(3)),
            EVERY,
            "the scan is done"
        );
        assert_eq!(reader.rest(Duration::from_secs(1)), Duration::from_secs(4));
        reader.scan.begun_at = Some(Timestamp(0));
        assert_eq!(
            reader.rest(Duration::from_millis(100)),
            Duration::from_millis(400)
        );
        assert_eq!(reader.rest(Duration::from_secs(60)), REST_MAX);
    }
}
