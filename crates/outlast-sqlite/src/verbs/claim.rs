//! The claim verb: hands eligible instances of a queue to a worker, most urgent first.
//!
//! Inserts and signals also call it for instances that a worker can start at once. A claim must
//! never read delayed rows (I10), nor take two rows of one partition key (I8).

use crate::decode;
use crate::decode::Columns;
use crate::error::Fault;
use crate::tx::Tx;
use crate::verbs::effects::partition_line;
use crate::verbs::effects::{Effects, Ended};
use crate::verbs::{inbox, lease};
use outlast_core::{
    Claim, ClaimOffer, ClaimRequest, Claimed, InstanceId, MachineVersion, QueueNames, Revision,
    Timestamp, WorkerId, limits,
};
use rusqlite::{OptionalExtension, Row, params};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const PAUSED: &str = include_str!("../../sql/claim/paused.sql");
const NEXT_PRIORITY: &str = include_str!("../../sql/claim/next_priority.sql");
const ELIGIBLE: &str = include_str!("../../sql/claim/eligible.sql");
const NEXT_DUE: &str = include_str!("../../sql/claim/next_due.sql");
const OLDER_IN_LINE: &str = include_str!("../../sql/claim/older_in_line.sql");
const WOKEN: &str = include_str!("../../sql/claim/woken.sql");
const TAKE: &str = include_str!("../../sql/claim/take.sql");
const FAIL_UNREADABLE: &str = include_str!("../../sql/claim/fail_unreadable.sql");
const CHILDREN: &str = include_str!("../../sql/claim/children.sql");

/// Rows that a claim examines beyond ten per requested row.
///
/// After that it answers that there may be more. Bounds how long one claim occupies the writer.
const EXAMINED_MIN: usize = 1_000;

/// The smallest number of rows to fetch at a time.
///
/// Some rows are held, or are of a machine that the worker lacks. Fetching exactly the wanted
/// number would often take a second query.
const CHUNK_MIN: usize = 16;

/// Claims the most urgent eligible instances of a queue.
pub(crate) fn claim(
    tx: &Tx<'_>,
    unfinished: &UnfinishedWalks,
    request: &ClaimRequest,
) -> Result<Claimed, Fault> {
    // In the transaction of the claim, so that no reaper removes the worker in between.
    lease::require_alive(tx, "claim", request.worker)?;
    if is_paused(tx, &request.queue)? {
        return Ok(Claimed {
            paused: true,
            ..Claimed::default()
        });
    }
    let mut walk = Walk::new(tx, request);
    let stopped_early = walk.take_most_urgent(unfinished)?;
    let more = stopped_early || (request.max > 0 && walk.wanted() == 0);
    let claims = load_all(tx, walk.taken)?;
    // With more to claim at once, the picker does not sleep, and the lookups would be wasted.
    let next_due_in = if more {
        None
    } else {
        next_due_in(tx, &request.queue)?
    };
    Ok(Claimed {
        claims,
        next_due_in,
        more,
        paused: false,
    })
}

/// Claims the just woken instances that the worker can start at once, by id.
///
/// Returns the queues of the others. Leaves out instances with a partition key, because the line
/// decides which is next, and parents, whose children would have to be loaded
/// (docs/decisions/0019).
pub(crate) fn take_woken(
    tx: &Tx<'_>,
    offer: &ClaimOffer,
    woken: &BTreeMap<InstanceId, String>,
) -> Result<(Vec<Claim>, QueueNames), Fault> {
    let registered = registered(&offer.machines);
    let (mut taken, mut left) = (Vec::new(), QueueNames::new());
    for (id, queue) in woken {
        let claim = match offer.queues.contains(queue) {
            true => woken_claim(tx, *id, &registered)?,
            false => None,
        };
        match claim {
            Some(claim) => {
                take(tx, *id, offer.worker)?;
                taken.push(Taken { id: *id, claim });
            }
            None => {
                left.insert(queue.clone());
            }
        }
    }
    Ok((load_all(tx, taken)?, left))
}

