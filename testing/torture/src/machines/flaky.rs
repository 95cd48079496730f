//! A step that is retried with pauses until it succeeds.

use super::Effects;
use outlast::Outcome;
use outlast::prelude::*;

pub(crate) struct Flaky(pub(super) Effects);

#[steps]
pub(crate) enum Tries {
    Try { token: u64, left: u32, tried: u32 },
}

impl Machine for Flaky {
    const NAME: &'static str = "flaky";
    type State = Tries;
    type Output = u32;

    async fn step(
        &self,
        Tries::Try { token, left, tried }: Tries,
        cx: &Context,
    ) -> StepResult<Self> {
        self.0.of(cx).await;
        let tried = tried + 1;
        match left {
            0 => done(tried),
            _ => Ok(Outcome::retry_with(
                Tries::Try {
                    token,
                    left: left - 1,
                    tried,
                },
                Duration::from_millis(50 * u64::from(tried)),
                "not yet",
            )),
        }
    }
}
