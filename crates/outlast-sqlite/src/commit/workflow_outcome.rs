//! A workflow that goes on or waits where it is: its history grows, children begin, and whatever it waits for that is
//! already there wakes it at once.

use super::fan_out::spawn;
use super::fenced_row::{FencedRow, fence};
use super::{Batch, array, has_match};
use crate::error::Fault;
use crate::history_events;
use crate::tx::Tx;
use outlast_core::{
    CancelRequest, Commit, DroppedChild, Due, Flowing, HistoryPosition, InstanceId, JoinSets,
    Joined, NewInstance, Outcome, Parent, Park, Proceed, QueueNames, Status, Timestamp,
};
use rusqlite::params;
use std::collections::HashSet;

const FLOW_KEEP: &str = include_str!("../../sql/commit/flow_keep.sql");
const FLOW_ON: &str = include_str!("../../sql/commit/flow_on.sql");
const FLOW_JOIN: &str = include_str!("../../sql/commit/flow_join.sql");
const ENDS: &str = include_str!("../../sql/commit/ends.sql");

/// Writes a flow. `cancel` becomes a cancel that came meanwhile: with an answer, the workflow is told of it; without
/// one, nothing was written because of it.
pub(super) fn flow(
    tx: &Tx<'_>,
    commit: &Commit,
    batch: &mut Batch,
    cancel: &mut Option<CancelRequest>,
) -> Result<Option<Status>, Fault> {
    let Outcome::Flow {
        children,
        window,
        then,
    } = &commit.outcome
    else {
        return Ok(None);
    };
    if children.is_empty() && commit.outcome.keeps_claim() {
        return keep_claim(tx, commit, cancel);
    }
    let Some(fenced) = fence(tx, commit.claim)? else {
        return Ok(None);
    };
    let goes_on_alone = children.is_empty() && commit.outcome.park().is_none();
    let comes_after_cancel = !goes_on_alone && fenced.meets_cancel(commit);
    #[cfg(outlast_mutants)]
    let comes_after_cancel =
        comes_after_cancel && !outlast_core::mutant::is("flow-passes-over-a-cancel");
    if comes_after_cancel {
        *cancel = fenced.cancel;
        return Ok(None);
    }
    let woken = &mut batch.effects.woken;
    let begun = Begun::begin(tx, commit, &fenced, children, *window, woken)?;
    let status = match then {
        Flowing::Proceed(Proceed::KeepClaim) => {
            write_on(tx, commit, Status::Executing, None, None, begun)?;
            return Ok(Some(Status::Executing));
        }
        Flowing::Proceed(Proceed::Requeue) => {
            write_on(tx, commit, Status::Runnable, None, None, begun)?;
            Status::Runnable
        }
        Flowing::Park(park) => wait(tx, commit, park, begun, batch)?,
    };
    fenced.leave_for(tx, status, tx.now, &mut batch.effects.woken)
}

/// Goes on with the claim: what a step of a workflow costs. A cancel is a rare thing, so that the write is tried
/// without a look first.
fn keep_claim(
    tx: &Tx<'_>,
    commit: &Commit,
    cancel: &mut Option<CancelRequest>,
) -> Result<Option<Status>, Fault> {
    let claim = commit.claim;
    let write = |may_be_cancelled: bool, mark: Option<HistoryPosition>| {
        let values = params![
            claim.id.0,
            claim.revision.0,
            commit.events.len() as i64,
            tx.now.0,
            may_be_cancelled,
            mark.map(|mark| mark.run),
            mark.map(|mark| mark.events)
        ];
        tx.prepare(FLOW_KEEP)?.execute(values)
    };
    if write(commit.answers_cancel, commit.mark)? == 1 {
        history_events::write_after(tx, claim.id, commit.mark, &commit.events)?;
        return Ok(Some(Status::Executing));
    }
    let Some(fenced) = fence(tx, claim)? else {
        return Ok(None);
    };
    *cancel = fenced.cancel;
    write(true, None)?;
    history_events::write(tx, claim.id, &commit.events)?;
    Ok(Some(Status::Executing))
}

/// The round that a flow with children has begun.
struct Begun {
    round: i32,
    window: Option<u32>,
    dropped: Vec<DroppedChild>,
}

