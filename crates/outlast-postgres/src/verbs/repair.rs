//! The repair of instances that nothing would ever wake, and the search for them.
//!
//! Operators, the reconciler, the doctor and the liveness of an instance all use one statement,
//! repair/find.sql. The search takes no locks. A repair locks the instances and searches again, so
//! that nothing which changes at the same time is repaired. In a healthy store the search finds
//! nothing, however busy the store is.

use crate::decode::{column, instance_id, status};
use crate::error::Failure;
use crate::session::statement::{self, Call, value};
use crate::session::tx_settings::TxKind;
use crate::session::{Session, Transaction};
use crate::verbs::effects::add_if;
use crate::verbs::end_instances::{LockedInstance, recording};
use crate::verbs::operate;
use outlast_core::{
    InstanceId, Joined, NeedingRepair, Note, RepairAnswer, RepairNeed, RepairScope, Repaired,
    Result, Status, Verb,
};
use std::collections::{BTreeMap, BTreeSet};
use tokio_postgres::Row;

/// Finds instances that need a repair.
pub(crate) async fn needing_repair(
    session: &Session,
    scope: &RepairScope,
) -> Result<NeedingRepair> {
    scope
        .check()
        .map_err(|invalid| invalid.during("needing_repair"))?;
    match scope {
        RepairScope::Page { after, max } => {
            let page = ask(session, paging(*after, *max), candidate).await?;
            let next = page.last().map(|it| it.id).filter(|_| page.len() == *max);
            let ids = page.iter().filter(|it| it.may_need).map(|it| it.id.0);
            let found = find(session, ids.collect()).await?;
            Ok(NeedingRepair { found, next })
        }
        RepairScope::Ids(ids) => {
            let ids: BTreeSet<i64> = ids.iter().map(|id| id.0).collect();
            let found = find(session, ids.into_iter().collect()).await?;
            Ok(NeedingRepair { found, next: None })
        }
    }
}

async fn find(session: &Session, ids: Vec<i64>) -> Result<Vec<(InstanceId, RepairNeed)>> {
    match ids.is_empty() {
        true => Ok(Vec::new()),
        false => ask(session, finding(ids), need).await,
    }
}

/// Runs one query in a transaction of its own, which may only read.
async fn ask<T: Send>(
    session: &Session,
    call: Call<'_>,
    read: impl Fn(&Row) -> Result<T, Failure> + Send + Sync,
) -> Result<Vec<T>> {
    let call = std::slice::from_ref(&call);
    let read = &read;
    let once = || {
        let answer = async move {
            let answers = session.transact(TxKind::Inspect, call).await?;
            answers[0].iter().map(read).collect()
        };
        Box::pin(answer) as _
    };
    session.retry("needing_repair", once).await
}

/// Reads a page of ids.
pub(crate) fn paging(after: Option<InstanceId>, max: usize) -> Call<'static> {
    let start = after.map_or(i64::MIN, |id| id.0);
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    statement::REPAIR_PAGE.with([value(start), value(max)])
}

/// An instance of a page.
pub(crate) struct Candidate {
    pub(crate) id: InstanceId,
    /// Whether it is parked or set aside. No other instance can need a repair.
    pub(crate) may_need: bool,
}

pub(crate) fn candidate(row: &Row) -> Result<Candidate, Failure> {
    Ok(Candidate {
        id: instance_id(row)?,
        may_need: column(row, "may_need")?,
    })
}

/// Checks instances, and answers those that need a repair.
pub(crate) fn finding(ids: Vec<i64>) -> Call<'static> {
    statement::REPAIR_FIND.with([value(ids), value(false)])
}

/// Reads an instance that needs a repair.
pub(crate) fn need(row: &Row) -> Result<(InstanceId, RepairNeed), Failure> {
    Ok((instance_id(row)?, column::<String>(row, "need")?.parse()?))
}

/// Repairs instances, and records what was wrong with each.
pub(crate) async fn repair(session: &Session, ids: &[InstanceId], note: &Note) -> Result<Repaired> {
    operate::check("repair", ids, note)?;
    if ids.is_empty() {
        return Ok(Repaired::default());
    }
    session
        .retry("repair", || Box::pin(repair_once(session, ids, note)))
        .await
}

