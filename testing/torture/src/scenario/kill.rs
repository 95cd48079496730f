//! Three workers, each killed every 0.3 to 2 seconds and started again.

use super::Server;
use crate::args::Args;
use crate::crew::{Crew, Worker};
use crate::report::Report;
use crate::stage::{Act, Stage};
use anyhow::Result;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

const WORKERS: usize = 3;

pub(crate) async fn run(args: &Args) -> Result<Report> {
    let server = Server::start(args.store)?;
    let stage = Stage::set(args, server.site(), server.site()).await?;
    stage.play(kill_again_and_again).await
}

/// The same with mostly families.
pub(crate) async fn run_families(args: &Args) -> Result<Report> {
    let server = Server::start(args.store)?;
    let stage = Stage::set(args, server.site(), server.site()).await?;
    stage.with_families().play(kill_again_and_again).await
}

/// The same with mostly workflows.
pub(crate) async fn run_flows(args: &Args) -> Result<Report> {
    let server = Server::start(args.store)?;
    let stage = Stage::set(args, server.site(), server.site()).await?;
    stage.with_flows().play(kill_again_and_again).await
}

/// Kills each of three workers repeatedly. Returns three running ones.
pub(crate) async fn kill_again_and_again(mut act: Act) -> Result<Vec<Worker>> {
    let mut slots = JoinSet::new();
    for slot in 1..=WORKERS {
        slots.spawn(keep_killing(
            act.crew.clone(),
            slot,
            act.random.fork(),
            act.end,
        ));
    }
    let workers = slots.join_all().await;
    workers.into_iter().collect()
}

/// Kills the worker in this slot, even while it starts.
async fn keep_killing(
    crew: Crew,
    slot: usize,
    mut random: fastrand::Rng,
    end: Instant,
) -> Result<Worker> {
    let mut number = 0;
    while Instant::now() < end {
        number += 1;
        let worker = crew.spawn(format!("w{slot}-{number}")).await?;
        tokio::time::sleep(Duration::from_millis(random.u64(300..2_000))).await;
        worker.kill().await?;
    }
    crew.start(format!("w{slot}-last")).await
}
