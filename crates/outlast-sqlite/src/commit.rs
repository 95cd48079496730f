//! Writing outcomes, and giving claims back.

use crate::error::Fault;
use crate::insert::{self, Added};
use crate::job::Tx;
use crate::{decode, lease, line};
use outlast_core::{
    Answer, ClaimRef, Commit, Committed, DroppedChild, InstanceId, Invalid, Json, NewInstance,
    Outcome, Parent, Proceed, QueueNames, Release, ReleaseAnswer, Released, SignalId, Status,
    Timestamp, WorkerId, limits,
};
use rusqlite::{OptionalExtension, Params, Row, params};
use std::collections::HashSet;
use std::time::Duration;

const NEXT_KEEP: &str = include_str!("../sql/commit/next_keep.sql");
const NEXT_REQUEUE: &str = include_str!("../sql/commit/next_requeue.sql");
const RETRY: &str = include_str!("../sql/commit/retry.sql");
const WAIT: &str = include_str!("../sql/commit/wait.sql");
const FENCE: &str = include_str!("../sql/commit/fence.sql");
const FAN_OUT: &str = include_str!("../sql/commit/fan_out.sql");
const END: &str = include_str!("../sql/commit/end.sql");
const CONSUME_DELETE: &str = include_str!("../sql/commit/consume_delete.sql");
const CONSUME_TOMBSTONE: &str = include_str!("../sql/commit/consume_tombstone.sql");
const EMPTY_INBOX_DELETE: &str = include_str!("../sql/commit/empty_inbox_delete.sql");
const EMPTY_INBOX_TOMBSTONE: &str = include_str!("../sql/commit/empty_inbox_tombstone.sql");
const JOIN: &str = include_str!("../sql/commit/join.sql");
const RELEASE: &str = include_str!("../sql/commit/release.sql");

/// Writes outcomes. When one cannot be written, all are written again, each in a
/// savepoint of its own, so that only that one is rejected.
pub(crate) fn commit(tx: &Tx<'_>, commits: &[Commit]) -> Result<Committed, Fault> {
    tx.prepare("savepoint batch")?.execute([])?;
    let fault = match write_all(tx, commits, write) {
        Ok(committed) => {
            tx.prepare("release batch")?.execute([])?;
            return Ok(committed);
        }
        Err(fault) => fault,
    };
    if fault.refused_row().is_none() {
        return Err(fault);
    }
    tx.prepare("rollback to batch")?.execute([])?;
    tx.prepare("release batch")?.execute([])?;
    write_all(tx, commits, write_alone)
}

