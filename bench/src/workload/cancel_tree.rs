//! A tree of parked instances, from its cancel until all have finished.

use super::{Run, until_all_ran};
use crate::figure::Sample;
use crate::machines::{Counter, Dynasty, Growing};
use anyhow::Result;
use outlast::Note;
use outlast::prelude::*;
use std::sync::atomic::Ordering;

pub(super) async fn run(run: &Run<'_>) -> Result<Vec<Sample>> {
    // A root, its children, and as many grandchildren of each.
    let width = run.n.isqrt();
    let members = 1 + width + width * width;
    let bed = run.site.fresh().await?;
    let counter = Counter::default();
    let builder = bed.builder().register(Dynasty(counter.clone()));
    let engine = builder.queue("default", 100).start().await?;
    let eye = bed.eye().await?;
    let new = Dynasty::with(Growing::Grow {
        depth: 2,
        width: width as u64,
    });
    let root = engine.start(new).await?.id();
    let bar = run.bar(members, "growing");
    until_all_ran(&bar, &eye, &counter, members).await?;
    bed.settle().await?;
    // Every instance runs `on_cancel` and counts it.
    counter.store(0, Ordering::Relaxed);
    let meter = run.meter()?;
    let admin = engine.client().admin();
    admin.cancel_tree(root, Note::by("bench")).await?;
    until_all_ran(&bar, &eye, &counter, members).await?;
    let usage = meter.stop()?;
    bar.finish_and_clear();
    engine.shutdown().await?;
    let sample = Sample::rate("cancel-tree", members, "instances/s", usage);
    Ok(vec![sample.of(members)])
}