/// Returns the claim on a woken row, or why the row cannot be read.
///
/// `None` when this worker cannot run it.
fn woken_claim(
    tx: &Tx<'_>,
    id: InstanceId,
    registered: &HashSet<(&str, i32)>,
) -> Result<Option<Result<UnloadedClaim, String>>, Fault> {
    // From the revision on, this statement returns the columns of `claim/eligible.sql`.
    let mut statement = tx.prepare(WOKEN)?;
    let mut rows = statement.query([id.0])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let mut columns = Columns::of(row);
    let queue = columns.next_str()?;
    let position = Position {
        priority: columns.next()?,
        id: columns.next()?,
        eligible_at: columns.next()?,
    };
    let (machine, version) = (columns.next_str()?, columns.next()?);
    if !registered.contains(&(machine, version)) {
        return Ok(None);
    }
    let claim = claim_of(tx, queue, position, machine, version, columns);
    readable(claim).map(Some)
}

/// Whether `queue` is paused.
pub(crate) fn is_paused(tx: &Tx<'_>, queue: &str) -> Result<bool, Fault> {
    Ok(tx.prepare(PAUSED)?.exists([queue])?)
}

/// Returns the next priority of `queue` after `priority` that has claimable or delayed rows.
pub(crate) fn next_priority(tx: &Tx<'_>, queue: &str, priority: i64) -> Result<Option<i64>, Fault> {
    let next = tx
        .prepare(NEXT_PRIORITY)?
        .query_row(params![queue, priority], |row| row.get(0))
        .optional()?;
    Ok(next)
}

/// A value before every priority, to begin a walk over them.
pub(crate) const BEFORE_PRIORITIES: i64 = i16::MIN as i64 - 1;

/// Returns how long until the next delayed row of the queue is eligible.
///
/// One lookup for each priority: in the pick index only rows of one priority are ordered by time.
fn next_due_in(tx: &Tx<'_>, queue: &str) -> Result<Option<Duration>, Fault> {
    let mut earliest: Option<Timestamp> = None;
    let mut priority = BEFORE_PRIORITIES;
    while let Some(next) = next_priority(tx, queue, priority)? {
        priority = next;
        let due = tx
            .prepare(NEXT_DUE)?
            .query_row(params![queue, priority, tx.now.0], |row| {
                row.get(0).map(Timestamp)
            })
            .optional()?;
        earliest = earliest.into_iter().chain(due).min();
    }
    Ok(earliest.map(|due| due.since(tx.now)))
}

/// The positions where claims stopped at their bound.
///
/// The worker's next claim on that queue looks at the head again and then continues from the
/// position. Otherwise a long run of rows of machines that the worker lacks would hide all rows
/// behind it. Workers have different machines, so each has its own position.
///
/// The positions are outside the transaction, and a claim that is rolled back leaves its own. That
/// loses no row: a walk that comes to the end drops the position.
#[derive(Debug, Default)]
pub(crate) struct UnfinishedWalks(Mutex<HashMap<(WorkerId, String), Position>>);

impl UnfinishedWalks {
    /// The number of positions to keep. A lost position only means that the walk starts again.
    const MAX: usize = 1_000;

    fn get(&self, request: &ClaimRequest) -> Option<Position> {
        let walks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        walks.get(&(request.worker, request.queue.clone())).copied()
    }

    fn set(&self, request: &ClaimRequest, position: Option<Position>) {
        let mut walks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let walk = (request.worker, request.queue.clone());
        match position {
            Some(position) => {
                // Nothing says here which workers are gone, so all positions go.
                if walks.len() >= Self::MAX {
                    walks.clear();
                }
                walks.insert(walk, position);
            }
            None => {
                walks.remove(&walk);
            }
        }
    }
}

/// A position in the order of a queue. The order of the fields is the order of the pick index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    priority: i64,
    eligible_at: i64,
    id: i64,
}

impl Position {
    /// The head of a queue. No row has this priority, so a walk moves on to the first that exists.
    const HEAD: Position = Position::before(BEFORE_PRIORITIES);

