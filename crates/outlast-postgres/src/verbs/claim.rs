//! Claiming instances of a queue for a worker, and loading what their steps read.
//!
//! The engine's pickers call this. Nothing here runs user code, and no claim is answered without
//! its inbox and children.
//!
//! A claim is several transactions: one look, seldom up to ten, and a load. Each look is committed
//! before the next, so a later failure must not drop the rows of an earlier look. They would be
//! held by a worker that does not know of them until it asks `claims_of`.

use crate::decode::{self, claim_of, column, duration, instance_id};
use crate::error::Failure;
use crate::session::Session;
use crate::session::statement::{self, references, value};
use crate::session::tx_settings::TxKind;
use crate::verbs::commit;
use outlast_core::{
    Claim, ClaimRef, ClaimRequest, Claimed, Commit, Error, InstanceId, Links, Outcome, Release,
    Result,
};
use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, SystemTime};
use tokio_postgres::Row;

/// How often a claim looks further after it met rows behind busy partition keys.
///
/// Each look sets those rows aside. So a claim that stops here has made progress, and it answers
/// that there is more.
const LOOKS_MAX: usize = 10;

/// How many rows a look after the first one locks at least.
///
/// Thousands of rows may wait behind one key. A look for a few rows would set aside a few of them.
const LOOK_FURTHER: usize = 1_000;

/// Claims rows for a worker, most urgent first.
pub(crate) async fn claim(session: &Session, request: &ClaimRequest) -> Result<Claimed> {
    request.check().map_err(|invalid| invalid.during("claim"))?;
    let mut claims: Vec<UnloadedClaim> = Vec::new();
    let (mut more, mut paused, mut next_due_in) = (false, false, None);
    for nth in 0..LOOKS_MAX {
        let wanted = request.max - claims.len();
        // The first look locks only as many rows as it takes. Only a busy key is worth locking
        // ahead.
        let reach = if nth == 0 {
            wanted
        } else {
            wanted.max(LOOK_FURTHER)
        };
        let look = match session
            .retry("claim", || Box::pin(look(session, request, wanted, reach)))
            .await
        {
            Ok(look) => look,
            Err(error) if claims.is_empty() => return Err(error),
            // The worker keeps the rows that an earlier look claimed, although this look failed.
            Err(error) => {
                tracing::warn!(%error, "a claim looks no further");
                more = true;
                break;
            }
        };
        // Only the last look counts: what earlier looks met has left the index of the queue.
        more = look.may_leave_more(reach);
        (paused, next_due_in) = (look.paused, look.next_due_in);
        let worth_another_look = look.set_aside > 0;
        claims.extend(look.claims);
        fail_unreadable(session, look.unreadable).await;
        if claims.len() == request.max || !more || !worth_another_look {
            break;
        }
    }
    // The queue was paused between two looks. The worker keeps the rows of the first look.
    if paused && claims.is_empty() {
        return Ok(Claimed {
            paused,
            ..Claimed::default()
        });
    }
    let claims = load(session, claims).await?;
    Ok(Claimed {
        claims,
        next_due_in: next_due_in.filter(|_| !more),
        more,
        paused: false,
    })
}

/// The result of one look at the queue.
struct Look {
    claims: Vec<UnloadedClaim>,
    /// Claimed rows with values that this version cannot read, for example after a manual change.
    unreadable: Vec<Commit>,
    looked_at: usize,
    set_aside: usize,
    paused: bool,
    next_due_in: Option<Duration>,
}

/// A claim, and whether its inbox and its children must be loaded.
struct UnloadedClaim {
    claim: Claim,
    eligible_at: SystemTime,
    has_inbox: bool,
    has_children: bool,
}

impl Look {
    /// Returns whether the queue may hold more eligible rows than the look took.
    ///
    /// This is so when the look was full, or when a row was neither taken nor set aside because
    /// another transaction is committing its neighbour.
    fn may_leave_more(&self, reach: usize) -> bool {
        let full = self.looked_at == reach && reach > 0;
        full || self.claims.len() + self.unreadable.len() + self.set_aside < self.looked_at
    }
}

