//! A parked instance from signal to done: one at a time, and many at once.

use super::turns::in_turns;
use super::{DEADLINE, Run, until_all_ran};
use crate::cpu::Usage;
use crate::figure::Sample;
use crate::machines::{Counter, Go, Parking, Waiting};
use crate::workload::insert::CALLERS;
use anyhow::Result;
use outlast::prelude::*;
use outlast::{Client, Handle, Id};
use std::time::Instant;

pub(super) async fn run(run: &Run<'_>) -> Result<Vec<Sample>> {
    let mut samples = one_at_a_time(run).await?;
    let usage = at_once(run).await?;
    samples.push(Sample::rate("signals at once", run.n, "signals/s", usage));
    Ok(samples)
}

async fn one_at_a_time(run: &Run<'_>) -> Result<Vec<Sample>> {
    let bed = run.site.fresh().await?;
    let builder = bed.builder().register(Waiting(Counter::default()));
    let engine = builder.queue("default", 100).start().await?;
    let client = bed.client();
    let both = in_turns(run, &bed, "signal to done", async |number| {
        let parked = park(&client, number).await?;
        let begun = Instant::now();
        parked.signal(Go).await?;
        parked.output().timeout(DEADLINE).await?;
        Ok(begun.elapsed().as_secs_f64() * 1_000.0)
    })
    .await?;
    engine.shutdown().await?;
    Ok(vec![
        both.commits.median("one commit"),
        both.ours.median("signal p50"),
        both.ours.quantile("signal p99", 0.99),
    ])
}

async fn park(client: &Client, number: u64) -> Result<Handle<Waiting>> {
    let parked = client
        .start(Waiting::with(Parking::Start { number }))
        .await?;
    parked.settled().timeout(DEADLINE).await?;
    Ok(parked)
}

/// Parks many instances. Concurrent callers signal them one after the other until all are done.
async fn at_once(run: &Run<'_>) -> Result<Usage> {
    let bed = run.site.fresh().await?;
    let counter = Counter::default();
    let builder = bed.builder().register(Waiting(counter.clone()));
    let engine = builder.queue("default", 100).start().await?;
    let (client, eye) = (bed.client(), bed.eye().await?);
    let new = (0..run.n as u64).map(|number| Waiting::with(Parking::Start { number }));
    let parked = client.start_many(new).await?;
    let ids: Vec<Id<Waiting>> = parked.iter().map(Handle::id).collect();
    let bar = run.bar(2 * run.n, "signals at once");
    until_all_ran(&bar, &eye, &counter, run.n).await?;
    bed.settle().await?;
    let meter = run.meter()?;
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (client, ids) = (client.clone(), ids.clone());
            tokio::spawn(async move {
                for id in ids.into_iter().skip(caller).step_by(CALLERS) {
                    client.signal(id, Go).await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for caller in callers {
        caller.await??;
    }
    until_all_ran(&bar, &eye, &counter, 2 * run.n).await?;
    let usage = meter.stop()?;
    bar.finish_and_clear();
    engine.shutdown().await?;
    Ok(usage)
}
