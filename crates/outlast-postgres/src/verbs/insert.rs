//! Inserting instances. A batch is one statement, or one more to find the holders of occupied
//! keys.
//!
//! The client and the engine's fast path call this. A duplicate is an answer, never an error (I9).
//! commit/spawn.rs and deliver.rs share the columns and the look-up of holders.

use crate::decode::{column, instance_id};
use crate::error::Failure;
use crate::session::Session;
use crate::session::statement::{self, Call, Parameter, documents, value};
use crate::session::tx_settings::TxKind;
use crate::verbs::enqueue;
use outlast_core::{
    Error, Inserted, Inserts, InstanceId, NewInstance, Result, Revision, Scope, Start, WorkerId,
    micros,
};
use std::collections::HashMap;
use std::time::Duration;
use tokio_postgres::Row;

pub(crate) async fn insert(
    session: &Session,
    rows: &[NewInstance],
    claim_for: Option<WorkerId>,
) -> Result<Inserts> {
    NewInstance::check_all(rows).map_err(|invalid| invalid.during("insert"))?;
    if rows.is_empty() {
        return Ok(Inserts::default());
    }
    if session.enqueue_only {
        return enqueue::insert(session, rows).await;
    }
    let alike = claim_for.is_none() && are_alike(rows.iter());
    session
        .retry("insert", || {
            Box::pin(async move {
                match alike {
                    true => insert_alike(session, rows).await,
                    false => insert_once(session, rows, claim_for).await,
                }
            })
        })
        .await
}

/// Returns whether the rows differ only in their state, and no row has a key.
///
/// Such rows go by a shorter statement, which sends one array instead of fourteen. They cannot
/// conflict, so the server also writes less (sql/insert/alike.sql). A field that is added to
/// [`NewInstance`] must be compared here, or all rows get the value of the first.
pub(crate) fn are_alike<'a>(mut rows: impl Iterator<Item = &'a NewInstance> + Clone) -> bool {
    let Some(first) = rows.clone().next() else {
        return false;
    };
    let is_like_the_first = |row: &NewInstance| {
        row.machine == first.machine
            && row.version == first.version
            && row.step == first.step
            && row.queue == first.queue
            && row.priority == first.priority
            && row.start == first.start
            && row.partition_key == first.partition_key
            && row.trace == first.trace
            && row.on_parent_close == first.on_parent_close
            && row.timeout == first.timeout
            && row.run_timeout == first.run_timeout
    };
    let has_no_key = |row: &NewInstance| row.correlation.is_none();
    rows.all(|row| has_no_key(row) && is_like_the_first(row))
}

async fn insert_alike(session: &Session, rows: &[NewInstance]) -> Result<Inserts, Failure> {
    #[cfg(outlast_mutants)]
    if outlast_core::mutant::is("rows-as-values") {
        return crate::mutants::insert_as_values(session, rows).await;
    }
    let first = &rows[0];
    let mut parameters = vec![value(documents(rows.iter().map(|row| Some(&row.state))))];
    parameters.extend(of_all(first));
    let call = statement::INSERT_ALIKE.with(parameters);
    let answers = session.transact(TxKind::Write, &[call]).await?;
    let mut inserts = Inserts::default();
    for row in &answers[0] {
        if column(row, "eligible")? {
            inserts.woken.insert(first.queue.clone());
        }
        let ids = column::<Vec<i64>>(row, "ids")?.into_iter();
        inserts.rows.extend(ids.map(|id| Inserted::New {
            id: InstanceId(id),
            claimed: None,
        }));
    }
    Ok(inserts)
}

/// Returns the values that all rows share, for insert/alike.sql and commit/spawn_alike.sql.
///
/// The order is that of both statements, from machine to the timeout of a run. The correlation key is not among
/// them, nor the close policy, which only children have.
pub(crate) fn of_all(first: &NewInstance) -> [Parameter<'_>; 11] {
    [
        value(first.machine.as_str()),
        value(first.version),
        value(first.step.as_str()),
        value(first.queue.as_str()),
        value(first.priority),
        value(delay_us(first.start)),
        value(moment_us(first.start)),
        value(first.partition_key.as_deref()),
        value(first.trace.as_deref()),
        value(first.timeout.map(micros)),
        value(first.run_timeout.map(micros)),
    ]
}

async fn insert_once(
    session: &Session,
    rows: &[NewInstance],
    claim_for: Option<WorkerId>,
) -> Result<Inserts, Failure> {
    let calls = inserting(rows, claim_for);
    let mut answers = session.transact(TxKind::Write, &calls).await?.into_iter();
    let inserted = answers.next().unwrap_or_default();
    // Every row has an answer, unless the lease had expired. Then nothing was written.
    if let Some(worker) = claim_for
        && inserted.is_empty()
    {
        return Err(Failure::Verb(Error::LeaseExpired {
            operation: "insert",
            worker,
        }));
    }
    answer(rows, &inserted, &answers.next().unwrap_or_default())
}

