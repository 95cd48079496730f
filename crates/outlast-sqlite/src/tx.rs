//! What a verb works with: a connection with its statements at hand, and the verb's moment.

use outlast_core::Timestamp;
use rusqlite::{CachedStatement, Connection, Statement};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// The transaction a verb runs in, and its moment. A thread has one, for all its verbs.
pub(crate) struct Tx<'c> {
    pub(crate) connection: &'c Connection,
    pub(crate) now: Timestamp,
    /// Prepared and not in use, the last used last. As many as there are statements in this crate.
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

    /// A statement of `sql/`, prepared once per connection and found by the place of its text: the
    /// connection's own cache reads all of the text twice at each use, and that takes longer than many a
    /// statement.
    pub(crate) fn prepare(&self, sql: &'static str) -> rusqlite::Result<Prepared<'_, 'c>> {
        #[cfg(outlast_mutants)]
        let sql = crate::mutants::text(sql);
        let mut ready = self.ready.borrow_mut();
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

    /// A statement whose text was put together for this verb.
    pub(crate) fn prepare_made(&self, sql: &str) -> rusqlite::Result<CachedStatement<'c>> {
        self.connection.prepare_cached(sql)
    }

    /// Runs a statement that takes and gives nothing.
    pub(crate) fn execute(&self, sql: &'static str) -> rusqlite::Result<()> {
        self.prepare(sql)?.execute([])?;
        Ok(())
    }
}

/// A statement in use; dropped, it is ready again.
pub(crate) struct Prepared<'a, 'c> {
    /// There until it is dropped.
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
    fn drop(&mut self) {
        self.ready.borrow_mut().extend(self.statement.take());
    }
}
