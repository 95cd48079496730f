//! The workloads on DBOS Transact for Rust.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::ensure;
use dbos::{Config, DBOS, Enqueue, QueueConflict, QueueOptions, StartOptions, WorkflowRef};
use futures_util::future::try_join_all;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use sqlx::PgPool;

#[path = "../../figures.rs"]
mod figures;

const CONNECTIONS: u32 = 20;
const QUEUES: u64 = 8;
const STEPS: u64 = 10;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (workload, n, url) = figures::arguments();
    figures::about(
        "dbos",
        "0.5.0",
        "Config: 20 connections, LISTEN/NOTIFY, notification_coalesce zero (a push per write); drain and chain wait in \
         8 queues without limits and with polling_interval 1 ms, because each queue has a dequeue loop of its own; \
         latency, signal, step and fanout start in the process, without a queue: docs.rs/dbos Config and QueueOptions, \
         docs.dbos.dev/rust/tutorials/queue-tutorial",
    );
    let run = async {
        match workload.as_str() {
            "drain" => drain("drain", n, 1, &url).await,
            "chain" => drain("chain", n, STEPS, &url).await,
            "fanout" => fanout(n, &url).await,
            "latency" => latency(n, &url).await,
            "signal" => signal(n, &url).await,
            "step" => step(n, &url).await,
            other => figures::not_offered(&format!("no workload {other}")),
        }
    };
    tokio::time::timeout(figures::DEADLINE, run).await?
}

