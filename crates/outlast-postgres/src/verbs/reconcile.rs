//! The reconciler's verb: finds and repairs rows that violate an invariant, page by page.
//!
//! The engine's reconciler calls this. In a healthy store it finds nothing, however busy the store
//! is: the commits keep the invariants.

use crate::decode::{column, instance_id};
use crate::error::Failure;
use crate::session::Session;
use crate::session::statement::{self, value};
use crate::session::tx_settings::TxKind;
use crate::verbs::effects::add_if;
use outlast_core::{InstanceId, ReconcileRequest, Reconciled, Result};

pub(crate) async fn reconcile(session: &Session, request: ReconcileRequest) -> Result<Reconciled> {
    request
        .check()
        .map_err(|invalid| invalid.during("reconcile"))?;
    session
        .retry("reconcile", || Box::pin(reconcile_once(session, request)))
        .await
}

async fn reconcile_once(
    session: &Session,
    request: ReconcileRequest,
) -> Result<Reconciled, Failure> {
    let mut transaction = session.begin(TxKind::Write).await?;
    let after = request.after.map_or(i64::MIN, |id| id.0);
    // Read without a lock: it only names candidates. The statements below check each row again.
    let page = transaction
        .run(&[statement::RECONCILE_PAGE.with([value(after), value(request.max as i64)])])
        .await?;
    let (mut ids, mut joining, mut held) = (Vec::new(), Vec::new(), Vec::new());
    for row in &page[0] {
        let id = instance_id(row)?;
        ids.push(id.0);
        if column(row, "joins")? {
            joining.push(id.0);
        }
        if column(row, "is_held")? {
            held.push(id.0);
        }
    }
    let next = (ids.len() == request.max)
        .then(|| ids.last().copied().map(InstanceId))
        .flatten();
    // Counts joins under the parents' locks. Every finished child takes that lock before it
    // counts. So an end in progress is either counted already, or waits and counts afterwards.
    let mut calls = vec![
        statement::DELIVER_LOCK.with([value(joining.clone()), value(None::<i64>)]),
        statement::RECONCILE_JOINS.with([value(joining)]),
        statement::RECONCILE_HOLDS.with([value(ids)]),
    ];
    if !held.is_empty() {
        calls.push(statement::RECONCILE_WINDOWS.with([value(held)]));
    }
    let answers = transaction.finish(&calls).await?;
    let mut reconciled = Reconciled {
        next,
        ..Reconciled::default()
    };
    for row in &answers[1] {
        reconciled.joins.push(instance_id(row)?);
        add_if(&mut reconciled.woken, row, "released")?;
    }
    for row in answers[2..].iter().flatten() {
        reconciled.holds.push(instance_id(row)?);
        reconciled.woken.insert(column(row, "queue")?);
    }
    reconciled.joins.sort();
    reconciled.holds.sort();
    Ok(reconciled)
}
