//! One parent and its children, until the join; and as many without a parent.

use super::{DEADLINE, Run, drain};
use crate::cpu::Usage;
use crate::figure::Sample;
use crate::machines::{Counter, Family, Gathering, Single};
use anyhow::{Result, ensure};
use indicatif::ProgressBar;
use outlast::prelude::*;
use outlast::store::limits::CHILDREN_MAX;
use std::sync::atomic::Ordering;

pub(super) async fn run(run: &Run<'_>) -> Result<Vec<Sample>> {
    Ok(vec![
        Sample::seconds("fanout", fan_out(run, None).await?),
        Sample::seconds("drain of as many", drain::drain(run).await?),
    ])
}

/// Measures from the insert of the parent to its end.
pub(super) async fn fan_out(run: &Run<'_>, window: Option<usize>) -> Result<Usage> {
    ensure!(
        run.n <= CHILDREN_MAX,
        "a parent has {CHILDREN_MAX} children at most, not {}",
        run.n
    );
    let bed = run.site.fresh().await?;
    let counter = Counter::default();
    let builder = bed
        .builder()
        .register(Family(Counter::default()))
        .register(Single(counter.clone()));
    let engine = builder.queue("default", 100).start().await?;
    bed.settle().await?;
    let bar = run.bar(run.n, "children");
    let meter = run.meter()?;
    let children = run.n as u64;
    let parent = engine
        .start(Family::with(Gathering::Start { children, window }))
        .await?;
    let joined = tokio::select! {
        joined = parent.output().timeout(DEADLINE) => joined?,
        never = show(&bar, &counter) => match never {},
    };
    let usage = meter.stop()?;
    bar.finish_and_clear();
    engine.shutdown().await?;
    ensure!(joined == run.n, "{joined} of {} were joined", run.n);
    Ok(usage)
}

/// Updates the progress bar until it is dropped.
async fn show(bar: &ProgressBar, counter: &Counter) -> std::convert::Infallible {
    loop {
        bar.set_position(counter.load(Ordering::Relaxed));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
