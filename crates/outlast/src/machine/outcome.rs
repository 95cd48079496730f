//! Outcomes: the decisions of a step.

use super::codec;
use super::failure::ErrorValue;
use super::{Context, FanOut, Machine, Signal, StepResult};
use crate::definition::Fails;
use outlast_core::{Invalid, Json, Outcome as Record, Proceed};
use serde::Serialize;
use std::fmt::Display;
use std::time::Duration;

/// The decision of a step of `M`.
///
/// | to | write |
/// |---|---|
/// | go to another step | [`next`]`(..)` |
/// | go to another step, letting other work go first | `Ok(`[`Outcome::requeue`]`(..))` |
/// | run the same step again | [`retry`]`(..)`, `Ok(`[`Outcome::retry_with`]`(..))` |
/// | wait for a signal | [`wait_for`]`::<S>().timeout(..).then(..)` |
/// | wait for a while | [`sleep`]`(..).then(..)` |
/// | start children and wait for them | [`fan_out`](super::fan_out)`([..]).then(..)` |
/// | end as done | [`done`]`(..)` |
/// | end as failed | [`fail`]`(..)`, [`fail_with`]`(..)` |
/// | end as cancelled | `Ok(`[`Outcome::cancelled`]`(..))` |
#[must_use = "a step must return its outcome"]
pub struct Outcome<M: Machine>(Decision<M>);

enum Decision<M: Machine> {
    Next {
        state: M::State,
        proceed: Proceed,
    },
    Retry {
        state: Option<M::State>,
        delay: Duration,
        error: String,
    },
    Wait {
        wait: Wait,
        state: M::State,
    },
    FanOut {
        fan_out: FanOut,
        state: M::State,
    },
    Done(M::Output),
    Fail {
        reason: String,
        value: Option<ErrorValue>,
    },
    Cancelled(String),
}

impl<M: Machine> Outcome<M> {
    /// Goes to another step, which this worker runs at once if it may ([`Machine::RUN_AHEAD`]).
    pub fn next(state: M::State) -> Outcome<M> {
        Outcome(Decision::Next {
            state,
            proceed: Proceed::KeepClaim,
        })
    }

    /// Goes to another step through the queue: more urgent instances go first.
    pub fn requeue(state: M::State) -> Outcome<M> {
        Outcome(Decision::Next {
            state,
            proceed: Proceed::Requeue,
        })
    }

    /// Runs the same step again with the same state, after a delay.
    ///
    /// It receives the same signals again, and [`Context::attempt`] grows by one. `error` is the
    /// reason, for people to read.
    pub fn retry(delay: Duration, error: impl Display) -> Outcome<M> {
        Outcome(Decision::Retry {
            state: None,
            delay,
            error: error.to_string(),
        })
    }

    /// Like [`retry`](Outcome::retry), with another state of the same step.
    pub fn retry_with(state: M::State, delay: Duration, error: impl Display) -> Outcome<M> {
        Outcome(Decision::Retry {
            state: Some(state),
            delay,
            error: error.to_string(),
        })
    }

    /// Ends the instance as done, with this output.
    pub fn done(output: M::Output) -> Outcome<M> {
        Outcome(Decision::Done(output))
    }

    /// Ends the instance as failed.
    pub fn fail(reason: impl Display) -> Outcome<M> {
        Outcome::failed(reason, None)
    }

    pub(super) fn failed(reason: impl Display, value: Option<ErrorValue>) -> Outcome<M> {
        Outcome(Decision::Fail {
            reason: reason.to_string(),
            value,
        })
    }

    /// Ends the instance as cancelled.
    pub fn cancelled(reason: impl Display) -> Outcome<M> {
        Outcome(Decision::Cancelled(reason.to_string()))
    }

    pub(super) fn fan_out(fan_out: FanOut, state: M::State) -> Outcome<M> {
        Outcome(Decision::FanOut { fan_out, state })
    }

    /// Returns the outcome for the store.
    pub(super) fn record(self, cx: &Context) -> Result<Record, Invalid> {
        let record = match self.0 {
            Decision::Next { state, proceed } => {
                let (step, state) = codec::encode(&state)?;
                Record::Next {
                    step,
                    state,
                    proceed,
                }
            }
            Decision::Retry {
                state,
                delay,
                error,
            } => Record::Retry {
                state: retried_state::<M>(state, cx)?,
                delay,
                error: Some(error),
            },
            Decision::Wait { wait, state } => {
                let (step, state) = codec::encode(&state)?;
                Record::Wait {
                    names: wait.names,
                    step,
                    state,
                    timeout: wait.timeout,
                }
            }
            Decision::FanOut { fan_out, state } => {
                let (step, state) = codec::encode(&state)?;
                let (children, join) = fan_out.record(cx)?;
                Record::FanOut {
                    children,
                    join,
                    step,
                    state,
                }
            }
            Decision::Done(output) => Record::Done {
                result: Json::of(&output).map_err(|invalid| invalid.within("output"))?,
            },
            Decision::Fail { reason, value } => ErrorValue::outcome(value, reason),
            Decision::Cancelled(reason) => Record::Cancel { reason },
        };
        record.check()?;
        Ok(record)
    }
}

fn retried_state<M: Machine>(state: Option<M::State>, cx: &Context) -> Result<Json, Invalid> {
    let Some(state) = state else {
        return Ok(cx.claim().state.clone());
    };
    let (step, state) = codec::encode(&state)?;
    if step != cx.step() {
        return Err(Invalid::new(
            "retry",
            format!(
                "of step {} carries a state of step {step}; a retry stays at its step, use Outcome::next",
                cx.step()
            ),
        ));
    }
    Ok(state)
}

