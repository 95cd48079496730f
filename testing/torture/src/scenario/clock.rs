//! Workers an hour ahead of the database and an hour behind it, killed occasionally.
//!
//! PostgreSQL only: SQLite runs in the process and uses its clock.

use super::postgres;
use crate::args::Args;
use crate::crew::{Crew, Worker};
use crate::report::Report;
use crate::site::{Site, StoreKind};
use crate::stage::{Act, Stage};
use anyhow::{Context as _, Result, ensure};
use std::path::PathBuf;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

const HOUR_S: i64 = 3_600;

pub(crate) async fn run(args: &Args) -> Result<Report> {
    ensure!(
        args.store == StoreKind::Postgres,
        "the clock of an SQLite file is its process's own: run this on PostgreSQL"
    );
    let cluster = postgres()?;
    let site = Site::postgres(cluster.url());
    let stage = Stage::set(args, site.clone(), site).await?;
    let report = stage.play(work_at_wrong_times).await?;
    Ok(report.with("workers' clocks", "an hour ahead, an hour behind, right"))
}

async fn work_at_wrong_times(mut act: Act) -> Result<Vec<Worker>> {
    let mut slots = JoinSet::new();
    for (slot, off_s) in [("ahead", HOUR_S), ("behind", -HOUR_S), ("right", 0)] {
        let mut crew = act.crew.clone();
        crew.orders.clock_off_s = off_s;
        slots.spawn(keep_killing_slowly(crew, slot, act.random.fork(), act.end));
    }
    slots.join_all().await.into_iter().collect()
}

/// Slowly, so that workers with a wrong clock do most of the reaping and fire most of the timers.
async fn keep_killing_slowly(
    crew: Crew,
    slot: &'static str,
    mut random: fastrand::Rng,
    end: Instant,
) -> Result<Worker> {
    let mut number = 0;
    loop {
        number += 1;
        let worker = crew.start(format!("{slot}-{number}")).await?;
        let killed = Instant::now() + Duration::from_millis(random.u64(3_000..8_000));
        if killed >= end {
            tokio::time::sleep_until(end).await;
            return Ok(worker);
        }
        tokio::time::sleep_until(killed).await;
        worker.kill().await?;
    }
}

/// Makes the clock of a process wrong by this many seconds. It changes the wall clock of the C
/// library, not the kernel's, and leaves the monotonic clock alone.
pub(crate) fn set_clock(command: &mut tokio::process::Command, off_s: i64) -> Result<()> {
    let library =
        library().context("libfaketime is needed: on Debian, apt-get install libfaketime")?;
    command
        .env("LD_PRELOAD", library)
        .env("FAKETIME", format!("{off_s:+}"))
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .env("DONT_FAKE_MONOTONIC", "1");
    Ok(())
}

/// Debian installs it in a folder named after the architecture.
fn library() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?;
    let found = folders
        .flatten()
        .map(|folder| folder.path().join("faketime/libfaketime.so.1"));
    found
        .chain([PathBuf::from("/usr/lib/faketime/libfaketime.so.1")])
        .find(|path| path.exists())
}
