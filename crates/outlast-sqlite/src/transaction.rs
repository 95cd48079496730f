//! Starting and signalling instances inside your own transaction: together with your rows, or not at all.
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
//! The connection is your own, to the file of a store, and has a transaction open: rusqlite's
//! `Transaction` or `Savepoint`, or a connection that was told to begin. It is a connection of the version
//! of rusqlite that this crate was built with; any from 0.32 to 0.41 can be chosen that brings SQLite
//! 3.51.3 or later.
//!
//! - **Nothing happens before you commit**, and nothing has happened when you roll back. What failed is
//!   undone by itself; your transaction goes on, unless SQLite has rolled back all of it.
//! - **Begin immediately.** A transaction that has read before it writes may find that somebody else has
//!   written since, and then can only be rolled back and begun anew.
//! - **It is the one writer while it is open**: the store and other processes wait for it, up to their busy
//!   timeout. Keep it short. Set a [`busy_timeout`](rusqlite::Connection::busy_timeout) of your own.
//! - **No hint is sent**: workers find the instance at their next poll, or when they are told after the
//!   commit, as the engine's `Client::wake` does.
//! - **Time is the machine's.** For a store with a clock of its own, as in tests, there are [`insert_by`]
//!   and [`signal_by`].
//!
//! A store in memory cannot be reached in this way: nobody else has a connection to it.

use crate::error::Fault;
use crate::tx::Tx;
use crate::{deliver, insert, migrate, open};
use outlast_core::{
    Clock, Delivery, Error, Inserted, Invalid, NewInstance, NewSignal, Result, SystemClock,
};
use rusqlite::Connection;
use rusqlite::ffi::SQLITE_BUSY_SNAPSHOT;

/// Starts an instance in the transaction that is open on `connection`.
pub fn insert<N>(connection: &Connection, new: N) -> Result<Inserted>
where
    N: TryInto<NewInstance>,
    N::Error: Into<Invalid>,
{
    insert_by(connection, &SystemClock, new)
}

/// Sends a signal in the transaction that is open on `connection`.
pub fn signal<S>(connection: &Connection, signal: S) -> Result<Delivery>
where
    S: TryInto<NewSignal>,
    S::Error: Into<Invalid>,
{
    signal_by(connection, &SystemClock, signal)
}

/// [`insert`] at the moment of a store's own clock.
pub fn insert_by<N>(connection: &Connection, clock: &dyn Clock, new: N) -> Result<Inserted>
where
    N: TryInto<NewInstance>,
    N::Error: Into<Invalid>,
{
    let new: NewInstance = given("insert", new, NewInstance::check)?;
    let mut inserts = within("insert", connection, clock, |tx| {
        insert::insert(tx, &[new], None)
    })?;
    inserts.rows.pop().ok_or_else(|| unanswered("insert"))
}

/// [`signal`] at the moment of a store's own clock.
pub fn signal_by<S>(connection: &Connection, clock: &dyn Clock, signal: S) -> Result<Delivery>
where
    S: TryInto<NewSignal>,
    S::Error: Into<Invalid>,
{
    let signal: NewSignal = given("signal", signal, NewSignal::check)?;
    let mut delivered = within("signal", connection, clock, |tx| {
        deliver::deliver(tx, &[signal], None)
    })?;
    delivered.answers.pop().ok_or_else(|| unanswered("signal"))
}

fn given<T, G>(
    operation: &'static str,
    given: G,
    check: impl FnOnce(&T) -> Result<(), Invalid>,
) -> Result<T>
where
    G: TryInto<T>,
    G::Error: Into<Invalid>,
{
    let made = given.try_into().map_err(Into::into);
    made.and_then(|made| check(&made).map(|()| made))
        .map_err(|invalid| invalid.during(operation))
}

/// Runs `verb` so that it is undone alone when it fails.
fn within<T>(
    operation: &'static str,
    connection: &Connection,
    clock: &dyn Clock,
    verb: impl FnOnce(&Tx<'_>) -> Result<T, Fault>,
) -> Result<T> {
    check(operation, connection)?;
    let tx = Tx::new(connection, clock.now());
    let run = || {
        tx.execute("savepoint outlast")?;
        match verb(&tx) {
            Ok(answer) => {
                tx.execute("release outlast")?;
                Ok(answer)
            }
            Err(fault) => {
                // Where SQLite has rolled back everything by itself there is nothing left to undo.
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

fn check(operation: &'static str, connection: &Connection) -> Result<()> {
    open::check_library(rusqlite::version_number(), rusqlite::version())?;
    if connection.is_autocommit() {
        let invalid = Invalid::new(
            "the connection",
            "has no transaction open, so there is nothing to be part of; begin one, immediately",
        );
        return Err(invalid.during(operation));
    }
    migrate::check_current(operation, connection)
}

fn unanswered(operation: &'static str) -> Error {
    Error::Corrupt {
        operation,
        reason: "the verb did not answer".into(),
        source: None,
    }
}
