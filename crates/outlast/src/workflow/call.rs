//! Calls: the requests of a workflow, alone or in a group, and the handles of started children.

use super::flow::Flow;
use super::group::{Group, ResultShape, WaitPlan};
use super::replay::events::CallKind;
use super::replay::runtime::{Ask, WaitKind};
use super::waiting::{Waiting, Work};
use super::{ChildRef, FlowError, FlowResult};
use crate::machine::RetryPolicy;
use outlast_core::{ClosePolicy, Invalid, Json, NewInstance};
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// A call that returns a `T`: await it, or hand it to [`Flow::all`] or [`Flow::select`].
///
/// Nothing happens before that. `K` is the kind of call, which decides the options it has.
#[must_use = "a call does nothing unless it is awaited, or handed to flow.all(..) or flow.select(..)"]
pub struct Call<'a, T, K = Plain> {
    pub(super) flow: Flow,
    pub(super) parts: Result<Parts<'a>, Invalid>,
    pub(super) output: PhantomData<fn() -> (T, K)>,
}

/// A call without further options.
#[derive(Debug)]
pub enum Plain {}

/// A call that starts a job.
#[derive(Debug)]
pub enum Activity {}

/// A call that starts a workflow or a machine.
#[derive(Debug)]
pub enum Child {}

/// The data of a call.
pub(super) struct Parts<'a> {
    pub(super) kind: CallKind,
    pub(super) name: String,
    pub(super) ask: Ask,
    pub(super) work: Option<Work<'a>>,
}

impl Parts<'_> {
    /// Checks that the options of a child can be stored.
    ///
    /// An invalid option fails the call and not its workflow.
    fn checked(self) -> Result<Self, Invalid> {
        if let Ask::Child(child) = &self.ask {
            child.row.check()?;
        }
        Ok(self)
    }
}

impl<'a, T, K> Call<'a, T, K> {
    pub(super) fn new(flow: &Flow, parts: Result<Parts<'a>, Invalid>) -> Call<'a, T, K> {
        Call {
            flow: flow.clone(),
            parts,
            output: PhantomData,
        }
    }

    fn change_row(
        mut self,
        change: impl FnOnce(&mut NewInstance, &mut Option<RetryPolicy>),
    ) -> Self {
        if let Ok(parts) = &mut self.parts
            && let Ask::Child(child) = &mut parts.ask
        {
            change(&mut child.row, &mut child.policy);
        }
        self
    }
}

impl<'a, T: DeserializeOwned + 'static, K> Call<'a, T, K> {
    /// Waits no longer than `after`: `None` if the time is up first. The call itself continues.
    pub fn timeout(self, after: Duration) -> super::select::Within<Self> {
        let flow = self.flow.clone();
        flow.deadline(after, self)
    }
}

/// The options of children, including jobs.
macro_rules! child_options {
    ($kind:ty) => {
        impl<T> Call<'_, T, $kind> {
            /// Puts it into this queue. Default: the queue of its definition.
            pub fn queue(self, queue: impl Into<String>) -> Self {
                self.change_row(|row, _| row.queue = queue.into())
            }

            /// Sets its priority in the queue; a lower number is more urgent.
            pub fn priority(self, priority: i16) -> Self {
                self.change_row(|row, _| row.priority = priority)
            }

            /// Runs it one at a time, and in order, with other instances of this key.
            pub fn partition_key(self, key: impl Into<String>) -> Self {
                self.change_row(|row, _| row.partition_key = Some(key.into()))
            }

            /// Sets its correlation key. The call fails when another instance holds the key.
            pub fn key(self, key: impl Into<String>) -> Self {
                self.change_row(|row, _| {
                    let scope = outlast_core::Scope::default();
                    *row = row.clone().correlation(key.into(), scope);
                })
            }

            /// Sets what happens to it when this workflow ends first. Default: it continues.
            pub fn on_parent_close(self, policy: ClosePolicy) -> Self {
                self.change_row(|row, _| row.on_parent_close = policy)
            }
        }
    };
}

child_options!(Activity);
child_options!(Child);

/// How a job is retried, fixed for this call when it is scheduled. A later build with other
/// settings retries it with these.
impl<T> Call<'_, T, Activity> {
    /// Sets the most attempts. Default: [`Job::MAX_ATTEMPTS`](crate::Job::MAX_ATTEMPTS).
    pub fn max_attempts(self, attempts: u32) -> Self {
        self.retry_policy(|policy| policy.max_attempts = attempts.max(1))
    }

    /// Sets how long one attempt may take. Default and maximum:
    /// [`Job::TIMEOUT`](crate::Job::TIMEOUT).
    pub fn attempt_timeout(self, timeout: Duration) -> Self {
        self.retry_policy(|policy| policy.timeout_ms = millis(timeout))
    }

    /// Sets the pauses between attempts.
    ///
    /// The first pause is `first`. Each further one is `factor` times as long, up to `longest`.
    ///
    /// Default: [`Job::backoff`](crate::Job::backoff).
    pub fn backoff(self, first: Duration, factor: f64, longest: Duration) -> Self {
        self.retry_policy(|policy| {
            policy.backoff = Some(crate::machine::Doubling {
                first_ms: millis(first),
                factor: if factor.is_finite() {
                    factor.max(1.0)
                } else {
                    1.0
                },
                longest_ms: millis(longest),
            });
        })
    }

    fn retry_policy(self, change: impl FnOnce(&mut RetryPolicy)) -> Self {
        self.change_row(|_, policy| {
            if let Some(policy) = policy {
                change(policy);
            }
        })
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl<'a, T: DeserializeOwned + 'static> Call<'a, T, Child> {
    /// Starts the child without waiting for its end.
    ///
    /// The handle is returned once the start is committed, and can be awaited later.
    pub fn start(self) -> Starting<T> {
        Starting {
            waiting: Waiting::new(self.flow.clone(), WaitKind::Launch),
            spread: Some(self.parts.and_then(Parts::checked).map(WaitPlan::of)),
            output: PhantomData,
        }
    }
}

/// A child that is about to be started; await it to get a handle.
#[must_use = "await it, or the child is not started"]
pub struct Starting<T> {
    waiting: Waiting,
    spread: Option<Result<WaitPlan, Invalid>>,
    output: PhantomData<fn() -> T>,
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

impl<'a, T: DeserializeOwned + 'static, K: 'a> IntoFuture for Call<'a, T, K> {
    type Output = FlowResult<T>;
    type IntoFuture = Awaiting<'a, T>;

    fn into_future(self) -> Awaiting<'a, T> {
        let mut parts = self.parts;
        let work = parts.as_mut().ok().and_then(|parts| parts.work.take());
        Awaiting {
            waiting: Waiting::new(self.flow, WaitKind::Single),
            spread: Some(parts.and_then(Parts::checked).map(WaitPlan::of)),
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

impl<'a, T: DeserializeOwned + 'static, K> Group for Call<'a, T, K> {
    type Output = T;
    type ResultShape = CallShape<'a, T>;

    fn spread(self, into: &mut WaitPlan) -> Result<CallShape<'a, T>, Invalid> {
        let mut parts = self.parts?.checked()?;
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