/// Takes the most urgent free rows in one transaction and one round trip.
///
/// Two workers never get the same row: a look locks its rows before it decides, and skips locked
/// ones. Looks at two queues can both find a partition key free. The index `instances_partition`
/// refuses the second one, and the caller's `retry` looks again (I8).
///
/// The transaction does not wait for the disk. A server that crashes may forget it, and the fence
/// then decides between two workers.
async fn look(
    session: &Session,
    request: &ClaimRequest,
    wanted: usize,
    reach: usize,
) -> Result<Look, Failure> {
    let machines: Vec<String> = request.machines.iter().map(ToString::to_string).collect();
    // The worker's row is locked first and by a separate statement. So the reaper either comes
    // before the claim, and the claim sees the expired lease, or skips the worker until the claim
    // is committed.
    let calls = [
        statement::LEASE_HOLD.with([value(request.worker.0)]),
        statement::CLAIM.with([
            value(request.worker.0),
            value(request.queue.as_str()),
            value(machines),
            value(wanted as i64),
            value(reach as i64),
        ]),
    ];
    let answers = session.transact(TxKind::Claim, &calls).await?;
    // The summary row comes last in the statement's `union all`.
    let (counts, rows) = answers[1].split_last().ok_or_else(no_counts)?;
    let now = column(counts, "now")?;
    let mut look = Look {
        looked_at: column::<i64>(counts, "looked_at")? as usize,
        set_aside: column::<i64>(counts, "set_aside")? as usize,
        paused: column(counts, "paused")?,
        next_due_in: column::<Option<i64>>(counts, "due_us")?.map(duration),
        claims: Vec::with_capacity(rows.len()),
        unreadable: Vec::new(),
    };
    for row in rows {
        look.add(row, &request.queue, now)?;
    }
    // The lease may be renewed between the two statements. Then the worker keeps the rows it got.
    let was_alive = match answers[0].first() {
        Some(worker) => column(worker, "is_alive")?,
        None => false,
    };
    let found_nothing = look.looked_at == 0;
    #[cfg(outlast_mutants)]
    let found_nothing =
        found_nothing || outlast_core::mutant::is("claim-beside-a-renewal-is-not-returned");
    if !was_alive && found_nothing {
        return Err(Failure::Verb(Error::LeaseExpired {
            operation: "claim",
            worker: request.worker,
        }));
    }
    Ok(look)
}

impl Look {
    /// Adds a claimed row.
    ///
    /// An unreadable row must not fail its neighbours (docs/protocol.md, defect 12).
    fn add(&mut self, row: &Row, queue: &str, now: SystemTime) -> Result<(), Failure> {
        match decode::claim(row, queue, now) {
            Ok(claim) => self.claims.push(UnloadedClaim {
                has_children: claim.round > 0
                    && column::<Option<bool>>(row, "is_workflow")?.is_none(),
                claim,
                eligible_at: column(row, "eligible_at")?,
                has_inbox: column::<Option<bool>>(row, "has_inbox")?.unwrap_or(false),
            }),
            #[cfg(outlast_mutants)]
            Err(failure) if outlast_core::mutant::is("unreadable-row-stops-its-queue") => {
                return Err(failure);
            }
            Err(failure) => self.unreadable.push(failing(claim_of(row)?, failure)),
        }
        Ok(())
    }
}

/// Returns the commit that fails a claimed row that cannot be read.
///
/// It goes the usual way of an outcome, so that a parent's join and a partition key are not
/// forgotten. Nothing is known of the row, so every link is possible.
pub(crate) fn failing(claim: ClaimRef, failure: Failure) -> Commit {
    let reason = format!("the stored row cannot be read: {}", failure.during("claim"));
    Commit {
        claim,
        received: Vec::new(),
        outcome: Outcome::fail(reason),
        answers_cancel: false,
        links: Links::UNKNOWN,
        events: Vec::new(),
        position: None,
        views: Vec::new(),
        replies: Vec::new(),
    }
}

/// Fails claimed rows that cannot be read, each with its reason.
///
/// The readable rows stay claimed even if this fails. A failure means that the database is
/// unreachable. The worker finds the unreadable rows in `claims_of` later.
pub(crate) async fn fail_unreadable(session: &Session, unreadable: Vec<Commit>) {
    if unreadable.is_empty() {
        return;
    }
    tracing::warn!(
        instances = unreadable.len(),
        "stored rows cannot be read and fail"
    );
    if let Err(error) = commit::commit(session, &unreadable).await {
        tracing::warn!(%error, "rows that cannot be read could not be ended");
    }
}

fn no_counts() -> Failure {
    Failure::Verb(Error::Corrupt {
        operation: "claim",
        reason: "claim/claim.sql answered no row".into(),
        source: None,
    })
}

/// Loads the inboxes and children of claims in a second round trip, if there are any.
///
/// Leaves out a claim that was lost before it was loaded. Its inbox may be partly consumed, and
/// its step would take that for a timeout. Fails an instance whose signals or children cannot be
/// read.
async fn load(session: &Session, mut claims: Vec<UnloadedClaim>) -> Result<Vec<Claim>> {
    // An `update … returning` answers in no order, and there may have been several looks.
    claims.sort_by_key(|l| (l.claim.priority, l.eligible_at, l.claim.id));
    let ids_where = |wanted: fn(&UnloadedClaim) -> bool| -> Vec<i64> {
        let wanted = claims.iter().filter(|l| wanted(l));
        wanted.map(|l| l.claim.id.0).collect()
    };
    let with = Loads {
        inbox: ids_where(|l| l.has_inbox),
        children: ids_where(|l| l.has_children),
    };
    let mut claims: Vec<Claim> = claims.into_iter().map(|l| l.claim).collect();
    // Tried twice, not by `retry`: reads cannot deadlock, but a pooler may have lost the
    // statements. A failed exchange has added nothing to the claims.
    let mut loaded = load_once(session, &mut claims, &with).await;
    if let Err(failure) = &loaded
        && session.may_help(failure)
    {
        loaded = load_once(session, &mut claims, &with).await;
    }
    match loaded {
        Ok(Loaded { lost, unreadable }) => {
            let mut left_out = lost;
            left_out.extend(unreadable.iter().map(|failed| failed.claim.id));
            claims.retain(|claim| !left_out.contains(&claim.id));
            fail_unreadable(session, unreadable).await;
            Ok(claims)
        }
        Err(failure) => {
            give_back(session, &claims).await;
            Err(failure.during("claim"))
        }
    }
}

