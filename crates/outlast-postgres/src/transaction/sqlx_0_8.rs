//! With `sqlx` 0.8: on a connection that has a transaction open, `&mut *tx` for one of sqlx's own.
//!
//! ```no_run
//! # use sqlx_core_0_8 as sqlx_core;
//! # mod sqlx { pub use sqlx_core_0_8::query::query; pub use sqlx_core_0_8::pool::Pool; pub use sqlx_postgres_0_8::Postgres; }
//! # type PgPool = sqlx::Pool<sqlx::Postgres>;
//! use outlast_core::{Json, NewInstance};
//! use outlast_postgres::transaction::{Schema, sqlx_0_8::insert};
//!
//! # async fn example(pool: PgPool) -> Result<(), Box<dyn std::error::Error>> {
//! let order = NewInstance::new("checkout", "start", Json::null()).correlation_key("order:42");
//! let mut tx = pool.begin().await?;
//! sqlx::query("insert into orders (number) values (42)").execute(&mut *tx).await?;
//! insert(&mut tx, &Schema::default(), order).await?;
//! tx.commit().await?;
//! # Ok(()) }
//! ```

use super::Schema;
use super::verbs::{DeliveredRow, InsertedRow, SIGNAL_MAX, Values, checked, unreadable};
use crate::error;
use outlast_core::{Delivery, Error, Inserted, Invalid, NewInstance, NewSignal};
use sqlx_core_0_8::Error as SqlxError;
use sqlx_core_0_8::decode::Decode;
use sqlx_core_0_8::query::query;
use sqlx_core_0_8::row::Row;
use sqlx_core_0_8::types::Type;
use sqlx_postgres_0_8::{PgConnection, PgRow, Postgres};

/// Starts an instance in the transaction that is open on `connection`.
pub async fn insert<N>(
    connection: &mut PgConnection,
    schema: &impl AsRef<Schema>,
    new: N,
) -> Result<Inserted, Error>
where
    N: TryInto<NewInstance>,
    N::Error: Into<Invalid>,
{
    let new: NewInstance = checked(new)?;
    let values = Values::of(&new);
    let row = query(schema.as_ref().insert_statement())
        .bind(new.machine.as_str())
        .bind(new.version)
        .bind(new.step.as_str())
        .bind(new.state.as_str())
        .bind(new.queue.as_str())
        .bind(new.priority)
        .bind(values.delay_us)
        .bind(values.at_us)
        .bind(new.partition_key.as_deref())
        .bind(values.correlation_key)
        .bind(values.scope.as_deref())
        .bind(new.trace.as_deref())
        .fetch_one(connection)
        .await
        .map_err(|error| failed("insert", error))?;
    let answer = InsertedRow {
        id: column("insert", &row, "id")?,
        holder: column("insert", &row, "holder")?,
    };
    Ok(answer.answer())
}

/// Sends a signal in the transaction that is open on `connection`.
pub async fn signal<S>(
    connection: &mut PgConnection,
    schema: &impl AsRef<Schema>,
    signal: S,
) -> Result<Delivery, Error>
where
    S: TryInto<NewSignal>,
    S::Error: Into<Invalid>,
{
    let signal: NewSignal = checked(signal)?;
    let (id, machine, key) = Values::address(&signal.target);
    let row = query(schema.as_ref().signal_statement())
        .bind(id)
        .bind(machine)
        .bind(key)
        .bind(signal.name.as_str())
        .bind(signal.payload.as_str())
        .bind(signal.dedup_key.as_deref())
        .bind(SIGNAL_MAX)
        .fetch_one(connection)
        .await
        .map_err(|error| failed("signal", error))?;
    let answer = DeliveredRow {
        answer: column("signal", &row, "answer")?,
        id: column("signal", &row, "id")?,
        instance: column("signal", &row, "instance")?,
        woke: column("signal", &row, "woke")?,
    };
    answer.answer()
}

fn column<'a, T>(operation: &'static str, row: &'a PgRow, name: &str) -> Result<T, Error>
where
    T: Decode<'a, Postgres> + Type<Postgres>,
{
    let read = row.try_get(name);
    read.map_err(|error| unreadable(operation, error.into()))
}

/// What the server said, sorted as the store sorts it; what it did not say is the connection's trouble.
fn failed(operation: &'static str, error: SqlxError) -> Error {
    let said = error.as_database_error().map(|said| {
        (
            said.code().unwrap_or_default().into_owned(),
            said.message().to_owned(),
        )
    });
    match said {
        Some((code, message)) => error::sort(operation, &code, &message, error.into()),
        None => Error::Transient {
            operation,
            reason: error.to_string(),
            source: Some(error.into()),
        },
    }
}
