//! Inserts and signals through the schema's functions, for a role without rights to any table.
//!
//! Used by a store with `Options::enqueue_only`. Each row is one call, in the caller's order. The
//! store's own statements lock the keys and targets of a batch in one order. These calls do not,
//! so two batches can deadlock, and the store retries the loser.
//!
//! The functions run with the rights of the schema's owner and check every value themselves
//! (docs/decisions/0023). Nothing here may name a table: the role has no right to it.

use crate::decode::column;
use crate::error::Failure;
use crate::session::Session;
use crate::session::statement::{self, Call, value};
use crate::session::tx_settings::TxKind;
use crate::transaction::{DeliveredRow, InsertedRow, SIGNAL_MAX, Values};
use outlast_core::{
    Delivered, Delivery, Error, Inserted, Inserts, NewInstance, NewSignal, QueueNames, Result,
    SignalledOrInserted, Start,
};
use tokio_postgres::Row;

/// How many calls are sent together.
///
/// With `begin` and `commit` they fit into the 30 messages of one round trip (session.rs).
const TOGETHER_MAX: usize = 25;

/// How often a key is looked up again after its holder released it in between.
const LOOKUPS_MAX: usize = 5;

/// Inserts rows that the caller has checked.
pub(crate) async fn insert(session: &Session, rows: &[NewInstance]) -> Result<Inserts> {
    let once = || async move {
        let calls: Vec<_> = rows.iter().map(insert_call).collect();
        let answers = call_all(session, &calls).await?;
        let mut inserts = Inserts::default();
        for (row, answer) in rows.iter().zip(&answers) {
            let inserted = inserted(answer)?;
            note_woken(&mut inserts.woken, row, &inserted);
            inserts.rows.push(inserted);
        }
        Ok(inserts)
    };
    session.retry("insert", || Box::pin(once())).await
}

/// Delivers signals that the caller has checked.
pub(crate) async fn deliver(session: &Session, signals: &[NewSignal]) -> Result<Delivered> {
    let once = || async move {
        let calls: Vec<_> = signals.iter().map(signal_call).collect();
        let mut delivered = Delivered::default();
        for answer in call_all(session, &calls).await? {
            let delivery = delivery(&answer, &mut delivered.woken)?;
            delivered.answers.push(delivery);
        }
        Ok(delivered)
    };
    session.retry("deliver", || Box::pin(once())).await
}

/// Inserts or signals. The caller has checked the row, its key, and the signal to that key.
pub(crate) async fn signal_or_insert(
    session: &Session,
    row: &NewInstance,
    signal: &NewSignal,
) -> Result<SignalledOrInserted> {
    const OPERATION: &str = "signal_or_insert";
    let once = || async move {
        // The insert goes first: it waits for transactions that take or release the key. The
        // signal then finds the new row or the holder, by the same key.
        let mut transaction = session.begin(TxKind::Write).await?;
        let calls = [insert_call(row), signal_call(signal)];
        let answers: Vec<Row> = transaction
            .run(&calls)
            .await?
            .into_iter()
            .flatten()
            .collect();
        let mut woken = QueueNames::new();
        let inserted = inserted(&answers[0])?;
        note_woken(&mut woken, row, &inserted);
        let delivery = delivery(&answers[1], &mut woken)?;
        match (inserted, delivery) {
            // A former holder already received this dedup key, so no instance is started.
            (Inserted::New { .. }, Delivery::Duplicate { instance }) => {
                transaction.abandon().await;
                let holder = Some(instance);
                Ok((Inserted::Duplicate { holder }, delivery, QueueNames::new()))
            }
            (inserted, delivery) => {
                transaction.finish(&[]).await?;
                Ok((inserted, delivery, woken))
            }
        }
    };
    let mut holder_before = None;
    for _ in 0..LOOKUPS_MAX {
        let (inserted, delivery, woken) = session.retry(OPERATION, || Box::pin(once())).await?;
        let holder = match inserted {
            Inserted::New { .. } => None,
            Inserted::Duplicate { holder } => holder,
        };
        // `no_target` has two causes. Either the holder has finished and keeps its key, or it
        // released the key between the two calls. In the second case another lookup finds another
        // holder, or none.
        // A holder that is found twice keeps its key, so it has finished.
        let has_let_go = holder.is_none() || holder != holder_before;
        if delivery == Delivery::NoTarget && has_let_go {
            holder_before = holder;
            continue;
        }
        return Ok(SignalledOrInserted {
            inserted: inserted.new_id(),
            delivery,
            woken,
        });
    }
    Err(Error::Transient {
        operation: OPERATION,
        reason: "the holder of a correlation key changed each time it was looked up; try again"
            .into(),
        source: None,
    })
}

