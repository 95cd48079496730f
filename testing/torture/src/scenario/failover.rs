//! The primary is killed and its standby promoted, repeatedly, under a URL that names both.
//!
//! In synchronous mode no acknowledged write may be lost. An asynchronous standby loses the writes
//! that had not reached it; they are counted. One scenario runs as in production: Patroni elects
//! the primary through etcd.

use crate::args::Args;
use crate::crew::Worker;
use crate::report::Report;
use crate::site::Site;
use crate::stage::{Act, Stage};
use anyhow::{Context as _, Result};
use outlast_testbed::patroni::Patroni;
use outlast_testbed::replicas::{Mode, Replicas};
use std::time::Duration;
use tokio::task::block_in_place;

const WORKERS: usize = 3;
const PATRONI_NODES: usize = 2;

pub(crate) async fn run(args: &Args, mode: Mode) -> Result<Report> {
    let replicas = block_in_place(|| Replicas::start(mode));
    let mut replicas = replicas.context("PostgreSQL's programs are needed")?;
    let site = Site::postgres(replicas.url());
    let mut stage = Stage::set(args, site.clone(), site).await?;
    if mode == Mode::Asynchronous {
        stage = stage.may_lose();
    }
    stage
        .play(|act| fail_over_again_and_again(act, &mut replicas))
        .await
}

async fn fail_over_again_and_again(mut act: Act, replicas: &mut Replicas) -> Result<Vec<Worker>> {
    let workers = act.workers(WORKERS).await?;
    while act.goes_on() {
        tokio::time::sleep(Duration::from_millis(act.random.u64(1_000..3_000))).await;
        block_in_place(|| replicas.fail_over());
        act.note("promotions").await;
        // A while with one server, as in production.
        tokio::time::sleep(Duration::from_millis(act.random.u64(200..1_500))).await;
        block_in_place(|| replicas.rebuild());
    }
    Ok(workers)
}

pub(crate) async fn run_patroni(args: &Args) -> Result<Report> {
    let patroni = block_in_place(|| Patroni::start(PATRONI_NODES, Mode::Synchronous));
    let needed =
        "Patroni and etcd are needed: on Debian, apt-get install patroni python3-etcd etcd-server";
    let mut patroni = patroni.context(needed)?;
    let site = Site::postgres(patroni.url());
    let stage = Stage::set(args, site.clone(), site).await?;
    stage.play(|act| kill_leaders(act, &mut patroni)).await
}

async fn kill_leaders(mut act: Act, patroni: &mut Patroni) -> Result<Vec<Worker>> {
    let workers = act.workers(WORKERS).await?;
    while act.goes_on() {
        tokio::time::sleep(Duration::from_millis(act.random.u64(1_000..3_000))).await;
        let killed = block_in_place(|| patroni.kill_leader());
        block_in_place(|| patroni.wait_for_leader());
        act.note("promotions").await;
        block_in_place(|| patroni.restart(killed));
        block_in_place(|| patroni.wait_for_standbys());
    }
    Ok(workers)
}
