//! The outcome of a workflow that advances or parks.
//!
//! `commit.rs` calls it. It appends to the history and starts children. A workflow whose awaited
//! event is already there becomes runnable at once instead of parked. Nothing would wake it
//! otherwise (I2).

use super::fan_out::spawn;
use super::fenced_row::{FencedRow, fence};
use super::{Batch, KeptClaim, array, has_match};
use crate::error::Fault;
use crate::history_events;
use crate::tx::Tx;
use outlast_core::{
    Commit, DroppedChild, Due, Flowing, HistoryPosition, InstanceId, JoinSets, Joined, NewInstance,
    Outcome, Parent, Park, Proceed, QueueNames, Status, Timestamp,
};
use rusqlite::params;
use std::collections::HashSet;

const WORKFLOW_KEEP: &str = include_str!("../../../sql/commit/workflow_keep.sql");
const WORKFLOW_ADVANCE: &str = include_str!("../../../sql/commit/workflow_advance.sql");
const WORKFLOW_JOIN: &str = include_str!("../../../sql/commit/workflow_join.sql");
const ALREADY_ENDED: &str = include_str!("../../../sql/join/already_ended.sql");
const MATCHING_NAMES: &str = include_str!("../../../sql/inbox/matching_names.sql");

/// Writes the outcome of a workflow. Sets `kept` to what has arrived meanwhile.
///
/// With a status, the outcome was written, and the answer carries a cancel. Without one, nothing
/// was written because of the cancel.
pub(super) fn flow(
    tx: &Tx<'_>,
    commit: &Commit,
    batch: &mut Batch,
    kept: &mut KeptClaim,
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
        return keep_claim(tx, commit, kept);
    }
    let Some(fenced) = fence(tx, commit.claim)? else {
        return Ok(None);
    };
    if fenced.stops(commit) {
        kept.cancel = fenced.cancel;
        return Ok(None);
    }
    // Before the row is written: a dropped child of an awaited round prevents the park.
    let woken = &mut batch.effects.woken;
    let begun = Begun::begin(tx, commit, &fenced, children, *window, woken)?;
    let status = match then {
        Flowing::Proceed(Proceed::KeepClaim) => {
            kept.latest_signal = fenced.latest_signal;
            write_on(tx, commit, &Waiting::none(Status::Executing), begun)?;
            // It still uses its partition key, so nothing follows.
            return Ok(Some(Status::Executing));
        }
        Flowing::Proceed(Proceed::Requeue) => {
            write_on(tx, commit, &Waiting::none(Status::Runnable), begun)?;
            Status::Runnable
        }
        Flowing::Park(park) => wait(tx, commit, park, begun, batch)?,
    };
    fenced.leave_for(tx, status, tx.now, &mut batch.effects.woken)
}

/// Advances a workflow that keeps its claim. This is the cost of a workflow's step.
///
/// Cancels and signals to a running step are rare, so the write is tried without reading the row
/// first.
fn keep_claim(tx: &Tx<'_>, commit: &Commit, kept: &mut KeptClaim) -> Result<Option<Status>, Fault> {
    let claim = commit.claim;
    let write =
        |position: Option<HistoryPosition>, may_be_cancelled: bool, may_have_signals: bool| {
            let values = params![
                claim.id.0,
                claim.revision.0,
                commit.events.len() as i64,
                tx.now.0,
                may_be_cancelled,
                position.map(|position| position.run),
                position.map(|position| position.events),
                may_have_signals
            ];
            tx.prepare(WORKFLOW_KEEP)?.execute(values)
        };
    if write(commit.position, commit.answers_cancel, false)? == 1 {
        history_events::write_after(tx, claim.id, commit.position, &commit.events)?;
        return Ok(Some(Status::Executing));
    }
    let Some(fenced) = fence(tx, claim)? else {
        return Ok(None);
    };
    // Otherwise the position of the history differs from the expected one.
    kept.latest_signal = fenced.latest_signal;
    if fenced.meets_cancel(commit) {
        kept.cancel = fenced.cancel;
    }
    // The fence holds and there is one writer, so this writes the row.
    write(None, true, true)?;
    history_events::write(tx, claim.id, &commit.events)?;
    Ok(Some(Status::Executing))
}

