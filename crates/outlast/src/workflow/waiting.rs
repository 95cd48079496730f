//! What every awaited call has in common: it is registered once, runs what is to be run here, and is answered by the
//! history.

use super::FlowError;
use super::FlowResult;
use super::call::decode;
use super::flow::Flow;
use super::group::{ResultShape, WaitPlan};
use super::replay::events::{Failed, Resolved};
use super::replay::runtime::{MayRun, WaitKind};
use outlast_core::{Invalid, Json};
use serde::de::DeserializeOwned;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// Something to be run here, once, when all that led to it is written.
#[doc(hidden)]
pub struct Work<'a> {
    /// None once it is over.
    code: Option<Code<'a>>,
    /// When its time is up; it is known once it waits for something.
    limit: Option<Pin<Box<Sleep>>>,
}

type Code<'a> = Pin<Box<dyn Future<Output = Result<Json, Failed>> + Send + 'a>>;

impl<'a> Work<'a> {
    /// What `begin` makes.
    pub(super) fn new<F, Fut>(begin: F) -> Work<'a>
    where
        F: FnOnce() -> Fut + Send + 'a,
        Fut: Future<Output = Result<Json, Failed>> + Send + 'a,
    {
        Work {
            code: Some(Box::pin(async move { begin().await })),
            limit: None,
        }
    }

    /// It is over, whatever it would have come to.
    fn drop_it(&mut self) {
        self.code = None;
        self.limit = None;
    }

    /// Runs it on, under a limit of time and with panics caught. It has a result once.
    fn poll(&mut self, limit: Duration, cx: &mut Context<'_>) -> Poll<Result<Json, Failed>> {
        let Some(code) = &mut self.code else {
            return Poll::Pending;
        };
        let polled = catch_unwind(AssertUnwindSafe(|| code.as_mut().poll(cx)));
        let result = match polled {
            Ok(Poll::Ready(result)) => result,
            Ok(Poll::Pending) => {
                let up = self.limit.get_or_insert_with(|| Box::pin(sleep(limit)));
                ready!(up.as_mut().poll(cx));
                Err(Failed {
                    kind: "timeout".into(),
                    error: format!("took longer than {limit:?}"),
                })
            }
            Err(panic) => Err(Failed {
                kind: "panic".into(),
                error: format!("panicked: {}", crate::machine::panic_message(&*panic)),
            }),
        };
        self.drop_it();
        Poll::Ready(result)
    }
}

/// A unit of calls that the code waits for.
pub(super) struct Waiting {
    flow: Flow,
    kind: WaitKind,
    asked: Option<WaitPlan>,
    wait: Option<usize>,
    is_uncancellable: bool,
}

impl Waiting {
    pub(super) fn new(flow: Flow, kind: WaitKind) -> Waiting {
        Waiting {
            flow,
            kind,
            asked: None,
            wait: None,
            is_uncancellable: false,
        }
    }

    pub(super) fn flow(&self) -> &Flow {
        &self.flow
    }

    /// Says what is waited for.
    pub(super) fn ask(&mut self, spread: WaitPlan) {
        self.asked = Some(spread);
    }

