//! Inserts: single rows, batches, and concurrent callers.

use super::Run;
use crate::cpu::Usage;
use crate::figure::Sample;
use crate::machines::{One, Single};
use anyhow::Result;
use outlast::prelude::*;

/// Rows per batch.
pub(crate) const BATCH: usize = 1_000;
/// Concurrent callers.
pub(crate) const CALLERS: usize = 32;

/// The number of single inserts, which is smaller because each takes long.
pub(crate) fn single(rows: usize) -> usize {
    (rows / 20).max(1)
}

pub(super) async fn run(run: &Run<'_>) -> Result<Vec<Sample>> {
    let single = single(run.n);
    Ok(vec![
        Sample::rate(
            "insert single",
            single,
            "rows/s",
            one_by_one(run, single).await?,
        ),
        Sample::rate(
            "insert batches",
            run.n,
            "rows/s",
            by_the_thousand(run).await?,
        ),
        Sample::rate(
            "insert 32 callers",
            single,
            "rows/s",
            from_many_callers(run, single).await?,
        ),
    ])
}

async fn one_by_one(run: &Run<'_>, rows: usize) -> Result<Usage> {
    let client = run.site.fresh().await?.client();
    let bar = run.bar(rows, "one by one");
    let meter = run.meter()?;
    for number in 0..rows as u64 {
        client.start(Single::with(One::Work { number })).await?;
        bar.inc(1);
    }
    finish(bar, meter)
}

async fn by_the_thousand(run: &Run<'_>) -> Result<Usage> {
    let client = run.site.fresh().await?.client();
    let bar = run.bar(run.n, "by the thousand");
    let meter = run.meter()?;
    for first in (0..run.n).step_by(BATCH) {
        let batch = first as u64..run.n.min(first + BATCH) as u64;
        bar.inc(batch.end - batch.start);
        let new = batch.map(|number| Single::with(One::Work { number }));
        client.start_many(new).await?;
    }
    finish(bar, meter)
}

async fn from_many_callers(run: &Run<'_>, rows: usize) -> Result<Usage> {
    let client = run.site.fresh().await?.client();
    let bar = run.bar(rows, "from 32 callers");
    let meter = run.meter()?;
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (client, bar) = (client.clone(), bar.clone());
            tokio::spawn(async move {
                for number in (caller..rows).step_by(CALLERS) {
                    client
                        .start(Single::with(One::Work {
                            number: number as u64,
                        }))
                        .await?;
                    bar.inc(1);
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for caller in callers {
        caller.await??;
    }
    finish(bar, meter)
}

fn finish(bar: indicatif::ProgressBar, meter: crate::cpu::Meter) -> Result<Usage> {
    let usage = meter.stop()?;
    bar.finish_and_clear();
    Ok(usage)
}
