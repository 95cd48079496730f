//! Delivering signals, with or without a worker that takes the woken instances.
//!
//! The client and the engine's fast path call this. A signal is written only under the lock of its
//! target, which an earlier statement takes. So no target can park or end between the look at its
//! status and the write of the signal (docs/protocol.md, defects 2 and 10).

use crate::decode::{self, column};
use crate::error::Failure;
use crate::session::statement::{self, Call, documents, value};
use crate::session::tx_settings::TxKind;
use crate::session::{Answers, Session};
use crate::verbs::insert::{self, holders, holders_call, inserting};
use crate::verbs::{claim, enqueue};
use outlast_core::limits::{HOLDERS_MAX, INBOX_MAX};
use outlast_core::{
    Claim, ClaimOffer, Commit, Delivered, Delivery, Error, Inserted, InstanceId, NewInstance,
    NewSignal, QueueNames, Result, SignalId, SignalOrInsert, SignalledOrInserted, Target,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::slice::from_ref;
use tokio_postgres::Row;

/// How often a key is looked up again after its holder released it before the lock.
const LOOKUPS_MAX: usize = 5;

/// Delivers a batch in the caller's order, and claims woken targets for the worker of an offer.
pub(crate) async fn deliver(
    session: &Session,
    signals: &[NewSignal],
    claim_for: Option<&ClaimOffer>,
) -> Result<Delivered> {
    NewSignal::check_delivery(signals, claim_for).map_err(|invalid| invalid.during("deliver"))?;
    if signals.is_empty() {
        return Ok(Delivered::default());
    }
    if session.enqueue_only {
        return enqueue::deliver(session, signals).await;
    }
    for _ in 0..LOOKUPS_MAX {
        let arrived = session
            .retry("deliver", || {
                Box::pin(deliver_once(session, signals, claim_for))
            })
            .await?;
        if let Some(arrived) = arrived {
            // After the delivery is committed: its answers are true whether this succeeds or not.
            claim::fail_unreadable(session, arrived.unreadable).await;
            return Ok(arrived.delivered);
        }
    }
    Err(changed_each_time("deliver"))
}

fn changed_each_time(operation: &'static str) -> Error {
    Error::Transient {
        operation,
        reason: "the holder of a correlation key changed each time it was looked up; try again"
            .into(),
        source: None,
    }
}

/// The result of a written delivery.
struct Arrived {
    delivered: Delivered,
    /// Claimed rows with values that this version cannot read, for example after a manual change.
    unreadable: Vec<Commit>,
}

/// Delivers the batch, or writes nothing if a holder released its key before it was locked.
///
/// In the second case the caller looks the keys up again.
///
/// Keys are looked up in a transaction of their own, which locks nothing. The answer may be stale
/// at the time of the lock, so deliver/deliver.sql checks the key again under it.
async fn deliver_once(
    session: &Session,
    signals: &[NewSignal],
    claim_for: Option<&ClaimOffer>,
) -> Result<Option<Arrived>, Failure> {
    let keyed: Vec<usize> = (0..signals.len())
        .filter(|&position| key_of(&signals[position]).is_some())
        .collect();
    // Without keys the batch is one statement, and nothing is decided after it. So the commit goes
    // along with it.
    if keyed.is_empty() {
        let calls = delivering_for(signals, &HashMap::new(), claim_for);
        let answers = session.transact(TxKind::Write, &calls).await?;
        return arrived(answers, claim_for).map(Some);
    }
    let found = session
        .transact(
            TxKind::Write,
            &[holders_call(
                keyed
                    .iter()
                    .filter_map(|&position| key_of(&signals[position])),
            )],
        )
        .await?;
    let holders = holders(&found[0], &keyed)?;
    let mut transaction = session.begin(TxKind::Write).await?;
    let calls = delivering_for(signals, &holders, claim_for);
    let answers = transaction.run(&calls).await?;
    // The last answer of an offer has the claimed rows, and no word about a signal.
    let delivered = answers.len() - usize::from(claim_for.is_some());
    if has_vanished(&answers[..delivered])? {
        transaction.abandon().await;
        return Ok(None);
    }
    // The lease may expire between two statements. Then nothing may be written.
    match arrived(answers, claim_for) {
        Ok(arrived) => transaction.finish(&[]).await.map(|_| Some(arrived)),
        Err(failure) => {
            transaction.abandon().await;
            Err(failure)
        }
    }
}

/// Returns the calls that deliver the batch and, for a worker, read the rows that it claimed.
fn delivering_for<'a>(
    signals: &'a [NewSignal],
    holders: &HashMap<usize, InstanceId>,
    claim_for: Option<&'a ClaimOffer>,
) -> Vec<Call<'a>> {
    let targets = targets(signals, holders);
    let delivering = delivering(signals, &targets, claim_for);
    if claim_for.is_none() {
        return delivering;
    }
    let mut calls = delivering;
    // Several signals may have one target, and the statement answers a row for each id.
    let each_once: BTreeSet<i64> = targets.into_iter().collect();
    let each_once: Vec<i64> = each_once.into_iter().collect();
    calls.push(statement::DELIVER_TAKEN.with([value(each_once)]));
    calls
}

