//! The writer thread: runs the waiting verbs together in one transaction (group commit).
//!
//! `store.rs` sends it jobs through a mailbox. It must never answer a job before the transaction
//! of that job has committed.

use crate::error;
use crate::threads::job::{Promise, Work};
use crate::threads::mailbox::{Jobs, ThreadMailbox};
use crate::tx::Tx;
use outlast_core::{Clock, Error, Timestamp};
use rusqlite::Connection;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Verbs in one transaction: bounds the work that one failed commit undoes.
///
/// All their callers then get an error and have to try again.
const GROUP_MAX: usize = 256;

/// Rows that a transaction writes before it takes no more verbs.
///
/// Bounds how long the first verb waits for the others, and how long other processes wait for the
/// lock. A single verb may write more: its own limits bound it.
const GROUP_ROWS_MAX: u64 = 10_000;

/// Owns the writing connection, on its own thread.
///
/// `begin immediate` keeps out every other writer: other processes, and users' own connections.
/// So the rows that a verb reads stay as they are until its transaction ends (docs/protocol.md,
/// defect 2). The verbs rely on it wherever PostgreSQL locks a row first.
pub(crate) struct Writer<'c> {
    tx: Tx<'c>,
    clock: Arc<dyn Clock>,
    jobs: Jobs,
    transactions: Arc<AtomicU64>,
    waits: Waits,
}

/// What a commit on the writer's connection waits for at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// Waits for the disk.
    ForTheDisk,
    /// Waits for nothing this time.
    ///
    /// The next commit that waits for the disk makes this one durable too, because both are in one
    /// log.
    NotNow,
    /// Never waits: the store is in memory, or was opened with `Synchronous::Normal` or `Off`.
    Never,
}

impl Writer<'_> {
    /// Starts the thread. `transactions` counts its commits.
    pub(crate) fn start(
        connection: Connection,
        clock: Arc<dyn Clock>,
        transactions: Arc<AtomicU64>,
        waits: Waits,
    ) -> io::Result<ThreadMailbox> {
        ThreadMailbox::start("outlast-sqlite-writer", |jobs| {
            let run = move || {
                let mut writer = Writer {
                    // Each job sets the time when it runs.
                    tx: Tx::new(&connection, Timestamp(0)),
                    clock,
                    jobs,
                    transactions,
                    waits,
                };
                writer.run();
            };
            vec![run]
        })
    }

    fn run(&mut self) {
        // Ends when every sender is dropped and no job waits.
        while let Some(first) = self.jobs.blocking_recv() {
            // The only place that answers, after the commit of the whole group.
            for work in self.group(first) {
                work.answer();
            }
        }
    }

    /// Runs `first` and the jobs waiting behind it in one transaction.
    ///
    /// The returned jobs can be answered: each is durable, or has its error.
    fn group(&mut self, first: Box<dyn Work>) -> Vec<Box<dyn Work>> {
        // A claim that comes alone need not wait for the disk. Among other verbs it shares their
        // wait. A separate transaction for it would only delay them.
        let alone = first.promise() == Promise::Forgettable && self.jobs.is_empty();
        // Takes the lock before it collects the other jobs. Verbs that arrive while another
        // process writes then still join this transaction. A deferred transaction would fail at
        // its first write when another process has written since it read (docs/protocol.md, defect
        // 19).
        #[cfg(outlast_mutants)]
        self.roll_back();
        let begun = self
            .wait_for_the_disk(!alone)
            .and_then(|()| self.tx.execute("begin immediate"));
        let mut done = match begun {
            Ok(()) => self.run_waiting(first),
            Err(cause) => return self.refuse_waiting(first, cause),
        };
        if let Err(cause) = self.commit() {
            // Nothing of the group is stored, so no verb may keep its answer.
            let cause = Arc::new(cause);
            undo(&mut done, &|operation| {
                error::explain(operation, cause.clone())
            });
        }
        done
    }

    /// Sets what the next commit waits for. SQLite allows the change only between transactions.
    fn wait_for_the_disk(&mut self, wait: bool) -> rusqlite::Result<()> {
        let (waits, level) = match (self.waits, wait) {
            (Waits::ForTheDisk, false) => (Waits::NotNow, "normal"),
            (Waits::NotNow, true) => (Waits::ForTheDisk, "full"),
            (Waits::ForTheDisk, true) | (Waits::NotNow, false) | (Waits::Never, _) => return Ok(()),
        };
        let connection = self.tx.connection;
        connection.pragma_update(None, "synchronous", level)?;
        self.waits = waits;
        Ok(())
    }

    /// Runs `first`, and then jobs that wait already.
    ///
    /// Never waits for more jobs: the first caller would pay for it with its latency.
    fn run_waiting(&mut self, first: Box<dyn Work>) -> Vec<Box<dyn Work>> {
        let before = self.tx.connection.total_changes();
        let mut done = Vec::new();
        let mut next = Some(first);
        while let Some(mut work) = next {
            let intact = self.run_one(work.as_mut());
            done.push(work);
            if !intact {
                // The verbs before this one are lost with it, although they succeeded.
                self.roll_back();
                undo(&mut done, &error::transaction_lost);
                return done;
            }
            let rows = self.tx.connection.total_changes() - before;
            // A durable verb must not join a commit that does not wait for the disk.
            let full =
                done.len() == GROUP_MAX || rows > GROUP_ROWS_MAX || self.waits == Waits::NotNow;
            next = if full {
                None
            } else {
                self.jobs.try_recv().ok()
            };
        }
        done
    }

    /// Runs a verb in a savepoint, so that its failure undoes only its own writes.
    ///
    /// Returns whether the transaction is still open. SQLite rolls all of it back by itself on a
    /// full disk, among other errors.
    fn run_one(&mut self, work: &mut dyn Work) -> bool {
        if self.tx.execute("savepoint verb").is_err() {
            return false;
        }
        let keep = work.run(&mut self.tx, self.clock.as_ref());
        // After SQLite's own rollback the savepoint no longer exists.
        if self.tx.connection.is_autocommit() {
            return false;
        }
        // `rollback to` undoes the writes, and the verb's inner savepoints with them. It leaves
        // the savepoint itself open.
        let undone = keep || self.tx.execute("rollback to verb").is_ok();
        undone && self.tx.execute("release verb").is_ok()
    }

    fn commit(&self) -> rusqlite::Result<()> {
        // SQLite has rolled back the transaction, and every job in it already has that error.
        if self.tx.connection.is_autocommit() {
            return Ok(());
        }
        let committed = self.tx.execute("commit");
        match committed {
            Ok(()) => {
                self.transactions.fetch_add(1, Ordering::Relaxed);
                #[cfg(outlast_mutants)]
                if outlast_core::mutant::is("transaction-stays-open") {
                    self.tx.execute("begin immediate")?;
                }
            }
            // A failed commit can leave the transaction open. The next `begin` would fail then.
            Err(_) => self.roll_back(),
        }
        committed
    }

    fn roll_back(&self) {
        if !self.tx.connection.is_autocommit()
            && let Err(error) = self.tx.execute("rollback")
        {
            tracing::error!(%error, "the writer could not roll back");
        }
    }

    /// Fails all waiting jobs when the lock could not be taken.
    ///
    /// Otherwise each of them would wait for the lock again, one busy timeout after the other.
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
}

