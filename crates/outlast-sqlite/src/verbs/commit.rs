//! The commit verb: writes the outcomes of steps.
//!
//! The engine's committer sends batches of outcomes. No outcome may be written unless its claim
//! still holds (I3).

mod continue_as_new;
mod fan_out;
mod fenced_row;
mod release;
mod workflow_outcome;

pub(crate) use fenced_row::UnclaimedRow;
pub(crate) use release::release;

use crate::error::Fault;
use crate::history_events;
use crate::tx::Tx;
use crate::verbs::effects::Effects;
use crate::verbs::inbox;
use fenced_row::fence;
use outlast_core::{
    Answer, CancelRequest, ClaimRef, Commit, Committed, InstanceId, Invalid, Json, Outcome,
    Proceed, SignalId, Status, limits,
};
use rusqlite::params;
use std::collections::HashSet;
use std::time::Duration;

const NEXT_KEEP: &str = include_str!("../../sql/commit/next_keep.sql");
const NEXT_REQUEUE: &str = include_str!("../../sql/commit/next_requeue.sql");
const RETRY: &str = include_str!("../../sql/commit/retry.sql");
const MATCHES: &str = include_str!("../../sql/inbox/matches.sql");
const WAIT: &str = include_str!("../../sql/commit/wait.sql");
const END: &str = include_str!("../../sql/commit/end.sql");
const ANSWER_CANCEL: &str = include_str!("../../sql/commit/answer_cancel.sql");

/// Writes the outcomes that have no answer yet.
///
/// When one of them cannot be written, all are rolled back and written again, each in a savepoint.
/// Then only that one is rejected.
pub(crate) fn commit(
    tx: &Tx<'_>,
    commits: &[Commit],
    answers: Vec<Option<Answer>>,
) -> Result<Committed, Fault> {
    // One savepoint for the whole batch first: rows that cannot be written are rare.
    tx.execute("savepoint batch")?;
    let fault = match write_all(tx, commits, answers.clone(), write) {
        Ok(committed) => {
            tx.execute("release batch")?;
            return Ok(committed);
        }
        Err(fault) => fault,
    };
    // The writer rolls back the verb, and this savepoint with it.
    if fault.refused_row().is_none() {
        return Err(fault);
    }
    // Nothing of the first try stays: no released key, no join, no event.
    tx.execute("rollback to batch")?;
    tx.execute("release batch")?;
    write_all(tx, commits, answers, write_alone)
}

type Write = fn(&Tx<'_>, &Commit, &mut Batch) -> Result<Answer, Fault>;

/// State that the outcomes of a batch share.
struct Batch {
    /// The finishing or waiting instances of the batch whose inbox is not empty.
    ///
    /// Read once, before the first outcome: no outcome of the batch adds a signal.
    owners: HashSet<InstanceId>,
    effects: Effects,
}

/// Writes the outcomes of a batch in three turns.
///
/// 1. Outcomes that start children. Keys that the batch releases must still be occupied for them.
/// 2. Outcomes that wait for children. Children that finish in this batch are counted once all is
///    written, so the park must not see them before.
/// 3. All others.
fn write_all(
    tx: &Tx<'_>,
    commits: &[Commit],
    mut answers: Vec<Option<Answer>>,
    write: Write,
) -> Result<Committed, Fault> {
    let mut batch = Batch {
        owners: inbox::owners(tx, commits.iter().filter_map(looks_into_inbox))?,
        effects: Effects::default(),
    };
    for turn in Turn::ALL {
        for (commit, answer) in commits.iter().zip(&mut answers) {
            if answer.is_none() && Turn::of(&commit.outcome) == turn {
                *answer = Some(write(tx, commit, &mut batch)?);
            }
        }
    }
    batch.effects.settle(tx)?;
    Ok(Committed {
        answers: answers.into_iter().flatten().collect(),
        woken: batch.effects.woken,
        cascades: batch.effects.cascades,
    })
}

/// The turn in which an outcome of a batch is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    StartsChildren,
    AwaitsEnds,
    Other,
}

impl Turn {
    const ALL: [Turn; 3] = [Turn::StartsChildren, Turn::AwaitsEnds, Turn::Other];

