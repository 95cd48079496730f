//! Polls the code of a workflow outside of any runtime, to detect awaits that are not durable.
//!
//! The session polls all code through it.
//!
//! A workflow that awaits a socket, a timer of the runtime or a task would get another answer in a
//! replay. A pending future keeps the waker it was polled with. So a waker that is kept after the
//! poll means that a foreign future is awaited.
//!
//! Combinators like `FuturesUnordered` keep the waker too, for the calls in them. They release it
//! when these calls are woken, so all calls are woken before the check.
//!
//! Tasks that the code spawns go to a runtime that never runs anything.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use tokio::runtime::{Builder, Runtime};

/// Idle sandboxes, at most one for each thread that runs workflows.
static IDLE: Mutex<Vec<Sandbox>> = Mutex::new(Vec::new());

/// The waker and the runtime in which code is polled.
struct Sandbox {
    /// A runtime that never runs.
    runtime: Runtime,
    unheard: Arc<NoopWaker>,
    waker: Waker,
}

/// A forbidden action of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::workflow) enum Violation {
    /// The code awaits a future that is not durable.
    Awaits,
    /// The code has spawned a task.
    Spawns,
}

/// The most polls in a row of code that wakes itself. After that it counts as waiting for a
/// foreign future. `FuturesUnordered` wakes itself once each time it has polled all its futures.
const POLLS_MAX: usize = 1_000;

/// A waker that wakes nothing: the session polls the code when one of its calls is answered. Code
/// that wakes itself during a poll has only yielded, and is polled again.
#[derive(Default)]
struct NoopWaker {
    was_woken: AtomicBool,
}

impl Wake for NoopWaker {
    fn wake(self: Arc<Self>) {
        self.was_woken.store(true, Ordering::Relaxed);
    }
}

/// Polls the code until it waits or ends, and returns its violation, if any.
///
/// `wake_calls` wakes the durable calls that the code waits for.
pub(in crate::workflow) fn poll<T>(
    code: impl FnMut(&mut Context<'_>) -> Poll<T>,
    wake_calls: impl FnOnce(),
) -> (Poll<T>, Option<Violation>) {
    let Some(mut sandbox) = Sandbox::take() else {
        let polled = Sandbox::poll(code, &NoopWaker::default(), Waker::noop());
        wake_calls();
        return (polled, None);
    };
    let polled = {
        let _within = sandbox.runtime.enter();
        Sandbox::poll(code, &sandbox.unheard, &sandbox.waker)
    };
    wake_calls();
    if sandbox.runtime.metrics().num_alive_tasks() > 0 {
        // Dropping the runtime drops its tasks.
        sandbox.runtime.shutdown_background();
        return (polled, Some(Violation::Spawns));
    }
    let is_kept = sandbox.renew_if_kept();
    sandbox.give_back();
    let awaits = polled.is_pending() && is_kept;
    (polled, awaits.then_some(Violation::Awaits))
}

impl Sandbox {
    /// Polls code until it waits or ends.
    fn poll<T>(
        mut code: impl FnMut(&mut Context<'_>) -> Poll<T>,
        unheard: &NoopWaker,
        waker: &Waker,
    ) -> Poll<T> {
        let mut cx = Context::from_waker(waker);
        unheard.was_woken.store(false, Ordering::Relaxed);
        let mut polled = code(&mut cx);
        for _ in 1..POLLS_MAX {
            if polled.is_ready() || !unheard.was_woken.swap(false, Ordering::Relaxed) {
                break;
            }
            polled = code(&mut cx);
        }
        polled
    }

    /// Takes or creates a sandbox; `None` when the system cannot create a runtime. Then only the
    /// check is skipped.
    fn take() -> Option<Sandbox> {
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.or_else(|| {
            let runtime = Builder::new_current_thread().enable_all().build().ok()?;
            let unheard = Arc::<NoopWaker>::default();
            let waker = Waker::from(unheard.clone());
            Some(Sandbox {
                runtime,
                unheard,
                waker,
            })
        })
    }

    /// Replaces the waker if the code has kept it, and returns whether it had.
    fn renew_if_kept(&mut self) -> bool {
        // Two references are ours: this one and the one in our waker.
        let is_kept = Arc::strong_count(&self.unheard) > 2;
        if is_kept {
            self.unheard = Arc::<NoopWaker>::default();
            self.waker = Waker::from(self.unheard.clone());
        }
        is_kept
    }

    fn give_back(self) {
        IDLE.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::time::Duration;

    /// Returns the violation that one poll of a future shows.
    fn caught(code: impl Future) -> Option<Violation> {
        let mut code = pin!(code);
        let (_, violation) = poll(|cx| code.as_mut().poll(cx), || {});
        violation
    }

    #[test]
    fn code_that_keeps_no_waker_is_let_through() {
        assert_eq!(caught(async { 1 }), None);
        assert_eq!(caught(std::future::pending::<()>()), None);
        let looks = poll_fn(|cx| {
            let seen = cx.waker().clone();
            drop(seen);
            Poll::<()>::Pending
        });
        assert_eq!(caught(looks), None);
    }

    #[test]
    fn code_that_awaits_something_of_the_runtime_is_caught() {
        let sleeps = async { tokio::time::sleep(Duration::from_secs(1)).await };
        assert_eq!(caught(sleeps), Some(Violation::Awaits));
        let (_sender, receiver) = tokio::sync::oneshot::channel::<()>();
        assert_eq!(caught(receiver), Some(Violation::Awaits));
    }

    #[test]
    fn code_whose_await_is_ready_at_once_is_let_through() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        sender.send(1).expect("the receiver is alive");
        assert_eq!(caught(receiver), None);
        assert_eq!(caught(tokio::sync::Mutex::new(1).lock()), None);
    }

    #[test]
    fn a_spawned_task_is_caught_never_runs_and_is_dropped() {
        let ran = Arc::new(Mutex::new(false));
        let flag = ran.clone();
        let spawns = async move {
            tokio::spawn(async move { *flag.lock().expect("the lock is not poisoned") = true });
        };
        assert_eq!(caught(spawns), Some(Violation::Spawns));
        assert_eq!(
            caught(async { 1 }),
            None,
            "code that runs later is not blamed"
        );
        assert!(!*ran.lock().expect("the lock is not poisoned"));
        assert_eq!(Arc::strong_count(&ran), 1, "the task was dropped");
    }

    #[tokio::test]
    async fn the_guard_works_within_a_runtime() {
        let sleeps = async { tokio::time::sleep(Duration::from_secs(1)).await };
        assert_eq!(caught(sleeps), Some(Violation::Awaits));
        assert_eq!(caught(tokio::task::yield_now()), Some(Violation::Awaits));
        assert_eq!(caught(async { 1 }), None);
    }
}
