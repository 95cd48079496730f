//! Collects signals until there are enough, or until no more arrive.

use super::Effects;
use outlast::prelude::*;

pub(crate) struct Pack(pub(super) Effects);

#[steps]
pub(crate) enum Gathering {
    Await {
        token: u64,
        want: usize,
        patience_ms: u64,
        have: Vec<u64>,
    },
    Take {
        token: u64,
        want: usize,
        patience_ms: u64,
        have: Vec<u64>,
    },
}

#[derive(Signal, Serialize, Deserialize)]
pub(crate) struct Item {
    pub(crate) number: u64,
}

impl Machine for Pack {
    const NAME: &'static str = "pack";
    type State = Gathering;
    /// The collected numbers, each at most once.
    type Output = Vec<u64>;

    async fn step(&self, state: Gathering, cx: &Context) -> StepResult<Self> {
        self.0.of(cx).await;
        match state {
            Gathering::Await {
                token,
                want,
                patience_ms,
                have,
            } => wait_for::<Item>()
                .timeout(Duration::from_millis(patience_ms))
                .then(Gathering::Take {
                    token,
                    want,
                    patience_ms,
                    have,
                }),
            Gathering::Take {
                token,
                want,
                patience_ms,
                mut have,
            } => {
                let items = cx.received_all::<Item>()?;
                let time_is_up = items.is_empty();
                have.extend(items.into_iter().map(|item| item.number));
                if time_is_up || have.len() >= want {
                    return done(have);
                }
                next(Gathering::Await {
                    token,
                    want,
                    patience_ms,
                    have,
                })
            }
        }
    }

    async fn on_cancel(&self, _: Gathering, cx: &Context) -> StepResult<Self> {
        self.0.give_way(cx).await
    }
}
