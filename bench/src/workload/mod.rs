//! The workloads, and how their sides take turns.

mod chain;
mod drain;
pub(crate) mod insert;

use crate::args::{Args, Kind, Workload};
use crate::cpu::{Meter, Usage};
use crate::figure::{Report, Sample};
use crate::machines::Counter;
use crate::site::{Bed, Site};
use crate::{floor, peer};
use anyhow::{Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use outlast::EngineBuilder;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often a run is repeated when somebody else was busy.
const REPEATS: usize = 3;

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Side {
    Ours(Workload),
    Floor(Workload),
    Peer(String, Workload),
}

/// Runs every side of the workload in turn.
pub(crate) async fn run(args: &Args) -> Result<Report> {
    ensure!(args.runs > 0, "--runs 0 measures nothing");
    let mut sites = Vec::new();
    for kind in &args.store {
        sites.push(Site::new(*kind, args.url.as_deref()).await?);
    }
    for peer in &args.peers {
        peer::install(peer)?;
    }
    let mut report = Report::default();
    report.add_version("outlast", env!("CARGO_PKG_VERSION"));
    for site in &sites {
        report.add_version(site.kind().to_string(), site.version());
    }
    for round in 1..=args.runs {
        for site in &sites {
            for side in sides(args, site.kind()) {
                measure(args, site, &side, round, &mut report).await?;
            }
        }
    }
    Ok(report)
}

fn sides(args: &Args, kind: Kind) -> Vec<Side> {
    let has_floor = |workload: &Workload| match workload {
        Workload::Drain | Workload::Chain | Workload::Insert => true,
        Workload::Floor => false,
    };
    let mut sides = match args.workload {
        Workload::Floor => [Workload::Drain, Workload::Chain, Workload::Insert]
            .map(Side::Floor)
            .to_vec(),
        workload if has_floor(&workload) => vec![Side::Floor(workload), Side::Ours(workload)],
        workload => vec![Side::Ours(workload)],
    };
    if kind == Kind::Postgres {
        sides.extend(
            args.peers
                .iter()
                .map(|peer| Side::Peer(peer.clone(), args.workload)),
        );
    }
    sides
}

/// Runs one side, again if somebody else was busy, and adds what it brought.
async fn measure(
    args: &Args,
    site: &Site,
    side: &Side,
    round: usize,
    report: &mut Report,
) -> Result<()> {
    for again in 0..=REPEATS {
        let samples = run_side(args, site, side, round, report).await?;
        let quiet = samples.iter().all(|sample| sample.usage.is_quiet());
        if quiet || again == REPEATS {
            for sample in samples {
                report.add(&place(site, side), n(args, side), SETTINGS, sample);
            }
            return Ok(());
        }
    }
    Ok(())
}

/// What a user who tunes nothing has: the README's engine.
const SETTINGS: &str = "default, queue of 100";

async fn run_side(
    args: &Args,
    site: &Site,
    side: &Side,
    round: usize,
    report: &mut Report,
) -> Result<Vec<Sample>> {
    let run = Run {
        site,
        n: n(args, side),
        label: format!("{}/{} {}", round, args.runs, words(site, side)),
    };
    match side {
        Side::Ours(Workload::Drain) => drain::run(&run).await,
        Side::Ours(Workload::Chain) => chain::run(&run).await,
        Side::Ours(Workload::Insert) => insert::run(&run).await,
        Side::Ours(Workload::Floor) => Ok(Vec::new()),
        Side::Floor(workload) => floor::run(*workload, &run).await,
        Side::Peer(peer, workload) => {
            let ran = peer::run(peer, *workload, run.n, site).await?;
            if let Some(about) = ran.about {
                report.add_version(peer, about);
            }
            Ok(ran.samples)
        }
    }
}

fn n(args: &Args, side: &Side) -> usize {
    let (Side::Ours(workload) | Side::Floor(workload) | Side::Peer(_, workload)) = side;
    args.n.unwrap_or(match workload {
        Workload::Drain | Workload::Insert | Workload::Floor => 100_000,
        Workload::Chain => 20_000,
    })
}

fn place(site: &Site, side: &Side) -> String {
    match side {
        Side::Ours(_) | Side::Floor(_) => site.kind().to_string(),
        Side::Peer(peer, _) => peer.clone(),
    }
}

fn words(site: &Site, side: &Side) -> String {
    match side {
        Side::Ours(workload) => format!("{workload} on {}", site.kind()),
        Side::Floor(workload) => format!("floor of {workload} on {}", site.kind()),
        Side::Peer(peer, workload) => format!("{workload} of {peer}"),
    }
}

/// One run of one side.
pub(crate) struct Run<'a> {
    pub(crate) site: &'a Site,
    pub(crate) n: usize,
    label: String,
}

impl Run<'_> {
    /// A bar of so many things, on the terminal if there is one.
    pub(crate) fn bar(&self, length: usize, doing: &'static str) -> ProgressBar {
        let style = ProgressStyle::with_template(
            "{prefix} {msg} {wide_bar} {human_pos}/{human_len} {elapsed}",
        );
        let bar = ProgressBar::new(length as u64)
            .with_prefix(self.label.clone())
            .with_message(doing);
        match style {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    }

    pub(crate) fn meter(&self) -> Result<Meter> {
        Meter::start(self.site.server_process())
    }
}

/// Starts the engine on what is there, and measures until nothing is left to run.
async fn run_to_the_end(
    run: &Run<'_>,
    bed: &Bed,
    builder: EngineBuilder,
    counter: &Counter,
    steps: usize,
) -> Result<Usage> {
    bed.settle().await?;
    let eye = bed.eye().await?;
    let bar = run.bar(steps, "running");
    counter.store(0, Ordering::Relaxed);
    let meter = run.meter()?;
    let engine = builder.queue("default", 100).start().await?;
    wait_until_all_ran(&bar, counter, steps).await;
    while !eye.sees_nothing_to_run().await? {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let usage = meter.stop()?;
    bar.finish_and_clear();
    engine.shutdown().await;
    Ok(usage)
}

async fn wait_until_all_ran(bar: &ProgressBar, counter: &Counter, steps: usize) {
    loop {
        let ran = counter.load(Ordering::Relaxed);
        bar.set_position(ran);
        if ran >= steps as u64 {
            return;
        }
        // Near the end it is worth looking often.
        let left = steps as u64 - ran;
        let pause = if left < 2_000 { 1 } else { 20 };
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}
