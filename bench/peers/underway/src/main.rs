//! The workloads on underway.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::ensure;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::{Span, ToSpan as _};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use underway::{Job, To, Worker};

#[path = "../../figures.rs"]
mod figures;

const STEPS: u64 = 10;

/// Concurrent worker loops.
const LOOPS: usize = 8;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (workload, n, url) = figures::arguments();
    figures::about(
        "underway",
        "0.2.0",
        "set_concurrency_limit 8, three connections for each; drain and chain poll every 10 ms, because one loop \
         starts per poll or notification; latency and step rest on notifications: docs.rs/underway Worker",
    );
    let run = async {
        let pool = connect(&url).await?;
        match workload.as_str() {
            "drain" => drain("drain", n, 1, &pool).await,
            "chain" => drain("chain", n, STEPS, &pool).await,
            "latency" => latency(n, &pool).await,
            "step" => step(n, &pool).await,
            _ => figures::not_offered("underway has steps, but no children and no signals"),
        }
    };
    tokio::time::timeout(figures::DEADLINE, run).await?
}

async fn drain(name: &str, n: u64, steps: u64, pool: &PgPool) -> anyhow::Result<()> {
    let ran = Ran::default();
    let job = chain(steps, &ran, pool).await?;
    stream::iter(0..n)
        .map(anyhow::Ok)
        .try_for_each_concurrent(LOOPS, |number| {
            let job = &job;
            async move {
                job.enqueue(&number).await?;
                Ok(())
            }
        })
        .await?;

    let started = Instant::now();
    let working = Working::start(&job, 10.milliseconds());
    ran.reached(n * steps).await;
    while unfinished(pool).await? {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let took = started.elapsed();

    working.stop().await?;
    ensure!(
        ran.count() == n * steps,
        "ran {} times for {n}",
        ran.count()
    );
    figures::rate(name, n * steps, took, "steps/s");
    Ok(())
}

async fn latency(n: u64, pool: &PgPool) -> anyhow::Result<()> {
    let ran = Ran::default();
    let job = chain(1, &ran, pool).await?;
    let working = Working::start(&job, 1.minute());
    // The worker does not report when it begins to listen.
    tokio::time::sleep(Duration::from_millis(500)).await;

    let mut samples = Vec::with_capacity(n as usize);
    for number in 0..n {
        let enqueued = Instant::now();
        job.enqueue(&number).await?;
        ran.next().await;
        // Nothing reports the commit of the outcome, so this polls.
        while unfinished(pool).await? {}
        samples.push(enqueued.elapsed());
    }
    working.stop().await?;
    figures::percentiles("latency", samples);
    Ok(())
}

async fn step(n: u64, pool: &PgPool) -> anyhow::Result<()> {
    let ran = Ran::default();
    let job = chain(n, &ran, pool).await?;
    let working = Working::start(&job, 1.minute());
    // The worker does not report when it begins to listen.
    tokio::time::sleep(Duration::from_millis(500)).await;
    job.enqueue(&0).await?;
    ran.reached(n).await;
    while unfinished(pool).await? {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    working.stop().await?;
    figures::step_time(&ran.starts());
    Ok(())
}

type Chain = Job<u64, ()>;

/// A job of `steps` steps.
async fn chain(steps: u64, ran: &Ran, pool: &PgPool) -> anyhow::Result<Chain> {
    underway::run_migrations(pool).await?;
    let last = ran.clone();
    let last = move |_: underway::job::Context<()>, _: u64| {
        last.add();
        async { To::done() }
    };
    if steps == 1 {
        return Ok(Job::builder()
            .step(last)
            .name("chain")
            .pool(pool.clone())
            .build()
            .await?);
    }
    let one = || {
        let ran = ran.clone();
        move |_: underway::job::Context<()>, number: u64| {
            ran.add();
            async move { To::next(number) }
        }
    };
    let mut job = Job::<u64, ()>::builder().step(one());
    for _ in 2..steps {
        job = job.step(one());
    }
    Ok(job
        .step(last)
        .name("chain")
        .pool(pool.clone())
        .build()
        .await?)
}

/// A worker in its own task.
struct Working {
    worker: Worker<Chain>,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Working {
    fn start(job: &Chain, poll: Span) -> Self {
        let mut worker = job.worker();
        worker.set_concurrency_limit(LOOPS);
        let running = worker.clone();
        let task = tokio::spawn(async move { Ok(running.run_every(poll).await?) });
        Self { worker, task }
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.worker.shutdown();
        self.task.await?
    }
}

async fn connect(url: &str) -> anyhow::Result<PgPool> {
    Ok(PgPoolOptions::new()
        .max_connections(3 * LOOPS as u32 + 4)
        .connect(url)
        .await?)
}

async fn unfinished(pool: &PgPool) -> anyhow::Result<bool> {
    Ok(
        sqlx::query_scalar("select exists (select from underway.task where state <> 'succeeded')")
            .fetch_one(pool)
            .await?,
    )
}

/// The start times of the steps.
#[derive(Clone, Default)]
struct Ran(Arc<(Mutex<Vec<Instant>>, Notify)>);

impl Ran {
    fn add(&self) {
        self.starts().push(Instant::now());
        self.0.1.notify_one();
    }

    fn count(&self) -> u64 {
        self.starts().len() as u64
    }

    fn starts(&self) -> MutexGuard<'_, Vec<Instant>> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the start of a step that no earlier call has waited for.
    async fn next(&self) {
        self.0.1.notified().await;
    }

    async fn reached(&self, n: u64) {
        while self.count() < n {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
