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
    pub(crate) async fn put(&self, operation: &'static str, job: Box<dyn Work>) -> Result<()> {
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
    pub(crate) async fn close(&self) {
        drop(lock(&self.entry).take());
        let mut ended = self.ended.clone();
        // No value is ever sent: the loop ends when the last thread drops its sender.
        while ended.changed().await.is_ok() {}
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the SQLite store had panicked");
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
