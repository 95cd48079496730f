//! What a rule is tried on, and how one rule is run.

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

/// One empty store under test, with the clock it takes its time from.
pub struct Subject {
    /// The store.
    pub store: Arc<dyn Database>,
    /// Its time, which moves only when a rule moves it.
    pub clock: ManualClock,
    guard: Option<Box<dyn Any + Send + Sync>>,
    cleanup: Option<Cleanup>,
}

type Cleanup = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

impl Subject {
    /// A subject that needs nothing but to be dropped.
    pub fn new(store: impl Database, clock: ManualClock) -> Subject {
        Subject {
            store: Arc::new(store),
            clock,
            guard: None,
            cleanup: None,
        }
    }

    /// Keeps `guard`, a temporary folder for example, for as long as the subject is used.
    pub fn guarded_by(mut self, guard: impl Any + Send + Sync) -> Subject {
        self.guard = Some(Box::new(guard));
        self
    }

    /// Awaits `cleanup`, which drops a schema for example, when the rule has held or failed and the
    /// store is closed.
    pub fn cleaned_by(
        mut self,
        cleanup: impl Future<Output = ()> + Send + Sync + 'static,
    ) -> Subject {
        self.cleanup = Some(Box::pin(cleanup));
        self
    }

    /// Closes the store and leaves nothing behind.
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
    /// One: what the rule does, it does in order.
    One,
    /// Several, for rules about doing things at once.
    Several,
}

/// Tries one rule on a fresh subject and tidies up, whether it held or not. What
/// [`conformance_suite!`](crate::conformance_suite) calls.
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
