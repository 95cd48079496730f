//! The time-out verb: fails instances that have taken too long.
//!
//! The engine's timers call this, on any number of nodes at once. Like a terminate it ends an
//! instance in any status, and the fence drops the outcome of a running step
//! (docs/decisions/0053). A locked row is skipped: its transaction may be about to end it.

use crate::decode::{column, duration, instance_id};
use crate::error::Failure;
use crate::session::Session;
use crate::session::statement::{self, Call, references, value};
use crate::session::tx_settings::TxKind;
use crate::verbs::effects::{Effects, admitting, clearing, closing, joining, letting_through};
use outlast_core::limits::{self, BATCH_MAX};
use outlast_core::{ClaimRef, PassedTimeout, Result, Revision, TimedOut};
use std::time::Duration;
use tokio_postgres::Row;

pub(crate) async fn time_out(session: &Session, max: usize) -> Result<TimedOut> {
    limits::check_batch("time_out", max, BATCH_MAX)
        .map_err(|invalid| invalid.during("time_out"))?;
    session
        .retry("time_out", || Box::pin(time_out_once(session, max)))
        .await
}

/// Locks the instances, then writes.
///
/// Two round trips: the texts are made here, so that all stores write the same.
async fn time_out_once(session: &Session, max: usize) -> Result<TimedOut, Failure> {
    let mut transaction = session.begin(TxKind::Write).await?;
    let locked = transaction
        .run(&[statement::TIME_OUT_DUE.with([value(max as i64)])])
        .await?;
    let due = DueInstances::read(&locked[0])?;
    let mut calls = due.calls();
    calls.push(statement::TIME_OUT_NEXT.with([]));
    let answers = transaction.finish(&calls).await?;
    let mut effects = Effects::default();
    for (call, rows) in calls.iter().zip(&answers) {
        effects.add(call.statement, rows)?;
    }
    let next = answers.last().map_or(&[][..], Vec::as_slice);
    Ok(TimedOut {
        ended: due.all.iter().map(|claim| claim.id).collect(),
        running: due.running.iter().map(|claim| claim.id).collect(),
        woken: effects.woken,
        cascades: effects.cascades,
        next_timeout_in: next_timeout_in(next)?,
    })
}

/// Reads the answer of time_out/next.sql. Zero if an instance is due already.
pub(crate) fn next_timeout_in(rows: &[Row]) -> Result<Option<Duration>, Failure> {
    let next = rows.first().map(|row| column(row, "due_us").map(duration));
    next.transpose()
}

/// Locked instances whose timeout has passed, earliest first.
#[derive(Default)]
struct DueInstances {
    all: Vec<ClaimRef>,
    errors: Vec<String>,
    /// The data of their last events.
    data: Vec<String>,
    /// The instances that a worker runs.
    running: Vec<ClaimRef>,
    /// The instances that have fanned out.
    parents: Vec<ClaimRef>,
    /// The instances that have a slot in a window.
    placed: Vec<ClaimRef>,
    /// The instances that do not wait for a slot: they may stand in the line of a partition key.
    in_line: Vec<ClaimRef>,
}

impl DueInstances {
    fn read(rows: &[Row]) -> Result<DueInstances, Failure> {
        let mut due = DueInstances::default();
        for row in rows {
            let claim = ClaimRef {
                id: instance_id(row)?,
                revision: column(row, "revision").map(Revision)?,
            };
            let passed = passed(row)?;
            let held: Option<bool> = column(row, "held")?;
            due.all.push(claim);
            due.errors.push(passed.reason());
            due.data.push(passed.event().data.as_str().to_owned());
            if column(row, "is_running")? {
                due.running.push(claim);
            }
            if column::<i32>(row, "round")? > 0 {
                due.parents.push(claim);
            }
            if held == Some(false) {
                due.placed.push(claim);
            }
            if held != Some(true) {
                due.in_line.push(claim);
            }
        }
        Ok(due)
    }

    /// Returns the statements in the order of their locks, as after a commit. None without rows.
    fn calls(&self) -> Vec<Call<'_>> {
        let mut calls = Vec::new();
        if self.all.is_empty() {
            return calls;
        }
        let [ids, revisions] = references(&self.all);
        let errors = self.errors.iter().map(String::as_str).collect::<Vec<_>>();
        let data = self.data.iter().map(String::as_str).collect::<Vec<_>>();
        calls.push(statement::TIME_OUT_FAIL.with([ids, revisions, value(errors), value(data)]));
        calls.push(clearing(&self.all));
        if !self.parents.is_empty() {
            calls.push(closing(&self.parents));
        }
        if !self.placed.is_empty() {
            calls.push(admitting(&self.placed));
        }
        calls.push(joining(&self.all));
        if !self.in_line.is_empty() {
            calls.push(letting_through(&self.in_line));
        }
        calls
    }
}

fn passed(row: &Row) -> Result<PassedTimeout, Failure> {
    let limit = duration(column(row, "limit_us")?);
    Ok(match column(row, "is_of_run")? {
        true => PassedTimeout::Run(column(row, "run")?, limit),
        false => PassedTimeout::Instance(limit),
    })
}
