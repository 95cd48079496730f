//! A lane: a bounded queue of jobs and the threads that do them.

use crate::job::Work;
use outlast_core::{Error, Result};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use tokio::sync::{mpsc, watch};

/// Jobs that may wait before whoever sends the next has to wait too.
const WAITING_MAX: usize = 1_024;

pub(crate) type Jobs = mpsc::Receiver<Box<dyn Work>>;

/// Where jobs go in. Dropping it lets the threads finish what is waiting and end.
pub(crate) struct ThreadMailbox {
    /// `None` once closed. The threads end when the last sender is gone.
    entry: Mutex<Option<mpsc::Sender<Box<dyn Work>>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Closed by the end of the last thread.
    ended: watch::Receiver<()>,
}

impl ThreadMailbox {
    /// Starts one thread per body. `bodies` makes them, given the jobs.
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

    /// Puts a job in, and waits while the lane is full.
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

    /// Lets nothing more in and waits until the threads have done what was waiting.
    pub(crate) async fn close(&self) {
        drop(lock(&self.entry).take());
        let mut ended = self.ended.clone();
        // Nothing is ever sent: this ends when the last thread does.
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
