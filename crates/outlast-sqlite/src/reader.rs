//! The readers: each answers one question at a time, on a connection that cannot write.

use crate::error;
use crate::job::Work;
use crate::lane::{Jobs, Lane};
use outlast_core::Clock;
use rusqlite::Connection;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

struct Reader {
    connection: Connection,
    clock: Arc<dyn Clock>,
    jobs: Arc<Mutex<Jobs>>,
}

/// Starts one thread per connection.
pub(crate) fn start(connections: Vec<Connection>, clock: Arc<dyn Clock>) -> io::Result<Lane> {
    Lane::start("outlast-sqlite-reader", |jobs| {
        let jobs = Arc::new(Mutex::new(jobs));
        connections
            .into_iter()
            .map(|connection| {
                let reader = Reader {
                    connection,
                    clock: clock.clone(),
                    jobs: jobs.clone(),
                };
                move || reader.run()
            })
            .collect()
    })
}

impl Reader {
    fn run(&self) {
        while let Some(mut work) = self.next() {
            self.read(work.as_mut());
            work.answer();
        }
    }

    /// The reader that waits for the next job holds the lock; the others queue behind it.
    fn next(&self) -> Option<Box<dyn Work>> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.blocking_recv()
    }

    /// One transaction, so that an answer of several statements is one moment.
    fn read(&self, work: &mut dyn Work) {
        if let Err(cause) = self.execute("begin") {
            let cause = Arc::new(cause);
            work.undo(&|operation| error::explain(operation, cause.clone()));
            return;
        }
        work.run(&self.connection, self.clock.as_ref());
        if let Err(error) = self.execute("rollback") {
            tracing::warn!(%error, "a reader could not end its transaction");
        }
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }
}
