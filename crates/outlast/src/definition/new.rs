//! `New`: an instance to start.

use super::Durable;
use crate::machine::{Doubling, Job, RetryPolicy};
use outlast_core::{ClosePolicy, Invalid, Json, KeyText, NewInstance, Scope, Start};
use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, SystemTime};

/// An instance to start; made by `with`, for example
/// [`Purchase::with(state)`](crate::Machine::with).
///
/// Start it with [`Client::start`](crate::Client::start), or hand it to
/// [`fan_out`](crate::machine::fan_out), [`Flow::run`](crate::Flow::run) or
/// [`Flow::spawn`](crate::Flow::spawn).
///
/// ```
/// # use outlast::prelude::*;
/// # struct Checkout; #[steps] enum Order { Start { number: u64 } }
/// # impl Machine for Checkout { const NAME: &'static str = "checkout"; type State = Order; type Output = ();
/// # async fn step(&self, state: Order, cx: &Context) -> StepResult<Self> { done(()) } }
/// let order = Checkout::with(Order::Start { number: 42 })
///     .key("order:42")
///     .priority(-10)
///     .delay(MINUTE);
/// ```
#[must_use = "start it, or hand it to a fan-out or a flow"]
pub struct New<D> {
    /// The row, with the options that need no check across fields.
    row: Result<NewInstance, Invalid>,
    key: Option<KeyText>,
    scope: Option<Scope>,
    /// How a job is retried. A workflow fixes it when it schedules the job.
    policy: Option<RetryPolicy>,
    /// Whether the policy differs from the one that the job declares.
    has_own_policy: bool,
    definition: PhantomData<fn() -> D>,
}

impl<D: Durable> New<D> {
    /// Describes an instance that starts at `step` with `state`.
    pub(crate) fn at_step(
        encoded: Result<(String, Json), Invalid>,
        policy: Option<RetryPolicy>,
    ) -> New<D> {
        New {
            row: encoded.map(|(step, state)| {
                NewInstance::new(D::NAME, step, state)
                    .version(D::VERSION)
                    .queue(D::QUEUE)
            }),
            key: None,
            scope: None,
            policy,
            has_own_policy: false,
            definition: PhantomData,
        }
    }
}

impl<D> New<D> {
    /// Sets the correlation key.
    ///
    /// Signals can address the instance by it. It is unique among the live instances of the
    /// machine. It is text or any bytes: `.key("order:42")`, `.key(b"\x00\xff")`.
    pub fn key(mut self, key: impl Into<KeyText>) -> New<D> {
        self.key = Some(key.into());
        self
    }

    /// Sets the statuses in which the key is occupied. Default: until the instance ends.
    pub fn scope(mut self, scope: Scope) -> New<D> {
        self.scope = Some(scope);
        self
    }

    /// Sets the queue. Default: the queue of its definition.
    pub fn queue(self, queue: impl Into<String>) -> New<D> {
        self.change(|row| row.queue = queue.into())
    }

    /// Sets the priority in the queue; lower is more urgent. Default: 0.
    pub fn priority(self, priority: i16) -> New<D> {
        self.change(|row| row.priority = priority)
    }

    /// Starts it this long from now at the earliest, by the database's clock.
    pub fn delay(self, delay: Duration) -> New<D> {
        self.change(|row| row.start = Start::After(delay))
    }

    /// Starts it at this moment at the earliest.
    pub fn at(self, moment: SystemTime) -> New<D> {
        self.change(|row| row.start = Start::At(moment.into()))
    }

    /// Sets the partition key.
    ///
    /// Instances that share one, of any machine, never execute at the same time, and execute in
    /// order.
    pub fn partition_key(self, key: impl Into<KeyText>) -> New<D> {
        self.change(|row| row.partition_key = Some(key.into().into()))
    }

    /// Sets the trace, a W3C `traceparent`. Default: the caller's trace, or a new one.
    pub fn trace(self, traceparent: impl Into<String>) -> New<D> {
        self.change(|row| row.trace = Some(traceparent.into()))
    }

    /// Sets what happens to a child when its parent ends first. Default: it continues.
    ///
    /// Only the children of a fan-out and of a workflow use it.
    pub fn on_parent_close(self, policy: ClosePolicy) -> New<D> {
        self.change(|row| row.on_parent_close = policy)
    }

