//! Run statistics: counts by the minute of the steps that engines have run.
//!
//! The loop `stats_flusher` of every engine calls it every two seconds (docs/decisions/0025). No
//! decision may depend on these counts: a crash loses some of them.

use crate::decode;
use crate::error::Fault;
use crate::inspect::all;
use crate::tx::Tx;
use outlast_core::limits::{RUN_STATS_KEPT, RUN_STATS_MAX};
use outlast_core::{Delays, RunStats, Runs, Timestamp, minute_of};
use rusqlite::{Row, params};

const RUNS: &str = include_str!("../../sql/run_stats/runs.sql");
const DELAYS: &str = include_str!("../../sql/run_stats/delays.sql");
const FORGET_RUNS: &str = include_str!("../../sql/run_stats/forget_runs.sql");
const FORGET_DELAYS: &str = include_str!("../../sql/run_stats/forget_delays.sql");
const RUNS_SINCE: &str = include_str!("../../sql/inspect/run_stats/runs.sql");
const DELAYS_SINCE: &str = include_str!("../../sql/inspect/run_stats/delays.sql");

/// Old rows of each kind that every flush removes. Engines flush every few seconds, and add fewer.
const FORGOTTEN_MAX: i64 = 1_000;

/// Adds counts to those of their minute, and removes the oldest.
///
/// Adding twice counts twice, so the engine never sends counts again.
pub(crate) fn add(tx: &Tx<'_>, stats: &RunStats) -> Result<(), Fault> {
    let mut add = tx.prepare(RUNS)?;
    for runs in &stats.runs {
        let Runs {
            minute,
            machine,
            version,
            step,
            outcome,
            next,
            count,
            micros,
        } = runs;
        add.execute(params![
            minute.0,
            machine,
            version,
            step,
            outcome,
            next,
            stored(*count),
            stored(*micros)
        ])?;
    }
    add_delays(tx, &stats.delays)?;
    // Here and not in the collector: the tables grow only with what is added.
    forget(tx, FORGET_RUNS, FORGOTTEN_MAX)?;
    forget(tx, FORGET_DELAYS, FORGOTTEN_MAX)
}

fn add_delays(tx: &Tx<'_>, delays: &[Delays]) -> Result<(), Fault> {
    let mut add = tx.prepare(DELAYS)?;
    for delays in delays {
        let Delays {
            minute,
            queue,
            bin,
            count,
        } = delays;
        add.execute(params![minute.0, queue, bin, stored(*count)])?;
    }
    Ok(())
}

/// Removes up to `max` rows that are older than the statistics are kept.
fn forget(tx: &Tx<'_>, statement: &'static str, max: i64) -> Result<(), Fault> {
    let before = tx.now - RUN_STATS_KEPT;
    tx.prepare(statement)?.execute(params![before.0, max])?;
    Ok(())
}

/// Writes rows for a minute long past and removes them again. Probes that writes work.
///
/// In one transaction, so that no reader sees them. Their minute makes them the first to be
/// removed.
pub(crate) fn write_and_remove(tx: &Tx<'_>) -> Result<(), Fault> {
    add_delays(tx, &Delays::probes())?;
    forget(tx, FORGET_DELAYS, Delays::PROBE_MAX as i64)
}

/// Converts a count. The request's check has bounded it, so it fits.
fn stored(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Returns the statistics since a minute.
///
/// The statements return the newest rows first, so that the bound leaves out the oldest.
pub(crate) fn since(tx: &Tx<'_>, since: Timestamp) -> Result<RunStats, Fault> {
    let since = minute_of(since).0;
    let newest = params![since, RUN_STATS_MAX as i64];
    let mut stats = RunStats {
        runs: all(tx, RUNS_SINCE, newest, runs)?,
        delays: all(tx, DELAYS_SINCE, newest, delays)?,
    };
    stats.runs.reverse();
    stats.delays.reverse();
    Ok(stats)
}

fn runs(row: &Row<'_>) -> rusqlite::Result<Runs> {
    Ok(Runs {
        minute: Timestamp(row.get("minute")?),
        machine: row.get("machine")?,
        version: row.get("machine_version")?,
        step: row.get("step")?,
        outcome: row.get("outcome")?,
        next: row.get("next_step")?,
        count: decode::count(row, "count")?,
        micros: decode::count(row, "micros")?,
    })
}

fn delays(row: &Row<'_>) -> rusqlite::Result<Delays> {
    Ok(Delays {
        minute: Timestamp(row.get("minute")?),
        queue: row.get("queue")?,
        bin: row.get("bin")?,
        count: decode::count(row, "count")?,
    })
}
