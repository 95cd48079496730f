//! The store under test, and the runner of one rule.

use futures_util::FutureExt;
use outlast_core::{Inspect, ManualClock, Store};
use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;

/// A store that also answers questions.
pub trait Database: Store + Inspect {}

impl<T: Store + Inspect> Database for T {}

/// One empty store under test, with its clock.
pub struct Subject {
    /// The store.
    pub store: Arc<dyn Database>,
    /// The store's clock, which moves only when a rule moves it.
    pub clock: ManualClock,
    guard: Option<Box<dyn Any + Send + Sync>>,
    cleanup: Option<Cleanup>,
}

type Cleanup = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

impl Subject {
    /// Makes a subject that needs no cleanup.
    pub fn new(store: impl Database, clock: ManualClock) -> Subject {
        Subject {
            store: Arc::new(store),
            clock,
            guard: None,
            cleanup: None,
        }
    }

    /// Keeps `guard`, a temporary folder for example, until the rule is over.
    pub fn guarded_by(mut self, guard: impl Any + Send + Sync) -> Subject {
        self.guard = Some(Box::new(guard));
        self
    }

    /// Awaits `cleanup` after the rule has held or failed and the store is closed.
    ///
    /// It drops a schema, for example.
    pub fn cleaned_by(
        mut self,
        cleanup: impl Future<Output = ()> + Send + Sync + 'static,
    ) -> Subject {
        self.cleanup = Some(Box::pin(cleanup));
        self
    }

    /// Closes the store, runs the cleanup and drops the guard.
    pub async fn finish(mut self) {
        self.store.close().await;
        if let Some(cleanup) = self.cleanup.take() {
            cleanup.await;
        }
        drop(self.guard.take());
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject")
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

/// How many threads a rule gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// One thread: the rule runs in order.
    One,
    /// Several threads, for rules about concurrency.
    Several,
}

/// Tries one rule on a fresh subject and cleans up, whether the rule held or not.
///
/// [`conformance_suite!`](crate::conformance_suite) calls it.
pub fn try_rule<Opening: Future<Output = Subject>>(
    threads: Threads,
    open: impl FnOnce() -> Opening,
    rule: impl AsyncFnOnce(&Subject),
) {
    let mut builder = match threads {
        Threads::One => tokio::runtime::Builder::new_current_thread(),
        Threads::Several => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.enable_all().build();
    runtime.expect("a runtime can be started").block_on(async {
        let subject = open().await;
        let tried = AssertUnwindSafe(rule(&subject)).catch_unwind().await;
        subject.finish().await;
        if let Err(failure) = tried {
            resume_unwind(failure);
        }
    });
}
