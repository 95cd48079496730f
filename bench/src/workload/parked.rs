//! An idle engine: alone, and beside parked instances.

use super::claims::{Cost, copy, cost, insert_runnable};
use super::{DEADLINE, Run};
use crate::bed::Bed;
use crate::cpu::{Usage, memory};
use crate::figure::Sample;
use crate::machines::{Counter, Parking, Single, Waiting};
use anyhow::Result;
use outlast::InstanceId;
use outlast::engine::EngineBuilder;
use outlast::prelude::*;

/// Runnable instances while claims are measured.
const RUNNABLE: usize = 10_000;

/// How long an engine may take to become idle after its start.
const START: Duration = Duration::from_secs(5);

pub(super) async fn run(run: &Run<'_>) -> Result<Vec<Sample>> {
    // A warm-up of everything: memory that a process has touched once stays resident, and would
    // make the second measurement look larger.
    watch(run, 1, Duration::ZERO).await?;
    let none = watch(run, 0, run.idle).await?;
    let parked = watch(run, run.n, run.idle).await?;
    let mut samples = none.samples("idle", "beside none");
    samples.extend(parked.samples("parked", "beside parked"));
    Ok(samples)
}

/// The resources of an idle engine.
struct Watched {
    usage: Usage,
    memory_mb: f64,
    claim: Cost,
    parked: usize,
}

impl Watched {
    fn samples(&self, state: &str, place: &str) -> Vec<Sample> {
        let percent = (self.usage.engine + self.usage.database) * 100.0;
        let cpu = Sample::new(format!("{state} cpu"), percent, "% of a core", self.usage);
        let memory = Sample::new(format!("{state} memory"), self.memory_mb, "MB", self.usage);
        let mut samples = vec![
            cpu.of(self.parked).unmoved_by_others(),
            memory.of(self.parked).unmoved_by_others(),
        ];
        samples.extend(
            self.claim
                .samples(place)
                .map(|sample| sample.of(self.parked)),
        );
        samples
    }
}

/// Observes an engine beside this many parked instances.
async fn watch(run: &Run<'_>, parked: usize, idle: Duration) -> Result<Watched> {
    let bed = run.site.fresh().await?;
    if parked > 0 {
        let id = park_one(&bed).await?;
        copy(run, &bed, id, parked - 1, "parking").await?;
    }
    bed.rest().await?;
    let (usage, memory_mb) = rest(run, &bed, idle).await?;
    Ok(Watched {
        usage,
        memory_mb,
        claim: claim_beside(run, &bed).await?,
        parked,
    })
}

/// Measures the processor usage of engine and database while nothing happens, and our memory.
async fn rest(run: &Run<'_>, bed: &Bed, idle: Duration) -> Result<(Usage, f64)> {
    let engine = builder(bed).start().await?;
    tokio::time::sleep(START.min(idle)).await;
    // Drawn once: updating a bar costs processor time too.
    let bar = run.bar(1, "nothing to do");
    bar.tick();
    let meter = run.meter()?;
    tokio::time::sleep(idle).await;
    let usage = meter.stop()?;
    let memory_mb = memory()?;
    bar.finish_and_clear();
    engine.shutdown().await?;
    Ok((usage, memory_mb))
}

async fn claim_beside(run: &Run<'_>, bed: &Bed) -> Result<Cost> {
    let runnable = insert_runnable(bed).await?;
    copy(run, bed, runnable, RUNNABLE - 1, "runnable").await?;
    bed.rest().await?;
    cost(run, bed, RUNNABLE).await
}

/// Returns an instance that the engine itself has parked, to be copied.
async fn park_one(bed: &Bed) -> Result<InstanceId> {
    let engine = builder(bed).start().await?;
    let new = Waiting::with(Parking::Start { number: 1 });
    let parked = engine.start(new).await?;
    parked.settled().timeout(DEADLINE).await?;
    engine.shutdown().await?;
    Ok(parked.id().get())
}

fn builder(bed: &Bed) -> EngineBuilder {
    let builder = bed.builder().register(Waiting(Counter::default()));
    let builder = builder.register(Single(Counter::default()));
    builder.queue("default", 100)
}