    /// Waits for the answer. It is handed out by `result` and `failure`; the error here is the cancel of the workflow.
    pub(super) fn poll(
        &mut self,
        shape: &mut impl ResultShape,
        cx: &mut Context<'_>,
    ) -> Poll<FlowResult<()>> {
        if let Some(spread) = self.asked.take() {
            self.register(spread)?;
        }
        let Some(wait) = self.wait else {
            return Poll::Pending;
        };
        {
            let mut runtime = self.flow.lock();
            if runtime.is_ready(wait) {
                return Poll::Ready(Ok(()));
            }
            if !self.is_uncancellable
                && let Some(reason) = runtime.cancel_reason()
            {
                return Poll::Ready(Err(FlowError::cancelled(reason)));
            }
            runtime.note_waiting(wait);
            runtime.keep_waker(cx.waker());
            if runtime.may_run == MayRun::No {
                return Poll::Pending;
            }
        }
        self.run_works(wait, shape);
        match self.flow.lock().tell_the_one_step() {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }

    fn register(&mut self, spread: WaitPlan) -> FlowResult<()> {
        let mut runtime = self.flow.lock();
        if runtime.in_step {
            let reason = "is made inside a step, which is not run again with its workflow; make it after the step";
            return Err(FlowError::invalid(Invalid::new("call", reason)));
        }
        self.is_uncancellable = runtime.uncancellable;
        self.wait = runtime.register(self.kind, spread);
        match self.wait {
            Some(_) => Ok(()),
            None => {
                let reason = runtime.cancel_reason().unwrap_or("cancelled");
                Err(FlowError::cancelled(reason))
            }
        }
    }

    /// Runs on what is to be run here. Its result is written before the code hears of it.
    fn run_works(&self, wait: usize, shape: &mut impl ResultShape) {
        let (waker, handle, limit) = {
            let runtime = self.flow.lock();
            (
                runtime.waker.clone(),
                runtime.handle.clone(),
                runtime.step_timeout,
            )
        };
        let (Some(waker), Some(handle)) = (waker, handle) else {
            return;
        };
        // The code of a workflow is kept away from the runtime; the code of a step is not.
        let _within = handle.enter();
        let mut cx = Context::from_waker(&waker);
        shape.each_work(0, &mut |leaf, work| {
            let call = {
                let mut runtime = self.flow.lock();
                runtime.in_step = true;
                let call = runtime.waits[wait].leaves[leaf];
                if runtime.call(call).end.is_some() {
                    work.drop_it();
                }
                call
            };
            let polled = work.poll(limit, &mut cx);
            let mut runtime = self.flow.lock();
            runtime.in_step = false;
            if let Poll::Ready(result) = polled {
                runtime.finished.push_back((call, result));
            }
        });
    }

    /// The call at this place of it.
    pub(super) fn leaf(&self, place: usize) -> Option<i32> {
        let runtime = self.flow.lock();
        let leaves = self.wait.map(|wait| &runtime.waits[wait].leaves);
        leaves.and_then(|leaves| leaves.get(place).copied())
    }

    /// How a group or a selection came to its end.
    pub(super) fn resolved(&self) -> Option<Resolved> {
        let runtime = self.flow.lock();
        self.wait
            .and_then(|wait| runtime.waits[wait].resolved().cloned())
    }

    /// The place of the first leaf of a member.
    pub(super) fn first_leaf(&self, member: usize) -> usize {
        let runtime = self.flow.lock();
        let combinator = self
            .wait
            .and_then(|wait| runtime.waits[wait].combinator.as_ref());
        combinator.map_or(0, |it| it.members[member])
    }

    /// What its one leaf came to, by type.
    pub(super) fn take<T: DeserializeOwned>(&self) -> Poll<FlowResult<T>> {
        self.gather(0, |next| decode(&next()?))
    }

    /// What the leaves came to from a place on, as `gather` puts it together. An answer that the code has no type for blocks
    /// it, as any other difference to its history does. What is in a signal is its sender's, and an error of the call.
    pub(super) fn gather<T>(
        &self,
        first: usize,
        gather: impl FnOnce(&mut dyn FnMut() -> FlowResult<Json>) -> FlowResult<T>,
    ) -> Poll<FlowResult<T>> {
        let mut places = first..;
        let mut last = None;
        let gathered = gather(&mut || {
            last = places.next().and_then(|place| self.leaf(place));
            let call = last.expect("as many leaves as the shape has places");
            self.flow.lock().answer(call)
        });
        match (gathered, last) {
            (Err(error), Some(call))
                if error.is_unreadable() && self.flow.lock().block_unread(call, &error) =>
            {
                Poll::Pending
            }
            (gathered, _) => Poll::Ready(gathered),
        }
    }

    /// The failure of a call.
    pub(super) fn failure<T>(&self, call: i32) -> FlowResult<T> {
        match self.flow.lock().answer(call) {
            Err(error) => Err(error),
            Ok(_) => Err(FlowError::new(format!("call {call} has not failed"))),
        }
    }
}

/// What the code has dropped nobody waits for any more: a signal that comes for it stays in the inbox.
impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(wait) = self.wait {
            self.flow.lock().note_dropped(wait);
        }
    }
}