/// The round that an outcome with children has begun.
struct Begun {
    round: i32,
    window: Option<u32>,
    dropped: Vec<DroppedChild>,
}

impl Begun {
    /// Starts the children of an outcome as one round; `None` when it has none.
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

/// Parks the workflow, or makes it runnable when the awaited event is already there.
///
/// With one writer, nothing can arrive between the check and the park.
fn wait(
    tx: &Tx<'_>,
    commit: &Commit,
    park: &Park,
    begun: Option<Begun>,
    batch: &Batch,
) -> Result<Status, Fault> {
    let join_sets = park.join_sets.as_ref();
    let seen = join_sets.map(|join_sets| Seen::look(tx, join_sets, begun.as_ref()));
    let seen = seen.transpose()?;
    let waiting = match park.needs_all {
        true => Waiting::for_all(tx, commit, park, seen.as_ref(), batch)?,
        false => Waiting::for_the_first(tx, commit, park, seen.as_ref(), batch)?,
    };
    let Some((join_sets, seen)) = join_sets.zip(seen) else {
        write_on(tx, commit, &waiting, begun)?;
        return Ok(waiting.reported());
    };
    tx.prepare(WORKFLOW_JOIN)?.execute(params![
        commit.claim.id.0,
        commit.claim.revision.0,
        waiting.status.as_str(),
        waiting.names,
        waiting.deadline.map(|at| at.0),
        begun.as_ref().map(Begun::dropped),
        commit.events.len() as i64,
        tx.now.0,
        array(&join_sets.stored_spans().collect::<Vec<_>>()),
        join_sets.least(),
        seen.nearest(),
        seen.bad,
        begun.and_then(|begun| begun.window),
        seen.joined.map(Joined::as_str),
        array(&seen.left),
        waiting.needs_all
    ])?;
    history_events::write(tx, commit.claim.id, &commit.events)?;
    Ok(waiting.reported())
}

/// The status that an outcome leads to, and what it waits for besides children.
struct Waiting {
    status: Status,
    /// The awaited names (JSON). Written also when it does not park: the next claim carries them.
    names: Option<String>,
    /// `None` unless it parks: the schema refuses a deadline on any other row.
    deadline: Option<Timestamp>,
    needs_all: bool,
}

impl Waiting {
    /// Waits for nothing.
    fn none(status: Status) -> Waiting {
        Waiting {
            status,
            names: None,
            deadline: None,
            needs_all: false,
        }
    }

    /// Returns the status that readers see: a workflow that lacks only its deadline is sleeping.
    fn reported(&self) -> Status {
        let awaits_names = self.names.as_deref().is_some_and(|names| names != "[]");
        self.status.derived(awaits_names)
    }

    /// Waits until the first event.
    fn for_the_first(
        tx: &Tx<'_>,
        commit: &Commit,
        park: &Park,
        seen: Option<&Seen>,
        batch: &Batch,
    ) -> Result<Waiting, Fault> {
        let names = (!park.names.is_empty()).then(|| array(&park.names));
        let has_match = match &names {
            Some(names) => has_match(tx, commit, names, batch)?,
            None => false,
        };
        // A deadline that has passed is not looked at: `fire` wakes the workflow.
        let is_joined = seen.is_some_and(|seen| seen.joined.is_some());
        let status = match seen {
            _ if has_match || is_joined => Status::Runnable,
            Some(_) => Status::AwaitingChildren,
            None => Status::AwaitingSignal,
        };
        Ok(Waiting {
            status,
            names,
            deadline: moment(tx, park).filter(|_| status.is_parked()),
            needs_all: false,
        })
    }

