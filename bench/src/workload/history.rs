//! Instances of ten steps that record nothing, their transitions, or their states.

use super::{Run, run_to_the_end};
use crate::figure::Sample;
use crate::machines::{CHAIN_STEPS, Counter, Link, Recorded};
use anyhow::Result;
use outlast::prelude::*;

pub(super) async fn run(run: &Run<'_>) -> Result<Vec<Sample>> {
    Ok(vec![
        run_recorded::<0>(run, "history off").await?,
        run_recorded::<1>(run, "history of transitions").await?,
        run_recorded::<2>(run, "history of states").await?,
    ])
}

async fn run_recorded<const HOW: u8>(run: &Run<'_>, name: &str) -> Result<Sample> {
    let bed = run.site.fresh().await?;
    let bar = run.bar(run.n, "inserting");
    let left = CHAIN_STEPS;
    let new = (0..run.n as u64).map(|number| Recorded::<HOW>::with(Link::Link { number, left }));
    bed.client().start_many(new).await?;
    bar.finish_and_clear();
    let counter = Counter::default();
    let builder = bed.builder().register(Recorded::<HOW>(counter.clone()));
    let steps = run.n * CHAIN_STEPS as usize;
    let usage = run_to_the_end(run, &bed, builder, &counter, steps).await?;
    Ok(Sample::rate(name, steps, "steps/s", usage))
}
