//! A machine that is unique by its correlation key. An insert starts it, or a signal that finds no
//! holder.

use super::Effects;
use outlast::prelude::*;

pub(crate) struct Keeper(pub(super) Effects);

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
pub(crate) enum Keep {
    Open { token: u64 },
    Close { token: u64 },
}

/// A value to keep.
#[derive(Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) number: u64,
}

impl Signal for Kept {
    const NAME: &'static str = "kept";
}

impl Machine for Keeper {
    const NAME: &'static str = "keeper";
    type State = Keep;
    type Output = usize;

    async fn step(&self, state: Keep, cx: &Context) -> StepResult<Self> {
        self.0.of(cx).await;
        Ok(match state {
            Keep::Open { token } => wait_for([Kept::NAME])
                .timeout(Duration::from_millis(300))
                .then(Keep::Close { token }),
            Keep::Close { .. } => Outcome::done(cx.awaited().count()),
        })
    }

    async fn on_cancel(&self, _: Keep, cx: &Context) -> StepResult<Self> {
        self.0.give_way(cx).await
    }
}
