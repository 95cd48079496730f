//! The workloads, and how their sides alternate.

mod backlog;
mod cancel_tree;
mod chain;
mod claims;
mod drain;
mod fanout;
mod flow_fanout;
mod flow_replay;
mod flow_steps;
mod history;
pub(crate) mod insert;
mod latency;
mod parked;
mod signal;
mod timers;
mod turns;
mod window;

use crate::args::{Args, Choice, Kind, Workload};
use crate::bed::Bed;
use crate::cpu::{Meter, Usage};
use crate::eye::Eye;
use crate::figure::Sample;
use crate::machines::Counter;
use crate::report::{Report, Taken};
use crate::site::Site;
use crate::{floor, peer};
use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use outlast::engine::EngineBuilder;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often a run is repeated while other processes are busy.
const REPEATS: usize = 3;

/// A run that takes longer than this has failed.
const DEADLINE: Duration = Duration::from_secs(900);

/// An engine without progress for this long has failed.
const STALLED: Duration = Duration::from_secs(60);

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Side {
    Ours(Workload),
    Floor(Workload),
    Peer(String, Workload),
}

/// Runs every requested workload; its sides alternate.
pub(crate) async fn run(args: &Args, report: &mut Report) -> Result<()> {
    args.check()?;
    for peer in &args.peers {
        peer::install(peer)?;
    }
    report.add_version("outlast", env!("CARGO_PKG_VERSION"));
    let mut sites = Vec::new();
    for kind in args.kinds() {
        let site = Site::new(kind, args.url.as_deref()).await?;
        report.add_version(kind.name(), site.version());
        sites.push(site);
    }
    for workload in args.workload.workloads() {
        for round in 1..=args.runs {
            for site in &sites {
                for side in sides(args, workload, site.kind()) {
                    let words = words(site, &side);
                    measure(args, site, &side, round, report)
                        .await
                        .with_context(|| format!("{words} failed"))?;
                }
            }
        }
    }
    Ok(())
}

fn sides(args: &Args, workload: Workload, kind: Kind) -> Vec<Side> {
    let mut sides = Vec::new();
    if workload.has_floor() {
        sides.push(Side::Floor(workload));
    }
    if args.workload != Choice::Floor {
        sides.push(Side::Ours(workload));
        // A peer runs beside the store that it is compared with.
        let peers = args.peers.iter().filter(|_| kind == Kind::Postgres);
        sides.extend(peers.map(|peer| Side::Peer(peer.clone(), workload)));
    }
    sides
}

/// Runs one side, repeats it while other processes are busy, and adds the quietest run.
async fn measure(
    args: &Args,
    site: &Site,
    side: &Side,
    round: usize,
    report: &mut Report,
) -> Result<()> {
    let mut quietest: Option<Vec<Sample>> = None;
    for _ in 0..=repeats(side.workload()) {
        let samples = run_side(args, site, side, round, report).await?;
        if quietest
            .as_ref()
            .is_none_or(|so_far| noise(&samples) < noise(so_far))
        {
            quietest = Some(samples);
        }
        if quietest.iter().flatten().all(Sample::is_quiet) {
            break;
        }
    }
    let taken = Taken {
        workload: side.workload(),
        place: side.place(site),
        round,
        n: n(args, side.workload()),
        settings: &side.settings(site),
    };
    for sample in quietest.into_iter().flatten() {
        report.add(&taken, sample);
    }
    Ok(())
}

/// A workload that takes minutes to fill repeats only the parts that others can disturb.
fn repeats(workload: Workload) -> usize {
    match workload {
        Workload::Parked | Workload::Backlog | Workload::FlowReplay => 0,
        Workload::Drain
        | Workload::Chain
        | Workload::Fanout
        | Workload::Window
        | Workload::CancelTree
        | Workload::Signal
        | Workload::Latency
        | Workload::Insert
        | Workload::Timers
        | Workload::FlowSteps
        | Workload::FlowFanout
        | Workload::History => REPEATS,
    }
}

