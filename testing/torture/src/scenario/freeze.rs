//! Three workers, stopped past their lease and resumed: zombies that try to commit.

use super::Server;
use crate::args::Args;
use crate::crew::Worker;
use crate::report::Report;
use crate::stage::{Act, LEASE, Stage};
use anyhow::Result;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

const WORKERS: usize = 3;

pub(crate) async fn run(args: &Args) -> Result<Report> {
    let server = Server::start(args.store)?;
    let mut stage = Stage::set(args, server.site(), server.site()).await?;
    // Longer steps, so that most freezes interrupt some.
    stage.crew.orders.work_max_ms = 50;
    stage.play(freeze_again_and_again).await
}

/// Freezes each of three workers repeatedly. All are running at the end.
async fn freeze_again_and_again(mut act: Act) -> Result<Vec<Worker>> {
    let mut slots = JoinSet::new();
    for worker in act.workers(WORKERS).await? {
        slots.spawn(keep_freezing(worker, act.random.fork(), act.end));
    }
    let workers = slots.join_all().await;
    workers.into_iter().collect()
}

async fn keep_freezing(worker: Worker, mut random: fastrand::Rng, end: Instant) -> Result<Worker> {
    loop {
        tokio::time::sleep(Duration::from_millis(random.u64(200..1_500))).await;
        worker.freeze().await?;
        // Reapers run every quarter of a lease.
        tokio::time::sleep(LEASE.mul_f64(1.3 + random.f64())).await;
        worker.thaw().await?;
        if Instant::now() >= end {
            return Ok(worker);
        }
    }
}
