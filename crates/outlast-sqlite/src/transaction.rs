//! Starts and signals instances inside your transaction: together with your rows, or not at all.
//!
//! ```
//! use outlast_core::{Json, NewInstance};
//! use outlast_sqlite::{Sqlite, transaction};
//! use rusqlite::{Connection, TransactionBehavior};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("shop.db");
//! let store = Sqlite::open(&path)?;
//! let mut connection = Connection::open(&path)?;
//! connection.execute_batch("create table orders (number integer)")?;
//!
//! let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
//! tx.execute("insert into orders values (42)", [])?;
//! let order = NewInstance::new("checkout", "start", Json::null()).correlation_key("order:42");
//! transaction::insert(&tx, order)?;
//! tx.commit()?;
//! # Ok(())
//! # }
//! ```
//!
//! The connection is yours, to the file of a store, and has an open transaction: rusqlite's
//! `Transaction` or `Savepoint`, or a connection after `begin`. It must come from the version of
//! rusqlite that this crate was built with. Versions 0.32 to 0.41 work if they bring SQLite 3.51.3
//! or later.
//!
//! - **Nothing happens before you commit**, and a rollback undoes everything. A failed call undoes
//!   only its own writes. Your transaction goes on, unless SQLite has rolled back all of it.
//! - **Begin immediately.** A transaction that reads before it writes may find that another
//!   connection has written since. It can then only be rolled back and begun again.
//! - **Your transaction is the one writer while it is open.** The store and other processes wait
//!   for it, up to their busy timeout. Keep it short, and set a
//!   [`busy_timeout`](rusqlite::Connection::busy_timeout) on your connection.
//! - **No hint is sent.** Workers find the instance at their next poll. Call the engine's
//!   `Client::wake` after the commit to notify them at once.
//! - **Time is the machine's.** For a store with another clock, as in tests, use [`insert_by`] and
//!   [`signal_by`].
//!
//! It does not work for a store in memory: no other connection can open that.

use crate::error::Fault;
use crate::tx::Tx;
use crate::verbs::{deliver, insert};
use crate::{migrate, open};
use outlast_core::{
    Clock, Delivery, Error, Inserted, Invalid, NewInstance, NewSignal, Result, SystemClock,
};
use rusqlite::Connection;
use rusqlite::ffi::SQLITE_BUSY_SNAPSHOT;

/// Starts an instance in the open transaction of `connection`.
pub fn insert<N>(connection: &Connection, new: N) -> Result<Inserted>
where
    N: TryInto<NewInstance>,
    N::Error: Into<Invalid>,
{
    insert_by(connection, &SystemClock, new)
}

/// Sends a signal in the open transaction of `connection`.
pub fn signal<S>(connection: &Connection, signal: S) -> Result<Delivery>
where
    S: TryInto<NewSignal>,
    S::Error: Into<Invalid>,
{
    signal_by(connection, &SystemClock, signal)
}

/// Starts an instance like [`insert`], at the time of `clock`.
pub fn insert_by<N>(connection: &Connection, clock: &dyn Clock, new: N) -> Result<Inserted>
where
    N: TryInto<NewInstance>,
    N::Error: Into<Invalid>,
{
    let new: NewInstance = convert("insert", new, NewInstance::check)?;
    // No worker claims it here: the caller may still roll back.
    let mut inserts = within("insert", connection, clock, |tx| {
        insert::insert(tx, &[new], None)
    })?;
    inserts.rows.pop().ok_or_else(|| unanswered("insert"))
}

/// Sends a signal like [`signal`], at the time of `clock`.
pub fn signal_by<S>(connection: &Connection, clock: &dyn Clock, signal: S) -> Result<Delivery>
where
    S: TryInto<NewSignal>,
    S::Error: Into<Invalid>,
{
    let signal: NewSignal = convert("signal", signal, NewSignal::check)?;
    let mut delivered = within("signal", connection, clock, |tx| {
        deliver::deliver(tx, &[signal], None)
    })?;
    delivered.answers.pop().ok_or_else(|| unanswered("signal"))
}

/// Converts the caller's value and checks it, before anything is written.
fn convert<T, G>(
    operation: &'static str,
    value: G,
    check: impl FnOnce(&T) -> Result<(), Invalid>,
) -> Result<T>
where
    G: TryInto<T>,
    G::Error: Into<Invalid>,
{
    let converted = value.try_into().map_err(Into::into);
    converted
        .and_then(|value| check(&value).map(|()| value))
        .map_err(|invalid| invalid.during(operation))
}

/// Runs `verb` in a savepoint, so that its failure undoes only its own writes.
fn within<T>(
    operation: &'static str,
    connection: &Connection,
    clock: &dyn Clock,
    verb: impl FnOnce(&Tx<'_>) -> Result<T, Fault>,
) -> Result<T> {
    check(operation, connection)?;
    // Dropped at the end, so that its statements go back to the cache of the user's connection.
    let tx = Tx::new(connection, clock.now());
    let run = || {
        tx.execute("savepoint outlast")?;
        match verb(&tx) {
            Ok(answer) => {
                tx.execute("release outlast")?;
                Ok(answer)
            }
            Err(fault) => {
                // When SQLite has already rolled back the transaction, the savepoint is gone too.
                if !connection.is_autocommit() {
                    tx.execute("rollback to outlast")?;
                    tx.execute("release outlast")?;
                }
                Err(fault)
            }
        }
    };
    run().map_err(|fault| explain(operation, fault))
}

/// Names the remedy when the caller's transaction began by reading (docs/protocol.md, defect 19).
///
/// The store's own transactions begin immediately and never meet this error.
fn explain(operation: &'static str, fault: Fault) -> Error {
    match fault {
        Fault::Sqlite(error)
            if error
                .sqlite_error()
                .is_some_and(|it| it.extended_code == SQLITE_BUSY_SNAPSHOT) =>
        {
            Error::Transient {
                operation,
                reason: "somebody has written since this transaction first read; roll it back, and begin the next one immediately".into(),
                source: Some(error.into()),
            }
        }
        Fault::Sqlite(_) | Fault::Store(_) => fault.during(operation),
    }
}

/// Checks the user's connection, at every call: it may be to any file.
fn check(operation: &'static str, connection: &Connection) -> Result<()> {
    open::check_library(rusqlite::version_number(), rusqlite::version())?;
    // Without a transaction, the release of the savepoint would commit.
    if connection.is_autocommit() {
        let invalid = Invalid::new(
            "the connection",
            "has no transaction open, so there is nothing to be part of; begin one, immediately",
        );
        return Err(invalid.during(operation));
    }
    migrate::check_current(operation, connection)
}

/// Makes the error of a verb that returned no answer for its one row. It is a fault of the store.
fn unanswered(operation: &'static str) -> Error {
    Error::Corrupt {
        operation,
        reason: "the verb did not answer".into(),
        source: None,
    }
}