    const fn before(priority: i64) -> Position {
        Position {
            priority,
            eligible_at: i64::MIN,
            id: i64::MIN,
        }
    }
}

/// Why a walk stopped.
enum Stopped {
    /// It has taken the requested number of rows.
    Full(Position),
    /// It has examined as many rows as one claim may.
    AtBound(Position),
    /// There are no more rows.
    AtEnd,
}

/// An eligible row.
struct Candidate {
    position: Position,
    partition_key: Option<String>,
    /// The claim that taking the row gives, or why it cannot be read.
    ///
    /// `None` when the worker lacks its machine.
    claim: Option<Result<UnloadedClaim, String>>,
}

/// A row that was taken.
struct Taken {
    id: InstanceId,
    /// An unreadable row is taken too: only an executing row can be failed.
    claim: Result<UnloadedClaim, String>,
}

/// The claim on a row, without its inbox and children.
struct UnloadedClaim {
    claim: Claim,
    /// Whether it belongs to a workflow that has started children.
    ///
    /// A workflow loads its children itself.
    is_flow: bool,
}

struct Walk<'a, 'c> {
    tx: &'a Tx<'c>,
    request: &'a ClaimRequest,
    registered: HashSet<(&'a str, i32)>,
    taken: Vec<Taken>,
    /// Whether there may be eligible rows before the position that this claim has not looked at.
    has_gap: bool,
}

impl<'a, 'c> Walk<'a, 'c> {
    fn new(tx: &'a Tx<'c>, request: &'a ClaimRequest) -> Walk<'a, 'c> {
        Walk {
            tx,
            request,
            registered: registered(&request.machines),
            taken: Vec::new(),
            has_gap: false,
        }
    }

    /// Walks from the head, and then from where the last walk stopped.
    ///
    /// Returns whether it stopped before the end without having taken all it may.
    fn take_most_urgent(&mut self, unfinished: &UnfinishedWalks) -> Result<bool, Fault> {
        if self.wanted() == 0 || self.registered.is_empty() {
            return Ok(false);
        }
        // Half of the bound is for the head, half for the rest. Every claim then sees new urgent
        // rows at the head.
        let examined_max = (10 * self.request.max + EXAMINED_MIN) / 2;
        let stopped = match self.walk(Position::HEAD, examined_max)? {
            // The stored position stays, because this walk has not come as far.
            Stopped::Full(_) => return Ok(false),
            Stopped::AtEnd => Stopped::AtEnd,
            Stopped::AtBound(at) => {
                let resume = unfinished.get(self.request).map_or(at, |last| last.max(at));
                self.has_gap = resume > at;
                self.walk(resume, examined_max)?
            }
        };
        let (position, at_bound) = match stopped {
            Stopped::Full(at) => (Some(at), false),
            Stopped::AtBound(at) => (Some(at), true),
            Stopped::AtEnd => (None, false),
        };
        unfinished.set(self.request, position);
        Ok(at_bound)
    }

    /// Walks on from `from`, priority by priority, and in each only over eligible rows.
    fn walk(&mut self, from: Position, examined_max: usize) -> Result<Stopped, Fault> {
        let mut at = from;
        let mut left = examined_max;
        loop {
            let chunk = left.min(self.wanted().max(CHUNK_MIN));
            let candidates = self.eligible(at, chunk)?;
            // The statement ends at `now`, so delayed rows of this priority are skipped (I10).
            let exhausted = candidates.len() < chunk;
            for candidate in candidates {
                at = candidate.position;
                left -= 1;
                self.consider(candidate)?;
                if self.wanted() == 0 {
                    return Ok(Stopped::Full(at));
                }
            }
            if exhausted {
                match next_priority(self.tx, &self.request.queue, at.priority)? {
                    Some(priority) => at = Position::before(priority),
                    None => return Ok(Stopped::AtEnd),
                }
                // A skip counts as a row, so that many priorities stay within the bound too.
                left = left.saturating_sub(1);
            }
            if left == 0 {
                return Ok(Stopped::AtBound(at));
            }
        }
    }

