//! A machine that is unique by its correlation key. An insert starts it, or a signal that finds no
//! holder.

use super::Effects;
use outlast::prelude::*;

pub(crate) struct Keeper(pub(super) Effects);

#[steps]
pub(crate) enum Keep {
    Open { token: u64 },
    Close { token: u64 },
}

/// A value to keep.
#[derive(Signal, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) number: u64,
}

impl Machine for Keeper {
    const NAME: &'static str = "keeper";
    type State = Keep;
    type Output = usize;

    async fn step(&self, state: Keep, cx: &Context) -> StepResult<Self> {
        self.0.of(cx).await;
        match state {
            Keep::Open { token } => wait_for::<Kept>()
                .timeout(Duration::from_millis(300))
                .then(Keep::Close { token }),
            Keep::Close { .. } => done(cx.awaited().count()),
        }
    }

    async fn on_cancel(&self, _: Keep, cx: &Context) -> StepResult<Self> {
        self.0.give_way(cx).await
    }
}