async fn repair_once(
    session: &Session,
    ids: &[InstanceId],
    note: &Note,
) -> Result<Repaired, Failure> {
    let mut transaction = session.begin(TxKind::Write).await?;
    // Without locks: an instance that needs no repair is not held up.
    let mut judged = judge(&mut transaction, ids).await?;
    let needing = judged.iter().filter(|(_, it)| it.need.is_some());
    let needing: Vec<InstanceId> = needing.map(|(id, _)| *id).collect();
    if needing.is_empty() {
        transaction.finish(&[]).await?;
        return Ok(Repaired {
            answers: answers(ids, &judged),
            ..Repaired::default()
        });
    }
    let locked = operate::found(transaction.run(&[operate::locking(&needing)]).await?)?;
    // A statement of its own, after the lock: a wake that was committed while the lock was waited
    // for is seen, and nothing wakes the instances meanwhile (docs/protocol.md, defect 2).
    let mut again = judge(&mut transaction, &needing).await?;
    for id in needing {
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("repair-looks-once") {
            continue;
        }
        // An instance that has been removed meanwhile is in neither.
        judged.remove(&id);
        judged.extend(again.remove_entry(&id));
    }
    let needs = judged.iter().filter_map(|(id, it)| Some((*id, it.need?)));
    let needs: BTreeMap<InstanceId, RepairNeed> = needs.collect();
    let notes = RepairNeed::ALL.map(|need| need.note(note));
    let mut calls = mending(&needs);
    let mended = calls.len();
    for (need, note) in RepairNeed::ALL.into_iter().zip(&notes) {
        let rows = locked
            .values()
            .filter(|row| needs.get(&row.id()) == Some(&need));
        let rows: Vec<LockedInstance> = rows.copied().collect();
        if !rows.is_empty() {
            calls.push(recording(Verb::Repair, note, &rows, None));
        }
    }
    #[cfg(outlast_mutants)]
    if outlast_core::mutant::is("repair-forgets-to-record") {
        calls.truncate(mended);
    }
    let written = transaction.finish(&calls).await?;
    let mut repaired = Repaired::default();
    for row in written[..mended].iter().flatten() {
        add_if(&mut repaired.woken, row, "released")?;
        repaired.cascades |= column::<bool>(row, "cascades")?;
    }
    repaired.answers = answers(ids, &judged);
    Ok(repaired)
}

fn answers(ids: &[InstanceId], judged: &BTreeMap<InstanceId, Judged>) -> Vec<RepairAnswer> {
    let answer = |id: &InstanceId| match judged.get(id) {
        None => RepairAnswer::NotFound,
        Some(Judged {
            need: Some(need), ..
        }) => RepairAnswer::Repaired(*need),
        Some(Judged { status, .. }) => RepairAnswer::NotNeeded(*status),
    };
    ids.iter().map(answer).collect()
}

/// An instance that was checked.
struct Judged {
    status: Status,
    need: Option<RepairNeed>,
}

/// Checks instances in the transaction of a repair. Those that do not exist are missing.
async fn judge(
    transaction: &mut Transaction<'_>,
    ids: &[InstanceId],
) -> Result<BTreeMap<InstanceId, Judged>, Failure> {
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    let find = statement::REPAIR_FIND.with([value(ids), value(true)]);
    let answers = transaction.run(&[find]).await?;
    let judged = |row: &Row| {
        let need = column::<Option<String>>(row, "need")?;
        let judged = Judged {
            status: status(row, "status")?,
            need: need.map(|word| word.parse()).transpose()?,
        };
        Ok((instance_id(row)?, judged))
    };
    answers[0].iter().map(judged).collect()
}

/// Returns the statements that repair the instances, which are locked.
fn mending<'a>(needs: &BTreeMap<InstanceId, RepairNeed>) -> Vec<Call<'a>> {
    let (mut woken, mut joined, mut miscounted, mut free) = (vec![], vec![], vec![], vec![]);
    for (id, need) in needs {
        match need {
            RepairNeed::SignalArrived | RepairNeed::NothingAwaited => {
                woken.push(id.0);
                joined.push(None);
            }
            RepairNeed::ChildrenFinished => {
                woken.push(id.0);
                joined.push(Some(Joined::All.as_str()));
            }
            RepairNeed::ChildrenMiscounted => miscounted.push(id.0),
            RepairNeed::KeyIsFree | RepairNeed::PlaceIsFree => free.push(id.0),
        }
    }
    let mut calls = Vec::new();
    if !woken.is_empty() {
        calls.push(statement::REPAIR_WAKE.with([value(woken), value(joined)]));
    }
    if !miscounted.is_empty() {
        calls.push(statement::REPAIR_COUNT_AGAIN.with([value(miscounted)]));
    }
    if !free.is_empty() {
        calls.push(statement::REPAIR_FREE.with([value(free)]));
    }
    calls
}
