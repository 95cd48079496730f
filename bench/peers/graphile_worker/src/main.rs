//! The workloads on graphile_worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use graphile_worker::tokio_postgres::TokioPostgresDatabase;
use graphile_worker::{
    IntoTaskHandlerResult, JobComplete, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, Worker,
    WorkerContext, WorkerOptions,
};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

#[path = "../../figures.rs"]
mod figures;

const CONNECTIONS: u32 = 20;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (workload, n, url) = figures::arguments();
    let run = async {
        match workload.as_str() {
            "drain" => drain(n, &url).await,
            "latency" => latency(n, &url).await,
            _ => figures::not_offered(
                "graphile_worker is a job queue: one step, no children, no signals",
            ),
        }
    };
    tokio::time::timeout(figures::DEADLINE, run).await?
}

/// As in the crate's own throughput benchmark and the guide's "throughput-oriented worker": many
/// handlers, jobs fetched in batches into local queues, completions written in batches.
async fn drain(n: u64, url: &str) -> anyhow::Result<()> {
    figures::about(
        "graphile_worker",
        "0.14.1",
        "tokio-postgres driver, concurrency 500, 4 local queues of 1,250, completion batches of 5 ms, poll 5 ms: \
         guide/configuration/worker-options 'Throughput-oriented worker', LocalQueueConfig::queue_count and the \
         crate's benches/perf_test.rs",
    );
    let ran = Ran::default();
    let worker = WorkerOptions::default()
        .database(TokioPostgresDatabase::from_url(url, CONNECTIONS as usize)?)
        .concurrency(500)
        .poll_interval(Duration::from_millis(5))
        .complete_job_batch_delay(Duration::from_millis(5))
        .local_queue(
            LocalQueueConfig::default()
                .with_size(1_250)
                .with_queue_count(4),
        )
        .listen_os_shutdown_signals(false)
        .add_extension(ran.clone())
        .define_job::<Item>()
        .init()
        .await?;
    insert(&worker, n).await?;
    let pool = connect(url).await?;

    let started = Instant::now();
    let working = Working::start(worker);
    ran.reached(n).await;
    // A job is done only when its row is deleted.
    while jobs_left(&pool).await? {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let took = started.elapsed();

    working.stop().await?;
    ensure!(ran.count() == n, "ran {} times for {n} jobs", ran.count());
    figures::rate("drain", n, took, "steps/s");
    Ok(())
}

/// Batches would delay a single job, so there are none here. A single handler wakes by
/// notification and fetches directly, as the local queue's guide advises for rare jobs.
async fn latency(n: u64, url: &str) -> anyhow::Result<()> {
    figures::about(
        "graphile_worker",
        "0.14.1",
        "sqlx driver, concurrency 1, notifications, no batching and no local queue: guide/guides/local-queue says \
         direct fetch suits rare jobs",
    );
    let (done, mut completions) = mpsc::channel(1);
    let worker = WorkerOptions::default()
        .pg_pool(connect(url).await?)
        .concurrency(1)
        .listen_os_shutdown_signals(false)
        .add_extension(Ran::default())
        .define_job::<Item>()
        .on(JobComplete, move |_| {
            let done = done.clone();
            async move {
                // The receiver is dropped after the last sample.
                let _ = done.send(Instant::now()).await;
            }
        })
        .init()
        .await?;
    let utils = worker.create_utils();
    let working = Working::start(worker);
    // The worker does not report when it begins to listen.
    tokio::time::sleep(Duration::from_millis(500)).await;

    let mut samples = Vec::with_capacity(n as usize);
    for number in 0..n {
        let inserted = Instant::now();
        utils.add_job(Item { number }, JobSpec::default()).await?;
        let done = completions.recv().await.context("the worker ended")?;
        samples.push(done.duration_since(inserted));
    }
    working.stop().await?;
    figures::percentiles("latency", samples);
    Ok(())
}

#[derive(Serialize, Deserialize)]
struct Item {
    number: u64,
}

impl TaskHandler for Item {
    const IDENTIFIER: &'static str = "item";

    async fn run(self, cx: WorkerContext) -> impl IntoTaskHandlerResult {
        cx.get_ext::<Ran>().ok_or("no counter")?.add();
        Ok::<(), &'static str>(())
    }
}

/// The number of handler runs.
#[derive(Clone, Debug, Default)]
struct Ran(Arc<AtomicU64>);

impl Ran {
    fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    async fn reached(&self, n: u64) {
        while self.count() < n {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// A worker in its own task.
struct Working {
    worker: Arc<Worker>,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Working {
    fn start(worker: Worker) -> Self {
        let worker = Arc::new(worker);
        let running = Arc::clone(&worker);
        let task = tokio::spawn(async move { Ok(running.run().await?) });
        Self { worker, task }
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.worker.request_shutdown();
        self.task.await?
    }
}

async fn insert(worker: &Worker, n: u64) -> anyhow::Result<()> {
    let utils = worker.create_utils();
    let numbers: Vec<u64> = (0..n).collect();
    for batch in numbers.chunks(1_000) {
        let jobs: Vec<RawJobSpec> = batch
            .iter()
            .map(|number| RawJobSpec {
                identifier: Item::IDENTIFIER.to_owned(),
                payload: serde_json::json!({ "number": number }),
                spec: JobSpec::default(),
            })
            .collect();
        utils.add_raw_jobs(&jobs).await?;
    }
    Ok(())
}

async fn connect(url: &str) -> anyhow::Result<PgPool> {
    Ok(PgPoolOptions::new()
        .max_connections(CONNECTIONS)
        .connect(url)
        .await?)
}

async fn jobs_left(pool: &PgPool) -> anyhow::Result<bool> {
    Ok(
        sqlx::query_scalar("select exists (select from graphile_worker._private_jobs)")
            .fetch_one(pool)
            .await?,
    )
}
