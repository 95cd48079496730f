//! Writing outcomes, and giving claims back.

use crate::decode::Columns;
use crate::error::Fault;
use crate::insert::{self, Added};
use crate::tx::Tx;
use crate::{decode, inbox, line};
use outlast_core::{
    Answer, ClaimRef, Commit, Committed, DroppedChild, InstanceId, Invalid, Json, NewInstance,
    Outcome, Parent, Proceed, QueueNames, Release, ReleaseAnswer, Released, Status, Timestamp,
    limits,
};
use rusqlite::{OptionalExtension, Row, params};
use std::collections::HashSet;
use std::time::Duration;

const NEXT_KEEP: &str = include_str!("../sql/commit/next_keep.sql");
const NEXT_REQUEUE: &str = include_str!("../sql/commit/next_requeue.sql");
const RETRY: &str = include_str!("../sql/commit/retry.sql");
const MATCHES: &str = include_str!("../sql/commit/matches.sql");
const WAIT: &str = include_str!("../sql/commit/wait.sql");
const FENCE: &str = include_str!("../sql/commit/fence.sql");
const FAN_OUT: &str = include_str!("../sql/commit/fan_out.sql");
const END: &str = include_str!("../sql/commit/end.sql");
const JOIN: &str = include_str!("../sql/commit/join.sql");
const RELEASE: &str = include_str!("../sql/commit/release.sql");

/// Writes outcomes. When one cannot be written, all are written again, each in a
/// savepoint of its own, so that only that one is rejected.
pub(crate) fn commit(tx: &Tx<'_>, commits: &[Commit]) -> Result<Committed, Fault> {
    tx.execute("savepoint batch")?;
    let fault = match write_all(tx, commits, write) {
        Ok(committed) => {
            tx.execute("release batch")?;
            return Ok(committed);
        }
        Err(fault) => fault,
    };
    if fault.refused_row().is_none() {
        return Err(fault);
    }
    tx.execute("rollback to batch")?;
    tx.execute("release batch")?;
    write_all(tx, commits, write_alone)
}