/// Replaces the answers of the jobs that had succeeded, or had not run, with an error.
fn undo(done: &mut [Box<dyn Work>], reason: &dyn Fn(&'static str) -> Error) {
    for work in done {
        work.undo(reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Fault;
    use crate::threads::job::job;
    use crate::{Options, open};
    use outlast_core::{Result, SystemClock};
    use std::path::Path;
    use tokio::sync::oneshot::Receiver;

    /// SQLite's numbers of the synchronous levels.
    const NORMAL: i64 = 1;
    const FULL: i64 = 2;

    fn start(path: &Path) -> ThreadMailbox {
        let writer = open::open(&Options::default(), Some(path)).unwrap().writer;
        let transactions = Arc::new(AtomicU64::new(0));
        Writer::start(
            writer,
            Arc::new(SystemClock),
            transactions,
            Waits::ForTheDisk,
        )
        .unwrap()
    }

    /// Sends a verb that returns the synchronous level it runs at.
    async fn put(mailbox: &ThreadMailbox, promise: Promise) -> Receiver<Result<i64>> {
        let verb = |tx: &Tx<'_>| -> Result<i64, Fault> {
            let level = |row: &rusqlite::Row<'_>| row.get(0);
            Ok(tx
                .connection
                .pragma_query_value(None, "synchronous", level)?)
        };
        let (job, answer) = job("test", promise, verb);
        mailbox.put("test", job).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn only_a_claim_that_comes_alone_does_not_wait_for_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("outlast.db");
        let mailbox = start(&path);
        for (promise, level) in [
            (Promise::Durable, FULL),
            (Promise::Forgettable, NORMAL),
            (Promise::Forgettable, NORMAL),
            (Promise::Durable, FULL),
        ] {
            let answer = put(&mailbox, promise).await.await;
            assert_eq!(answer.unwrap().unwrap(), level, "{promise:?}");
        }
        mailbox.close().await;
    }

    #[tokio::test]
    async fn a_claim_among_others_waits_for_the_disk_with_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("outlast.db");
        let mailbox = start(&path);
        // While another process writes, verbs collect behind the first.
        let other = Connection::open(&path).unwrap();
        other.execute_batch("begin immediate").unwrap();
        let first = put(&mailbox, Promise::Durable).await;
        let claim = put(&mailbox, Promise::Forgettable).await;
        let last = put(&mailbox, Promise::Durable).await;
        other.execute_batch("rollback").unwrap();
        for answer in [first, claim, last] {
            assert_eq!(answer.await.unwrap().unwrap(), FULL);
        }
        mailbox.close().await;
    }
}
