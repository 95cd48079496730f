//! The fan-out outcome: starts children and parks the parent on them.
//!
//! `commit.rs` calls it; workflows share [`spawn`]. No child may start beside a pending cancel
//! that the outcome does not answer: the cascade of the cancel would not reach the child (I13).

use super::fenced_row::fence;
use super::{Batch, array};
use crate::decode;
use crate::error::Fault;
use crate::tx::Tx;
use crate::verbs::effects::join;
use crate::verbs::insert::{self, Added, Birth};
use outlast_core::{Commit, DroppedChild, NewInstance, Outcome, Parent, QueueNames, Status, Until};
use rusqlite::params;

const FAN_OUT: &str = include_str!("../../../sql/commit/fan_out.sql");

/// Starts the children and parks the parent on them, in one transaction (I6).
///
/// Starts none when a cancel is pending.
pub(super) fn fan_out(
    tx: &Tx<'_>,
    commit: &Commit,
    batch: &mut Batch,
) -> Result<Option<Status>, Fault> {
    let Outcome::FanOut {
        children,
        join,
        step,
        state,
    } = &commit.outcome
    else {
        return Ok(None);
    };
    let claim = commit.claim;
    let Some(fenced) = fence(tx, claim)? else {
        return Ok(None);
    };
    // The number that the update below gives the row. Ends of other rounds do not count (I6).
    let parent = Parent {
        id: claim.id,
        round: fenced.round + 1,
    };
    let meets_cancel = fenced.meets_cancel(commit);
    let (started, dropped) = match meets_cancel {
        true => (0, Vec::new()),
        false => spawn(tx, parent, children, join.window, &mut batch.effects.woken)?,
    };
    // Without a started child nothing would ever decide it. A quorum can be out of reach, too.
    let decided = join.until.decided(started, started, 0);
    let joined = decided.filter(|_| !meets_cancel);
    let (status, deadline) = match meets_cancel || joined.is_some() {
        true => (Status::Runnable, None),
        false => (Status::AwaitingChildren, join.deadline),
    };
    let (needs, fails_fast) = match join.until {
        Until::All => (None, false),
        Until::FailFast => (None, true),
        Until::Quorum(needed) => (Some(needed), false),
    };
    let values = params![
        claim.id.0,
        claim.revision.0,
        step,
        state.as_str(),
        status.as_str(),
        started,
        array(&dropped),
        tx.now.0,
        deadline.map(|deadline| (tx.now + deadline).0),
        needs,
        fails_fast,
        join.window,
        decode::stored(join.rest),
        joined.map(|joined| joined.as_str())
    ];
    tx.prepare(FAN_OUT)?.execute(values)?;
    // An impossible quorum leaves the started children without a waiting parent.
    if let Some(joined) = joined {
        let cascade = join::of_rest(parent.id, parent.round, started, join.rest, joined);
        batch.effects.decided(cascade);
    }
    fenced.leave_for(tx, status, tx.now, &mut batch.effects.woken)
}

/// Inserts the children of a round.
///
/// Returns how many were started, and the children whose key is occupied.
///
/// With a window, only as many of them as it has places can be claimed.
pub(super) fn spawn(
    tx: &Tx<'_>,
    parent: Parent,
    children: &[NewInstance],
    window: Option<u32>,
    woken: &mut QueueNames,
) -> Result<(i32, Vec<DroppedChild>), Fault> {
    let (mut started, mut dropped) = (0, Vec::new());
    for (position, child) in (0..).zip(children) {
        let birth = Birth {
            parent,
            position,
            // Counts started children only: a dropped child takes no place.
            held: window.map(|places| i64::from(started) >= i64::from(places)),
        };
        match insert::add(tx, child, Some(birth), None)? {
            Added::New(_) => {
                started += 1;
                // A held child is in no queue yet. A hint for it would find nothing.
                if birth.held != Some(true) && insert::is_eligible(tx, child) {
                    woken.insert(child.queue.clone());
                }
            }
            Added::Occupied(holder) => dropped.push(DroppedChild {
                position,
                machine: child.machine.clone(),
                key: child
                    .correlation
                    .as_ref()
                    .map(|it| it.key.clone())
                    .unwrap_or_default(),
                holder,
            }),
        }
    }
    Ok((started, dropped))
}
