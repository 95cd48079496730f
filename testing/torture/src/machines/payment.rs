//! Waits for one signal, with a deadline.

use super::Effects;
use outlast::prelude::*;

pub(crate) struct Payment(pub(super) Effects);

#[steps]
pub(crate) enum Sale {
    Offer { token: u64, patience_ms: u64 },
    Settle { token: u64 },
}

#[derive(Signal, Serialize, Deserialize)]
pub(crate) struct Paid {
    pub(crate) amount: u64,
}

impl Machine for Payment {
    const NAME: &'static str = "payment";
    type State = Sale;
    type Output = Option<u64>;

    async fn step(&self, state: Sale, cx: &Context) -> StepResult<Self> {
        self.0.of(cx).await;
        match state {
            Sale::Offer { token, patience_ms } => wait_for::<Paid>()
                .timeout(Duration::from_millis(patience_ms))
                .then(Sale::Settle { token }),
            Sale::Settle { .. } => done(cx.received::<Paid>()?.map(|paid| paid.amount)),
        }
    }

    async fn on_cancel(&self, _: Sale, cx: &Context) -> StepResult<Self> {
        self.0.give_way(cx).await
    }
}
