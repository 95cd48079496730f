//! A workflow that waits for all of its activities, and a machine with as many children.

use super::{DEADLINE, Run};
use crate::cpu::Usage;
use crate::figure::{Sample, Times};
use crate::flows::{Unit, together};
use crate::machines::{Counter, Family, Gathering, Single};
use anyhow::{Result, ensure};
use outlast::prelude::*;
use outlast::store::limits::CHILDREN_MAX;
use outlast::{Client, Durable, New};
use std::time::Instant;

/// How often the two alternate: each is short.
const TURNS: usize = 20;
/// The first ones prepare statements.
const WARM_UP: usize = 2;

pub(super) async fn run(run: &Run<'_>) -> Result<Vec<Sample>> {
    ensure!(
        run.n <= CHILDREN_MAX,
        "a parent has {CHILDREN_MAX} children at most, not {}",
        run.n
    );
    let bed = run.site.fresh().await?;
    let counter = Counter::default();
    let builder = bed
        .builder()
        .register(together)
        .register(Unit(counter.clone()))
        .register(Family(counter.clone()))
        .register(Single(counter.clone()));
    let engine = builder.queue("default", 100).start().await?;
    let client = bed.client();
    let children = run.n as u64;
    let workflow = || together::with(children);
    let window = None;
    let machine = || Family::with(Gathering::Start { children, window });
    for _ in 0..WARM_UP {
        from_insert_to_end(run, &client, workflow()).await?;
        from_insert_to_end(run, &client, machine()).await?;
    }
    bed.settle().await?;
    let bar = run.bar(2 * TURNS, "families");
    let (mut flows, mut families) = (Turns::default(), Turns::default());
    for _ in 0..TURNS {
        flows.add(from_insert_to_end(run, &client, workflow()).await?);
        families.add(from_insert_to_end(run, &client, machine()).await?);
        bar.inc(2);
    }
    bar.finish_and_clear();
    engine.shutdown().await?;
    Ok(vec![
        flows.times().median("flow-fanout"),
        families.times().median("fanout of as many"),
    ])
}

/// Returns the milliseconds from insert to end of a parent whose result is the number of its
/// children.
async fn from_insert_to_end<D: Durable<Output = usize>>(
    run: &Run<'_>,
    client: &Client,
    parent: New<D>,
) -> Result<(f64, Usage)> {
    let meter = run.meter()?;
    let begun = Instant::now();
    let parent = client.start(parent).await?;
    let joined = parent.output().timeout(DEADLINE).await?;
    let milliseconds = begun.elapsed().as_secs_f64() * 1_000.0;
    ensure!(joined == run.n, "{joined} of {} were joined", run.n);
    Ok((milliseconds, meter.stop()?))
}

/// The samples of one side.
#[derive(Default)]
struct Turns {
    milliseconds: Vec<f64>,
    stretches: Vec<Usage>,
}

impl Turns {
    fn add(&mut self, (milliseconds, usage): (f64, Usage)) {
        self.milliseconds.push(milliseconds);
        self.stretches.push(usage);
    }

    fn times(self) -> Times {
        Times::new(self.milliseconds, Usage::over(&self.stretches))
    }
}
