//! Instances of ten steps, with run-ahead and without.

use super::{Run, run_to_the_end};
use crate::figure::Sample;
use crate::machines::{CHAIN_STEPS, Chain, Counter, Link};
use anyhow::Result;
use outlast::Client;
use outlast::engine::EngineBuilder;
use outlast::prelude::*;

pub(super) async fn run(run: &Run<'_>) -> Result<Vec<Sample>> {
    let ahead = run_chains(run, "chain", |builder| builder).await?;
    let requeued = run_chains(run, "chain without run-ahead", |builder| {
        builder.run_ahead(0)
    })
    .await?;
    Ok(vec![ahead, requeued])
}

/// Runs from the start of the engine until all chains are done.
pub(super) async fn run_chains(
    run: &Run<'_>,
    name: &str,
    set: impl FnOnce(EngineBuilder) -> EngineBuilder,
) -> Result<Sample> {
    let bed = run.site.fresh().await?;
    fill(run, &bed.client()).await?;
    let counter = Counter::default();
    let builder = set(bed.builder().register(Chain(counter.clone())));
    let steps = run.n * CHAIN_STEPS as usize;
    let usage = run_to_the_end(run, &bed, builder, &counter, steps).await?;
    Ok(Sample::rate(name, steps, "steps/s", usage))
}

/// Inserts the chains.
async fn fill(run: &Run<'_>, client: &Client) -> Result<()> {
    let bar = run.bar(run.n, "inserting");
    let left = CHAIN_STEPS;
    let new = (0..run.n as u64).map(|number| Chain::with(Link::Link { number, left }));
    client.start_many(new).await?;
    bar.finish_and_clear();
    Ok(())
}
