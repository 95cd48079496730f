//! Counters of runs and delays per minute. Engines add to them, and the dashboard reads them.
//!
//! No decision of a store or an engine depends on them (docs/decisions/0025).

use crate::decode::{column, time};
use crate::error::Failure;
use crate::session::Session;
use crate::session::statement::{self, Call, value};
use crate::session::tx_settings::TxKind;
use outlast_core::limits::{self, RUN_STATS_KEPT, RUN_STATS_MAX};
use outlast_core::{Delays, Result, RunStats, Runs, Timestamp, micros, minute_of};
use std::time::SystemTime;
use tokio_postgres::Row;

/// How many old rows of each kind one call removes. Engines call every few seconds and add fewer.
const FORGOTTEN_MAX: i64 = 1_000;

pub(crate) async fn add(session: &Session, stats: RunStats) -> Result<()> {
    stats.check().map_err(|invalid| invalid.during("record"))?;
    if stats.is_empty() {
        return Ok(());
    }
    // Each key once, because an `on conflict` cannot write a row twice. In the order that all
    // nodes share, so that two of them cannot deadlock.
    let stats = &stats.in_order();
    session
        .retry("record", || {
            Box::pin(async move {
                // Each call removes what has become too old, so no loop is needed for it.
                let kept = [value(micros(RUN_STATS_KEPT)), value(FORGOTTEN_MAX)];
                let calls = [
                    add_runs(&stats.runs),
                    add_delays(&stats.delays),
                    statement::RUN_STATS_FORGET_RUNS.with(kept),
                    forget_delays(FORGOTTEN_MAX),
                ];
                // No caller needs these counts on disk, and a crash may lose them.
                session.transact(TxKind::Claim, &calls).await?;
                Ok(())
            })
        })
        .await
}

fn add_runs(runs: &[Runs]) -> Call<'_> {
    let texts = |text: fn(&Runs) -> &str| runs.iter().map(text).collect::<Vec<_>>();
    let numbers =
        |number: fn(&Runs) -> u64| runs.iter().map(number).map(stored).collect::<Vec<_>>();
    let minutes: Vec<_> = runs.iter().map(|it| SystemTime::from(it.minute)).collect();
    statement::RUN_STATS_RUNS.with([
        value(minutes),
        value(texts(|it| &it.machine)),
        value(runs.iter().map(|it| it.version).collect::<Vec<_>>()),
        value(texts(|it| &it.step)),
        value(texts(|it| &it.outcome)),
        value(texts(|it| &it.next)),
        value(numbers(|it| it.count)),
        value(numbers(|it| it.micros)),
    ])
}

pub(crate) fn add_delays(delays: &[Delays]) -> Call<'_> {
    let minutes: Vec<_> = delays
        .iter()
        .map(|it| SystemTime::from(it.minute))
        .collect();
    let queues: Vec<_> = delays.iter().map(|it| it.queue.as_str()).collect();
    let bins: Vec<_> = delays.iter().map(|it| i16::from(it.bin)).collect();
    let counts: Vec<_> = delays.iter().map(|it| stored(it.count)).collect();
    statement::RUN_STATS_DELAYS.with([value(minutes), value(queues), value(bins), value(counts)])
}

/// Removes the oldest delays beyond their retention, `max` at most.
pub(crate) fn forget_delays(max: i64) -> Call<'static> {
    statement::RUN_STATS_FORGET_DELAYS.with([value(micros(RUN_STATS_KEPT)), value(max)])
}

/// Converts a count that was checked and may have been added to others of its key.
fn stored(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(crate) async fn since(session: &Session, since: Timestamp) -> Result<RunStats> {
    limits::check_moment("since", since).map_err(|invalid| invalid.during("run_stats"))?;
    let since = SystemTime::from(minute_of(since));
    session
        .retry("run_stats", || {
            Box::pin(async move {
                let newest = || [value(since), value(RUN_STATS_MAX as i64)];
                let calls = [
                    statement::INSPECT_RUNS.with(newest()),
                    statement::INSPECT_DELAYS.with(newest()),
                ];
                let answers = session.transact(TxKind::Inspect, &calls).await?;
                // The newest come first, so that the bound leaves out the oldest.
                let runs = answers[0].iter().rev().map(runs);
                let delays = answers[1].iter().rev().map(delays);
                Ok(RunStats {
                    runs: runs.collect::<Result<_, _>>()?,
                    delays: delays.collect::<Result<_, _>>()?,
                })
            })
        })
        .await
}

fn runs(row: &Row) -> Result<Runs, Failure> {
    Ok(Runs {
        minute: time(row, "minute")?,
        machine: column(row, "machine")?,
        version: column(row, "machine_version")?,
        step: column(row, "step")?,
        outcome: column(row, "outcome")?,
        next: column(row, "next_step")?,
        count: column::<i64>(row, "count")?.unsigned_abs(),
        micros: column::<i64>(row, "micros")?.unsigned_abs(),
    })
}

fn delays(row: &Row) -> Result<Delays, Failure> {
    let bin: i16 = column(row, "bin")?;
    Ok(Delays {
        minute: time(row, "minute")?,
        queue: column(row, "queue")?,
        bin: u8::try_from(bin).unwrap_or(u8::MAX),
        count: column::<i64>(row, "count")?.unsigned_abs(),
    })
}
