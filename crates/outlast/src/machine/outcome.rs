//! Outcomes: the decisions of a step.

use super::codec;
use super::{Context, FanOut, Machine};
use outlast_core::{Invalid, Json, Outcome as Record, Proceed};
use std::fmt::Display;
use std::time::Duration;

/// The decision of a step of `M`.
///
/// | to | write |
/// |---|---|
/// | go to another step | [`Outcome::next`] |
/// | go to another step, letting other work go first | [`Outcome::requeue`] |
/// | run the same step again | [`Outcome::retry`], [`Outcome::retry_with`] |
/// | wait for signals | [`wait_for`]`([..]).timeout(..).then(..)` |
/// | wait for a while | [`sleep`]`(..).then(..)` |
/// | start children and wait for them | [`fan_out`](super::fan_out)`([..]).then(..)` |
/// | end as done | [`Outcome::done`] |
/// | end as failed | [`Outcome::fail`] |
/// | end as cancelled | [`Outcome::cancelled`] |
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
    Fail(String),
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
        Outcome(Decision::Fail(reason.to_string()))
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
            Decision::Fail(reason) => Record::fail(reason),
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

/// A wait without a next step yet; made by [`wait_for`] and [`sleep`].
#[must_use = "say with `then` where the wait leads"]
#[derive(Clone, Debug)]
pub struct Wait {
    names: Vec<String>,
    timeout: Option<Duration>,
}

/// Parks the instance until a signal of one of these names arrives.
///
/// Earlier signals are not lost: with one in the inbox there is no wait. A signal that the step
/// received and did not consume by progressing does not wake it again. So a step can collect
/// several signals by waiting repeatedly.
///
/// ```
/// # use outlast::prelude::*;
/// # struct M; #[derive(Serialize, Deserialize)] #[serde(tag = "step", content = "state")] enum Order { Ship }
/// # impl Machine for M { const NAME: &'static str = "m"; type State = Order; type Output = ();
/// # async fn step(&self, state: Order, cx: &Context) -> StepResult<Self> { Ok(
/// wait_for(["payment_confirmed", "order_cancelled"])
///     .timeout(Duration::from_secs(3600))
///     .then(Order::Ship)
/// # ) } }
/// ```
pub fn wait_for(names: impl IntoIterator<Item = impl Into<String>>) -> Wait {
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
    pub fn then<M: Machine>(self, state: M::State) -> Outcome<M> {
        Outcome(Decision::Wait { wait: self, state })
    }
}
