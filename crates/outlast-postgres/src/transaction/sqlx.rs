//! The verbs for sqlx, included once per version of sqlx.
//!
//! The versions have the same types under other names, and mark a statement as safe differently.
//!
//! Only `sqlx-core` and `sqlx-postgres` are used: `sqlx` itself always pulls in a SQLite library
//! (docs/decisions/0011). Nothing here begins, commits or rolls back, since the transaction is the
//! caller's.

macro_rules! verbs {
    ($core:ident, $postgres:ident, $safe:path) => {
        use outlast_core::{Delivery, Error, Inserted, Invalid, NewInstance, NewSignal};
        use $core::Error as SqlxError;
        use $core::decode::Decode;
        use $core::query::query;
        use $core::row::Row;
        use $core::types::Type;
        use $crate::error;
        use $crate::transaction::Schema;
        use $crate::transaction::verbs::{
            DeliveredRow, InsertedRow, SIGNAL_MAX, Values, checked, unreadable,
        };
        use $postgres::{PgConnection, PgRow, Postgres};

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
            let row = query($safe(schema.as_ref().insert_statement()))
                .bind(new.machine.as_str())
                .bind(new.version)
                .bind(new.step.as_str())
                // As text, which the statement casts to `json`: it keeps every character.
                .bind(new.state.as_str())
                .bind(new.queue.as_str())
                .bind(new.priority)
                .bind(values.delay_us)
                .bind(values.at_us)
                .bind(new.partition_key.as_deref())
                .bind(values.correlation_key)
                .bind(values.scope.as_deref())
                .bind(new.trace.as_deref())
                .bind(values.timeout_us)
                .bind(values.run_timeout_us)
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
            let row = query($safe(schema.as_ref().signal_statement()))
                .bind(id)
                .bind(machine)
                .bind(key)
                .bind(signal.name.as_str())
                .bind(signal.payload.as_str())
                .bind(signal.dedup_key.as_deref())
                .bind(SIGNAL_MAX)
                .bind(signal.wants_reply)
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

        /// Classifies an error as the store does.
        ///
        /// An error that did not come from the server is transient.
        fn failed(operation: &'static str, error: SqlxError) -> Error {
            let of_server = error.as_database_error().map(|error| {
                (
                    error.code().unwrap_or_default().into_owned(),
                    error.message().to_owned(),
                )
            });
            match of_server {
                Some((code, message)) => {
                    error::classify_code(operation, error::ServerError::new(&code, &message))
                }
                None => Error::Transient {
                    operation,
                    reason: error.to_string(),
                    source: Some(error.into()),
                },
            }
        }
    };
}

pub(super) use verbs;
