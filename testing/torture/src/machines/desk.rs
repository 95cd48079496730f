//! Answers updates until there were enough, or until no more arrive.

use super::updates::{Query, Way};
use super::{Effects, Ran, new_nonce};
use outlast::StepError;
use outlast::prelude::*;

pub(crate) struct Desk(pub(super) Effects);

#[steps]
pub(crate) enum Shift {
    Open {
        token: u64,
        want: u64,
        patience_ms: u64,
    },
    Serve {
        token: u64,
        want: u64,
        patience_ms: u64,
        served: u64,
    },
}

impl Machine for Desk {
    const NAME: &'static str = "desk";
    type State = Shift;
    /// How many updates it replied to with a value.
    type Output = u64;

    async fn step(&self, state: Shift, cx: &Context) -> StepResult<Self> {
        // The reply, so that it tells which run of the step gave it.
        let nonce = new_nonce();
        let ran = Ran {
            nonce: Some(nonce),
            ..Ran::default()
        };
        self.0.leave(cx, ran).await;
        let (token, want, patience_ms, served) = match state {
            Shift::Open {
                token,
                want,
                patience_ms,
            } => (token, want, patience_ms, 0),
            Shift::Serve {
                token,
                want,
                patience_ms,
                served,
            } => {
                let more = serve(cx, nonce)?;
                let time_is_up = cx.awaited().next().is_none();
                if time_is_up || served + more >= want {
                    return done(served + more);
                }
                (token, want, patience_ms, served + more)
            }
        };
        wait_for::<Query>()
            .timeout(Duration::from_millis(patience_ms))
            .then(Shift::Serve {
                token,
                want,
                patience_ms,
                served,
            })
    }

    async fn on_cancel(&self, _: Shift, cx: &Context) -> StepResult<Self> {
        self.0.give_way(cx).await
    }
}

/// Answers every update in the inbox. Returns how many have a value as their reply.
fn serve(cx: &Context, nonce: u64) -> Result<u64, StepError> {
    let mut served = 0;
    while let Some(query) = cx.update::<Query>() {
        match query.way {
            Way::Plain | Way::Step | Way::Child => {
                query.reply(nonce)?;
                served += 1;
            }
            Way::Bad => drop(query),
            Way::Refused => drop(query.reject("refused")),
        }
    }
    Ok(served)
}
