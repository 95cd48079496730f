//! Connects an awaited call to the runtime.
//!
//! Every future of this API uses it. It registers the call once, runs its code here if it has any,
//! and returns the answer that the history has.

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

/// Code to run here, once, when everything that led to it is written.
#[doc(hidden)]
pub struct Work<'a> {
    /// `None` once it has ended.
    code: Option<StepFuture<'a>>,
    /// When its time is up; set once it awaits something.
    limit: Option<Pin<Box<Sleep>>>,
}

type StepFuture<'a> = Pin<Box<dyn Future<Output = Result<Json, Failed>> + Send + 'a>>;

impl<'a> Work<'a> {
    /// Creates the work from a closure that starts the future.
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

    /// Drops the code, whatever its result would have been.
    fn drop_it(&mut self) {
        self.code = None;
        self.limit = None;
    }

    /// Polls the code under its time limit and catches panics. It returns a result once.
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

/// Calls that the code waits for together.
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

    /// Sets the calls to wait for.
    pub(super) fn ask(&mut self, spread: WaitPlan) {
        self.asked = Some(spread);
    }

    /// Waits for the answer. The error here is the cancel of the workflow.
    ///
    /// `take`, `gather` and `failure` return the answer itself.
    pub(super) fn poll(
        &mut self,
        shape: &mut impl ResultShape,
        cx: &mut Context<'_>,
    ) -> Poll<FlowResult<()>> {
        {
            let runtime = self.flow.lock();
            // Nothing would wake a handler that waits.
            let refused = runtime.queries.refuse_changes("call");
            refused.map_err(FlowError::invalid)?;
            // The code may have gone on after an error that it could not read.
            if runtime.blocked.is_some() {
                return Poll::Pending;
            }
        }
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
        match self.flow.lock().deliver_only_step() {
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

    /// Polls the code to run here. Its result is written before the workflow's code receives it.
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
        // The code of a workflow runs outside the runtime. The code of a step runs inside it.
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
            // A step that could not read a failure has a result that is a guess.
            if let Poll::Ready(result) = polled
                && runtime.blocked.is_none()
            {
                runtime.finished.push_back((call, result));
            }
        });
    }

    /// Returns the call at this index.
    pub(super) fn leaf(&self, place: usize) -> Option<i32> {
        let runtime = self.flow.lock();
        let leaves = self.wait.map(|wait| &runtime.waits[wait].leaves);
        leaves.and_then(|leaves| leaves.get(place).copied())
    }

    /// Returns how a group or a selection was decided.
    pub(super) fn resolved(&self) -> Option<Resolved> {
        let runtime = self.flow.lock();
        self.wait
            .and_then(|wait| runtime.waits[wait].resolved().cloned())
    }

    /// Returns the index of the first call of a member.
    pub(super) fn first_leaf(&self, member: usize) -> usize {
        let runtime = self.flow.lock();
        let combinator = self
            .wait
            .and_then(|wait| runtime.waits[wait].combinator.as_ref());
        combinator.map_or(0, |it| it.members[member])
    }

    /// Returns the result of its only call, by type.
    pub(super) fn take<T: DeserializeOwned>(&self) -> Poll<FlowResult<T>> {
        self.gather(0, |next| decode(&next()?))
    }

    /// Returns the results of the calls from an index on, as `gather` combines them.
    ///
    /// A result that does not fit the type in the code blocks the workflow, as any other mismatch
    /// with the history does. The exception is a signal: its sender chose the payload, so it is an
    /// error of the call.
    pub(super) fn gather<T>(
        &self,
        first: usize,
        gather: impl FnOnce(&mut dyn FnMut() -> FlowResult<Json>) -> FlowResult<T>,
    ) -> Poll<FlowResult<T>> {
        let mut places = first..;
        let mut last = None;
        let gathered = gather(&mut || {
            last = places.next().and_then(|place| self.leaf(place));
            let call = last.expect("there are as many calls as the shape has members");
            self.flow.answer(call)
        });
        match (gathered, last) {
            (Err(error), Some(call))
                if error.is_unreadable() && self.block_unread(call, &error) =>
            {
                Poll::Pending
            }
            (gathered, _) => Poll::Ready(gathered),
        }
    }

    fn block_unread(&self, call: i32, error: &FlowError) -> bool {
        let found = format!("a type that does not fit the stored value: {error}");
        self.flow.lock().block_unread(call, found)
    }

    /// Returns the failure of a call.
    pub(super) fn failure<T>(&self, call: i32) -> FlowResult<T> {
        match self.flow.answer(call) {
            Err(error) => Err(error),
            Ok(_) => Err(FlowError::new(format!("call {call} has not failed"))),
        }
    }
}

/// The code no longer waits for a dropped call. A signal for it stays in the inbox.
impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(wait) = self.wait {
            self.flow.lock().note_dropped(wait);
        }
    }
}
