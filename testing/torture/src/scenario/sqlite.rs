//! One process on an SQLite file is killed, then one of two. Each drives its own load, so in the
//! first half no other process has the file open during a kill. The file's integrity is checked
//! after each kill.

use crate::args::Args;
use crate::crew::{Crew, Worker};
use crate::report::Report;
use crate::site::{self, Site};
use crate::stage::{Act, Stage};
use anyhow::{Result, ensure};
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

pub(crate) async fn run(args: &Args) -> Result<Report> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("torture.db");
    let site = Site::Sqlite { file: file.clone() };
    let mut stage = Stage::set_without_load(args, site).await?;
    stage.crew.orders.drives = Some(args.rate);
    stage.play(|act| kill_one_then_one_of_two(act, &file)).await
}

async fn kill_one_then_one_of_two(mut act: Act, file: &Path) -> Result<Vec<Worker>> {
    let half = Instant::now() + act.end.duration_since(Instant::now()) / 2;
    let mut number = 0;
    while number == 0 || Instant::now() < half {
        number += 1;
        let worker = start(&act.crew, number, act.random.u64(..)).await?;
        live_a_little(&mut act.random).await;
        worker.kill().await?;
        check_integrity(file)?;
        act.note("the only process killed, file sound").await;
    }
    let mut other = start(&act.crew, number + 1, act.random.u64(..)).await?;
    number += 1;
    while act.goes_on() {
        number += 1;
        let worker = start(&act.crew, number, act.random.u64(..)).await?;
        live_a_little(&mut act.random).await;
        // The older process is killed as often as the younger.
        let (victim, stays) = match act.random.bool() {
            true => (worker, other),
            false => (other, worker),
        };
        victim.kill().await?;
        check_integrity(file)?;
        act.note("one of two processes killed, file sound").await;
        other = stays;
    }
    other.kill().await?;
    // No process starts new instances: the existing ones drain.
    act.crew.orders.drives = None;
    Ok(vec![act.crew.start("w-last".to_owned()).await?])
}

async fn start(crew: &Crew, number: u64, seed: u64) -> Result<Worker> {
    let mut crew = crew.clone();
    // Each process numbers its instances separately.
    crew.orders.seed = seed % 1_000 * 100_000 + number;
    crew.start(format!("w{number}")).await
}

async fn live_a_little(random: &mut fastrand::Rng) {
    tokio::time::sleep(Duration::from_millis(random.u64(300..2_000))).await;
}

fn check_integrity(file: &Path) -> Result<()> {
    let connection = site::open(file)?;
    let verdict: String = connection.query_row("pragma integrity_check", [], |row| row.get(0))?;
    ensure!(verdict == "ok", "the file is damaged: {verdict}");
    Ok(())
}