/// Reads the answers of a delivery. An expired lease is an error.
///
/// A caller with several statements must then roll back: an earlier one may have written.
fn arrived(mut answers: Answers, claim_for: Option<&ClaimOffer>) -> Result<Arrived, Failure> {
    let Some(offer) = claim_for else {
        return Ok(Arrived {
            delivered: answer(&answers, &HashSet::new())?,
            unreadable: Vec::new(),
        });
    };
    let taken = answers.pop().unwrap_or_default();
    // A delivery answers one row per signal, but none if the lease had expired. The check is in
    // the statement that writes: an earlier look at the lease could be stale.
    if answers[1..].iter().any(Vec::is_empty) {
        return Err(Failure::Verb(Error::LeaseExpired {
            operation: "deliver",
            worker: offer.worker,
        }));
    }
    let taken = Taken::read(&taken)?;
    let mut delivered = answer(&answers, &taken.ids)?;
    delivered.claims = taken.claims.into_values().collect();
    Ok(Arrived {
        delivered,
        unreadable: taken.unreadable,
    })
}

/// The rows that a delivery claimed for its worker.
#[derive(Default)]
struct Taken {
    /// All claimed rows, readable or not.
    ids: HashSet<InstanceId>,
    claims: BTreeMap<InstanceId, Claim>,
    unreadable: Vec<Commit>,
}

impl Taken {
    fn read(rows: &[Row]) -> Result<Taken, Failure> {
        let mut taken = Taken::default();
        for row in rows {
            match column::<Option<i64>>(row, "target_id")? {
                None => taken.add_claim(row)?,
                Some(target) => taken.add_signal(InstanceId(target), row),
            }
        }
        Ok(taken)
    }

    fn add_claim(&mut self, row: &Row) -> Result<(), Failure> {
        let claim = decode::claim_of(row)?;
        self.ids.insert(claim.id);
        // The row has been eligible since the delivery, which set `eligible_at` to the current
        // time.
        let (queue, now) = (column(row, "queue")?, column(row, "eligible_at")?);
        match decode::claim(row, queue, now) {
            Ok(read) => drop(self.claims.insert(claim.id, read)),
            Err(failure) => self.unreadable.push(claim::failing(claim, failure)),
        }
        Ok(())
    }

    /// Adds a signal.
    ///
    /// An unreadable signal fails its own instance only (docs/protocol.md, defect 12).
    fn add_signal(&mut self, target: InstanceId, row: &Row) {
        let Some(claim) = self.claims.get_mut(&target) else {
            return;
        };
        match decode::signal(row) {
            Ok(signal) => claim.inbox.push(signal),
            Err(failure) => {
                let claim = claim.reference();
                self.claims.remove(&target);
                self.unreadable.push(claim::failing(claim, failure));
            }
        }
    }
}