    fn wanted(&self) -> usize {
        self.request.max - self.taken.len()
    }

    /// Returns the next eligible rows of the priority of `after`.
    ///
    /// Reads them to the end before any is taken: `take` and `hold` change the index that the
    /// statement walks.
    fn eligible(&self, after: Position, limit: usize) -> Result<Vec<Candidate>, Fault> {
        let mut statement = self.tx.prepare(ELIGIBLE)?;
        let mut rows = statement.query(params![
            self.request.queue,
            after.priority,
            after.eligible_at,
            after.id,
            self.tx.now.0,
            limit as i64
        ])?;
        let mut candidates = Vec::new();
        while let Some(row) = rows.next()? {
            candidates.push(self.candidate(after.priority, row)?);
        }
        Ok(candidates)
    }

    fn candidate(&self, priority: i64, row: &Row<'_>) -> Result<Candidate, Fault> {
        let mut columns = Columns::of(row);
        let id = columns.next()?;
        let position = Position {
            priority,
            eligible_at: columns.next()?,
            id,
        };
        let (machine, version) = (columns.next_str()?, columns.next()?);
        let partition_key = columns.next()?;
        let registered = self.registered.contains(&(machine, version));
        #[cfg(outlast_mutants)]
        let registered = registered || outlast_core::mutant::is("claims-any-machine");
        let queue = &self.request.queue;
        let claim =
            registered.then(|| claim_of(self.tx, queue, position, machine, version, columns));
        Ok(Candidate {
            position,
            partition_key,
            claim: claim.map(readable).transpose()?,
        })
    }

    /// Takes a row, holds it behind its key, or leaves it to a worker that has its machine.
    fn consider(&mut self, row: Candidate) -> Result<(), Fault> {
        let Some(mut claim) = row.claim else {
            return Ok(());
        };
        let id = InstanceId(row.position.id);
        // Rows that this claim has taken already execute, so the check also finds a second row of
        // one key (I8). Without it, the index `instances_partition` would fail the whole claim.
        if let Some(key) = &row.partition_key
            && partition_line::is_busy(self.tx, key)?
        {
            return partition_line::hold(self.tx, id);
        }
        // An older row of the key may have come back in the part of the queue that this claim
        // skips. This row then stays for a claim that sees both.
        if self.has_gap
            && let (Some(key), Ok(unloaded)) = (&row.partition_key, &claim)
            && self.has_older(key, row.position, &unloaded.claim)?
        {
            return Ok(());
        }
        take(self.tx, id, self.request.worker)?;
        if let Ok(UnloadedClaim { claim, .. }) = &mut claim {
            claim.partition_key = row.partition_key;
        }
        self.taken.push(Taken { id, claim });
        Ok(())
    }

