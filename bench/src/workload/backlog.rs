//! The cost of a claim with a growing backlog, and as many finished instances beside it.

use super::Run;
use super::claims::{copy, cost, insert_runnable};
use crate::bed::Bed;
use crate::figure::Sample;
use crate::machines::{Counter, One, Single};
use anyhow::Result;
use outlast::InstanceId;
use outlast::prelude::*;

pub(super) async fn run(run: &Run<'_>) -> Result<Vec<Sample>> {
    let bed = run.site.fresh().await?;
    let finished = finish_one(&bed).await?;
    copy(run, &bed, finished, run.n - 1, "finished").await?;
    let runnable = insert_runnable(&bed).await?;
    let mut samples = Vec::new();
    let mut there = 1;
    for (words, backlog) in [
        ("at n/100", run.n / 100),
        ("at n/10", run.n / 10),
        ("at n", run.n),
    ] {
        copy(run, &bed, runnable, backlog - there, "runnable").await?;
        there = backlog;
        bed.rest().await?;
        samples.extend(cost(run, &bed, backlog).await?.samples(words));
    }
    Ok(samples)
}

/// Returns an instance that the engine has finished, to be copied.
async fn finish_one(bed: &Bed) -> Result<InstanceId> {
    let builder = bed.builder().register(Single(Counter::default()));
    let engine = builder.queue("default", 100).start().await?;
    let one = engine.start(Single::with(One::Work { number: 1 })).await?;
    one.output().timeout(super::DEADLINE).await?;
    engine.shutdown().await?;
    Ok(one.id().get())
}