/// Returns the calls that insert the rows and find the holders of their keys. See [`answer`].
///
/// The holders are looked for after the insert, which waits for transactions that take or release
/// a key. They are looked for in any case: the pipeline is sent before the first answer is known.
pub(crate) fn inserting(rows: &[NewInstance], claim_for: Option<WorkerId>) -> Vec<Call<'_>> {
    let mut parameters = vec![value(claim_for.map(|worker| worker.0))];
    parameters.extend(columns(rows.iter()));
    let mut calls = vec![statement::INSERT.with(parameters)];
    let keyed = keyed(rows);
    if !keyed.is_empty() {
        calls.push(holders_call(
            keyed.iter().map(|&position| key_of(&rows[position])),
        ));
    }
    calls
}

/// Returns the positions of the rows that have a key.
fn keyed(rows: &[NewInstance]) -> Vec<usize> {
    (0..rows.len())
        .filter(|&position| rows[position].correlation.is_some())
        .collect()
}

/// Reads the answers of [`inserting`]: one for each row, in the caller's order.
///
/// A duplicate without a holder met a key that was released between the two statements.
pub(crate) fn answer(
    rows: &[NewInstance],
    inserted: &[Row],
    holding: &[Row],
) -> Result<Inserts, Failure> {
    let holders = holders(holding, &keyed(rows))?;
    let mut answer = Inserts::default();
    for (position, row) in inserted.iter().enumerate() {
        if !column::<bool>(row, "is_new")? {
            let holder = holders.get(&position).copied();
            answer.rows.push(Inserted::Duplicate { holder });
            continue;
        }
        let claimed: bool = column(row, "claimed")?;
        if !claimed && column(row, "eligible")? {
            answer.woken.insert(rows[position].queue.clone());
        }
        answer.rows.push(Inserted::New {
            id: instance_id(row)?,
            // A row is inserted at revision 0, and a claim adds one.
            claimed: claimed.then_some(Revision(1)),
        });
    }
    Ok(answer)
}

/// Returns the call that finds the holders of these keys. [`holders`] reads the answer.
pub(crate) fn holders_call<'a>(keys: impl Iterator<Item = (&'a str, &'a str)>) -> Call<'a> {
    let (machines, keys): (Vec<_>, Vec<_>) = keys.unzip();
    statement::HOLDERS.with([value(machines), value(keys)])
}

/// Returns the holders by position in the batch. `positions[n]` is the position of the n-th key.
pub(crate) fn holders(
    rows: &[Row],
    positions: &[usize],
) -> Result<HashMap<usize, InstanceId>, Failure> {
    rows.iter()
        .map(|row| {
            // Counted from 1.
            let place: i64 = column(row, "place")?;
            Ok((positions[place as usize - 1], instance_id(row)?))
        })
        .collect()
}

fn key_of(row: &NewInstance) -> (&str, &str) {
    let key = row.correlation.as_ref().map_or("", |c| c.key.as_str());
    (&row.machine, key)
}

/// Returns new instances as the arrays of insert/insert.sql and commit/spawn.sql.
///
/// Both statements name these columns in this order, after parameters of their own.
pub(crate) fn columns<'a>(
    rows: impl Iterator<Item = &'a NewInstance> + Clone,
) -> Vec<Parameter<'a>> {
    let texts =
        |of: fn(&'a NewInstance) -> &'a str| value(rows.clone().map(of).collect::<Vec<_>>());
    let optional_texts = |of: fn(&'a NewInstance) -> Option<&'a str>| {
        value(rows.clone().map(of).collect::<Vec<_>>())
    };
    let timeouts = |of: fn(&'a NewInstance) -> Option<Duration>| {
        let timeouts = rows.clone().map(|row| of(row).map(micros));
        value(timeouts.collect::<Vec<Option<i64>>>())
    };
    let starts = rows.clone().map(|row| row.start);
    let scopes = rows.clone().map(|row| row.correlation.as_ref());
    vec![
        texts(|row| &row.machine),
        value(rows.clone().map(|row| row.version).collect::<Vec<i32>>()),
        texts(|row| &row.step),
        value(documents(rows.clone().map(|row| Some(&row.state)))),
        texts(|row| &row.queue),
        value(rows.clone().map(|row| row.priority).collect::<Vec<i16>>()),
        value(starts.clone().map(delay_us).collect::<Vec<i64>>()),
        value(starts.map(moment_us).collect::<Vec<_>>()),
        optional_texts(|row| row.partition_key.as_deref()),
        optional_texts(|row| row.correlation.as_ref().map(|c| c.key.as_str())),
        value(
            scopes
                .map(|c| c.map(|c| scope_literal(c.scope)))
                .collect::<Vec<_>>(),
        ),
        optional_texts(|row| row.trace.as_deref()),
        timeouts(|row| row.timeout),
        timeouts(|row| row.run_timeout),
    ]
}

/// Returns the delay of a start. The database adds it to its own clock (docs/decisions/0005).
pub(crate) fn delay_us(start: Start) -> i64 {
    match start {
        Start::After(delay) => micros(delay),
        Start::Now | Start::At(_) => 0,
    }
}

/// Returns the moment of a start. A row with a moment ignores the delay.
pub(crate) fn moment_us(start: Start) -> Option<i64> {
    match start {
        Start::At(at) => Some(at.0),
        Start::Now | Start::After(_) => None,
    }
}

/// Returns the scope as an array literal. Statuses are plain words and need no quoting.
pub(crate) fn scope_literal(scope: Scope) -> String {
    let words: Vec<_> = scope.statuses().map(|status| status.as_str()).collect();
    format!("{{{}}}", words.join(","))
}