/// Goes to another step: [`Outcome::next`] as the result of a step.
pub fn next<M: Machine>(state: M::State) -> StepResult<M> {
    Ok(Outcome::next(state))
}

/// Ends the instance as done, with this output: [`Outcome::done`] as the result of a step.
pub fn done<M: Machine>(output: M::Output) -> StepResult<M> {
    Ok(Outcome::done(output))
}

/// Ends the instance as failed: [`Outcome::fail`] as the result of a step.
///
/// An error of a step goes to [`Machine::on_failure`]; this does not.
pub fn fail<M: Machine>(reason: impl Display) -> StepResult<M> {
    Ok(Outcome::fail(reason))
}

/// Ends the instance as failed, with an error that its callers can read by type.
///
/// ```
/// # use outlast::prelude::*;
/// use outlast::Fails;
///
/// # struct Checkout; #[steps] enum Order { Reserve }
/// #[derive(Debug, thiserror::Error, Serialize, Deserialize)]
/// enum CheckoutError {
///     #[error("only {left} left")]
///     OutOfStock { left: u32 },
/// }
///
/// impl Fails for Checkout {
///     type Error = CheckoutError;
/// }
///
/// # impl Machine for Checkout { const NAME: &'static str = "checkout"; type State = Order; type Output = ();
/// # async fn step(&self, state: Order, cx: &Context) -> StepResult<Self> { match state {
/// Order::Reserve => fail_with(CheckoutError::OutOfStock { left: 2 }),
/// # } } }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> outlast::Result<()> {
/// # let engine = Engine::sqlite_in_memory()?.register(Checkout).start().await?;
/// # let order = engine.start(Checkout::with(Order::Reserve)).await?;
/// let error = order.output().await.unwrap_err().downcast::<Checkout>()?;
/// let CheckoutError::OutOfStock { left } = error;
/// assert_eq!(left, 2);
/// # engine.shutdown().await
/// # }
/// ```
pub fn fail_with<M>(error: M::Error) -> StepResult<M>
where
    M: Machine + Fails,
    M::Error: Display + Serialize,
{
    let value = ErrorValue::of(&error);
    Ok(Outcome::failed(error, Some(value)))
}

/// Runs the same step again after a delay: [`Outcome::retry`] as the result of a step.
pub fn retry<M: Machine>(delay: Duration, error: impl Display) -> StepResult<M> {
    Ok(Outcome::retry(delay, error))
}

/// A wait without a next step yet; made by [`wait_for`] and [`sleep`].
#[must_use = "say with `then` where the wait leads"]
#[derive(Clone, Debug)]
pub struct Wait {
    names: Vec<String>,
    timeout: Option<Duration>,
}

/// The signals of a wait: one type, or a tuple of up to eight.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no signal",
    label = "add `#[derive(Signal, Serialize, Deserialize)]` to the type; of a tuple, to each type"
)]
pub trait Signals {
    /// Returns the names of the signals.
    fn names() -> Vec<&'static str>;
}

impl<S: Signal> Signals for S {
    fn names() -> Vec<&'static str> {
        vec![S::NAME]
    }
}

macro_rules! signals {
    ($($signal:ident)+) => {
        #[diagnostic::do_not_recommend]
        impl<$($signal: Signal),+> Signals for ($($signal,)+) {
            fn names() -> Vec<&'static str> {
                vec![$($signal::NAME),+]
            }
        }
    };
}

signals!(A B);
signals!(A B C);
signals!(A B C D);
signals!(A B C D E);
signals!(A B C D E F);
signals!(A B C D E F G);
signals!(A B C D E F G H);

/// Parks the instance until a signal of this type arrives; of a tuple, until one of them does.
///
/// Earlier signals are not lost: with one in the inbox there is no wait. A signal that the step
/// received and did not consume by progressing does not wake it again. So a step can collect
/// several signals by waiting repeatedly.
///
/// ```
/// # use outlast::prelude::*;
/// # #[derive(Signal, Serialize, Deserialize)] struct Paid;
/// # #[derive(Signal, Serialize, Deserialize)] struct Withdrawn;
/// # struct M; #[steps] enum Order { Pay, Ship }
/// # impl Machine for M { const NAME: &'static str = "m"; type State = Order; type Output = ();
/// # async fn step(&self, state: Order, cx: &Context) -> StepResult<Self> { match state {
/// Order::Pay => wait_for::<(Paid, Withdrawn)>().timeout(HOUR).then(Order::Ship),
/// Order::Ship => match cx.received::<Paid>()? {
///     Some(Paid) => done(()),
///     None => fail("not paid within an hour"),
/// },
/// # } } }
/// ```
pub fn wait_for<S: Signals>() -> Wait {
    wait_for_named(S::names())
}

/// Like [`wait_for`], for signals by their names.
pub fn wait_for_named(names: impl IntoIterator<Item = impl Into<String>>) -> Wait {
    Wait {
        names: names.into_iter().map(Into::into).collect(),
        timeout: None,
    }
}

/// Parks the instance for a while.
pub fn sleep(duration: Duration) -> Wait {
    Wait {
        names: Vec::new(),
        timeout: Some(duration),
    }
}

impl Wait {
    /// Sets a timeout. The step then receives no signal.
    pub fn timeout(mut self, timeout: Duration) -> Wait {
        self.timeout = Some(timeout);
        self
    }

    /// Goes to this step, with its state, when the wait ends.
    pub fn then<M: Machine>(self, state: M::State) -> StepResult<M> {
        Ok(Outcome(Decision::Wait { wait: self, state }))
    }
}