    /// Whether an eligible row of the same group comes before `position` in the line behind `key`.
    fn has_older(&self, key: &str, position: Position, claim: &Claim) -> Result<bool, Fault> {
        let older = self.tx.prepare(OLDER_IN_LINE)?.exists(params![
            key,
            self.request.queue,
            claim.machine,
            claim.version,
            position.priority,
            position.eligible_at,
            position.id,
            self.tx.now.0
        ])?;
        Ok(older)
    }
}

fn registered(machines: &[MachineVersion]) -> HashSet<(&str, i32)> {
    let machines = machines.iter();
    machines
        .map(|it| (it.machine.as_str(), it.version))
        .collect()
}

/// Reads the claim from the columns that start at the revision, in the order of the statement.
///
/// The inbox and the children are loaded only after the row was taken.
fn claim_of(
    tx: &Tx<'_>,
    queue: &str,
    position: Position,
    machine: &str,
    version: i32,
    mut columns: Columns<'_, '_>,
) -> rusqlite::Result<UnloadedClaim> {
    let claim = Claim {
        id: InstanceId(position.id),
        machine: machine.to_owned(),
        version,
        // As `take` will write it.
        revision: Revision(columns.next()?).next(),
        step: columns.next()?,
        state: columns.next_json()?,
        entered: Revision(columns.next()?),
        trace: columns.next()?,
        attempt: columns.next()?,
        crashes: columns.next()?,
        correlation_key: columns.next()?,
        parent: columns.next_parent()?,
        position: columns.next()?,
        round: columns.next()?,
        awaits: columns.next_list()?,
        dropped: columns.next_list()?,
        joined: columns.next_word()?,
        first_failure: columns.next::<Option<i64>>()?.map(InstanceId),
        cancel: columns.next_cancel()?,
        windowed: columns.next::<Option<bool>>()?.is_some(),
        run: columns.next()?,
        events: columns.next()?,
        queue: queue.to_owned(),
        priority: position.priority as i16,
        partition_key: None,
        inbox: Vec::new(),
        children: Vec::new(),
        waited: tx.now.since(Timestamp(position.eligible_at)),
        claimed_at: Some(tx.now),
    };
    let is_flow = columns.next()?;
    Ok(UnloadedClaim { claim, is_flow })
}

/// Loads the inboxes and the children of the claims.
///
/// Runs after all rows are taken: one claim may take both a parent and its retried child. Claims
/// and unreadable rows are settled together, in the transaction of the claim.
fn load_all(tx: &Tx<'_>, taken: Vec<Taken>) -> Result<Vec<Claim>, Fault> {
    let owners = inbox::owners(tx, taken.iter().map(|taken| taken.id))?;
    let mut claims = Vec::with_capacity(taken.len());
    let mut effects = Effects::default();
    for Taken { id, claim } in taken {
        let loaded = match claim {
            Ok(found) => load(tx, found, owners.contains(&id))?,
            Err(reason) => Err(reason),
        };
        match loaded {
            Ok(claim) => claims.push(claim),
            Err(reason) => fail_unreadable(tx, id, &reason, &mut effects)?,
        }
    }
    effects.settle(tx)?;
    Ok(claims)
}

/// Separates an undecodable row, as a reason, from other faults.
fn readable<T>(read: rusqlite::Result<T>) -> Result<Result<T, String>, Fault> {
    read.map(Ok).or_else(|error| {
        let fault = Fault::from(error);
        fault.unreadable_row().map(Err).ok_or(fault)
    })
}

/// Makes a row executing. It is still runnable: this transaction has just read it.
fn take(tx: &Tx<'_>, id: InstanceId, worker: WorkerId) -> Result<(), Fault> {
    tx.prepare(TAKE)?
        .execute(params![id.0, worker.0, tx.now.0])?;
    Ok(())
}

/// Loads what a claim carries besides its row, or returns why that cannot be read.
fn load(
    tx: &Tx<'_>,
    found: UnloadedClaim,
    has_inbox: bool,
) -> Result<Result<Claim, String>, Fault> {
    let UnloadedClaim { mut claim, is_flow } = found;
    let mut load = || {
        if has_inbox {
            claim.inbox = inbox::read(tx, claim.id)?;
        }
        if claim.round > 0 && !is_flow {
            claim.children = tx
                .prepare(CHILDREN)?
                .query_map(params![claim.id.0, claim.round], decode::child)?
                .collect::<rusqlite::Result<_>>()?;
        }
        Ok(())
    };
    let loaded = load();
    Ok(readable(loaded)?.map(|()| claim))
}

/// Fails an instance that cannot be decoded, with the reason (docs/protocol.md, defect 12).
///
/// It has the effects of any other end. A parent must not wait for a child that cannot be read.
fn fail_unreadable(
    tx: &Tx<'_>,
    id: InstanceId,
    reason: &str,
    effects: &mut Effects,
) -> Result<(), Fault> {
    let error = limits::clean_error(&format!("the stored instance cannot be read: {reason}"));
    tracing::error!(instance = %id, error, "an instance was failed");
    let ended = tx
        .prepare(FAIL_UNREADABLE)?
        .query_row(params![id.0, error, tx.now.0], Ended::decode)?;
    inbox::empty(tx, id)?;
    effects.ended(ended);
    Ok(())
}
