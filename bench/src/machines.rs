//! The machines that are measured: they do nothing but go on.

use outlast::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many steps have run, for the progress bar and to know when it is worth looking.
pub(crate) type Counter = Arc<AtomicU64>;

/// One step.
pub(crate) struct Single(pub(crate) Counter);

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
pub(crate) enum One {
    Work { number: u64 },
}

impl Machine for Single {
    const NAME: &'static str = "single";
    type State = One;
    type Output = u64;

    async fn step(&self, state: One, _cx: &Context) -> StepResult<Self> {
        let One::Work { number } = state;
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Outcome::done(number))
    }
}

/// How many steps a chain has.
pub(crate) const CHAIN_STEPS: u64 = 10;

/// Step after step.
pub(crate) struct Chain(pub(crate) Counter);

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
pub(crate) enum Link {
    Link { number: u64, left: u64 },
}

impl Machine for Chain {
    const NAME: &'static str = "chain";
    type State = Link;
    type Output = u64;

    async fn step(&self, state: Link, _cx: &Context) -> StepResult<Self> {
        let Link::Link { number, left } = state;
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(match left {
            0 | 1 => Outcome::done(number),
            _ => Outcome::next(Link::Link {
                number,
                left: left - 1,
            }),
        })
    }
}