impl Begun {
    fn begin(
        tx: &Tx<'_>,
        commit: &Commit,
        fenced: &FencedRow,
        children: &[NewInstance],
        window: Option<u32>,
        woken: &mut QueueNames,
    ) -> Result<Option<Begun>, Fault> {
        if children.is_empty() {
            return Ok(None);
        }
        let parent = Parent {
            id: commit.claim.id,
            round: fenced.round + 1,
        };
        let (_, dropped) = spawn(tx, parent, children, window, woken)?;
        Ok(Some(Begun {
            round: parent.round,
            window,
            dropped,
        }))
    }

    fn dropped(&self) -> String {
        array(&self.dropped)
    }
}

/// Waits, or goes straight on when something that it waits for is there. One writer: nothing can come between the
/// look and the park.
fn wait(
    tx: &Tx<'_>,
    commit: &Commit,
    park: &Park,
    begun: Option<Begun>,
    batch: &Batch,
) -> Result<Status, Fault> {
    let names = (!park.names.is_empty()).then(|| array(&park.names));
    let has_match = match &names {
        Some(names) => has_match(tx, commit, names, batch)?,
        None => false,
    };
    let deadline = park.deadline.map(|due| match due {
        Due::After(delay) => tx.now + delay,
        Due::At(at) => at,
    });
    let Some(ends) = &park.ends else {
        let (status, deadline) = match has_match {
            true => (Status::Runnable, None),
            false => (Status::AwaitingSignal, deadline),
        };
        write_on(tx, commit, status, names.as_deref(), deadline, begun)?;
        return Ok(status);
    };
    let seen = Seen::look(tx, ends, begun.as_ref())?;
    let (status, deadline) = match has_match || seen.joined.is_some() {
        true => (Status::Runnable, None),
        false => (Status::AwaitingChildren, deadline),
    };
    tx.prepare(FLOW_JOIN)?.execute(params![
        commit.claim.id.0,
        commit.claim.revision.0,
        status.as_str(),
        names,
        deadline.map(|at| at.0),
        begun.as_ref().map(Begun::dropped),
        commit.events.len() as i64,
        tx.now.0,
        array(&ends.stored_spans().collect::<Vec<_>>()),
        ends.least(),
        seen.nearest(),
        seen.bad,
        begun.and_then(|begun| begun.window),
        seen.joined.map(Joined::as_str),
        array(&seen.left)
    ])?;
    history_events::write(tx, commit.claim.id, &commit.events)?;
    Ok(status)
}

/// How the awaited ends stand when the workflow begins to wait.
struct Seen {
    /// How many of each part are still to come.
    left: Vec<i32>,
    bad: i32,
    /// Why there is nothing to wait for.
    joined: Option<Joined>,
}

impl Seen {
    fn look(tx: &Tx<'_>, ends: &JoinSets, begun: Option<&Begun>) -> Result<Seen, Fault> {
        let mut ended = HashSet::new();
        let (mut bad, mut gone) = (0, 0);
        let children = ends.children();
        if !children.is_empty() {
            let mut statement = tx.prepare(ENDS)?;
            let mut rows = statement.query([array(&children)])?;
            while let Some(row) = rows.next()? {
                match row.get("gone")? {
                    true => gone += 1,
                    false => drop(ended.insert(InstanceId(row.get("id")?))),
                }
                bad += row.get::<_, i32>("bad")?;
            }
        }
        let left = ends.parts.iter().map(|part| {
            let ended = part.children.iter().filter(|id| ended.contains(id)).count();
            part.count.saturating_sub_unsigned(ended as u32).max(0)
        });
        let left: Vec<i32> = left.collect();
        let is_short = |begun: &Begun| !begun.dropped.is_empty() && ends.awaits_round(begun.round);
        let joined = if bad > 0 || gone > 0 || begun.is_some_and(is_short) {
            Some(Joined::Failure)
        } else {
            left.contains(&0).then_some(Joined::All)
        };
        Ok(Seen { left, bad, joined })
    }

    /// How many of the nearest part are still to come.
    fn nearest(&self) -> Option<i32> {
        self.left.iter().min().copied()
    }
}

/// Writes a flow that waits for no ends.
fn write_on(
    tx: &Tx<'_>,
    commit: &Commit,
    status: Status,
    names: Option<&str>,
    deadline: Option<Timestamp>,
    begun: Option<Begun>,
) -> Result<(), Fault> {
    tx.prepare(FLOW_ON)?.execute(params![
        commit.claim.id.0,
        commit.claim.revision.0,
        status.as_str(),
        names,
        deadline.map(|at| at.0),
        begun.as_ref().map(Begun::dropped),
        commit.events.len() as i64,
        tx.now.0
    ])?;
    history_events::write(tx, commit.claim.id, &commit.events)
}
