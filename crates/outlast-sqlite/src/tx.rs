//! The transaction that a verb runs in: a connection, its prepared statements, and the time.
//!
//! Every verb of this crate takes a [`Tx`]. It never begins or commits: the writer, the reader or
//! the user does. A verb may open savepoints, and must close them when it succeeds.

use outlast_core::Timestamp;
use rusqlite::{CachedStatement, Connection, Statement};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// The open transaction of a verb, and the verb's time. A thread reuses one for all its verbs.
pub(crate) struct Tx<'c> {
    pub(crate) connection: &'c Connection,
    /// One moment for all statements of a verb, so that its rows carry the same time.
    ///
    /// Statements take the time from here and never from SQLite (docs/decisions/0005).
    pub(crate) now: Timestamp,
    /// Prepared statements that are not in use, most recently used last.
    ///
    /// Bounded by the number of statements in this crate.
    ready: RefCell<Vec<Ready<'c>>>,
}

struct Ready<'c> {
    sql: &'static str,
    statement: CachedStatement<'c>,
}

impl<'c> Tx<'c> {
    pub(crate) fn new(connection: &'c Connection, now: Timestamp) -> Tx<'c> {
        Tx {
            connection,
            now,
            ready: RefCell::default(),
        }
    }

    /// Returns a statement of `sql/`, prepared once per connection.
    ///
    /// Finds it by the address of its text. The connection's own cache compares the whole text
    /// twice at each use. That takes longer than many a statement.
    ///
    /// A statement that is in use is not found, so a nested use gets a second copy. A text that
    /// the compiler has placed twice gets one copy for each address.
    pub(crate) fn prepare(&self, sql: &'static str) -> rusqlite::Result<Prepared<'_, 'c>> {
        #[cfg(outlast_mutants)]
        let sql = crate::mutants::text(sql);
        let mut ready = self.ready.borrow_mut();
        // From the end: a loop in a verb repeats the statements that it used last.
        let found = ready.iter().rposition(|it| std::ptr::eq(it.sql, sql));
        let statement = match found {
            Some(position) => ready.remove(position).statement,
            None => self.connection.prepare_cached(sql)?,
        };
        Ok(Prepared {
            statement: Some(Ready { sql, statement }),
            ready: &self.ready,
        })
    }

    /// Returns a statement whose text was built for this verb.
    ///
    /// The connection's cache keeps it, up to the number of statements set in `open.rs`. The text
    /// must bind every value: a value in the text would be another statement each time.
    pub(crate) fn prepare_made(&self, sql: &str) -> rusqlite::Result<CachedStatement<'c>> {
        self.connection.prepare_cached(sql)
    }

    /// Runs a statement without parameters and rows.
    pub(crate) fn execute(&self, sql: &'static str) -> rusqlite::Result<()> {
        self.prepare(sql)?.execute([])?;
        Ok(())
    }
}

/// A statement in use. Dropping it makes it available again.
pub(crate) struct Prepared<'a, 'c> {
    /// `Some` until it is dropped.
    statement: Option<Ready<'c>>,
    ready: &'a RefCell<Vec<Ready<'c>>>,
}

impl<'c> Deref for Prepared<'_, 'c> {
    type Target = Statement<'c>;

    fn deref(&self) -> &Statement<'c> {
        let ready = self.statement.as_ref();
        &ready.expect("it is there until the drop").statement
    }
}

impl<'c> DerefMut for Prepared<'_, 'c> {
    fn deref_mut(&mut self) -> &mut Statement<'c> {
        let ready = self.statement.as_mut();
        &mut ready.expect("it is there until the drop").statement
    }
}

impl Drop for Prepared<'_, '_> {
    /// Returns the statement. It is reset by now: the rows that borrow it are dropped before it.
    fn drop(&mut self) {
        #[cfg(test)]
        if let Some(Ready { sql, statement }) = &self.statement {
            crate::executed::record_run(sql, statement);
        }
        self.ready.borrow_mut().extend(self.statement.take());
    }
}