pub(crate) async fn signal_or_insert(
    session: &Session,
    request: &SignalOrInsert,
) -> Result<SignalledOrInserted> {
    const OPERATION: &str = "signal_or_insert";
    let checked = request.check().and_then(|()| request.signal());
    let signal = &checked.map_err(|invalid| invalid.during(OPERATION))?;
    if session.enqueue_only {
        return enqueue::signal_or_insert(session, &request.row, signal).await;
    }
    for _ in 0..LOOKUPS_MAX {
        let done = session
            .retry(OPERATION, || {
                Box::pin(signal_or_insert_once(session, &request.row, signal))
            })
            .await?;
        if let Some(done) = done {
            return Ok(done);
        }
    }
    Err(changed_each_time(OPERATION))
}

/// Inserts and signals in one transaction.
///
/// The insert goes first. It waits for transactions that take or release the key. Its new row or
/// the holder it finds is the target (I9). If the holder releases the key before it is locked,
/// nothing is written and the caller starts again.
async fn signal_or_insert_once(
    session: &Session,
    row: &NewInstance,
    signal: &NewSignal,
) -> Result<Option<SignalledOrInserted>, Failure> {
    let rows = from_ref(row);
    let mut transaction = session.begin(TxKind::Write).await?;
    let found = transaction.run(&inserting(rows, None)).await?;
    let target = holders(&found[1], &[0])?;
    let inserts = insert::answer(rows, &found[0], &found[1])?;
    let inserted = inserts.rows.first().and_then(Inserted::new_id);
    let signals = from_ref(signal);
    let calls = delivering(signals, &targets(signals, &target), None);
    // A dedup key that a former holder received must undo the insert, so the commit waits for the
    // answer. Otherwise it goes along.
    let may_be_known = inserted.is_some() && signal.dedup_key.is_some();
    let answers = match may_be_known {
        false => transaction.finish(&calls).await?,
        true => {
            let answers = transaction.run(&calls).await?;
            let mut delivered = answer(&answers, &HashSet::new())?;
            if let Some(delivery @ Delivery::Duplicate { .. }) = delivered.answers.pop() {
                // A former holder already received this dedup key, so no instance is started.
                transaction.abandon().await;
                return Ok(Some(SignalledOrInserted {
                    inserted: None,
                    delivery,
                    woken: QueueNames::new(),
                }));
            }
            transaction.finish(&[]).await?;
            answers
        }
    };
    // The holder that refused the insert has released the key since. Nothing was written: the row
    // was a duplicate, and the signal had no target.
    if target.is_empty() || has_vanished(&answers)? {
        return Ok(None);
    }
    let mut delivered = answer(&answers, &HashSet::new())?;
    delivered.woken.extend(inserts.woken);
    let delivery = delivered.answers.pop().unwrap_or(Delivery::NoTarget);
    Ok(Some(SignalledOrInserted {
        inserted,
        delivery,
        woken: delivered.woken,
    }))
}