    fn of(outcome: &Outcome) -> Turn {
        if outcome.begins_round() {
            Turn::StartsChildren
        } else if outcome.park().is_some_and(|park| park.join_sets.is_some()) {
            #[cfg(outlast_mutants)]
            if outlast_core::mutant::is("park-sees-ends-of-its-batch") {
                return Turn::Other;
            }
            Turn::AwaitsEnds
        } else {
            Turn::Other
        }
    }
}

/// Returns the instance of an outcome that depends on its inbox.
///
/// The other outcomes consume the received signals by id, and need no look.
fn looks_into_inbox(commit: &Commit) -> Option<InstanceId> {
    let looks = match &commit.outcome {
        Outcome::Wait { .. }
        | Outcome::Done { .. }
        | Outcome::Fail { .. }
        | Outcome::Cancel { .. } => true,
        Outcome::Flow { .. } => commit.outcome.park().is_some_and(|it| !it.names.is_empty()),
        Outcome::Next { .. }
        | Outcome::Retry { .. }
        | Outcome::FanOut { .. }
        | Outcome::ContinueAsNew { .. } => false,
    };
    looks.then_some(commit.claim.id)
}

/// Writes an outcome and its effects, or neither.
fn write_alone(tx: &Tx<'_>, commit: &Commit, batch: &mut Batch) -> Result<Answer, Fault> {
    tx.execute("savepoint outcome")?;
    let written = write(tx, commit, batch).and_then(|answer| {
        // Inside the savepoint: an end that is undone must not count in a join.
        batch.effects.settle(tx)?;
        Ok(answer)
    });
    let answer = match written {
        Ok(answer) => answer,
        Err(fault) => {
            let Some(reason) = fault.refused_row() else {
                return Err(fault);
            };
            tx.execute("rollback to outcome")?;
            batch.effects.forget();
            tracing::error!(instance = %commit.claim.id, reason, "an outcome cannot be written");
            Answer::Rejected(Invalid::new(
                format!("the outcome of instance {}", commit.claim.id),
                format!("cannot be written: {reason}"),
            ))
        }
    };
    tx.execute("release outcome")?;
    Ok(answer)
}

/// Writes one outcome and everything that belongs to it, if its claim still holds (I3).
fn write(tx: &Tx<'_>, commit: &Commit, batch: &mut Batch) -> Result<Answer, Fault> {
    let claim = commit.claim;
    let mut kept = KeptClaim::default();
    reply(tx, commit)?;
    let status = match &commit.outcome {
        Outcome::Next {
            step,
            state,
            proceed: Proceed::KeepClaim,
        } => keep_claim(tx, commit, step, state, &mut kept)?,
        Outcome::Next {
            step,
            state,
            proceed: Proceed::Requeue,
        } => requeue(tx, claim, step, state, batch)?,
        Outcome::Retry {
            state,
            delay,
            error,
        } => retry(tx, commit, state, *delay, error.as_deref(), batch)?,
        Outcome::Wait { .. } => wait(tx, commit, batch)?,
        Outcome::FanOut { .. } => fan_out::fan_out(tx, commit, batch)?,
        Outcome::Flow { .. } => workflow_outcome::flow(tx, commit, batch, &mut kept)?,
        Outcome::ContinueAsNew { state } => {
            continue_as_new::continue_as_new(tx, commit, state, batch)?
        }
        Outcome::Done { .. } => end(tx, commit, Status::Done, None, batch)?,
        Outcome::Fail { reason, .. } => end(tx, commit, Status::Failed, Some(reason), batch)?,
        Outcome::Cancel { reason } => end(tx, commit, Status::Cancelled, Some(reason), batch)?,
    };
    // Lost, or kept for a cancel: nothing was written, so nothing may follow.
    let Some(status) = status else {
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("events-without-fence") {
            history_events::append(tx, claim.id, &commit.events)?;
        }
        return Ok(kept.cancel.map_or(Answer::Lost, Answer::Cancel));
    };
    match &commit.outcome {
        // These outcomes write their events themselves.
        Outcome::Flow { .. }
        | Outcome::ContinueAsNew { .. }
        | Outcome::Done { .. }
        | Outcome::Fail { .. }
        | Outcome::Cancel { .. } => {}
        Outcome::Next { .. }
        | Outcome::Retry { .. }
        | Outcome::Wait { .. }
        | Outcome::FanOut { .. } => history_events::append(tx, claim.id, &commit.events)?,
    }
    history_events::publish(tx, claim.id, claim.revision.next(), &commit.views)?;
    // After the look of a park, which leaves the received signals out.
    if commit.outcome.consumes() {
        inbox::consume(tx, claim.id, &commit.received)?;
    }
    // A retried answer is no answer yet: the next attempt must receive the cancel again.
    if commit.answers_cancel && !matches!(commit.outcome, Outcome::Retry { .. }) {
        tx.prepare(ANSWER_CANCEL)?.execute([claim.id.0])?;
    }
    Ok(Answer::Committed {
        revision: claim.revision.next(),
        status: status.derived(!commit.outcome.awaited_names().is_empty()),
        cancel: kept.cancel,
        latest_signal: kept.latest_signal,
        at: tx.now,
    })
}