/// Enqueues N workflows of `steps` steps from an instance that dequeues nothing, then starts
/// another one that does.
async fn drain(name: &str, n: u64, steps: u64, url: &str) -> anyhow::Result<()> {
    let ran = Ran::default();
    let idle = Config {
        listen_queues: Some(Vec::new()),
        ..config(url)
    };
    let (enqueuer, chain) = launch_chain(idle, steps, &ran).await?;
    enqueue(&enqueuer, &chain, n).await?;
    enqueuer.shutdown().await;
    let pool = PgPool::connect(url).await?;

    let (worker, _) = launch_chain(config(url), steps, &ran).await?;
    let started = Instant::now();
    ran.reached(n).await;
    while unfinished(&pool).await? {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let took = started.elapsed();

    worker.shutdown().await;
    ensure!(ran.count() == n, "ran {} times for {n}", ran.count());
    figures::rate(name, n * steps, took, "steps/s");
    Ok(())
}

/// One parent starts N children concurrently, and joins them.
async fn fanout(n: u64, url: &str) -> anyhow::Result<()> {
    let ran = Ran::default();
    let dbos = DBOS::new(config(url));
    let child = register_chain(&dbos, 1, &ran)?;
    let parent = dbos.register_workflow("parent", move |n: u64| {
        let child = child.clone();
        async move {
            let numbers: Vec<u64> = (0..n).collect();
            let mut children = Vec::with_capacity(numbers.len());
            for some in numbers.chunks(100) {
                children
                    .extend(try_join_all(some.iter().map(|number| child.start(*number))).await?);
            }
            let ids: Vec<&str> = children.iter().map(|child| child.workflow_id()).collect();
            dbos::join_workflows(&ids).await?;
            Ok::<_, dbos::Error>(n)
        }
    })?;
    dbos.launch().await?;

    let started = Instant::now();
    parent.run(n).await?;
    let took = started.elapsed();

    dbos.shutdown().await;
    ensure!(ran.count() == n, "ran {} of {n} children", ran.count());
    figures::figure("fanout", took.as_secs_f64(), "s");
    Ok(())
}

async fn latency(n: u64, url: &str) -> anyhow::Result<()> {
    let (dbos, chain) = launch_chain(config(url), 1, &Ran::default()).await?;
    let mut samples = Vec::with_capacity(n as usize);
    for number in 0..n {
        let started = Instant::now();
        chain.run(number).await?;
        samples.push(started.elapsed());
    }
    dbos.shutdown().await;
    figures::percentiles("latency", samples);
    Ok(())
}

async fn signal(n: u64, url: &str) -> anyhow::Result<()> {
    let dbos = DBOS::new(config(url));
    let parked = dbos.register_workflow("parked", |_: u64| async {
        let message: Option<u64> = dbos::recv(None, figures::DEADLINE).await?;
        Ok::<_, dbos::Error>(message)
    })?;
    dbos.launch().await?;

    let mut samples = Vec::with_capacity(n as usize);
    for number in 0..n {
        let handle = parked.start(number).await?;
        let id = handle.workflow_id().to_owned();
        // DBOS does not report that the workflow has reached its receive.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let sent = Instant::now();
        dbos.send(&id, &number).await?;
        let received = handle.result().await?;
        samples.push(sent.elapsed());
        ensure!(
            received == Some(number),
            "sent {number}, received {received:?}"
        );
    }
    dbos.shutdown().await;
    figures::percentiles("signal", samples);
    Ok(())
}

async fn step(n: u64, url: &str) -> anyhow::Result<()> {
    let starts = Arc::new(Mutex::new(Vec::with_capacity(n as usize)));
    let dbos = DBOS::new(config(url));
    let noted = Arc::clone(&starts);
    let long = dbos.register_workflow("long", move |n: u64| {
        let noted = Arc::clone(&noted);
        async move {
            for number in 0..n {
                let noted = &noted;
                dbos::step("one", || async move {
                    noted
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(Instant::now());
                    Ok::<_, dbos::Error>(number)
                })
                .await?;
            }
            Ok::<_, dbos::Error>(n)
        }
    })?;
    dbos.launch().await?;
    long.run(n).await?;
    dbos.shutdown().await;

    let starts = starts.lock().unwrap_or_else(PoisonError::into_inner);
    ensure!(
        starts.len() as u64 == n,
        "ran {} of {n} steps",
        starts.len()
    );
    figures::step_time(&starts);
    Ok(())
}

fn config(url: &str) -> Config {
    Config {
        app_version: Some("1".to_owned()),
        max_connections: CONNECTIONS,
        notification_coalesce: Some(Duration::ZERO),
        outcome_poll_interval: Some(Duration::from_millis(50)),
        ..Config::new("peer", url)
    }
}

async fn launch_chain(
    config: Config,
    steps: u64,
    ran: &Ran,
) -> anyhow::Result<(DBOS, WorkflowRef<u64, u64>)> {
    let dbos = DBOS::new(config);
    let chain = register_chain(&dbos, steps, ran)?;
    dbos.launch().await?;
    Ok((dbos, chain))
}

fn register_chain(dbos: &DBOS, steps: u64, ran: &Ran) -> anyhow::Result<WorkflowRef<u64, u64>> {
    let ran = ran.clone();
    Ok(dbos.register_workflow("chain", move |number: u64| {
        let ran = ran.clone();
        async move {
            for _ in 0..steps {
                dbos::step("one", || async move { Ok::<_, dbos::Error>(number) }).await?;
            }
            ran.add();
            Ok::<_, dbos::Error>(number)
        }
    })?)
}

async fn enqueue(dbos: &DBOS, chain: &WorkflowRef<u64, u64>, n: u64) -> anyhow::Result<()> {
    let names: Vec<String> = (0..QUEUES).map(|queue| format!("queue{queue}")).collect();
    for name in &names {
        let options = QueueOptions {
            polling_interval: Duration::from_millis(1),
            ..QueueOptions::default()
        };
        dbos.register_queue(name, options, QueueConflict::AlwaysUpdate)
            .await?;
    }
    stream::iter(0..n)
        .map(anyhow::Ok)
        .try_for_each_concurrent(CONNECTIONS as usize, |number| {
            let options = StartOptions {
                queue: Some(Enqueue::new(&names[(number % QUEUES) as usize])),
                ..StartOptions::default()
            };
            async move {
                chain.start_with(number, options).await?;
                Ok(())
            }
        })
        .await
}

async fn unfinished(pool: &PgPool) -> anyhow::Result<bool> {
    Ok(sqlx::query_scalar(
        "select exists (select from dbos.workflow_status where status <> 'SUCCESS')",
    )
    .fetch_one(pool)
    .await?)
}

/// The number of workflows that ran to the end of their body.
#[derive(Clone, Default)]
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
