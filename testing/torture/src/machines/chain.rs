//! A sequence of steps, most of them on the same claim.

use super::Effects;
use outlast::Outcome;
use outlast::prelude::*;

pub(crate) struct Chain(pub(super) Effects);

#[steps]
pub(crate) enum Hops {
    Hop { token: u64, done: u32, of: u32 },
}

impl Machine for Chain {
    const NAME: &'static str = "chain";
    type State = Hops;
    type Output = u32;

    async fn step(&self, state: Hops, cx: &Context) -> StepResult<Self> {
        self.0.of(cx).await;
        let Hops::Hop {
            token,
            done: before,
            of,
        } = state;
        let hops = before + 1;
        let hop = Hops::Hop {
            token,
            done: hops,
            of,
        };
        match hops < of {
            // Every third step goes through the queue, so that another worker may claim it.
            true if hops % 3 == 0 => Ok(Outcome::requeue(hop)),
            true => next(hop),
            false => done(hops),
        }
    }

    async fn on_cancel(&self, _: Hops, cx: &Context) -> StepResult<Self> {
        self.0.give_way(cx).await
    }
}
