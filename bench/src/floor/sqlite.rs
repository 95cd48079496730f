//! The upper limit on SQLite: one connection, a thousand rows per transaction.

use crate::cpu::Usage;
use crate::figure::Sample;
use crate::machines::CHAIN_STEPS;
use crate::workload::Run;
use crate::workload::insert::{BATCH, single};
use anyhow::{Result, ensure};
use rusqlite::{Connection, params};
use std::path::Path;

const INSERT: &str = "
    insert into instances
           (machine, machine_version, step, state, status, queue, priority, eligible_at, trace, inserted_at,
            updated_at)
    values ('floor', 1, 'work', ?1, 'runnable', 'default', 0, 1,
            '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 1, 1)";

const CLAIM: &str = "
    update instances
       set status = 'executing', revision = revision + 1, locked_by = 1, updated_at = 2
     where id in (select id from instances
                   where status = 'runnable' and blocked = 0 and queue = 'default' and priority = 0
                     and eligible_at <= 2
                   order by eligible_at, id limit ?1)
    returning id, revision, step, state";

const GO_ON: &str = "
    update instances
       set step = 'work', state = ?3, revision = revision + 1, entered_revision = revision + 1, updated_at = 3
     where id = ?1 and revision = ?2 and status = 'executing'
    returning revision";

const FINISH: &str = "
    update instances
       set status = 'done', result = ?3, revision = revision + 1, locked_by = null, updated_at = 3, finished_at = 3
     where id = ?1 and revision = ?2 and status = 'executing'
    returning revision";

pub(super) fn drain(run: &Run<'_>, path: &Path) -> Result<Vec<Sample>> {
    let usage = run_steps(run, path, 1)?;
    Ok(vec![Sample::rate("floor drain", run.n, "steps/s", usage)])
}

pub(super) fn chain(run: &Run<'_>, path: &Path) -> Result<Vec<Sample>> {
    let steps = CHAIN_STEPS as usize;
    let usage = run_steps(run, path, steps)?;
    Ok(vec![Sample::rate(
        "floor chain",
        run.n * steps,
        "steps/s",
        usage,
    )])
}

pub(super) fn insert(run: &Run<'_>, path: &Path) -> Result<Vec<Sample>> {
    let connection = open(path)?;
    let single = single(run.n);
    Ok(vec![
        Sample::rate(
            "floor insert single",
            single,
            "rows/s",
            insert_rows(run, &connection, single, 1)?,
        ),
        Sample::rate(
            "floor insert batches",
            run.n,
            "rows/s",
            insert_rows(run, &connection, run.n, BATCH)?,
        ),
    ])
}

/// With the settings of the store: a commit waits for the disk.
fn open(path: &Path) -> Result<Connection> {
    let connection = Connection::open(path)?;
    connection.execute_batch("pragma journal_mode = wal; pragma synchronous = full")?;
    Ok(connection)
}

fn insert_rows(run: &Run<'_>, connection: &Connection, rows: usize, batch: usize) -> Result<Usage> {
    let bar = run.bar(rows, "bare inserts");
    let mut insert = connection.prepare(INSERT)?;
    let meter = run.meter()?;
    for first in (0..rows).step_by(batch) {
        connection.execute_batch("begin immediate")?;
        for number in first..rows.min(first + batch) {
            insert.execute([format!(r#"{{"number":{number}}}"#)])?;
        }
        connection.execute_batch("commit")?;
        bar.inc(batch as u64);
    }
    let usage = meter.stop()?;
    bar.finish_and_clear();
    Ok(usage)
}

fn run_steps(run: &Run<'_>, path: &Path, steps: usize) -> Result<Usage> {
    let connection = open(path)?;
    insert_rows(run, &connection, run.n, BATCH)?;
    let mut claim = connection.prepare(CLAIM)?;
    let mut go_on = connection.prepare(GO_ON)?;
    let mut finish = connection.prepare(FINISH)?;
    let bar = run.bar(run.n, "claiming and completing");
    let meter = run.meter()?;
    let mut done = 0;
    loop {
        connection.execute_batch("begin immediate")?;
        let claimed = claim.query_map([BATCH as i64], |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, i64>(1)?,
                row.get::<_, String>(3)?,
            ))
        })?;
        let mut claimed = claimed.collect::<rusqlite::Result<Vec<_>>>()?;
        connection.execute_batch("commit")?;
        if claimed.is_empty() {
            break;
        }
        for left in (0..steps).rev() {
            connection.execute_batch("begin immediate")?;
            for (id, revision, state) in &mut claimed {
                let document = format!(r#"{{"number":{id},"left":{left}}}"#);
                let statement = if left == 0 { &mut finish } else { &mut go_on };
                let document = if left == 0 { state.as_str() } else { &document };
                *revision =
                    statement.query_row(params![*id, *revision, document], |row| row.get(0))?;
            }
            connection.execute_batch("commit")?;
        }
        done += claimed.len();
        bar.inc(claimed.len() as u64);
    }
    let usage = meter.stop()?;
    bar.finish_and_clear();
    ensure!(done == run.n, "{done} of {} were done", run.n);
    Ok(usage)
}
