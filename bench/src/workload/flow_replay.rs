//! Waiting workflows from signal to done, with growing histories: measures the replay.

use super::{DEADLINE, Run, until_all_ran};
use crate::bed::Bed;
use crate::cpu::Usage;
use crate::figure::{Sample, Times};
use crate::flows::Long;
use crate::machines::{Counter, Go};
use anyhow::{Result, ensure};
use outlast::{Handle, Workflow};
use std::time::Instant;

/// Workflows per length.
const EACH: usize = 25;
/// The first ones open connections, prepare statements and fill caches.
const WARM_UP: usize = 5;

pub(super) async fn run(run: &Run<'_>) -> Result<Vec<Sample>> {
    let lengths = [
        ("resume at n/4", run.n / 4),
        ("resume at n/2", run.n / 2),
        ("resume at n", run.n),
        ("resume at 2n", 2 * run.n),
        ("resume at 4n", 4 * run.n),
    ];
    let bed = run.site.fresh().await?;
    let counter = Counter::default();
    let builder = bed.builder().register(Long(counter.clone()));
    let engine = builder.queue("default", 100).start().await?;
    let mut waiting = Vec::new();
    for (_, events) in lengths {
        waiting.push(park(run, &bed, &counter, events).await?);
    }
    bed.rest().await?;
    let bar = run.bar(EACH * lengths.len(), "resuming");
    let mut stretches: [Vec<(f64, Usage)>; 5] = Default::default();
    // Alternates the lengths, so that all share the same conditions of the machine.
    for nth in 0..EACH {
        for (place, ((_, events), parked)) in lengths.iter().zip(&waiting).enumerate() {
            let took = resume(run, &parked[nth], *events).await?;
            if nth >= WARM_UP {
                stretches[place].push(took);
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    engine.shutdown().await?;
    let samples = lengths.iter().zip(stretches).map(|((name, events), took)| {
        let (milliseconds, usage): (Vec<f64>, Vec<Usage>) = took.into_iter().unzip();
        let times = Times::new(milliseconds, Usage::over(&usage));
        times.median(*name).of(*events)
    });
    Ok(samples.collect())
}

/// Starts workflows that wait with this many events.
async fn park(
    run: &Run<'_>,
    bed: &Bed,
    counter: &Counter,
    events: usize,
) -> Result<Vec<Handle<Long>>> {
    let client = bed.client();
    let eye = bed.eye().await?;
    counter.store(0, std::sync::atomic::Ordering::Relaxed);
    let steps = EACH * (events - 2);
    let bar = run.bar(steps, "writing histories");
    let new = (0..EACH).map(|_| Long::with(events));
    let waiting = client.start_many(new).await?;
    until_all_ran(&bar, &eye, counter, steps).await?;
    bar.finish_and_clear();
    Ok(waiting)
}

/// Returns the milliseconds from signal to done.
async fn resume(run: &Run<'_>, waiting: &Handle<Long>, events: usize) -> Result<(f64, Usage)> {
    let meter = run.meter()?;
    let begun = Instant::now();
    waiting.signal(Go).await?;
    let behind = waiting.output().timeout(DEADLINE).await?;
    let milliseconds = begun.elapsed().as_secs_f64() * 1_000.0;
    // The signal adds one event.
    ensure!(behind == events + 1, "{behind} events instead of {events}");
    Ok((milliseconds, meter.stop()?))
}