    /// Waits until the whole group is complete. A failed child still wakes it at once.
    ///
    /// The row then holds only what is missing. Children come first, and the last of them makes
    /// the row wait for the rest (docs/decisions/0047).
    fn for_all(
        tx: &Tx<'_>,
        commit: &Commit,
        park: &Park,
        seen: Option<&Seen>,
        batch: &Batch,
    ) -> Result<Waiting, Fault> {
        let present = present(tx, commit, &park.names, batch)?;
        let mut missing = park.names.clone();
        missing.retain(|name| !present.contains(name));
        // A moment that has passed is no longer missing.
        let deadline = moment(tx, park).filter(|deadline| *deadline > tx.now);
        let joined = seen.map(|seen| seen.joined);
        let status = match joined {
            Some(Some(Joined::Failure)) => Status::Runnable,
            Some(None) => Status::AwaitingChildren,
            Some(Some(_)) | None if missing.is_empty() && deadline.is_none() => Status::Runnable,
            Some(Some(_)) | None => Status::AwaitingSignal,
        };
        Ok(Waiting {
            status,
            names: (!park.names.is_empty()).then(|| array(&missing)),
            deadline: deadline.filter(|_| status.is_parked()),
            needs_all: true,
        })
    }
}

/// Returns the moment that the workflow waits for.
fn moment(tx: &Tx<'_>, park: &Park) -> Option<Timestamp> {
    park.deadline.map(|due| match due {
        Due::After(delay) => tx.now + delay,
        Due::At(at) => at,
    })
}

/// Returns the awaited names with a signal in the inbox that the step did not receive.
fn present(
    tx: &Tx<'_>,
    commit: &Commit,
    names: &[String],
    batch: &Batch,
) -> Result<HashSet<String>, Fault> {
    let id = commit.claim.id;
    if names.is_empty() || !batch.owners.contains(&id) {
        return Ok(HashSet::new());
    }
    let mut statement = tx.prepare(MATCHING_NAMES)?;
    let values = params![id.0, array(names), array(&commit.received)];
    let names = statement.query_map(values, |row| row.get(0))?;
    Ok(names.collect::<rusqlite::Result<_>>()?)
}

/// How far the join sets are when the workflow begins to wait.
struct Seen {
    /// The pending children of each join set.
    left: Vec<i32>,
    bad: i32,
    /// Why there is nothing to wait for.
    joined: Option<Joined>,
}

impl Seen {
    /// Reads the awaited children of earlier commits.
    ///
    /// Children that finish in this batch are still live here, and are counted with its effects
    /// ([`Turn`](super::Turn)). Otherwise one end would count twice.
    fn look(tx: &Tx<'_>, join_sets: &JoinSets, begun: Option<&Begun>) -> Result<Seen, Fault> {
        let mut ended = HashSet::new();
        let (mut bad, mut gone) = (0, 0);
        let children = join_sets.children();
        if !children.is_empty() {
            let mut statement = tx.prepare(ALREADY_ENDED)?;
            let mut rows = statement.query([array(&children)])?;
            while let Some(row) = rows.next()? {
                // A deleted child can wake nothing later. It counts as a failure, but not in
                // `bad`.
                match row.get("gone")? {
                    true => gone += 1,
                    false => drop(ended.insert(InstanceId(row.get("id")?))),
                }
                bad += row.get::<_, i32>("bad")?;
            }
        }
        // More children may have finished than a set waits for, so the count stops at 0.
        let left = join_sets.sets.iter().map(|set| {
            let ended = set.children.iter().filter(|id| ended.contains(id)).count();
            set.count.saturating_sub_unsigned(ended as u32).max(0)
        });
        let left: Vec<i32> = left.collect();
        let is_short =
            |begun: &Begun| !begun.dropped.is_empty() && join_sets.awaits_round(begun.round);
        let joined = if bad > 0 || gone > 0 || begun.is_some_and(is_short) {
            Some(Joined::Failure)
        } else {
            left.contains(&0).then_some(Joined::All)
        };
        Ok(Seen { left, bad, joined })
    }

    /// Returns the pending children of the join set nearest to completion.
    fn nearest(&self) -> Option<i32> {
        self.left.iter().min().copied()
    }
}

/// Writes an outcome that waits for no children.
///
/// The statement empties the join sets of an earlier park. Otherwise a child that the workflow no
/// longer waits for would count when it ends.
fn write_on(
    tx: &Tx<'_>,
    commit: &Commit,
    waiting: &Waiting,
    begun: Option<Begun>,
) -> Result<(), Fault> {
    tx.prepare(WORKFLOW_ADVANCE)?.execute(params![
        commit.claim.id.0,
        commit.claim.revision.0,
        waiting.status.as_str(),
        waiting.names,
        waiting.deadline.map(|at| at.0),
        begun.as_ref().map(Begun::dropped),
        commit.events.len() as i64,
        tx.now.0,
        waiting.needs_all
    ])?;
    history_events::write(tx, commit.claim.id, &commit.events)
}
