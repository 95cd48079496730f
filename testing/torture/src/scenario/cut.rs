//! Connections cut around the response to COMMIT, stalled, reset, slowed down.

use super::postgres;
use crate::args::Args;
use crate::crew::Worker;
use crate::report::Report;
use crate::site::Site;
use crate::stage::{Act, Stage};
use anyhow::Result;
use outlast_testbed::proxy::{Faults, Proxy};
use std::time::Duration;

const WORKERS: usize = 3;

/// About one commit in ten has a fault.
const FAULTS: Faults = Faults {
    before_commit: 0.02,
    before_answer: 0.03,
    after_answer: 0.02,
    stall: 0.01,
    // Longer than the lease: the response arrives when the claim may be lost.
    stall_for: Duration::from_millis(1_500),
    reset: 0.5,
    slow: 0.02,
    slow_by: Duration::from_millis(20),
};

pub(crate) async fn run(args: &Args) -> Result<Report> {
    let cluster = postgres()?;
    let proxy = Proxy::to(cluster.port(), args.seed);
    let direct = Site::postgres(cluster.url());
    let port = format!(":{}/", cluster.port());
    let way = Site::postgres(cluster.url().replace(&port, &format!(":{}/", proxy.port())));
    let stage = Stage::set(args, direct, way).await?;
    let report = stage.play(|act| cut_while(act, &proxy)).await?;
    let counts = proxy.counts();
    Ok(report
        .with("commits through the proxy", counts.commits)
        .with("cuts at COMMIT", counts.cuts_at_commit())
        .with("of them before it reached the server", counts.before_commit)
        .with("of them before its answer was heard", counts.before_answer)
        .with("of them right after its answer", counts.after_answer)
        .with("of them as a reset", counts.resets)
        .with("answers stalled past the lease", counts.stalls)
        .with("pieces slowed down", counts.slowed))
}

async fn cut_while(act: Act, proxy: &Proxy) -> Result<Vec<Worker>> {
    let workers = act.workers(WORKERS).await?;
    proxy.set_faults(FAULTS);
    tokio::time::sleep_until(act.end).await;
    proxy.set_faults(Faults::default());
    Ok(workers)
}
