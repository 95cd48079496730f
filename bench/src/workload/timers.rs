//! Retries with random delays: how late they start.

use super::{Run, run_to_the_end};
use crate::cpu::Usage;
use crate::figure::{Sample, Times};
use crate::machines::{Counter, Delayed, Later};
use anyhow::{Result, ensure};
use outlast::Client;
use outlast::prelude::*;

/// The period over which the retries are spread.
const SPREAD_MS: u64 = 9_000;

pub(super) async fn run(run: &Run<'_>) -> Result<Vec<Sample>> {
    ensure!(
        run.site.has_our_clock(),
        "lateness is the difference of two clocks, which are one only when the server runs on this machine"
    );
    let bed = run.site.fresh().await?;
    fill(run, &bed.client()).await?;
    let counter = Counter::default();
    let builder = bed.builder().register(Later(counter.clone()));
    let usage = run_to_the_end(run, &bed, builder, &counter, 2 * run.n).await?;
    let lateness = bed.eye().await?.lateness(Later::NAME).await?;
    check(&lateness, run.n)?;
    Ok(samples(lateness, usage))
}

async fn fill(run: &Run<'_>, client: &Client) -> Result<()> {
    let bar = run.bar(run.n, "inserting");
    // All must have failed once before the first retry is due; otherwise it would wait behind
    // them.
    let earliest = 1_000 + run.n as u64 / 4;
    let new = (0..run.n).map(|_| {
        let delay_ms = fastrand::u64(earliest..earliest + SPREAD_MS);
        Later::with(Delayed::Work { delay_ms })
    });
    client.start_many(new).await?;
    bar.finish_and_clear();
    Ok(())
}

/// No retry starts early (I10), and none is missing.
fn check(lateness: &[f64], n: usize) -> Result<()> {
    ensure!(lateness.len() == n, "{} of {n} are done", lateness.len());
    let early = lateness.iter().filter(|late| **late < 0.0);
    ensure!(
        early.clone().count() == 0,
        "{} of {n} started before they were due, by up to {:.3} ms",
        early.clone().count(),
        -early.copied().fold(0.0, f64::min)
    );
    Ok(())
}

fn samples(lateness: Vec<f64>, usage: Usage) -> Vec<Sample> {
    let times = Times::new(lateness, usage);
    vec![
        times.median("lateness p50"),
        times.quantile("lateness p99", 0.99),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_that_starts_early_fails_the_run() {
        assert!(check(&[0.0, 1.5, 40.0], 3).is_ok());
        let message = format!(
            "{:#}",
            check(&[0.0, -1.5, 40.0], 3).expect_err("one retry is early")
        );
        assert!(
            message.contains("1 of 3") && message.contains("1.500 ms"),
            "{message}"
        );
    }

    #[test]
    fn a_missing_retry_fails_the_run() {
        assert!(check(&[0.0, 1.5], 3).is_err());
    }
}
