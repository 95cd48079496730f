//! A small file system that fills up under the database, and is freed again.

use super::{SETTINGS, Server};
use crate::args::Args;
use crate::crew::Worker;
use crate::report::Report;
use crate::site::StoreKind;
use crate::stage::{Act, Stage};
use anyhow::{Context as _, Result, ensure};
use outlast_testbed::cluster::Cluster;
use outlast_testbed::small_disk::SmallDisk;
use std::time::Duration;
use tokio::task::block_in_place;

const WORKERS: usize = 2;
/// The room beside PostgreSQL itself is used up in seconds.
const MEBIBYTES: u32 = 400;
/// Few segments, so that the log does not fill the disk.
const SMALL_LOG: &str = "wal_keep_size = 0\nmin_wal_size = 32MB\nmax_wal_size = 64MB";

pub(crate) async fn run(args: &Args) -> Result<Report> {
    let disk = SmallDisk::mount(MEBIBYTES);
    let disk = disk.context("a small file system is needed: only root may mount one")?;
    let mut server = match args.store {
        StoreKind::Postgres => {
            let cluster =
                Cluster::durable_in(disk.path()).context("PostgreSQL's programs are needed")?;
            cluster.configure(SETTINGS);
            cluster.configure(SMALL_LOG);
            Server::Postgres(cluster)
        }
        StoreKind::Sqlite => Server::Sqlite(tempfile::tempdir_in(disk.path())?),
    };
    if let Server::Postgres(cluster) = &mut server {
        block_in_place(|| cluster.start());
    }
    let stage = Stage::set(args, server.site(), server.site()).await?;
    let errors = stage.errors();
    let report = stage
        .play(|act| fill_again_and_again(act, &disk, &mut server))
        .await;
    let texts = errors.map(|errors| errors.texts()).unwrap_or_default();
    let full = texts.iter().filter(|text| is_clear(text)).count();
    // The database must be dropped before its disk.
    drop(server);
    ensure!(
        full > 0,
        "the disk was full, and no error said so: {texts:#?}"
    );
    Ok(report?.with("different errors that say so", full))
}

fn is_clear(error: &str) -> bool {
    error.contains("No space left") || error.contains("disk is full")
}

async fn fill_again_and_again(
    mut act: Act,
    disk: &SmallDisk,
    server: &mut Server,
) -> Result<Vec<Worker>> {
    let workers = act.workers(WORKERS).await?;
    while act.goes_on() {
        tokio::time::sleep(Duration::from_millis(act.random.u64(1_000..2_000))).await;
        let leave = act.random.u64(..512 * 1024);
        block_in_place(|| disk.fill(leave));
        act.note("disk filled up").await;
        tokio::time::sleep(Duration::from_millis(act.random.u64(1_000..3_000))).await;
        disk.free();
        if let Server::Postgres(cluster) = server {
            block_in_place(|| revive(cluster));
        }
    }
    Ok(workers)
}

/// A server that could not write its log has ended itself, and recovers when it is started with
/// room.
fn revive(cluster: &mut Cluster) {
    if cluster.process().is_none() {
        cluster.start();
    }
    cluster.wait_ready();
}
