//! Sending signals.

use crate::error::Failure;
use crate::insert::{self, holders, holders_call, inserting};
use crate::opening::Purpose;
use crate::row::column;
use crate::session::{Answers, Session};
use crate::statement::{self, Call, documents, value};
use outlast_core::limits::INBOX_MAX;
use outlast_core::{
    Delivered, Delivery, Error, Inserted, InstanceId, NewInstance, NewSignal, Result, SignalId,
    SignalOrInsert, SignalledOrInserted, Target,
};
use std::collections::HashMap;
use std::slice::from_ref;
use tokio_postgres::Row;

/// How often keys are looked up again when a holder let go of its key before it was locked.
const LOOKUPS_MAX: usize = 5;

pub(crate) async fn deliver(session: &Session, signals: &[NewSignal]) -> Result<Delivered> {
    NewSignal::check_all(signals).map_err(|invalid| invalid.during("deliver"))?;
    if signals.is_empty() {
        return Ok(Delivered::default());
    }
    for _ in 0..LOOKUPS_MAX {
        let delivered = session
            .retry("deliver", || Box::pin(deliver_once(session, signals)))
            .await?;
        if let Some(delivered) = delivered {
            return Ok(delivered);
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

/// Delivers the batch, unless a key changed hands between finding its holder and locking it: then
/// nothing is written and the caller looks again.
async fn deliver_once(
    session: &Session,
    signals: &[NewSignal],
) -> Result<Option<Delivered>, Failure> {
    let keyed: Vec<usize> = (0..signals.len())
        .filter(|&position| key_of(&signals[position]).is_some())
        .collect();
    if keyed.is_empty() {
        let calls = delivering(signals, &HashMap::new());
        let answers = session.transact(Purpose::Write, &calls).await?;
        return answer(&answers).map(Some);
    }
    let found = session
        .transact(
            Purpose::Write,
            &[holders_call(
                keyed
                    .iter()
                    .filter_map(|&position| key_of(&signals[position])),
            )],
        )
        .await?;
    let holders = holders(&found[0], &keyed)?;
    let mut transaction = session.begin(Purpose::Write).await?;
    let answers = transaction.run(&delivering(signals, &holders)).await?;
    if has_vanished(&answers)? {
        transaction.abandon().await;
        return Ok(None);
    }
    transaction.finish(&[]).await?;
    answer(&answers).map(Some)
}

pub(crate) async fn signal_or_insert(
    session: &Session,
    request: &SignalOrInsert,
) -> Result<SignalledOrInserted> {
    const OPERATION: &str = "signal_or_insert";
    let checked = request.check().and_then(|()| request.signal());
    let signal = &checked.map_err(|invalid| invalid.during(OPERATION))?;
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

/// One transaction. The insert goes first: it waits for whoever takes or leaves the key, and what it finds
/// occupied or makes is the target (I9). When the holder has let go of the key before it was locked,
/// nothing is written and the caller begins again.
async fn signal_or_insert_once(
    session: &Session,
    row: &NewInstance,
    signal: &NewSignal,
) -> Result<Option<SignalledOrInserted>, Failure> {
    let rows = from_ref(row);
    let mut transaction = session.begin(Purpose::Write).await?;
    let found = transaction.run(&inserting(rows, None)).await?;
    let target = holders(&found[1], &[0])?;
    let inserts = insert::answer(rows, &found[0], &found[1])?;
    let answers = transaction
        .finish(&delivering(from_ref(signal), &target))
        .await?;
    if target.is_empty() || has_vanished(&answers)? {
        return Ok(None);
    }
    let mut delivered = answer(&answers)?;
    delivered.woken.extend(inserts.woken);
    let delivery = delivered.answers.pop().unwrap_or(Delivery::NoTarget);
    Ok(Some(SignalledOrInserted {
        inserted: inserts.rows.first().and_then(Inserted::new_id),
        delivery,
        woken: delivered.woken,
    }))
}

/// Whether an instance that was found by its key has let go of it since.
fn has_vanished(answers: &Answers) -> Result<bool, Failure> {
    for row in &answers[1] {
        if column::<&str>(row, "answer")? == "vanished" {
            return Ok(true);
        }
    }
    Ok(false)
}

fn key_of(signal: &NewSignal) -> Option<(&str, &str)> {
    match &signal.target {
        Target::Key { machine, key } => Some((machine, key)),
        Target::Id(_) => None,
    }
}

/// Lock, then look and write. A signal whose key nobody holds is for id 0, which nobody has.
fn delivering<'a>(signals: &'a [NewSignal], holders: &HashMap<usize, InstanceId>) -> [Call<'a>; 2] {
    let targets: Vec<i64> = signals
        .iter()
        .enumerate()
        .map(|(position, signal)| match signal.target {
            Target::Id(id) => id.0,
            Target::Key { .. } => holders.get(&position).map_or(0, |id| id.0),
        })
        .collect();
    [
        statement::DELIVER_LOCK.with([value(targets.clone())]),
        statement::DELIVER.with([
            value(targets),
            value(
                signals
                    .iter()
                    .map(|s| key_of(s).map(|(machine, _)| machine))
                    .collect::<Vec<_>>(),
            ),
            value(
                signals
                    .iter()
                    .map(|s| key_of(s).map(|(_, key)| key))
                    .collect::<Vec<_>>(),
            ),
            value(signals.iter().map(|s| s.name.as_str()).collect::<Vec<_>>()),
            value(documents(signals.iter().map(|s| Some(&s.payload)))),
            value(
                signals
                    .iter()
                    .map(|s| s.dedup_key.as_deref())
                    .collect::<Vec<_>>(),
            ),
            value(INBOX_MAX as i64),
        ]),
    ]
}

fn answer(answers: &Answers) -> Result<Delivered, Failure> {
    let mut delivered = Delivered::default();
    for row in &answers[1] {
        let woke: bool = column(row, "woke")?;
        if woke {
            delivered.woken.insert(column(row, "queue")?);
        }
        delivered.answers.push(delivery(row, woke)?);
    }
    Ok(delivered)
}

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
