//! Where the code of a workflow runs: in nobody's runtime, so that what is not durable is noticed.
//!
//! A workflow that awaits a socket, a timer of the runtime or a task would be answered differently when it is run again.
//! Whoever waits keeps the waker it was given; so a waker that was kept when the code comes back tells that something foreign is
//! awaited. Tasks that the code spawns belong to the runtime it believes to be in: one of its own, which never runs anything.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use tokio::runtime::{Builder, Runtime};

/// Traps that nobody is in, for as many threads as run workflows at a time.
static IDLE: Mutex<Vec<Trap>> = Mutex::new(Vec::new());

/// Where code is run.
struct Trap {
    /// A runtime that nobody runs.
    runtime: Runtime,
    unheard: Arc<Unheard>,
    waker: Waker,
}

/// What the code did that no workflow may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Foreign {
    /// It awaits something that is not durable.
    Awaits,
    /// It has spawned a task.
    Spawns,
}

/// Nobody is woken: the code is run on when something of it is answered.
struct Unheard;

impl Wake for Unheard {
    fn wake(self: Arc<Self>) {}
}

/// Runs the code until it waits or is over, and tells what it did that it may not.
pub(super) fn poll<T>(
    code: impl FnOnce(&mut Context<'_>) -> Poll<T>,
) -> (Poll<T>, Option<Foreign>) {
    let Some(mut trap) = Trap::take() else {
        return (code(&mut Context::from_waker(Waker::noop())), None);
    };
    let polled = {
        let _within = trap.runtime.enter();
        code(&mut Context::from_waker(&trap.waker))
    };
    if trap.runtime.metrics().num_alive_tasks() > 0 {
        // Its tasks go with it.
        trap.runtime.shutdown_background();
        return (polled, Some(Foreign::Spawns));
    }
    let is_kept = trap.renew_if_kept();
    trap.give_back();
    let awaits = polled.is_pending() && is_kept;
    (polled, awaits.then_some(Foreign::Awaits))
}

impl Trap {
    /// One of one's own; none when the system gives none, which costs the check and nothing else.
    fn take() -> Option<Trap> {
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.or_else(|| {
            let runtime = Builder::new_current_thread().enable_all().build().ok()?;
            let unheard = Arc::new(Unheard);
            let waker = Waker::from(unheard.clone());
            Some(Trap {
                runtime,
                unheard,
                waker,
            })
        })
    }

    /// Whether somebody has kept the waker. Then whoever comes next has another one.
    fn renew_if_kept(&mut self) -> bool {
        // Ours, and the one in our waker.
        let is_kept = Arc::strong_count(&self.unheard) > 2;
        if is_kept {
            self.unheard = Arc::new(Unheard);
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

    /// What running a future once tells of it.
    fn caught(code: impl Future) -> Option<Foreign> {
        let mut code = pin!(code);
        let (_, foreign) = poll(|cx| code.as_mut().poll(cx));
        foreign
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
        assert_eq!(caught(sleeps), Some(Foreign::Awaits));
        let (_sender, receiver) = tokio::sync::oneshot::channel::<()>();
        assert_eq!(caught(receiver), Some(Foreign::Awaits));
    }

    #[test]
    fn code_that_was_answered_at_once_is_let_through() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        sender.send(1).expect("it is heard");
        assert_eq!(caught(receiver), None);
        assert_eq!(caught(tokio::sync::Mutex::new(1).lock()), None);
    }

    #[test]
    fn a_task_is_caught_never_runs_and_does_not_stay() {
        let ran = Arc::new(Mutex::new(false));
        let told = ran.clone();
        let spawns = async move {
            tokio::spawn(async move { *told.lock().expect("it is free") = true });
        };
        assert_eq!(caught(spawns), Some(Foreign::Spawns));
        assert_eq!(
            caught(async { 1 }),
            None,
            "whoever comes next is not blamed"
        );
        assert!(!*ran.lock().expect("it is free"));
        assert_eq!(Arc::strong_count(&ran), 1, "the task is gone");
    }

    #[tokio::test]
    async fn code_may_be_run_within_a_runtime() {
        let sleeps = async { tokio::time::sleep(Duration::from_secs(1)).await };
        assert_eq!(caught(sleeps), Some(Foreign::Awaits));
        assert_eq!(caught(tokio::task::yield_now()), Some(Foreign::Awaits));
        assert_eq!(caught(async { 1 }), None);
    }
}
