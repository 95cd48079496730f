//! From insert to done on an idle engine, and from step to step.

use super::turns::in_turns;
use super::{DEADLINE, Run};
use crate::bed::Bed;
use crate::cpu::Usage;
use crate::figure::{Sample, Times};
use crate::machines::{Counter, Link, One, Single, Starts, Trail};
use anyhow::Result;
use outlast::prelude::*;
use std::sync::PoisonError;
use std::time::Instant;

pub(super) async fn run(run: &Run<'_>) -> Result<Vec<Sample>> {
    let bed = run.site.fresh().await?;
    let starts = Starts::default();
    let builder = bed
        .builder()
        .register(Single(Counter::default()))
        .register(Trail(starts.clone()));
    let engine = builder.queue("default", 100).start().await?;
    let client = bed.client();
    let both = in_turns(run, &bed, "insert to done", async |number| {
        let begun = Instant::now();
        let one = client.start(Single::with(One::Work { number })).await?;
        one.output().timeout(DEADLINE).await?;
        Ok(begun.elapsed().as_secs_f64() * 1_000.0)
    })
    .await?;
    let gaps = step_to_step(run, &bed, &starts).await?;
    engine.shutdown().await?;
    Ok(vec![
        both.commits.median("one commit"),
        both.ours.median("latency p50"),
        both.ours.quantile("latency p99", 0.99),
        // The user's cost per step, including the trips through the queue when the run-ahead
        // budget is used up.
        gaps.mean("step to step"),
        gaps.median("step to step p50"),
    ])
}

/// One chain alone: the time between the starts of its steps.
async fn step_to_step(run: &Run<'_>, bed: &Bed, starts: &Starts) -> Result<Times> {
    let client = bed.client();
    let bar = run.bar(run.n, "step to step");
    bar.tick();
    let meter = run.meter()?;
    let chain = Link::Link {
        number: 1,
        // There is one gap less than steps.
        left: run.n as u64 + 1,
    };
    let trail = client.start(Trail::with(chain)).await?;
    trail.output().timeout(DEADLINE).await?;
    let usage: Usage = meter.stop()?;
    bar.finish_and_clear();
    let starts = starts.lock().unwrap_or_else(PoisonError::into_inner);
    let gaps = starts
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).as_secs_f64() * 1_000.0);
    Ok(Times::new(gaps.collect(), usage))
}
