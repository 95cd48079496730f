//! The one writer: takes whatever verbs are waiting into one transaction.

use crate::error;
use crate::job::Work;
use crate::lane::{Jobs, Lane};
use outlast_core::{Clock, Error};
use rusqlite::Connection;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Verbs of one transaction: a bound on what one failed commit takes back.
const GROUP_MAX: usize = 256;

/// Rows written by one transaction before it takes no more verbs: a bound on how long the first of them
/// waits for the others, and other processes for the lock.
const GROUP_ROWS_MAX: u64 = 10_000;

/// Owns the connection that writes. Lives on a thread of its own.
pub(crate) struct Writer {
    connection: Connection,
    clock: Arc<dyn Clock>,
    jobs: Jobs,
    transactions: Arc<AtomicU64>,
}

impl Writer {
    /// Starts the thread. `transactions` counts what it commits.
    pub(crate) fn start(
        connection: Connection,
        clock: Arc<dyn Clock>,
        transactions: Arc<AtomicU64>,
    ) -> io::Result<Lane> {
        Lane::start("outlast-sqlite-writer", |jobs| {
            let mut writer = Writer {
                connection,
                clock,
                jobs,
                transactions,
            };
            vec![move || writer.run()]
        })
    }

    fn run(&mut self) {
        while let Some(first) = self.jobs.blocking_recv() {
            for work in self.group(first) {
                work.answer();
            }
        }
    }

    /// Runs `first` and whatever waits behind it in one transaction. What it gives back can be
    /// answered: it is durable, or has its error.
    fn group(&mut self, first: Box<dyn Work>) -> Vec<Box<dyn Work>> {
        // The lock is taken before the others are, so that verbs which arrive while another process
        // writes still come along.
        let mut done = match self.execute("begin immediate") {
            Ok(()) => self.run_waiting(first),
            Err(cause) => return self.refuse_waiting(first, cause),
        };
        if let Err(cause) = self.commit() {
            let cause = Arc::new(cause);
            undo(&mut done, &|operation| {
                error::explain(operation, cause.clone())
            });
        }
        done
    }

    fn run_waiting(&mut self, first: Box<dyn Work>) -> Vec<Box<dyn Work>> {
        let before = self.connection.total_changes();
        let mut done = Vec::new();
        let mut next = Some(first);
        while let Some(mut work) = next {
            let intact = self.run_one(work.as_mut());
            done.push(work);
            if !intact {
                self.roll_back();
                undo(&mut done, &error::transaction_lost);
                return done;
            }
            let rows = self.connection.total_changes() - before;
            let full = done.len() == GROUP_MAX || rows > GROUP_ROWS_MAX;
            next = if full {
                None
            } else {
                self.jobs.try_recv().ok()
            };
        }
        done
    }

    /// Runs a verb so that it can be undone alone. Answers whether the transaction still stands: on a
    /// full disk, among others, SQLite rolls back all of it by itself.
    fn run_one(&self, work: &mut dyn Work) -> bool {
        if self.execute("savepoint verb").is_err() {
            return false;
        }
        let keep = work.run(&self.connection, self.clock.as_ref());
        if self.connection.is_autocommit() {
            return false;
        }
        let undone = keep || self.execute("rollback to verb").is_ok();
        undone && self.execute("release verb").is_ok()
    }

    fn commit(&self) -> rusqlite::Result<()> {
        // Then the transaction was lost on the way, and everyone in it was told so.
        if self.connection.is_autocommit() {
            return Ok(());
        }
        let committed = self.execute("commit");
        match committed {
            Ok(()) => {
                self.transactions.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => self.roll_back(),
        }
        committed
    }

    fn roll_back(&self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.execute("rollback")
        {
            tracing::error!(%error, "the writer could not roll back");
        }
    }

    /// The lock could not be had: everyone who waited for it hears so, rather than each waiting anew.
    fn refuse_waiting(
        &mut self,
        first: Box<dyn Work>,
        cause: rusqlite::Error,
    ) -> Vec<Box<dyn Work>> {
        let mut refused = vec![first];
        while refused.len() < GROUP_MAX
            && let Ok(work) = self.jobs.try_recv()
        {
            refused.push(work);
        }
        let cause = Arc::new(cause);
        undo(&mut refused, &|operation| {
            error::explain(operation, cause.clone())
        });
        refused
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }
}

fn undo(done: &mut [Box<dyn Work>], reason: &dyn Fn(&'static str) -> Error) {
    for work in done {
        work.undo(reason);
    }
}