/// Writes the replies of an outcome that will be written.
///
/// They come before the outcome: an answered update is no longer in the inbox that a park looks
/// into, nor among the signals that an end makes tombstones of.
fn reply(tx: &Tx<'_>, commit: &Commit) -> Result<(), Fault> {
    if commit.replies.is_empty() {
        return Ok(());
    }
    #[cfg(outlast_mutants)]
    if outlast_core::mutant::is("reply-without-fence")
        || fence(tx, commit.claim)?.is_some()
            && outlast_core::mutant::is("reply-passes-over-a-cancel")
    {
        return inbox::reply(tx, commit.claim.id, &commit.replies);
    }
    // With one writer, the fence holds until the outcome is written.
    match fence(tx, commit.claim)? {
        Some(fenced) if !fenced.stops(commit) => inbox::reply(tx, commit.claim.id, &commit.replies),
        Some(_) | None => Ok(()),
    }
}

/// What has arrived for a claim that is kept.
#[derive(Default)]
struct KeptClaim {
    /// A cancel that the outcome does not answer.
    cancel: Option<CancelRequest>,
    /// The latest signal since the claim.
    latest_signal: Option<SignalId>,
}

/// Advances an instance that keeps its claim.
///
/// Sets `kept` to what has arrived meanwhile.
///
/// Cancels and signals to a running step are rare, so the write is tried without reading the row
/// first.
fn keep_claim(
    tx: &Tx<'_>,
    commit: &Commit,
    step: &str,
    state: &Json,
    kept: &mut KeptClaim,
) -> Result<Option<Status>, Fault> {
    let claim = commit.claim;
    let write = |may_be_cancelled: bool, may_have_signals: bool| {
        tx.prepare(NEXT_KEEP)?.execute(params![
            claim.id.0,
            claim.revision.0,
            step,
            state.as_str(),
            tx.now.0,
            may_be_cancelled,
            may_have_signals
        ])
    };
    if write(commit.answers_cancel, false)? == 1 {
        return Ok(Some(Status::Executing));
    }
    // Three causes are left: the claim is lost, a cancel is pending, or a signal has come.
    let Some(fenced) = fence(tx, claim)? else {
        return Ok(None);
    };
    kept.latest_signal = fenced.latest_signal;
    if fenced.meets_cancel(commit) {
        kept.cancel = fenced.cancel;
    }
    write(true, true)?;
    Ok(Some(Status::Executing))
}

/// Advances an instance, and gives up its claim.
fn requeue(
    tx: &Tx<'_>,
    claim: ClaimRef,
    step: &str,
    state: &Json,
    batch: &mut Batch,
) -> Result<Option<Status>, Fault> {
    let Some(fenced) = fence(tx, claim)? else {
        return Ok(None);
    };
    let values = params![claim.id.0, claim.revision.0, step, state.as_str(), tx.now.0];
    tx.prepare(NEXT_REQUEUE)?.execute(values)?;
    fenced.leave_for(tx, Status::Runnable, tx.now, &mut batch.effects.woken)
}

