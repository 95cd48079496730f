//! The one writer: takes whatever verbs are waiting into one transaction.

use crate::error;
use crate::job::{Promise, Work};
use crate::mailbox::{Jobs, ThreadMailbox};
use crate::tx::Tx;
use outlast_core::{Clock, Error, Timestamp};
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
pub(crate) struct Writer<'c> {
    tx: Tx<'c>,
    clock: Arc<dyn Clock>,
    jobs: Jobs,
    transactions: Arc<AtomicU64>,
    waits: Waits,
}

/// What a commit on the writer's connection waits for, as it is set at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// For the disk.
    ForTheDisk,
    /// For nothing this time. The next commit that waits for the disk waits for this one too: both are in
    /// one log.
    NotNow,
    /// For nothing, ever: so it was opened.
    Never,
}

impl Writer<'_> {
    /// Starts the thread. `transactions` counts what it commits.
    pub(crate) fn start(
        connection: Connection,
        clock: Arc<dyn Clock>,
        transactions: Arc<AtomicU64>,
        waits: Waits,
    ) -> io::Result<ThreadMailbox> {
        ThreadMailbox::start("outlast-sqlite-writer", |jobs| {
            let run = move || {
                let mut writer = Writer {
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
        while let Some(first) = self.jobs.blocking_recv() {
            for work in self.group(first) {
                work.answer();
            }
        }
    }

    /// Runs `first` and whatever waits behind it in one transaction. What it gives back can be
    /// answered: it is durable, or has its error.
    fn group(&mut self, first: Box<dyn Work>) -> Vec<Box<dyn Work>> {
        // A claim that comes alone need not wait for the disk. Together with others it costs no wait of its
        // own, and apart from them it would only cost them time.
        let alone = first.promise() == Promise::Forgettable && self.jobs.is_empty();
        // The lock is taken before the others are, so that verbs which arrive while another process
        // writes still come along.
        let begun = self
            .wait_for_the_disk(!alone)
            .and_then(|()| self.tx.execute("begin immediate"));
        let mut done = match begun {
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

    /// Sets what the next commit waits for. SQLite allows that between transactions only.
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

    fn run_waiting(&mut self, first: Box<dyn Work>) -> Vec<Box<dyn Work>> {
        let before = self.tx.connection.total_changes();
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
            let rows = self.tx.connection.total_changes() - before;
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

    /// Runs a verb so that it can be undone alone. Answers whether the transaction still stands: on a
    /// full disk, among others, SQLite rolls back all of it by itself.
    fn run_one(&mut self, work: &mut dyn Work) -> bool {
        if self.tx.execute("savepoint verb").is_err() {
            return false;
        }
        let keep = work.run(&mut self.tx, self.clock.as_ref());
        if self.tx.connection.is_autocommit() {
            return false;
        }
        let undone = keep || self.tx.execute("rollback to verb").is_ok();
        undone && self.tx.execute("release verb").is_ok()
    }

    fn commit(&self) -> rusqlite::Result<()> {
        // Then the transaction was lost on the way, and everyone in it was told so.
        if self.tx.connection.is_autocommit() {
            return Ok(());
        }
        let committed = self.tx.execute("commit");
        match committed {
            Ok(()) => {
                self.transactions.fetch_add(1, Ordering::Relaxed);
            }
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
}

fn undo(done: &mut [Box<dyn Work>], reason: &dyn Fn(&'static str) -> Error) {
    for work in done {
        work.undo(reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Fault;
    use crate::job::job;
    use crate::{Options, open};
    use outlast_core::{Result, SystemClock};
    use std::path::Path;
    use tokio::sync::oneshot::Receiver;

    /// What SQLite calls the levels.
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

    /// A verb that answers at which level it runs.
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
        // While another process writes, verbs gather behind the first.
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
