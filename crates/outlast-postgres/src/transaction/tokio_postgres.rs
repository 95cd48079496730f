//! For `tokio-postgres` 0.7: its `Transaction`, or any client with an open transaction.
//!
//! Nothing here begins, commits or rolls back, since the transaction is the caller's. The settings
//! of the store do not apply in it, so the SQL functions carry the planner settings themselves.

use super::Schema;
use super::verbs::{DeliveredRow, InsertedRow, checked, unreadable};
use crate::error::Failure;
use crate::session::statement::Call;
use crate::verbs::enqueue::{insert_call, signal_call};
use ::tokio_postgres::types::FromSql;
use ::tokio_postgres::{GenericClient, Row};
use outlast_core::{Delivery, Error, Inserted, Invalid, NewInstance, NewSignal};

/// Starts an instance in the transaction that is open on `client`.
pub async fn insert<C, N>(
    client: &C,
    schema: &impl AsRef<Schema>,
    new: N,
) -> Result<Inserted, Error>
where
    C: GenericClient + Sync,
    N: TryInto<NewInstance>,
    N::Error: Into<Invalid>,
{
    let new: NewInstance = checked(new)?;
    let statement = schema.as_ref().insert_statement();
    let row = ask(client, "insert", statement, insert_call(&new)).await?;
    let answer = InsertedRow {
        id: column("insert", &row, "id")?,
        holder: column("insert", &row, "holder")?,
    };
    Ok(answer.answer())
}

/// Sends a signal in the transaction that is open on `client`.
pub async fn signal<C, S>(
    client: &C,
    schema: &impl AsRef<Schema>,
    signal: S,
) -> Result<Delivery, Error>
where
    C: GenericClient + Sync,
    S: TryInto<NewSignal>,
    S::Error: Into<Invalid>,
{
    let signal: NewSignal = checked(signal)?;
    let statement = schema.as_ref().signal_statement();
    let row = ask(client, "signal", statement, signal_call(&signal)).await?;
    let answer = DeliveredRow {
        answer: column("signal", &row, "answer")?,
        id: column("signal", &row, "id")?,
        instance: column("signal", &row, "instance")?,
        woke: column("signal", &row, "woke")?,
    };
    answer.answer()
}

/// Sends a typed query: one round trip, and nothing stays prepared on the caller's connection.
async fn ask<C: GenericClient + Sync>(
    client: &C,
    operation: &'static str,
    statement: &str,
    call: Call<'_>,
) -> Result<Row, Error> {
    let values: Vec<_> = call
        .parameters
        .iter()
        .map(|p| (&*p.value as _, p.sql_type.clone()))
        .collect();
    let row = client.query_typed_one(statement, &values).await;
    row.map_err(|error| Failure::from(error).during(operation))
}

fn column<'a, T: FromSql<'a>>(
    operation: &'static str,
    row: &'a Row,
    name: &str,
) -> Result<T, Error> {
    let read = row.try_get(name);
    read.map_err(|error| unreadable(operation, error.into()))
}
