//! Workflows of ten steps, and machines with as many.

use super::{Run, chain, run_to_the_end};
use crate::figure::Sample;
use crate::flows::Steps;
use crate::machines::{CHAIN_STEPS, Counter};
use anyhow::Result;
use outlast::{Client, Workflow};

pub(super) async fn run(run: &Run<'_>) -> Result<Vec<Sample>> {
    let machines = chain::run_chains(run, "chain of as many", |builder| builder).await?;
    Ok(vec![run_workflows(run).await?, machines])
}

async fn run_workflows(run: &Run<'_>) -> Result<Sample> {
    let bed = run.site.fresh().await?;
    fill(run, &bed.client()).await?;
    let counter = Counter::default();
    let builder = bed.builder().register(Steps(counter.clone()));
    let steps = run.n * CHAIN_STEPS as usize;
    let usage = run_to_the_end(run, &bed, builder, &counter, steps).await?;
    Ok(Sample::rate("flow-steps", steps, "steps/s", usage))
}

/// Inserts the workflows.
async fn fill(run: &Run<'_>, client: &Client) -> Result<()> {
    let bar = run.bar(run.n, "inserting");
    let new = (0..run.n as u64).map(Steps::with);
    client.start_many(new).await?;
    bar.finish_and_clear();
    Ok(())
}