/// Returns the call that starts one instance.
pub(crate) fn insert_call(new: &NewInstance) -> Call<'_> {
    let values = Values::of(new);
    statement::TRANSACTION_INSERT.with([
        value(new.machine.as_str()),
        value(new.version),
        value(new.step.as_str()),
        value(new.state.as_str()),
        value(new.queue.as_str()),
        value(new.priority),
        value(values.delay_us),
        value(values.at_us),
        value(new.partition_key.as_deref()),
        value(values.correlation_key),
        value(values.scope),
        value(new.trace.as_deref()),
        value(values.timeout_us),
        value(values.run_timeout_us),
    ])
}

/// Returns the call that sends one signal.
pub(crate) fn signal_call(signal: &NewSignal) -> Call<'_> {
    let (id, machine, key) = Values::address(&signal.target);
    statement::TRANSACTION_SIGNAL.with([
        value(id),
        value(machine),
        value(key),
        value(signal.name.as_str()),
        value(signal.payload.as_str()),
        value(signal.dedup_key.as_deref()),
        value(SIGNAL_MAX),
        value(signal.wants_reply),
    ])
}

/// Makes the calls in one transaction. Each answers one row.
///
/// A long batch takes several round trips, and keeps its locks until the last.
async fn call_all(session: &Session, calls: &[Call<'_>]) -> Result<Vec<Row>, Failure> {
    if calls.len() <= TOGETHER_MAX {
        let answers = session.transact(TxKind::Write, calls).await?;
        return Ok(answers.into_iter().flatten().collect());
    }
    let mut transaction = session.begin(TxKind::Write).await?;
    let mut rows = Vec::with_capacity(calls.len());
    for together in calls.chunks(TOGETHER_MAX) {
        rows.extend(transaction.run(together).await?.into_iter().flatten());
    }
    transaction.finish(&[]).await?;
    Ok(rows)
}

fn inserted(row: &Row) -> Result<Inserted, Failure> {
    let answer = InsertedRow {
        id: column(row, "id")?,
        holder: column(row, "holder")?,
    };
    Ok(answer.answer())
}

fn delivery(row: &Row, woken: &mut QueueNames) -> Result<Delivery, Failure> {
    let answer = DeliveredRow {
        answer: column(row, "answer")?,
        id: column(row, "id")?,
        instance: column(row, "instance")?,
        woke: column(row, "woke")?,
    };
    if answer.woke {
        woken.insert(column(row, "queue")?);
    }
    Ok(answer.answer()?)
}

/// Adds a hint for pickers. Only the database knows whether a start time has come.
///
/// A hint too many costs one look at the queue and does no harm. A row with a delay gets no hint,
/// and pickers find it by their poll.
fn note_woken(woken: &mut QueueNames, row: &NewInstance, inserted: &Inserted) {
    let may_start = match row.start {
        Start::Now | Start::At(_) => true,
        Start::After(delay) => delay.is_zero(),
    };
    if may_start && inserted.new_id().is_some() {
        woken.insert(row.queue.clone());
    }
}