type Write = fn(&Tx<'_>, &Commit, &mut QueueNames) -> Result<Answer, Fault>;

/// Fan-outs go first: a key that another outcome of the batch releases is still occupied for their
/// children.
fn write_all(tx: &Tx<'_>, commits: &[Commit], write: Write) -> Result<Committed, Fault> {
    let mut answers = Commit::foregone(commits);
    let mut woken = QueueNames::new();
    for fan_outs in [true, false] {
        for (commit, answer) in commits.iter().zip(&mut answers) {
            if answer.is_none() && commit.outcome.is_fan_out() == fan_outs {
                *answer = Some(write(tx, commit, &mut woken)?);
            }
        }
    }
    Ok(Committed {
        answers: answers.into_iter().flatten().collect(),
        woken,
    })
}

fn write_alone(tx: &Tx<'_>, commit: &Commit, woken: &mut QueueNames) -> Result<Answer, Fault> {
    tx.prepare("savepoint outcome")?.execute([])?;
    let answer = match write(tx, commit, woken) {
        Ok(answer) => answer,
        Err(fault) => {
            let Some(reason) = fault.refused_row() else {
                return Err(fault);
            };
            tx.prepare("rollback to outcome")?.execute([])?;
            tracing::error!(instance = %commit.claim.id, reason, "an outcome cannot be written");
            Answer::Rejected(Invalid::new(
                format!("the outcome of instance {}", commit.claim.id),
                format!("cannot be written: {reason}"),
            ))
        }
    };
    tx.prepare("release outcome")?.execute([])?;
    Ok(answer)
}

/// Writes one outcome with everything that belongs to it, if the fence still stands (I3).
fn write(tx: &Tx<'_>, commit: &Commit, woken: &mut QueueNames) -> Result<Answer, Fault> {
    let claim = commit.claim;
    let status = match &commit.outcome {
        Outcome::Next {
            step,
            state,
            proceed: Proceed::KeepClaim,
        } => keep_claim(tx, claim, step, state)?,
        Outcome::Next {
            step,
            state,
            proceed: Proceed::Requeue,
        } => requeue(tx, claim, step, state, woken)?,
        Outcome::Retry {
            state,
            delay,
            error,
        } => retry(tx, claim, state, *delay, error.as_deref(), woken)?,
        Outcome::Wait { .. } => wait(tx, commit, woken)?,
        Outcome::FanOut { .. } => fan_out(tx, commit, woken)?,
        Outcome::Done { result } => end(tx, claim, Status::Done, Some(result), None, woken)?,
        Outcome::Stop { reason } => end(tx, claim, Status::Failed, None, Some(reason), woken)?,
        Outcome::Cancel { reason } => end(tx, claim, Status::Cancelled, None, Some(reason), woken)?,
    };
    let Some(status) = status else {
        return Ok(Answer::Lost);
    };
    if commit.outcome.consumes() {
        consume(tx, claim.id, &commit.received)?;
    }
    Ok(Answer::Committed {
        revision: claim.revision.next(),
        status,
    })
}

fn keep_claim(
    tx: &Tx<'_>,
    claim: ClaimRef,
    step: &str,
    state: &Json,
) -> Result<Option<Status>, Fault> {
    let written = tx.prepare(NEXT_KEEP)?.execute(params![
        claim.id.0,
        claim.revision.0,
        step,
        state.as_str(),
        tx.now.0
    ])?;
    Ok((written == 1).then_some(Status::Executing))
}

fn requeue(
    tx: &Tx<'_>,
    claim: ClaimRef,
    step: &str,
    state: &Json,
    woken: &mut QueueNames,
) -> Result<Option<Status>, Fault> {
    let values = params![claim.id.0, claim.revision.0, step, state.as_str(), tx.now.0];
    leave_executing(tx, NEXT_REQUEUE, values, woken)
}

fn retry(
    tx: &Tx<'_>,
    claim: ClaimRef,
    state: &Json,
    delay: Duration,
    error: Option<&str>,
    woken: &mut QueueNames,
) -> Result<Option<Status>, Fault> {
    let values = params![
        claim.id.0,
        claim.revision.0,
        state.as_str(),
        (tx.now + delay).0,
        error.map(limits::clean_error),
        tx.now.0
    ];
    leave_executing(tx, RETRY, values, woken)
}

fn wait(tx: &Tx<'_>, commit: &Commit, woken: &mut QueueNames) -> Result<Option<Status>, Fault> {
    let Outcome::Wait {
        names,
        step,
        state,
        timeout,
    } = &commit.outcome
    else {
        return Ok(None);
    };
    let values = params![
        commit.claim.id.0,
        commit.claim.revision.0,
        step,
        state.as_str(),
        array(names),
        array(&commit.received),
        timeout.map(|timeout| (tx.now + timeout).0),
        tx.now.0
    ];
    leave_executing(tx, WAIT, values, woken)
}

/// Starts the children, then parks the parent on as many as were started: nothing of it is seen before
/// all of it is (I6).
fn fan_out(tx: &Tx<'_>, commit: &Commit, woken: &mut QueueNames) -> Result<Option<Status>, Fault> {
    let Outcome::FanOut {
        children,
        step,
        state,
    } = &commit.outcome
    else {
        return Ok(None);
    };
    let claim = commit.claim;
    let round = tx
        .prepare(FENCE)?
        .query_row(params![claim.id.0, claim.revision.0], |row| row.get(0))
        .optional()?;
    let Some(round) = round else {
        return Ok(None);
    };
    let parent = Parent {
        id: claim.id,
        round,
    };
    let (started, dropped) = spawn(tx, parent, children, woken)?;
    let values = params![
        claim.id.0,
        claim.revision.0,
        step,
        state.as_str(),
        started,
        array(&dropped),
        tx.now.0
    ];
    leave_executing(tx, FAN_OUT, values, woken)
}

/// How many children were started, and which were not because their key is occupied.
fn spawn(
    tx: &Tx<'_>,
    parent: Parent,
    children: &[NewInstance],
    woken: &mut QueueNames,
) -> Result<(u32, Vec<DroppedChild>), Fault> {
    let (mut started, mut dropped) = (0, Vec::new());
    for (position, child) in (0..).zip(children) {
        match insert::add(tx, child, Some(parent), None)? {
            Added::New(_) => {
                started += 1;
                if insert::is_eligible(tx, child) {
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

fn end(
    tx: &Tx<'_>,
    claim: ClaimRef,
    status: Status,
    result: Option<&Json>,
    reason: Option<&String>,
    woken: &mut QueueNames,
) -> Result<Option<Status>, Fault> {
    let values = params![
        claim.id.0,
        claim.revision.0,
        status.as_str(),
        result.map(Json::as_str),
        reason.map(|reason| limits::clean_error(reason)),
        tx.now.0
    ];
    let ended = tx
        .prepare(END)?
        .query_row(values, Ended::decode)
        .optional()?;
    let Some(ended) = ended else {
        return Ok(None);
    };
    follow_end(tx, claim.id, &ended, woken)?;
    Ok(Some(status))
}

/// Runs a statement that takes an executing row out of `executing`, and does what follows from that.
/// `None` when its guard found nothing.
pub(crate) fn leave_executing(
    tx: &Tx<'_>,
    sql: &str,
    values: impl Params,
    woken: &mut QueueNames,
) -> Result<Option<Status>, Fault> {
    let left = tx
        .prepare(sql)?
        .query_row(values, Left::decode)
        .optional()?;
    let Some(left) = left else {
        return Ok(None);
    };
    if left.status == Status::Runnable && left.eligible_at <= tx.now {
        woken.insert(left.queue);
    }
    if let Some(key) = left.partition_key {
        line::let_through(tx, &key, woken)?;
    }
    Ok(Some(left.status))
}

/// A row that is no longer executing and lives.
struct Left {
    status: Status,
    queue: String,
    eligible_at: Timestamp,
    partition_key: Option<String>,
}

impl Left {
    fn decode(row: &Row<'_>) -> rusqlite::Result<Left> {
        Ok(Left {
            status: decode::word(row, "status")?,
            queue: row.get("queue")?,
            eligible_at: Timestamp(row.get("eligible_at")?),
            partition_key: row.get("partition_key")?,
        })
    }
}

/// A row that has just ended.
pub(crate) struct Ended {
    partition_key: Option<String>,
    parent: Option<Parent>,
}

impl Ended {
    pub(crate) fn decode(row: &Row<'_>) -> rusqlite::Result<Ended> {
        Ok(Ended {
            partition_key: row.get("partition_key")?,
            parent: decode::parent(row)?,
        })
    }
}

/// What an end brings with it: the inbox emptied, the parent joined, the next in line let through.
pub(crate) fn follow_end(
    tx: &Tx<'_>,
    id: InstanceId,
    ended: &Ended,
    woken: &mut QueueNames,
) -> Result<(), Fault> {
    tx.prepare(EMPTY_INBOX_DELETE)?.execute([id.0])?;
    tx.prepare(EMPTY_INBOX_TOMBSTONE)?
        .execute(params![id.0, tx.now.0])?;
    if let Some(parent) = ended.parent {
        join(tx, parent, woken)?;
    }
    if let Some(key) = &ended.partition_key {
        line::let_through(tx, key, woken)?;
    }
    Ok(())
}

/// Counts one ended child with its parent, if that waits for this very round (I6). Siblings of one
/// batch come here one after the other, so each is counted.
fn join(tx: &Tx<'_>, parent: Parent, woken: &mut QueueNames) -> Result<(), Fault> {
    let joined = tx
        .prepare(JOIN)?
        .query_row(params![parent.id.0, parent.round, tx.now.0], |row| {
            Ok((decode::word(row, "status")?, row.get("queue")?))
        })
        .optional()?;
    if let Some((Status::Runnable, queue)) = joined {
        woken.insert(queue);
    }
    Ok(())
}

/// Consumes exactly what the step received (I7).
fn consume(tx: &Tx<'_>, id: InstanceId, received: &[SignalId]) -> Result<(), Fault> {
    for signal in received {
        let deleted = tx
            .prepare(CONSUME_DELETE)?
            .execute(params![signal.0, id.0])?;
        if deleted == 0 {
            tx.prepare(CONSUME_TOMBSTONE)?
                .execute(params![signal.0, id.0, tx.now.0])?;
        }
    }
    Ok(())
}

/// Gives claims back untouched.
pub(crate) fn release(tx: &Tx<'_>, releases: &[Release]) -> Result<Released, Fault> {
    let mut released = Released::default();
    for release in releases {
        let answer = match give_back(tx, release, &mut released.woken)? {
            Some(_) => ReleaseAnswer::Released,
            None => ReleaseAnswer::Lost,
        };
        released.answers.push(answer);
    }
    Ok(released)
}

fn give_back(
    tx: &Tx<'_>,
    release: &Release,
    woken: &mut QueueNames,
) -> Result<Option<Status>, Fault> {
    let eligible_at = (!release.pause.is_zero()).then(|| (tx.now + release.pause).0);
    let values = params![
        release.claim.id.0,
        release.claim.revision.0,
        eligible_at,
        tx.now.0
    ];
    leave_executing(tx, RELEASE, values, woken)
}

/// Gives back every claim of `worker` that is not in `held`.
pub(crate) fn forget(
    tx: &Tx<'_>,
    worker: WorkerId,
    held: &HashSet<InstanceId>,
) -> Result<Vec<InstanceId>, Fault> {
    let mut forgotten = Vec::new();
    for claim in lease::claims(tx, worker)? {
        if held.contains(&claim.id) {
            continue;
        }
        let release = Release {
            claim,
            pause: Duration::ZERO,
        };
        give_back(tx, &release, &mut QueueNames::new())?;
        forgotten.push(claim.id);
    }
    Ok(forgotten)
}

/// A list as the statements take it.
fn array<T: serde::Serialize>(values: &[T]) -> String {
    serde_json::to_string(values).expect("names, ids and dropped children are plain JSON")
}
