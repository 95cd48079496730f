//! The signal verbs: put signals into inboxes and wake the instances that wait for them.
//!
//! Clients and users' own transactions call it. A finished instance must never receive a signal,
//! nor a live one the same dedup key twice (I7). With one writer, no park can come between the
//! look at the target and its wake (docs/protocol.md, defect 2).

use crate::error::Fault;
use crate::tx::Tx;
use crate::verbs::insert::{self, Added};
use crate::verbs::{claim, lease};
use outlast_core::{
    ClaimOffer, Delivered, Delivery, InstanceId, NewSignal, QueueNames, SignalId, SignalOrInsert,
    SignalledOrInserted, Target, limits,
};
use rusqlite::{OptionalExtension, Row, params};
use std::collections::{BTreeMap, HashMap};

const TARGET_BY_ID: &str = include_str!("../../sql/deliver/target_by_id.sql");
const TARGET_BY_KEY: &str = include_str!("../../sql/deliver/target_by_key.sql");
const KNOWN_BY_ID: &str = include_str!("../../sql/deliver/known_by_id.sql");
const KNOWN_BY_KEY: &str = include_str!("../../sql/deliver/known_by_key.sql");
const INBOX_SIZE: &str = include_str!("../../sql/deliver/inbox_size.sql");
const SIGNAL: &str = include_str!("../../sql/deliver/signal.sql");
const ARRIVED: &str = include_str!("../../sql/deliver/arrived.sql");
const WAKE: &str = include_str!("../../sql/deliver/wake.sql");
const NOTE: &str = include_str!("../../sql/deliver/note.sql");

/// Delivers signals in the caller's order, as if sent one by one.
///
/// Then claims for `claim_for` the woken instances that it can start at once.
pub(crate) fn deliver(
    tx: &Tx<'_>,
    signals: &[NewSignal],
    claim_for: Option<&ClaimOffer>,
) -> Result<Delivered, Fault> {
    if let Some(offer) = claim_for {
        lease::require_alive(tx, "deliver", offer.worker)?;
    }
    let mut delivered = Delivered::default();
    let mut arrivals = Arrivals::default();
    for signal in signals {
        let answer = deliver_one(tx, signal, &mut arrivals)?;
        delivered.answers.push(answer);
    }
    let woken = arrivals.noted(tx)?;
    // After the last signal, so that a claim has the whole batch in its inbox.
    (delivered.claims, delivered.woken) = match claim_for {
        Some(offer) => claim::take_woken(tx, offer, &woken)?,
        None => (Vec::new(), woken.into_values().collect()),
    };
    Ok(delivered)
}

/// Signals the holder of a key, or starts one with the signal in its inbox.
///
/// A finished instance that still occupies its key is a holder (I9), but no target.
pub(crate) fn signal_or_insert(
    tx: &Tx<'_>,
    request: &SignalOrInsert,
) -> Result<SignalledOrInserted, Fault> {
    let signal = request
        .signal()
        .map_err(|invalid| invalid.during("signal_or_insert"))?;
    // Checked before the insert: a signal sent again after its target finished must not start an
    // instance.
    if let Some(instance) = known(tx, &signal)? {
        return Ok(SignalledOrInserted {
            inserted: None,
            delivery: Delivery::Duplicate { instance },
            woken: QueueNames::new(),
        });
    }
    // First the insert, then the delivery: the signal finds the new instance by its key.
    let mut woken = QueueNames::new();
    let inserted = match insert::add(tx, &request.row, None, None)? {
        Added::New(id) => Some(id),
        Added::Occupied(_) => None,
    };
    if inserted.is_some() && insert::is_eligible(tx, &request.row) {
        woken.insert(request.row.queue.clone());
    }
    let mut arrivals = Arrivals::default();
    let delivery = deliver_one(tx, &signal, &mut arrivals)?;
    woken.extend(arrivals.noted(tx)?.into_values());
    Ok(SignalledOrInserted {
        inserted,
        delivery,
        woken,
    })
}

/// The signals that this verb has put into inboxes.
#[derive(Default)]
struct Arrivals {
    /// The size of each inbox. Counted once, so that filling an inbox takes linear time.
    sizes: HashMap<InstanceId, usize>,
    /// The woken instances and their queues.
    woken: BTreeMap<InstanceId, String>,
    /// The executing instances, each with its latest signal.
    executing: BTreeMap<InstanceId, SignalId>,
}

impl Arrivals {
    /// Notes the latest signals on the executing instances. Returns the woken instances.
    ///
    /// Once for each instance, not for each signal: SQLite writes a row anew as a whole.
    fn noted(self, tx: &Tx<'_>) -> Result<BTreeMap<InstanceId, String>, Fault> {
        for (instance, signal) in self.executing {
            tx.prepare(NOTE)?.execute(params![instance.0, signal.0])?;
        }
        Ok(self.woken)
    }
}