/// Requeues the same step.
///
/// With a pending cancel the delay is dropped, so that the machine answers it at once.
fn retry(
    tx: &Tx<'_>,
    commit: &Commit,
    state: &Json,
    delay: Duration,
    error: Option<&str>,
    batch: &mut Batch,
) -> Result<Option<Status>, Fault> {
    let claim = commit.claim;
    let Some(fenced) = fence(tx, claim)? else {
        return Ok(None);
    };
    let eligible_at = match fenced.meets_cancel(commit) {
        true => tx.now,
        false => tx.now + delay,
    };
    let values = params![
        claim.id.0,
        claim.revision.0,
        state.as_str(),
        eligible_at.0,
        error.map(limits::clean_error),
        tx.now.0
    ];
    tx.prepare(RETRY)?.execute(values)?;
    fenced.leave_for(tx, Status::Runnable, eligible_at, &mut batch.effects.woken)
}

/// Parks an instance on signals, or makes it runnable instead.
///
/// It becomes runnable when a cancel is pending, or when the inbox has a match that the step did
/// not receive. These are defects 2 and 11 of docs/protocol.md. With one writer, no signal can
/// arrive between the check and the park.
fn wait(tx: &Tx<'_>, commit: &Commit, batch: &mut Batch) -> Result<Option<Status>, Fault> {
    let Outcome::Wait {
        names,
        step,
        state,
        timeout,
    } = &commit.outcome
    else {
        return Ok(None);
    };
    let claim = commit.claim;
    let Some(fenced) = fence(tx, claim)? else {
        return Ok(None);
    };
    let names = array(names);
    let goes_on = has_match(tx, commit, &names, batch)? || fenced.meets_cancel(commit);
    let status = match goes_on {
        true => Status::Runnable,
        false => Status::AwaitingSignal,
    };
    // The schema refuses a deadline on a row that is not parked.
    let deadline = timeout.filter(|_| !goes_on);
    let values = params![
        claim.id.0,
        claim.revision.0,
        step,
        state.as_str(),
        names,
        status.as_str(),
        deadline.map(|timeout| (tx.now + timeout).0),
        tx.now.0,
        commit.received.iter().max().map(|id| id.0)
    ];
    tx.prepare(WAIT)?.execute(values)?;
    fenced.leave_for(tx, status, tx.now, &mut batch.effects.woken)
}

/// Whether the inbox has a signal of one of these names that the step did not receive.
///
/// Received signals are compared as a set. The highest received id would hide an older signal that
/// the step was not given (docs/protocol.md, defect 11).
fn has_match(tx: &Tx<'_>, commit: &Commit, names: &str, batch: &Batch) -> Result<bool, Fault> {
    let id = commit.claim.id;
    if !batch.owners.contains(&id) {
        return Ok(false);
    }
    let values = params![id.0, names, array(&commit.received)];
    Ok(tx.prepare(MATCHES)?.exists(values)?)
}

/// Finishes an instance.
///
/// The links of the claim say which effects are possible. A link that is wrongly absent leaves a
/// parent, a window or a partition key waiting for the reconciler (docs/decisions/0017).
fn end(
    tx: &Tx<'_>,
    commit: &Commit,
    status: Status,
    reason: Option<&String>,
    batch: &mut Batch,
) -> Result<Option<Status>, Fault> {
    let (claim, links) = (commit.claim, commit.links);
    let is_linked = links.parent || links.partition_key || links.children || links.window;
    // A read before the write, because `returning` on it would cost more
    // (`sql/history/place.sql`). An instance without links is written unread.
    let ended = match is_linked {
        true => match fence(tx, claim)? {
            Some(fenced) => Some(fenced.ended(claim.id, status)),
            None => return Ok(None),
        },
        false => None,
    };
    let written = tx.prepare(END)?.execute(params![
        claim.id.0,
        claim.revision.0,
        status.as_str(),
        commit.outcome.result().map(Json::as_str),
        reason.map(|reason| limits::clean_error(reason)),
        tx.now.0,
        commit.events.len() as i64
    ])?;
    // Without links, this is the only fence.
    if written == 0 {
        return Ok(None);
    }
    history_events::write(tx, claim.id, &commit.events)?;
    if batch.owners.contains(&claim.id) {
        inbox::empty(tx, claim.id)?;
    }
    if let Some(ended) = ended {
        batch.effects.ended(ended);
    }
    Ok(Some(status))
}

/// Encodes a list as the JSON array that the statements expect.
pub(crate) fn array<T: serde::Serialize>(values: &[T]) -> String {
    serde_json::to_string(values).expect("names, ids and dropped children are plain JSON")
}
