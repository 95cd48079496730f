//! What every awaited call has in common: it is registered once, runs what is to be run here, and is answered by the
//! history.

use super::FlowError;
use super::FlowResult;
use super::call::decode;
use super::events::{Failed, Resolved};
use super::flow::Flow;
use super::group::{Shape, Spread};
use super::runtime::{Request, UnitKind};
use futures_util::FutureExt;
use outlast_core::{Invalid, Json};
use serde::de::DeserializeOwned;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Something to be run here, at most once at a time.
#[doc(hidden)]
pub struct Work<'a>(Stage<'a>);

enum Stage<'a> {
    /// Not begun, before all that led to it is written.
    Ready(Running<'a>),
    Running(Running<'a>),
    Over,
}

type Running<'a> = Pin<Box<dyn Future<Output = Result<Json, Failed>> + Send + 'a>>;

impl<'a> Work<'a> {
    /// What `begin` makes.
    pub(super) fn new<F, Fut>(begin: F) -> Work<'a>
    where
        F: FnOnce() -> Fut + Send + 'a,
        Fut: Future<Output = Result<Json, Failed>> + Send + 'a,
    {
        Work(Stage::Ready(Box::pin(async move { begin().await })))
    }

    /// Runs it on. It has a result once.
    fn poll(&mut self, limit: Duration, cx: &mut Context<'_>) -> Poll<Result<Json, Failed>> {
        self.0 = match std::mem::replace(&mut self.0, Stage::Over) {
            Stage::Ready(code) => Stage::Running(guarded(code, limit)),
            begun @ (Stage::Running(_) | Stage::Over) => begun,
        };
        let Stage::Running(running) = &mut self.0 else {
            return Poll::Pending;
        };
        let result = std::task::ready!(running.as_mut().poll(cx));
        self.0 = Stage::Over;
        Poll::Ready(result)
    }
}

/// Work under a limit of time, with panics caught.
fn guarded(code: Running<'_>, limit: Duration) -> Running<'_> {
    Box::pin(async move {
        let code = AssertUnwindSafe(code).catch_unwind();
        match tokio::time::timeout(limit, code).await {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => Err(Failed {
                kind: "panic".into(),
                error: format!("panicked: {}", crate::machine::panic_message(&*panic)),
            }),
            Err(_) => Err(Failed {
                kind: "timeout".into(),
                error: format!("took longer than {limit:?}"),
            }),
        }
    })
}

/// A unit of calls that the code waits for.
pub(super) struct Waiting {
    flow: Flow,
    kind: UnitKind,
    asked: Option<Spread>,
    unit: Option<usize>,
    /// The calls it consists of.
    leaves: Vec<i32>,
    is_shielded: bool,
}

impl Waiting {
    pub(super) fn new(flow: Flow, kind: UnitKind) -> Waiting {
        Waiting {
            flow,
            kind,
            asked: None,
            unit: None,
            leaves: Vec::new(),
            is_shielded: false,
        }
    }

    pub(super) fn flow(&self) -> &Flow {
        &self.flow
    }

    /// Says what is waited for.
    pub(super) fn ask(&mut self, spread: Spread) {
        self.asked = Some(spread);
    }

    /// Waits for the answer. It is handed out by `result` and `failure`; the error here is the cancel of the workflow.
    pub(super) fn poll(&mut self, shape: &mut impl Shape) -> Poll<FlowResult<()>> {
        if let Some(spread) = self.asked.take() {
            self.register(spread)?;
        }
        let Some(unit) = self.unit else {
            return Poll::Pending;
        };
        {
            let mut runtime = self.flow.lock();
            if runtime.is_ready(unit) {
                return Poll::Ready(Ok(()));
            }
            if !self.is_shielded
                && let Some(reason) = runtime.cancel_reason()
            {
                return Poll::Ready(Err(FlowError::cancelled(reason)));
            }
            runtime.polled.push(unit);
            if !runtime.may_run {
                return Poll::Pending;
            }
        }
        self.run_works(shape);
        Poll::Pending
    }

    fn register(&mut self, spread: Spread) -> FlowResult<()> {
        let mut runtime = self.flow.lock();
        if runtime.in_step {
            let reason = "is made inside a step, which is not run again with its workflow; make it after the step";
            return Err(FlowError::invalid(Invalid::new("call", reason)));
        }
        self.is_shielded = runtime.shielded;
        let request = Request {
            members: spread.members,
            groups: spread.groups,
            window: spread.window,
            cancel_rest: spread.cancel_rest,
        };
        let Some(unit) = runtime.register(self.kind, request) else {
            let reason = runtime.cancel_reason().unwrap_or("cancelled");
            return Err(FlowError::cancelled(reason));
        };
        self.unit = Some(unit);
        let leaves = runtime.units[unit].members.iter().flatten();
        self.leaves = leaves.copied().collect();
        Ok(())
    }

    /// Runs on what is to be run here. Its result is written before the code hears of it.
    fn run_works(&self, shape: &mut impl Shape) {
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
            let call = self.leaves[leaf];
            if self.flow.lock().call(call).end.is_some() {
                work.0 = Stage::Over;
            }
            self.flow.lock().in_step = true;
            let polled = work.poll(limit, &mut cx);
            let mut runtime = self.flow.lock();
            runtime.in_step = false;
            if let Poll::Ready(result) = polled {
                runtime.finished.push((call, result));
            }
        });
    }

    /// The calls it consists of.
    pub(super) fn leaves(&self) -> &[i32] {
        &self.leaves
    }

    /// How a group or a selection came to its end.
    pub(super) fn resolved(&self) -> Option<Resolved> {
        let runtime = self.flow.lock();
        self.unit
            .and_then(|unit| runtime.units[unit].resolved.clone())
    }

    /// The place of the first leaf of a member.
    pub(super) fn first_leaf(&self, member: usize) -> usize {
        let runtime = self.flow.lock();
        let unit = self.unit.map(|unit| &runtime.units[unit]);
        unit.map_or(0, |unit| unit.members[..member].iter().map(Vec::len).sum())
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
        let mut leaves = self.leaves[first..].iter();
        let mut last = None;
        let gathered = gather(&mut || {
            last = leaves.next().copied();
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
        if let Some(unit) = self.unit {
            self.flow.lock().polled.retain(|polled| *polled != unit);
        }
    }
}