/// Delivers one signal. The order of the answers is part of the contract.
fn deliver_one(
    tx: &Tx<'_>,
    signal: &NewSignal,
    arrivals: &mut Arrivals,
) -> Result<Delivery, Fault> {
    // Before the target: a signal that is sent again after the end gets the same answer as before
    // it (docs/protocol.md, defect 10).
    if let Some(instance) = known(tx, signal)? {
        return Ok(Delivery::Duplicate { instance });
    }
    // Read for each signal: an earlier one of the batch may have woken the target.
    let Some(receiver) = receiver(tx, signal)? else {
        return Ok(Delivery::NoTarget);
    };
    let instance = receiver.id;
    let size = match arrivals.sizes.get(&instance) {
        Some(size) => *size,
        None => inbox_size(tx, instance)?,
    };
    if size >= limits::INBOX_MAX {
        return Ok(Delivery::InboxFull { instance });
    }
    arrivals.sizes.insert(instance, size + 1);
    let id = put(tx, instance, signal)?;
    let woke = receiver.waits && (!receiver.needs_all || completes(tx, instance, &signal.name)?);
    if woke {
        tx.prepare(WAKE)?.execute(params![instance.0, tx.now.0])?;
        arrivals.woken.insert(instance, receiver.queue);
    }
    if receiver.runs {
        arrivals.executing.insert(instance, id);
    }
    Ok(Delivery::Delivered { id, instance, woke })
}

/// Removes a name from the awaited names of a workflow that needs all.
///
/// Returns whether the workflow lacks nothing more.
fn completes(tx: &Tx<'_>, instance: InstanceId, name: &str) -> Result<bool, Fault> {
    let values = params![instance.0, name, tx.now.0];
    let is_complete = tx
        .prepare(ARRIVED)?
        .query_row(values, |row| row.get("is_complete"))?;
    #[cfg(outlast_mutants)]
    let is_complete = is_complete || outlast_core::mutant::is("one-signal-completes-a-group");
    Ok(is_complete)
}

/// A live instance that is the target of a signal.
struct Receiver {
    id: InstanceId,
    queue: String,
    /// Whether it is parked on this name.
    waits: bool,
    /// Whether it is parked until its whole group is complete.
    needs_all: bool,
    /// Whether its step runs.
    runs: bool,
}

/// Returns the target of a signal, if it is live.
fn receiver(tx: &Tx<'_>, signal: &NewSignal) -> Result<Option<Receiver>, Fault> {
    let found = match &signal.target {
        Target::Id(id) => tx
            .prepare(TARGET_BY_ID)?
            .query_row(params![id.0, signal.name], Receiver::decode),
        Target::Key { machine, key } => tx
            .prepare(TARGET_BY_KEY)?
            .query_row(params![machine, key, signal.name], Receiver::decode),
    };
    Ok(found.optional()?)
}

impl Receiver {
    fn decode(row: &Row<'_>) -> rusqlite::Result<Receiver> {
        Ok(Receiver {
            id: InstanceId(row.get("id")?),
            queue: row.get("queue")?,
            waits: row.get("waits")?,
            needs_all: row.get("needs_all")?,
            runs: row.get("runs")?,
        })
    }
}

/// Returns the instance that has received this dedup key before, live or finished (I7).
///
/// A signal by key is compared with the former holders of the key too. Otherwise a repeated signal
/// would reach the next holder (docs/decisions/0046).
fn known(tx: &Tx<'_>, signal: &NewSignal) -> Result<Option<InstanceId>, Fault> {
    let Some(dedup_key) = &signal.dedup_key else {
        return Ok(None);
    };
    let id = |row: &Row<'_>| row.get(0).map(InstanceId);
    let found = match &signal.target {
        Target::Id(target) => tx
            .prepare(KNOWN_BY_ID)?
            .query_row(params![target.0, dedup_key], id),
        Target::Key { machine, key } => {
            let latest = limits::HOLDERS_MAX as i64;
            #[cfg(outlast_mutants)]
            let latest = match outlast_core::mutant::is("dedup-keys-of-the-latest-only") {
                true => 1,
                false => latest,
            };
            tx.prepare(KNOWN_BY_KEY)?
                .query_row(params![machine, key, dedup_key, latest], id)
        }
    };
    Ok(found.optional()?)
}

fn inbox_size(tx: &Tx<'_>, instance: InstanceId) -> Result<usize, Fault> {
    let size: u32 = tx
        .prepare(INBOX_SIZE)?
        .query_row([instance.0], |row| row.get(0))?;
    Ok(size as usize)
}

/// Stores a signal in an inbox.
///
/// The index `signals_dedup` also refuses a dedup key that is known, and would fail the verb.
fn put(tx: &Tx<'_>, instance: InstanceId, signal: &NewSignal) -> Result<SignalId, Fault> {
    tx.prepare(SIGNAL)?.execute(params![
        instance.0,
        signal.name,
        signal.payload.as_str(),
        signal.dedup_key,
        tx.now.0,
        signal.wants_reply
    ])?;
    Ok(SignalId(tx.connection.last_insert_rowid()))
}
