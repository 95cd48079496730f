//! With `tokio-postgres` 0.7: inside its `Transaction`, or any client with a transaction open.

use super::Schema;
use super::verbs::{DeliveredRow, InsertedRow, SIGNAL_MAX, Values, checked, unreadable};
use crate::error::Failure;
use crate::statement::{Parameter, value};
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
    let values = Values::of(&new);
    let parameters = [
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
        value(values.scope.as_deref()),
        value(new.trace.as_deref()),
    ];
    let statement = schema.as_ref().insert_statement();
    let row = ask(client, "insert", statement, &parameters).await?;
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
    let (id, machine, key) = Values::address(&signal.target);
    let parameters = [
        value(id),
        value(machine),
        value(key),
        value(signal.name.as_str()),
        value(signal.payload.as_str()),
        value(signal.dedup_key.as_deref()),
        value(SIGNAL_MAX),
    ];
    let statement = schema.as_ref().signal_statement();
    let row = ask(client, "signal", statement, &parameters).await?;
    let answer = DeliveredRow {
        answer: column("signal", &row, "answer")?,
        id: column("signal", &row, "id")?,
        instance: column("signal", &row, "instance")?,
        woke: column("signal", &row, "woke")?,
    };
    answer.answer()
}

/// Typed, so that it is one round trip and nothing is left prepared on somebody else's connection.
async fn ask<C: GenericClient + Sync>(
    client: &C,
    operation: &'static str,
    statement: &str,
    parameters: &[Parameter<'_>],
) -> Result<Row, Error> {
    let values: Vec<_> = parameters
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