type Write = fn(&Tx<'_>, &Commit, &mut Batch) -> Result<Answer, Fault>;

/// What the outcomes of a batch share.
struct Batch {
    /// Whose inbox is not empty, of those that end or wait.
    owners: HashSet<InstanceId>,
    woken: QueueNames,
}

/// Fan-outs go first: a key that another outcome of the batch releases is still occupied for their
/// children.
fn write_all(tx: &Tx<'_>, commits: &[Commit], write: Write) -> Result<Committed, Fault> {
    let mut answers = Commit::foregone(commits);
    let mut batch = Batch {
        owners: inbox::owners(tx, commits.iter().filter_map(looks_into_inbox))?,
        woken: QueueNames::new(),
    };
    for fan_outs in [true, false] {
        for (commit, answer) in commits.iter().zip(&mut answers) {
            if answer.is_none() && commit.outcome.is_fan_out() == fan_outs {
                *answer = Some(write(tx, commit, &mut batch)?);
            }
        }
    }
    Ok(Committed {
        answers: answers.into_iter().flatten().collect(),
        woken: batch.woken,
    })
}

/// Whose outcome it is, when what is in the inbox matters to it.
fn looks_into_inbox(commit: &Commit) -> Option<InstanceId> {
    let looks = match &commit.outcome {
        Outcome::Wait { .. }
        | Outcome::Done { .. }
        | Outcome::Stop { .. }
        | Outcome::Cancel { .. } => true,
        Outcome::Next { .. } | Outcome::Retry { .. } | Outcome::FanOut { .. } => false,
    };
    looks.then_some(commit.claim.id)
}

fn write_alone(tx: &Tx<'_>, commit: &Commit, batch: &mut Batch) -> Result<Answer, Fault> {
    tx.execute("savepoint outcome")?;
    let answer = match write(tx, commit, batch) {
        Ok(answer) => answer,
        Err(fault) => {
            let Some(reason) = fault.refused_row() else {
                return Err(fault);
            };
            tx.execute("rollback to outcome")?;
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

/// Writes one outcome with everything that belongs to it, if the fence still stands (I3).
fn write(tx: &Tx<'_>, commit: &Commit, batch: &mut Batch) -> Result<Answer, Fault> {
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
        } => requeue(tx, claim, step, state, batch)?,
        Outcome::Retry {
            state,
            delay,
            error,
        } => retry(tx, claim, state, *delay, error.as_deref(), batch)?,
        Outcome::Wait { .. } => wait(tx, commit, batch)?,
        Outcome::FanOut { .. } => fan_out(tx, commit, batch)?,
        Outcome::Done { result } => end(tx, commit, Status::Done, Some(result), None, batch)?,
        Outcome::Stop { reason } => end(tx, commit, Status::Failed, None, Some(reason), batch)?,
        Outcome::Cancel { reason } => {
            end(tx, commit, Status::Cancelled, None, Some(reason), batch)?
        }
    };
    let Some(status) = status else {
        return Ok(Answer::Lost);
    };
    if commit.outcome.consumes() {
        inbox::consume(tx, claim.id, &commit.received)?;
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
    batch: &mut Batch,
) -> Result<Option<Status>, Fault> {
    let Some(standing) = fence(tx, claim)? else {
        return Ok(None);
    };
    let values = params![claim.id.0, claim.revision.0, step, state.as_str(), tx.now.0];
    tx.prepare(NEXT_REQUEUE)?.execute(values)?;
    standing.leave_for(tx, Status::Runnable, tx.now, &mut batch.woken)
}

fn retry(
    tx: &Tx<'_>,
    claim: ClaimRef,
    state: &Json,
    delay: Duration,
    error: Option<&str>,
    batch: &mut Batch,
) -> Result<Option<Status>, Fault> {
    let Some(standing) = fence(tx, claim)? else {
        return Ok(None);
    };
    let eligible_at = tx.now + delay;
    let values = params![
        claim.id.0,
        claim.revision.0,
        state.as_str(),
        eligible_at.0,
        error.map(limits::clean_error),
        tx.now.0
    ];
    tx.prepare(RETRY)?.execute(values)?;
    standing.leave_for(tx, Status::Runnable, eligible_at, &mut batch.woken)
}

/// Parks, or goes straight on when a match is in the inbox that the step was not handed (PROTOCOL §3 #2
/// and #11). One writer: nothing can arrive between the look and the park.
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
    let Some(standing) = fence(tx, claim)? else {
        return Ok(None);
    };
    let names = array(names);
    let has_match = batch.owners.contains(&claim.id)
        && tx
            .prepare(MATCHES)?
            .exists(params![claim.id.0, names, array(&commit.received)])?;
    let status = match has_match {
        true => Status::Runnable,
        false => Status::AwaitingSignal,
    };
    let deadline = timeout.filter(|_| !has_match);
    let values = params![
        claim.id.0,
        claim.revision.0,
        step,
        state.as_str(),
        names,
        status.as_str(),
        deadline.map(|timeout| (tx.now + timeout).0),
        tx.now.0
    ];
    tx.prepare(WAIT)?.execute(values)?;
    standing.leave_for(tx, status, tx.now, &mut batch.woken)
}

/// Starts the children, then parks the parent on as many as were started: nothing of it is seen before
/// all of it is (I6).
fn fan_out(tx: &Tx<'_>, commit: &Commit, batch: &mut Batch) -> Result<Option<Status>, Fault> {
    let Outcome::FanOut {
        children,
        step,
        state,
    } = &commit.outcome
    else {
        return Ok(None);
    };
    let claim = commit.claim;
    let Some(standing) = fence(tx, claim)? else {
        return Ok(None);
    };
    let parent = Parent {
        id: claim.id,
        round: standing.round + 1,
    };
    let (started, dropped) = spawn(tx, parent, children, &mut batch.woken)?;
    let status = match started {
        0 => Status::Runnable,
        _ => Status::AwaitingChildren,
    };
    let values = params![
        claim.id.0,
        claim.revision.0,
        step,
        state.as_str(),
        status.as_str(),
        started,
        array(&dropped),
        tx.now.0
    ];
    tx.prepare(FAN_OUT)?.execute(values)?;
    standing.leave_for(tx, status, tx.now, &mut batch.woken)
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
    commit: &Commit,
    status: Status,
    result: Option<&Json>,
    reason: Option<&String>,
    batch: &mut Batch,
) -> Result<Option<Status>, Fault> {
    let (claim, ties) = (commit.claim, commit.ties);
    let ended = if ties.parent || ties.partition_key {
        match fence(tx, claim)? {
            Some(standing) => standing.ended(),
            None => return Ok(None),
        }
    } else {
        Ended::default()
    };
    let written = tx.prepare(END)?.execute(params![
        claim.id.0,
        claim.revision.0,
        status.as_str(),
        result.map(Json::as_str),
        reason.map(|reason| limits::clean_error(reason)),
        tx.now.0
    ])?;
    if written == 0 {
        return Ok(None);
    }
    if batch.owners.contains(&claim.id) {
        inbox::empty(tx, claim.id)?;
    }
    ended.untie(tx, &mut batch.woken)?;
    Ok(Some(status))
}

/// What is known of an instance whose claim still stands.
struct Standing {
    queue: String,
    eligible_at: Timestamp,
    partition_key: Option<String>,
    parent: Option<Parent>,
    round: i32,
}

/// Looks whether a claim still stands (I3). One writer: what follows in this transaction finds it so.
fn fence(tx: &Tx<'_>, claim: ClaimRef) -> Result<Option<Standing>, Fault> {
    let standing = tx
        .prepare(FENCE)?
        .query_row(params![claim.id.0, claim.revision.0], Standing::decode)
        .optional()?;
    Ok(standing)
}

impl Standing {
    fn decode(row: &Row<'_>) -> rusqlite::Result<Standing> {
        let mut columns = Columns::of(row);
        Ok(Standing {
            queue: columns.next()?,
            eligible_at: Timestamp(columns.next()?),
            partition_key: columns.next()?,
            parent: columns.next_parent()?,
            round: columns.next()?,
        })
    }

    /// Does what follows when it is no longer executing and lives.
    fn leave_for(
        self,
        tx: &Tx<'_>,
        status: Status,
        eligible_at: Timestamp,
        woken: &mut QueueNames,
    ) -> Result<Option<Status>, Fault> {
        let left = Left {
            queue: self.queue,
            eligible_at,
            partition_key: self.partition_key,
        };
        left.follow(tx, status, woken)?;
        Ok(Some(status))
    }

    fn ended(self) -> Ended {
        Ended {
            partition_key: self.partition_key,
            parent: self.parent,
        }
    }
}

/// A row that is no longer executing and lives.
pub(crate) struct Left {
    queue: String,
    eligible_at: Timestamp,
    partition_key: Option<String>,
}

impl Left {
    pub(crate) fn decode(row: &Row<'_>) -> rusqlite::Result<Left> {
        Ok(Left {
            queue: row.get("queue")?,
            eligible_at: Timestamp(row.get("eligible_at")?),
            partition_key: row.get("partition_key")?,
        })
    }

    /// What leaving brings with it: a hint when it can be claimed at once, and the next in line let
    /// through.
    pub(crate) fn follow(
        self,
        tx: &Tx<'_>,
        status: Status,
        woken: &mut QueueNames,
    ) -> Result<(), Fault> {
        if status == Status::Runnable && self.eligible_at <= tx.now {
            woken.insert(self.queue);
        }
        if let Some(key) = self.partition_key {
            line::let_through(tx, &key, woken)?;
        }
        Ok(())
    }
}

/// A row that has just ended.
#[derive(Default)]
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

    /// Joins the parent, and lets the next in line through.
    fn untie(&self, tx: &Tx<'_>, woken: &mut QueueNames) -> Result<(), Fault> {
        if let Some(parent) = self.parent {
            join(tx, parent, woken)?;
        }
        if let Some(key) = &self.partition_key {
            line::let_through(tx, key, woken)?;
        }
        Ok(())
    }
}

/// What an end brings with it: the inbox emptied, the parent joined, the next in line let through.
pub(crate) fn follow_end(
    tx: &Tx<'_>,
    id: InstanceId,
    ended: &Ended,
    woken: &mut QueueNames,
) -> Result<(), Fault> {
    inbox::empty(tx, id)?;
    ended.untie(tx, woken)
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
    let claim = release.claim;
    let Some(standing) = fence(tx, claim)? else {
        return Ok(None);
    };
    let eligible_at = match release.pause.is_zero() {
        true => standing.eligible_at,
        false => tx.now + release.pause,
    };
    let values = params![claim.id.0, claim.revision.0, eligible_at.0, tx.now.0];
    tx.prepare(RELEASE)?.execute(values)?;
    standing.leave_for(tx, Status::Runnable, eligible_at, woken)
}

/// A list as the statements take it.
fn array<T: serde::Serialize>(values: &[T]) -> String {
    serde_json::to_string(values).expect("names, ids and dropped children are plain JSON")
}