    /// Sets how long the instance may take in all. Default: without end.
    ///
    /// The time is counted by the database's clock from the start: from the insert, or with a delay
    /// from the moment at which it may first run. Steps, waits, retries and all runs of a workflow
    /// take from it. When it is up, the instance fails as `timed out`, whatever it is doing. The
    /// running step is dropped where it awaits, and its children are closed as at any end. No
    /// `on_cancel` and no uncancellable code runs.
    /// [`Admin::retry`](crate::client::Admin::retry) counts it anew.
    ///
    /// This ends the instance itself; [`Call::timeout`](crate::workflow::Call::timeout) ends only
    /// the wait of a workflow for it.
    pub fn timeout(self, timeout: Duration) -> New<D> {
        self.change(|row| row.timeout = Some(timeout))
    }

    /// Sets how long one run may take. Default: without end.
    ///
    /// Continue-as-new counts it anew for the next run; the [`timeout`](New::timeout) of the
    /// instance goes on. A machine or job has one run. When the time is up, the instance fails as
    /// it does at its own timeout, and no further run begins.
    pub fn run_timeout(self, timeout: Duration) -> New<D> {
        self.change(|row| row.run_timeout = Some(timeout))
    }

    pub(crate) fn or_trace(self, trace: impl FnOnce() -> String) -> New<D> {
        self.change(|row| {
            row.trace.get_or_insert_with(trace);
        })
    }

    fn change(mut self, change: impl FnOnce(&mut NewInstance)) -> New<D> {
        if let Ok(row) = &mut self.row {
            change(row);
        }
        self
    }

    /// Returns the row as it starts without a parent, and the retry policy of a job.
    ///
    /// A job's row does not have the policy yet.
    pub(crate) fn into_parts(self) -> Result<(NewInstance, Option<RetryPolicy>), Invalid> {
        let mut row = self.row?;
        row = match (self.key, self.scope) {
            (Some(key), scope) => row.correlation(key, scope.unwrap_or_default()),
            (None, None) => row,
            (None, Some(_)) => {
                return Err(Invalid::new(
                    "scope",
                    "is given without a key; call .key(..) too",
                ));
            }
        };
        row.check()?;
        Ok((row, self.policy))
    }
}

/// How a job is retried. It is fixed when the job is started: a later build with other settings
/// retries it with these.
impl<J: Job> New<J> {
    /// Sets the most attempts. Default: [`Job::MAX_ATTEMPTS`].
    pub fn max_attempts(self, attempts: u32) -> New<J> {
        self.retry_policy(|policy| policy.max_attempts = attempts.max(1))
    }

    /// Sets how long one attempt may take. Default and maximum: [`Job::TIMEOUT`].
    pub fn attempt_timeout(self, timeout: Duration) -> New<J> {
        self.retry_policy(|policy| policy.timeout_ms = millis(timeout))
    }

    /// Sets the pauses between attempts. Default: [`Job::backoff`].
    ///
    /// The first pause is `first`. Each further one is `factor` times as long, up to `longest`.
    pub fn backoff(self, first: Duration, factor: f64, longest: Duration) -> New<J> {
        let factor = match factor.is_finite() {
            true => factor.max(1.0),
            false => 1.0,
        };
        self.retry_policy(|policy| {
            policy.backoff = Some(Doubling {
                first_ms: millis(first),
                factor,
                longest_ms: millis(longest),
            });
        })
    }

    fn retry_policy(mut self, change: impl FnOnce(&mut RetryPolicy)) -> New<J> {
        change(self.policy.get_or_insert_with(RetryPolicy::of::<J>));
        self.has_own_policy = true;
        self
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl<D> TryFrom<New<D>> for NewInstance {
    type Error = Invalid;

    fn try_from(new: New<D>) -> Result<NewInstance, Invalid> {
        let has_own_policy = new.has_own_policy;
        let (mut row, policy) = new.into_parts()?;
        if let Some(policy) = policy.filter(|_| has_own_policy) {
            (row.step, row.state) = policy.scheduled_state(&row.state);
            row.check()?;
        }
        Ok(row)
    }
}

impl<D: Durable> fmt::Debug for New<D> {
    /// Omits the state: payloads do not belong in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("New")
            .field("machine", &D::NAME)
            .field("version", &D::VERSION)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
