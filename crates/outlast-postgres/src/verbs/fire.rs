//! The timers' verb: wakes waits and joins whose deadline has passed.
//!
//! The engine's timers call this, on any number of nodes at once. One statement locks and wakes:
//! it decides by the row alone, and PostgreSQL reads a row again after it has locked it. A locked
//! row is skipped: the transaction that holds it may be about to wake it.

use crate::decode::{column, duration, instance_id};
use crate::error::Failure;
use crate::session::Session;
use crate::session::statement::{self, value};
use crate::session::tx_settings::TxKind;
use crate::verbs::time_out;
use outlast_core::limits::{self, BATCH_MAX};
use outlast_core::{Fired, Result};

pub(crate) async fn fire(session: &Session, max: usize) -> Result<Fired> {
    limits::check_batch("fire", max, BATCH_MAX).map_err(|invalid| invalid.during("fire"))?;
    session
        .retry("fire", || Box::pin(fire_once(session, max)))
        .await
}

async fn fire_once(session: &Session, max: usize) -> Result<Fired, Failure> {
    // In this order: the second statement must not see deadlines that the first has cleared.
    let calls = [
        statement::FIRE.with([value(max as i64)]),
        statement::FIRE_NEXT_DUE.with([]),
        statement::TIME_OUT_NEXT.with([]),
    ];
    let answers = session.transact(TxKind::Write, &calls).await?;
    let mut fired = Fired::default();
    for row in &answers[0] {
        fired.woken_instances.push(instance_id(row)?);
        fired.woken.insert(column(row, "queue")?);
        fired.cascades |= column::<bool>(row, "cascades")?;
    }
    // Zero if rows are left: the batch was full, or a row was skipped.
    if let Some(row) = answers[1].first() {
        fired.next_due_in = Some(duration(column(row, "due_us")?));
    }
    fired.next_timeout_in = time_out::next_timeout_in(&answers[2])?;
    Ok(fired)
}
