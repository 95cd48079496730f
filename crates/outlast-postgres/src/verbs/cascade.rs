//! Cascades: cancels or terminates the children of a parent, one page per call.
//!
//! The engine's cascade loop calls this. A call locks at most one page of children, so a large
//! family never ends in one transaction.

use crate::decode::column;
use crate::error::Failure;
use crate::session::Session;
use crate::session::statement::{self, Call, value};
use crate::session::tx_settings::TxKind;
use crate::verbs::end_instances::{EndPlan, LockedInstance, leaving};
use outlast_core::{
    CascadeAction, CascadeRequest, Cascaded, ClosePolicy, InstanceId, Note, Result, Status,
};
use tokio_postgres::Row;

/// Takes one page of the oldest cascade that no other node works on.
pub(crate) async fn cascade(session: &Session, request: CascadeRequest) -> Result<Cascaded> {
    request
        .check()
        .map_err(|invalid| invalid.during("cascade"))?;
    session
        .retry("cascade", || Box::pin(cascade_once(session, request.max)))
        .await
}

/// Locks the cascade, then its children, then writes.
///
/// Three round trips: what happens to a child depends on its state under its lock.
async fn cascade_once(session: &Session, max: usize) -> Result<Cascaded, Failure> {
    let mut transaction = session.begin(TxKind::Write).await?;
    let taken = transaction.run(&[statement::CASCADE_TAKE.with([])]).await?;
    let Some(cascade) = taken[0].first().map(Cascade::read).transpose()? else {
        // No cascade is left, or other nodes have locked the rest and work on them.
        transaction.finish(&[]).await?;
        return Ok(Cascaded::default());
    };
    let locked = transaction
        .run(&[statement::CASCADE_LOCK.with([value(cascade.id), value(max as i64)])])
        .await?;
    let children = locked[0]
        .iter()
        .map(|row| Ok((column(row, "parent_round")?, LockedInstance::read(row)?)))
        .collect::<Result<Vec<(i32, LockedInstance)>, Failure>>()?;
    let plan = cascade.plan(children.iter().map(|(_, child)| child));
    let mut calls = plan.calls(cascade.deeper(&children));
    // In the same transaction as the page: a crash between the two would skip or repeat children.
    calls.extend(cascade.progress(&children, max));
    calls.push(statement::CASCADE_LEFT.with([]));
    let answers = transaction.finish(&calls).await?;
    let effects = EndPlan::effects(&calls, &answers)?;
    let left = answers.last().and_then(|rows| rows.first());
    Ok(Cascaded {
        requested: ids(&plan.requested),
        ended: ids(&[&plan.never_started[..], &plan.terminated[..]].concat()),
        running: running(&plan),
        woken: effects.woken,
        more: left.map_or(Ok(false), |row| column(row, "is_left"))?,
    })
}

/// A cascade that this transaction has locked.
struct Cascade {
    id: i64,
    parent: InstanceId,
    action: CascadeAction,
    deep: bool,
    note: Note,
    /// How far it has come: the children before this round and id remain.
    before: (i32, InstanceId),
}

impl Cascade {
    fn read(row: &Row) -> Result<Cascade, Failure> {
        Ok(Cascade {
            id: column(row, "id")?,
            parent: column(row, "parent_id").map(InstanceId)?,
            action: column::<&str>(row, "action")?.parse()?,
            deep: column(row, "deep")?,
            note: Note {
                by: column(row, "operator")?,
                reason: column(row, "reason")?,
            },
            before: (
                column(row, "at_round")?,
                column(row, "before_id").map(InstanceId)?,
            ),
        })
    }

    fn plan<'a>(&'a self, children: impl Iterator<Item = &'a LockedInstance>) -> EndPlan<'a> {
        let mut plan = EndPlan::new(&self.note, Some(self.parent));
        for child in children {
            match self.action.for_child(child.policy) {
                ClosePolicy::Abandon => {}
                ClosePolicy::RequestCancel => plan.cancel(child),
                ClosePolicy::Terminate => plan.terminate(child),
            }
        }
        plan
    }

    /// Leaves cascades for the children's own children, newest child first.
    ///
    /// Finished children too: their own children may still live.
    fn deeper<'a>(&'a self, children: &'a [(i32, LockedInstance)]) -> Option<Call<'a>> {
        if !self.deep {
            return None;
        }
        let mut children: Vec<&(i32, LockedInstance)> = children.iter().collect();
        children.sort_by_key(|(round, child)| std::cmp::Reverse((*round, child.id())));
        let children = children.into_iter().map(|(_, child)| child);
        leaving(self.action.as_str(), &self.note, children)
    }

    /// Moves the cascade past this page, or removes it after the last page.
    ///
    /// A page that is not full is probably the last one. It is also short if children of it were
    /// deleted while it waited for their locks, so the removal looks for children that are left,
    /// and the move after it finds the cascade only if there are some.
    fn progress(&self, children: &[(i32, LockedInstance)], max: usize) -> Vec<Call<'static>> {
        // The page goes from the latest round and the highest id down, so the least is the last.
        let positions = children.iter().map(|(round, child)| (*round, child.id()));
        let reached = positions.min();
        let (round, id) = reached.unwrap_or(self.before);
        let to = |statement: statement::Statement| {
            statement.with([value(self.id), value(round), value(id.0)])
        };
        let mut calls = Vec::new();
        if children.len() < max {
            calls.push(to(statement::CASCADE_REMOVE));
        }
        if reached.is_some() {
            calls.push(to(statement::CASCADE_MOVE));
        }
        calls
    }
}

fn ids(found: &[LockedInstance]) -> Vec<InstanceId> {
    let mut ids: Vec<InstanceId> = found.iter().map(LockedInstance::id).collect();
    ids.sort();
    ids
}

/// Returns the instances that a worker runs now, for a hint to that worker.
fn running(plan: &EndPlan<'_>) -> Vec<InstanceId> {
    let ended = [&plan.requested[..], &plan.terminated[..]].concat();
    let ran = ended
        .into_iter()
        .filter(|found| found.status == Status::Executing);
    ids(&ran.collect::<Vec<_>>())
}
