//! Calls: the requests of a workflow, alone or in a group, and the handles of started children.

use super::flow::Flow;
use super::group::{Group, ResultShape, WaitPlan};
use super::replay::events::CallKind;
use super::replay::runtime::{Ask, WaitKind};
use super::waiting::{Waiting, Work};
use super::{ChildRef, FlowError, FlowResult};
use outlast_core::{Invalid, Json};
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// A call that returns a `T`: await it, or hand it to [`Flow::all`] or [`Flow::select`].
///
/// Nothing happens before that.
#[must_use = "a call does nothing unless it is awaited, or handed to flow.all(..) or flow.select(..)"]
pub struct Call<'a, T> {
    pub(super) flow: Flow,
    pub(super) parts: Result<Parts<'a>, Invalid>,
    pub(super) output: PhantomData<fn() -> T>,
}

/// The data of a call.
pub(super) struct Parts<'a> {
    pub(super) kind: CallKind,
    pub(super) name: String,
    pub(super) ask: Ask,
    pub(super) work: Option<Work<'a>>,
}

impl<'a, T> Call<'a, T> {
    pub(super) fn new(flow: &Flow, parts: Result<Parts<'a>, Invalid>) -> Call<'a, T> {
        Call {
            flow: flow.clone(),
            parts,
            output: PhantomData,
        }
    }
}

impl<'a, T: DeserializeOwned + 'static> Call<'a, T> {
    /// Waits no longer than `after`: `None` if the time is up first. The call itself continues.
    ///
    /// This ends only the wait; [`New::timeout`](crate::New::timeout) ends the called instance.
    pub fn timeout(self, after: Duration) -> super::select::Within<Self> {
        let flow = self.flow.clone();
        flow.deadline(after, self)
    }
}

/// A child that is about to be started; await it to get a handle.
#[must_use = "await it, or the child is not started"]
pub struct Starting<T> {
    waiting: Waiting,
    spread: Option<Result<WaitPlan, Invalid>>,
    output: PhantomData<fn() -> T>,
}

impl<T> Starting<T> {
    pub(super) fn new(call: Call<'static, T>) -> Starting<T> {
        Starting {
            waiting: Waiting::new(call.flow, WaitKind::Launch),
            spread: Some(call.parts.map(WaitPlan::of)),
            output: PhantomData,
        }
    }
}

impl<T: DeserializeOwned + 'static> Future for Starting<T> {
    type Output = FlowResult<Started<T>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        match this.spread.take() {
            Some(Ok(spread)) => this.waiting.ask(spread),
            Some(Err(invalid)) => return Poll::Ready(Err(FlowError::invalid(invalid))),
            None => {}
        }
        ready!(this.waiting.poll(&mut (), cx))?;
        let call = this.waiting.leaf(0).expect("the wait has one call");
        let flow = this.waiting.flow().clone();
        Poll::Ready(Ok(Started {
            call,
            flow,
            output: PhantomData,
        }))
    }
}

/// A started child: inspect it, signal it, or await its result.
pub struct Started<T> {
    call: i32,
    flow: Flow,
    output: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + 'static> Started<T> {
    /// Returns the child.
    pub fn child(&self) -> ChildRef {
        ChildRef::new(&self.flow, self.call)
    }

    /// Waits for its result: await it, or hand it to [`Flow::all`] or [`Flow::select`].
    pub fn join(&self) -> Joining<T> {
        Joining {
            call: self.call,
            waiting: Waiting::new(self.flow.clone(), WaitKind::Single),
            is_asked: false,
            output: PhantomData,
        }
    }
}

/// A wait for a child that was started before; created by [`Started::join`].
#[must_use = "await it"]
pub struct Joining<T> {
    call: i32,
    waiting: Waiting,
    is_asked: bool,
    output: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + 'static> Future for Joining<T> {
    type Output = FlowResult<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if !std::mem::replace(&mut this.is_asked, true) {
            let mut spread = WaitPlan::default();
            spread.again(this.call);
            this.waiting.ask(spread);
        }
        ready!(this.waiting.poll(&mut (), cx))?;
        this.waiting.take()
    }
}

impl<T: DeserializeOwned + 'static> Group for Joining<T> {
    type Output = T;
    type ResultShape = CallShape<'static, T>;

    fn spread(self, into: &mut WaitPlan) -> Result<CallShape<'static, T>, Invalid> {
        into.again(self.call);
        Ok(CallShape::new(None))
    }
}

impl<'a, T: DeserializeOwned + 'static> IntoFuture for Call<'a, T> {
    type Output = FlowResult<T>;
    type IntoFuture = Awaiting<'a, T>;

    fn into_future(self) -> Awaiting<'a, T> {
        let mut parts = self.parts;
        let work = parts.as_mut().ok().and_then(|parts| parts.work.take());
        Awaiting {
            waiting: Waiting::new(self.flow, WaitKind::Single),
            spread: Some(parts.map(WaitPlan::of)),
            shape: CallShape::new(work),
        }
    }
}

/// A call that is awaited alone.
pub struct Awaiting<'a, T> {
    waiting: Waiting,
    spread: Option<Result<WaitPlan, Invalid>>,
    shape: CallShape<'a, T>,
}

impl<T: DeserializeOwned + 'static> Future for Awaiting<'_, T> {
    type Output = FlowResult<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        match this.spread.take() {
            Some(Ok(spread)) => this.waiting.ask(spread),
            Some(Err(invalid)) => return Poll::Ready(Err(FlowError::invalid(invalid))),
            None => {}
        }
        ready!(this.waiting.poll(&mut this.shape, cx))?;
        this.waiting.take()
    }
}

impl<'a, T: DeserializeOwned + 'static> Group for Call<'a, T> {
    type Output = T;
    type ResultShape = CallShape<'a, T>;

    fn spread(self, into: &mut WaitPlan) -> Result<CallShape<'a, T>, Invalid> {
        let mut parts = self.parts?;
        let work = parts.work.take();
        into.leaf(parts);
        Ok(CallShape::new(work))
    }
}

/// The shape of one call, with the code to run for it.
#[doc(hidden)]
pub struct CallShape<'a, T> {
    work: Option<Work<'a>>,
    output: PhantomData<fn() -> T>,
}

impl<'a, T> CallShape<'a, T> {
    fn new(work: Option<Work<'a>>) -> CallShape<'a, T> {
        CallShape {
            work,
            output: PhantomData,
        }
    }
}

impl<T: DeserializeOwned> ResultShape for CallShape<'_, T> {
    type Output = T;

    fn leaves(&self) -> usize {
        1
    }

    fn each_work(&mut self, at: usize, visit: &mut dyn FnMut(usize, &mut Work<'_>)) {
        if let Some(work) = &mut self.work {
            visit(at, work);
        }
    }

    fn gather(self, next: &mut dyn FnMut() -> FlowResult<Json>) -> FlowResult<T> {
        decode(&next()?)
    }
}

pub(super) fn decode<T: DeserializeOwned>(json: &Json) -> FlowResult<T> {
    json.decode().map_err(FlowError::unreadable)
}
