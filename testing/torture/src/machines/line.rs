//! A machine whose instances share partition keys: one runs at a time, in order.

use super::Effects;
use outlast::prelude::*;

pub(crate) struct Line(pub(super) Effects);

#[steps]
pub(crate) enum Turn {
    Enter { token: u64 },
    Leave { token: u64 },
}

impl Machine for Line {
    const NAME: &'static str = "line";
    type State = Turn;
    type Output = u64;

    async fn step(&self, state: Turn, cx: &Context) -> StepResult<Self> {
        self.0.of(cx).await;
        match state {
            Turn::Enter { token } => next(Turn::Leave { token }),
            Turn::Leave { token } => done(token),
        }
    }
}
