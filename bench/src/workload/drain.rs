//! One-step instances inserted beforehand, until all are done.

use super::{Run, run_to_the_end};
use crate::cpu::Usage;
use crate::figure::Sample;
use crate::machines::{Counter, One, Single};
use anyhow::Result;
use outlast::Client;
use outlast::prelude::*;

pub(super) async fn run(run: &Run<'_>) -> Result<Vec<Sample>> {
    let usage = drain(run).await?;
    Ok(vec![Sample::rate("drain", run.n, "steps/s", usage)])
}

/// Runs from the start of the engine until nothing is left.
pub(super) async fn drain(run: &Run<'_>) -> Result<Usage> {
    let bed = run.site.fresh().await?;
    fill(run, &bed.client()).await?;
    let counter = Counter::default();
    let builder = bed.builder().register(Single(counter.clone()));
    run_to_the_end(run, &bed, builder, &counter, run.n).await
}

/// Inserts the instances.
async fn fill(run: &Run<'_>, client: &Client) -> Result<()> {
    let bar = run.bar(run.n, "inserting");
    let new = (0..run.n as u64).map(|number| Single::with(One::Work { number }));
    client.start_many(new).await?;
    bar.finish_and_clear();
    Ok(())
}