/// Returns whether an instance that was found by its key has released the key since.
fn has_vanished(answers: &[Vec<Row>]) -> Result<bool, Failure> {
    for row in rows_of(answers) {
        if column::<&str>(row, "answer")? == "vanished" {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the rows of the deliveries. The lock before each delivery answers ids only.
fn rows_of(answers: &[Vec<Row>]) -> impl Iterator<Item = &Row> {
    answers.iter().skip(1).flatten()
}

fn key_of(signal: &NewSignal) -> Option<(&str, &str)> {
    match &signal.target {
        Target::Key { machine, key } => Some((machine, key)),
        Target::Id(_) => None,
    }
}

/// Returns the target ids of the signals.
///
/// Id 0, which no row has, stands for a key without a holder.
fn targets(signals: &[NewSignal], holders: &HashMap<usize, InstanceId>) -> Vec<i64> {
    let target = |(position, signal): (usize, &NewSignal)| match signal.target {
        Target::Id(id) => id.0,
        Target::Key { .. } => holders.get(&position).map_or(0, |id| id.0),
    };
    signals.iter().enumerate().map(target).collect()
}

/// Returns the calls that lock the targets, then deliver.
///
/// One lock for all pieces: with a lock for each, the ids would not be locked in their order
/// (docs/protocol.md, defect 7).
fn delivering<'a>(
    signals: &'a [NewSignal],
    targets: &[i64],
    claim_for: Option<&'a ClaimOffer>,
) -> Vec<Call<'a>> {
    let mut calls = vec![statement::DELIVER_LOCK.with([
        value(targets.to_vec()),
        value(claim_for.map(|offer| offer.worker.0)),
    ])];
    let mut from = 0;
    for together in together(signals) {
        let until = from + together.len();
        calls.push(delivering_together(
            together,
            &targets[from..until],
            claim_for,
        ));
        from = until;
    }
    calls
}

/// Splits the batch into pieces of one statement each. Almost every batch is one piece.
///
/// A signal by key must see an earlier signal with the same dedup key to an instance that held the
/// key. A statement does not see its own inserts, so the two go into different ones.
fn together(signals: &[NewSignal]) -> Vec<&[NewSignal]> {
    let has_keys = signals.iter().any(|signal| key_of(signal).is_some());
    if signals.len() < 2 || !has_keys {
        return vec![signals];
    }
    let (mut pieces, mut from, mut by_id) = (Vec::new(), 0, HashSet::new());
    for (position, signal) in signals.iter().enumerate() {
        let Some(dedup_key) = &signal.dedup_key else {
            continue;
        };
        match signal.target {
            // Whether this instance held the key is unknown here, so it counts as if it had.
            Target::Id(_) => drop(by_id.insert(dedup_key)),
            Target::Key { .. } if by_id.contains(dedup_key) => {
                pieces.push(&signals[from..position]);
                from = position;
                by_id.clear();
            }
            Target::Key { .. } => {}
        }
    }
    pieces.push(&signals[from..]);
    pieces
}

fn delivering_together<'a>(
    signals: &'a [NewSignal],
    targets: &[i64],
    claim_for: Option<&'a ClaimOffer>,
) -> Call<'a> {
    let machines = |offer: &ClaimOffer| -> Vec<String> {
        let machines = offer.machines.iter();
        machines.map(ToString::to_string).collect()
    };
    let queues = |offer: &'a ClaimOffer| -> Vec<&'a str> {
        let queues = offer.queues.iter();
        queues.map(String::as_str).collect()
    };
    let keys = || signals.iter().map(key_of);
    let dedup_keys = signals.iter().map(|it| it.dedup_key.as_deref());
    statement::DELIVER.with([
        value(targets.to_vec()),
        value(
            keys()
                .map(|it| it.map(|(machine, _)| machine))
                .collect::<Vec<_>>(),
        ),
        value(keys().map(|it| it.map(|(_, key)| key)).collect::<Vec<_>>()),
        value(signals.iter().map(|s| s.name.as_str()).collect::<Vec<_>>()),
        value(documents(signals.iter().map(|s| Some(&s.payload)))),
        value(dedup_keys.collect::<Vec<_>>()),
        value(INBOX_MAX as i64),
        value(claim_for.map(|offer| offer.worker.0)),
        value(claim_for.map(queues)),
        value(claim_for.map(machines)),
        value(HOLDERS_MAX as i64),
        value(signals.iter().map(|s| s.wants_reply).collect::<Vec<bool>>()),
    ])
}

/// Reads the answers for the signals. Queues of rows in `taken` need no wake-up.
fn answer(answers: &[Vec<Row>], taken: &HashSet<InstanceId>) -> Result<Delivered, Failure> {
    let mut delivered = Delivered::default();
    for row in rows_of(answers) {
        let woke: bool = column(row, "woke")?;
        if woke && !taken.contains(&column(row, "target_id").map(InstanceId)?) {
            delivered.woken.insert(column(row, "queue")?);
        }
        delivered.answers.push(delivery(row, woke)?);
    }
    Ok(delivered)
}

/// Reads the word that answers one signal. A `vanished` has been handled before.
fn delivery(row: &Row, woke: bool) -> Result<Delivery, Failure> {
    let instance = column(row, "target_id").map(InstanceId)?;
    Ok(match column::<&str>(row, "answer")? {
        "delivered" => Delivery::Delivered {
            id: column(row, "id").map(SignalId)?,
            instance,
            woke,
        },
        "duplicate" => Delivery::Duplicate { instance },
        "inbox_full" => Delivery::InboxFull { instance },
        _ => Delivery::NoTarget,
    })
}
