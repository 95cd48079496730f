//! A sequence of steps, most of them on the same claim.

use super::Effects;
use outlast::prelude::*;

pub(crate) struct Chain(pub(super) Effects);

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
pub(crate) enum Hops {
    Hop { token: u64, done: u32, of: u32 },
}

impl Machine for Chain {
    const NAME: &'static str = "chain";
    type State = Hops;
    type Output = u32;

    async fn step(&self, Hops::Hop { token, done, of }: Hops, cx: &Context) -> StepResult<Self> {
        self.0.of(cx).await;
        let done = done + 1;
        Ok(match done < of {
            // Every third step goes through the queue, so that another worker may claim it.
            true if done % 3 == 0 => Outcome::requeue(Hops::Hop { token, done, of }),
            true => Outcome::next(Hops::Hop { token, done, of }),
            false => Outcome::done(done),
        })
    }

    async fn on_cancel(&self, _: Hops, cx: &Context) -> StepResult<Self> {
        self.0.give_way(cx).await
    }
}