/// Returns the load of other processes during the sensitive parts.
fn noise(samples: &[Sample]) -> f64 {
    let disturbed = samples.iter().filter(|sample| !sample.is_quiet());
    disturbed
        .map(|sample| sample.usage.others)
        .fold(0.0, f64::max)
}

async fn run_side(
    args: &Args,
    site: &Site,
    side: &Side,
    round: usize,
    report: &mut Report,
) -> Result<Vec<Sample>> {
    let run = Run {
        site,
        n: n(args, side.workload()),
        idle: Duration::from_secs(args.idle as u64),
        label: format!("{}/{} {}", round, args.runs, words(site, side)),
    };
    match side {
        Side::Ours(workload) => run_ours(*workload, &run).await,
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

async fn run_ours(workload: Workload, run: &Run<'_>) -> Result<Vec<Sample>> {
    match workload {
        Workload::Drain => drain::run(run).await,
        Workload::Chain => chain::run(run).await,
        Workload::Fanout => fanout::run(run).await,
        Workload::Window => window::run(run).await,
        Workload::CancelTree => cancel_tree::run(run).await,
        Workload::Signal => signal::run(run).await,
        Workload::Latency => latency::run(run).await,
        Workload::Insert => insert::run(run).await,
        Workload::Timers => timers::run(run).await,
        Workload::Parked => parked::run(run).await,
        Workload::Backlog => backlog::run(run).await,
        Workload::FlowSteps => flow_steps::run(run).await,
        Workload::FlowFanout => flow_fanout::run(run).await,
        Workload::FlowReplay => flow_replay::run(run).await,
        Workload::History => history::run(run).await,
    }
}

fn n(args: &Args, workload: Workload) -> usize {
    let n = args.n.unwrap_or(workload.usual_n());
    n.max(workload.least_n())
}

fn words(site: &Site, side: &Side) -> String {
    match side {
        Side::Ours(workload) => format!("{workload} on {}", site.kind()),
        Side::Floor(workload) => format!("floor of {workload} on {}", site.kind()),
        Side::Peer(peer, workload) => format!("{workload} of {peer}"),
    }
}

impl Side {
    fn workload(&self) -> Workload {
        let (Side::Ours(workload) | Side::Floor(workload) | Side::Peer(_, workload)) = self;
        *workload
    }

    fn place<'a>(&'a self, site: &Site) -> &'a str {
        match self {
            Side::Ours(_) | Side::Floor(_) => site.kind().name(),
            Side::Peer(peer, _) => peer,
        }
    }

    /// Our settings are the defaults: the README's engine.
    fn settings(&self, site: &Site) -> String {
        let engine = match self {
            Side::Ours(_) => "default, queue of 100",
            Side::Floor(_) => "no engine",
            Side::Peer(..) => "as its script says",
        };
        format!("{engine}; {}", site.settings())
    }
}

/// One run of one side.
pub(crate) struct Run<'a> {
    pub(crate) site: &'a Site,
    pub(crate) n: usize,
    /// How long an idle engine is observed.
    idle: Duration,
    label: String,
}

impl Run<'_> {
    /// Returns a progress bar of this length, visible on a terminal.
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

/// Starts the engine on the existing instances, and measures until nothing is left to run.
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
    until_all_ran(&bar, &eye, counter, steps).await?;
    let usage = meter.stop()?;
    bar.finish_and_clear();
    engine.shutdown().await?;
    Ok(usage)
}

/// Waits until this many steps have run and nothing is left to run.
async fn until_all_ran(
    bar: &ProgressBar,
    eye: &Eye,
    counter: &Counter,
    steps: usize,
) -> Result<()> {
    let mut moved = (0, Instant::now());
    loop {
        let ran = counter.load(Ordering::Relaxed);
        bar.set_position(ran);
        if ran >= steps as u64 && eye.sees_nothing_to_run().await? {
            return Ok(());
        }
        if ran != moved.0 {
            moved = (ran, Instant::now());
        }
        ensure!(
            moved.1.elapsed() < STALLED,
            "nothing has moved for {STALLED:?}: {ran} of {steps} steps ran"
        );
        // Polls more often near the end.
        let near = ran + 2_000 > steps as u64;
        let pause = if near { 1 } else { 20 };
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}