/// The instances whose claims have an inbox or children to load.
struct Loads {
    inbox: Vec<i64>,
    children: Vec<i64>,
}

/// The claims that were loaded and are not handed out.
#[derive(Default)]
struct Loaded {
    /// Claims that were lost in the meantime.
    lost: HashSet<InstanceId>,
    /// Claims with a signal or a child that this version cannot read.
    unreadable: Vec<Commit>,
}

/// Loads once, and returns the claims that must not be handed out.
///
/// Its statements come after the claim and have later snapshots. So they see every child that
/// decided the join of a woken parent (I6).
async fn load_once(
    session: &Session,
    claims: &mut [Claim],
    with: &Loads,
) -> Result<Loaded, Failure> {
    let with_inbox: HashSet<i64> = with.inbox.iter().copied().collect();
    let with_children: HashSet<i64> = with.children.iter().copied().collect();
    let is_parent = |claim: &&Claim| with_children.contains(&claim.id.0);
    let parents: Vec<&Claim> = claims.iter().filter(is_parent).collect();
    let (loads_inbox, loads_children) = (!with_inbox.is_empty(), !parents.is_empty());
    let mut calls = Vec::new();
    if loads_inbox {
        calls.push(statement::CLAIM_INBOX.with([value(with.inbox.clone())]));
    }
    if loads_children {
        calls.push(
            statement::CLAIM_CHILDREN.with([
                value(parents.iter().map(|claim| claim.id.0).collect::<Vec<i64>>()),
                value(
                    parents
                        .iter()
                        .map(|claim| claim.round)
                        .collect::<Vec<i32>>(),
                ),
            ]),
        );
    }
    if calls.is_empty() {
        return Ok(Loaded::default());
    }
    let is_loaded = |claim: &&Claim| is_parent(claim) || with_inbox.contains(&claim.id.0);
    let loaded: Vec<ClaimRef> = claims
        .iter()
        .filter(is_loaded)
        .map(Claim::reference)
        .collect();
    // The last statement: a claim that is held after the reads was held during them.
    calls.push(statement::CLAIM_HELD.with(references(&loaded)));
    let mut answers = session.transact(TxKind::Claim, &calls).await?.into_iter();
    let mut loading = Loading {
        by_id: claims.iter_mut().map(|c| (c.id.0, c)).collect(),
        unreadable: Vec::new(),
    };
    if loads_inbox {
        for row in answers.next().unwrap_or_default() {
            loading.add(column(&row, "target_id")?, |claim| {
                claim.inbox.push(decode::signal(&row)?);
                Ok(())
            })?;
        }
    }
    if loads_children {
        for row in answers.next().unwrap_or_default() {
            loading.add(column(&row, "parent_id")?, |claim| {
                let nth = claim.children.len() as i32;
                claim.children.push(decode::child(&row, nth)?);
                Ok(())
            })?;
        }
    }
    let unreadable = loading.unreadable;
    let mut lost: HashSet<InstanceId> = loaded.iter().map(|claim| claim.id).collect();
    for row in answers.next().unwrap_or_default() {
        lost.remove(&instance_id(&row)?);
    }
    Ok(Loaded { lost, unreadable })
}

/// Claims that are being loaded.
struct Loading<'a> {
    by_id: BTreeMap<i64, &'a mut Claim>,
    unreadable: Vec<Commit>,
}

impl Loading<'_> {
    /// Adds a signal or a child to the claim of this id.
    ///
    /// An unreadable one fails its own instance only (docs/protocol.md, defect 12). The rest of
    /// that instance is not read.
    fn add(
        &mut self,
        id: i64,
        read: impl FnOnce(&mut Claim) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Some(claim) = self.by_id.get_mut(&id) else {
            return Ok(());
        };
        match read(claim) {
            Ok(()) => {}
            #[cfg(outlast_mutants)]
            Err(failure) if outlast_core::mutant::is("unreadable-row-stops-its-queue") => {
                return Err(failure);
            }
            Err(failure) => {
                self.unreadable.push(failing(claim.reference(), failure));
                self.by_id.remove(&id);
            }
        }
        Ok(())
    }
}

/// Releases claims that could not be loaded.
///
/// A failure here means that the database is unreachable. The worker finds the claims in
/// `claims_of`.
async fn give_back(session: &Session, claims: &[Claim]) {
    let releases: Vec<Release> = claims
        .iter()
        .map(|claim| Release {
            claim: claim.reference(),
            pause: Duration::ZERO,
        })
        .collect();
    if let Err(error) = commit::release(session, &releases).await {
        tracing::warn!(%error, claims = claims.len(), "claims could not be given back; their worker will find them");
    }
}
