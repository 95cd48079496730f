//! A mailbox: a bounded queue of jobs, and the threads that run them.
//!
//! The writer has one and the readers share one. A full mailbox makes its senders wait; it never
//! drops a job.

use crate::threads::job::Work;
use outlast_core::{Error, Result};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use tokio::sync::{mpsc, watch};

/// Jobs that may wait before the next sender has to wait too.
///
/// Bounds memory: each job holds the rows of its request.
const WAITING_MAX: usize = 1_024;

pub(crate) type Jobs = mpsc::Receiver<Box<dyn Work>>;

/// The sending side of a mailbox.
///
/// After it is dropped, the threads finish the waiting jobs and end.
pub(crate) struct ThreadMailbox {
    /// `None` once closed. The threads end when the last sender is dropped.
    entry: Mutex<Option<mpsc::Sender<Box<dyn Work>>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Closed when the last thread ends.
    ended: watch::Receiver<()>,
}

impl ThreadMailbox {
    /// Starts one thread per body. `bodies` makes the bodies from the receiving side.
    ///
    /// When a thread cannot be started, the sender is dropped, and the earlier threads end.
    pub(crate) fn start<B>(
        name: &'static str,
        bodies: impl FnOnce(Jobs) -> Vec<B>,
    ) -> io::Result<ThreadMailbox>
    where
        B: FnOnce() + Send + 'static,
    {
        let (entry, jobs) = mpsc::channel(WAITING_MAX);
        let (alive, ended) = watch::channel(());
        let threads = bodies(jobs)
            .into_iter()
            .map(|body| {
                let alive = alive.clone();
                thread::Builder::new().name(name.into()).spawn(move || {
                    body();
                    // Last: `close` joins the thread when it sees this. A panic drops it too.
                    drop(alive);
                })
            })
            .collect::<io::Result<_>>()?;
        Ok(ThreadMailbox {
            entry: Mutex::new(Some(entry)),
            threads: Mutex::new(threads),
            ended,
        })
    }

    /// Sends a job, and waits while the mailbox is full.
    ///
    /// A job that waits for room while the mailbox is closed still gets in and is answered.
    pub(crate) async fn put(&self, operation: &'static str, job: Box<dyn Work>) -> Result<()> {
        // A sender of its own: a task must not hold the lock while it waits for room.
        let entry = lock(&self.entry).clone();
        let entry = entry.ok_or(Error::Closed { operation })?;
        entry
            .send(job)
            .await
            .map_err(|_| Error::Closed { operation })
    }

    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.entry).is_none()
    }

    /// Closes the mailbox, and waits until the threads have finished the waiting jobs.
    ///
    /// May be called again, and by several tasks at once.
    pub(crate) async fn close(&self) {
        drop(lock(&self.entry).take());
        let mut ended = self.ended.clone();
        // No value is ever sent: the loop ends when the last thread drops its sender.
        while ended.changed().await.is_ok() {}
        // The threads have nothing left to do, so the joins do not block the caller's runtime. A
        // join shows whether its thread has panicked.
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the SQLite store had panicked");
            }
        }
    }
}

/// Locks a mutex, also after a panic: its value is only ever replaced as a whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
