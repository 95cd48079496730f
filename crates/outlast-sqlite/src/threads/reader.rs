//! The reader threads: each answers one question at a time, on a connection that cannot write.
//!
//! `store.rs` sends them the questions of `Inspect` through one mailbox. A reader must never keep
//! a transaction open between two questions: SQLite cannot reset its log past a reader's snapshot.

use crate::error;
use crate::threads::job::Work;
use crate::threads::mailbox::{Jobs, ThreadMailbox};
use crate::tx::Tx;
use outlast_core::{Clock, Timestamp};
use rusqlite::Connection;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

struct Reader<'c> {
    tx: Tx<'c>,
    clock: Arc<dyn Clock>,
    jobs: Arc<Mutex<Jobs>>,
}

/// Starts one thread per connection.
pub(crate) fn start(
    connections: Vec<Connection>,
    clock: Arc<dyn Clock>,
) -> io::Result<ThreadMailbox> {
    ThreadMailbox::start("outlast-sqlite-reader", |jobs| {
        // A channel has one receiver, so the readers take turns at it.
        let jobs = Arc::new(Mutex::new(jobs));
        connections
            .into_iter()
            .map(|connection| {
                let (clock, jobs) = (clock.clone(), jobs.clone());
                move || {
                    // Each job sets the time when it runs.
                    let tx = Tx::new(&connection, Timestamp(0));
                    Reader { tx, clock, jobs }.run();
                }
            })
            .collect()
    })
}

impl Reader<'_> {
    fn run(&mut self) {
        while let Some(mut work) = self.next() {
            self.read(work.as_mut());
            work.answer();
        }
    }

    /// Waits for the next job. One reader holds the lock while it waits; others queue behind it.
    fn next(&self) -> Option<Box<dyn Work>> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.blocking_recv()
    }

    /// Answers a question in one transaction, so that all its statements see the same moment.
    ///
    /// The transaction is deferred: it takes its snapshot at the first read, and never a lock that
    /// a writer waits for.
    fn read(&mut self, work: &mut dyn Work) {
        if let Err(cause) = self.tx.execute("begin") {
            let cause = Arc::new(cause);
            work.undo(&|operation| error::explain(operation, cause.clone()));
            return;
        }
        // Whether to keep the writes does not matter: a question has none.
        work.run(&mut self.tx, self.clock.as_ref());
        if let Err(error) = self.tx.execute("rollback") {
            tracing::warn!(%error, "a reader could not end its transaction");
        }
    }
}
