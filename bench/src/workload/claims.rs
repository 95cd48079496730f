//! The cost of a claim of a hundred, by a direct call of the store.

use super::{REPEATS, Run};
use crate::bed::Bed;
use crate::cpu::Usage;
use crate::figure::{Sample, Times};
use crate::machines::{One, Single};
use anyhow::{Result, ensure};
use indicatif::ProgressBar;
use outlast::InstanceId;
use outlast::prelude::*;
use outlast::store::Store;
use outlast_core::{ClaimRequest, MachineVersion, NewWorker, Release, WorkerId};
use std::sync::Arc;
use std::time::Instant;

/// Instances per claim: as many as the README's engine has slots.
const MAX: usize = 100;

/// The number of measured claims.
const CLAIMS: usize = 200;

/// Claims held at the same time. They are released afterwards, so the backlog keeps its size.
const HELD: usize = 20;

/// Released instances go to the end of the queue. In a queue in use, finished rows are behind the
/// claim and new ones at the end. Without this delay a claim would find the same few rows
/// repeatedly.
const PAUSE: Duration = Duration::from_millis(1);

/// The cost of claims.
pub(super) struct Cost {
    times: Times,
    cpu_us: f64,
    usage: Usage,
    runnable: usize,
}

impl Cost {
    /// Returns the figures: the time, and the processor time of the database, which a busy disk
    /// does not change.
    pub(super) fn samples(&self, place: &str) -> [Sample; 2] {
        let cpu = Sample::new(format!("claim cpu {place}"), self.cpu_us, "µs", self.usage);
        [
            self.times
                .median(format!("claim {place}"))
                .of(self.runnable),
            cpu.of(self.runnable),
        ]
    }
}

/// Measures claims from this many runnable instances; repeats while other processes are busy.
pub(super) async fn cost(run: &Run<'_>, bed: &Bed, runnable: usize) -> Result<Cost> {
    let hand = Hand::new(bed).await?;
    let mut quietest = measure(run, &hand, runnable).await?;
    for _ in 0..REPEATS {
        if quietest.usage.is_quiet() {
            break;
        }
        let again = measure(run, &hand, runnable).await?;
        if again.usage.others < quietest.usage.others {
            quietest = again;
        }
    }
    hand.leave().await?;
    Ok(quietest)
}

/// Claims repeatedly.
async fn measure(run: &Run<'_>, hand: &Hand, runnable: usize) -> Result<Cost> {
    let held = (runnable / MAX / 2).clamp(1, HELD);
    let bar = run.bar(CLAIMS, "claims");
    let (mut milliseconds, mut stretches) = (Vec::new(), Vec::new());
    // The first claim opens connections and prepares statements.
    let warm_up = hand.claim().await?;
    hand.release(warm_up).await?;
    while milliseconds.len() < CLAIMS {
        let mut claimed = Vec::new();
        let meter = run.meter()?;
        for _ in 0..held {
            let begun = Instant::now();
            claimed.extend(hand.claim().await?);
            milliseconds.push(begun.elapsed().as_secs_f64() * 1_000.0);
        }
        stretches.push(meter.stop()?);
        hand.release(claimed).await?;
        bar.inc(held as u64);
    }
    bar.finish_and_clear();
    let usage = Usage::over(&stretches);
    // SQLite works in this process.
    let worked = match run.site.server_process() {
        Some(_) => usage.database,
        None => usage.engine,
    };
    Ok(Cost {
        cpu_us: worked * usage.seconds / milliseconds.len() as f64 * 1e6,
        times: Times::new(milliseconds, usage),
        usage,
        runnable,
    })
}

/// A worker that only claims.
struct Hand {
    store: Arc<dyn Store>,
    worker: WorkerId,
    machines: Arc<[MachineVersion]>,
}

impl Hand {
    async fn new(bed: &Bed) -> Result<Hand> {
        let store = bed.store();
        let worker = NewWorker {
            name: "bench".into(),
            host: "here".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            machines: Vec::new(),
            queues: vec![Single::QUEUE.into()],
            lease: Duration::from_secs(3600),
        };
        Ok(Hand {
            worker: store.register(worker).await?,
            machines: [MachineVersion::new(Single::NAME, Single::VERSION)].into(),
            store,
        })
    }

    async fn claim(&self) -> Result<Vec<Release>> {
        let request = ClaimRequest {
            worker: self.worker,
            queue: Single::QUEUE.into(),
            machines: self.machines.clone(),
            max: MAX,
        };
        let claimed = self.store.claim(request).await?.claims;
        ensure!(
            claimed.len() == MAX,
            "a claim took {} of {MAX}",
            claimed.len()
        );
        let release = claimed.iter().map(|claim| Release {
            claim: claim.reference(),
            pause: PAUSE,
        });
        Ok(release.collect())
    }

    async fn release(&self, claims: Vec<Release>) -> Result<()> {
        self.store.release(claims).await?;
        Ok(())
    }

    async fn leave(&self) -> Result<()> {
        self.store.deregister(self.worker).await?;
        Ok(())
    }
}

/// Returns one runnable instance, to be copied.
pub(super) async fn insert_runnable(bed: &Bed) -> Result<InstanceId> {
    let new = Single::with(One::Work { number: 1 });
    Ok(bed.client().start(new).await?.id().get())
}

/// Copies an instance, with a progress bar.
pub(super) async fn copy(
    run: &Run<'_>,
    bed: &Bed,
    id: InstanceId,
    times: usize,
    doing: &'static str,
) -> Result<()> {
    let bar: ProgressBar = run.bar(times, doing);
    bed.eye().await?.copy(id, times, &bar).await?;
    bar.finish_and_clear();
    Ok(())
}
