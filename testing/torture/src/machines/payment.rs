//! Waits for one signal, with a deadline.

use super::Effects;
use outlast::prelude::*;

pub(crate) struct Payment(pub(super) Effects);

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
pub(crate) enum Sale {
    Offer { token: u64, patience_ms: u64 },
    Settle { token: u64 },
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Paid {
    pub(crate) amount: u64,
}

impl Signal for Paid {
    const NAME: &'static str = "paid";
}

impl Machine for Payment {
    const NAME: &'static str = "payment";
    type State = Sale;
    type Output = Option<u64>;

    async fn step(&self, state: Sale, cx: &Context) -> StepResult<Self> {
        self.0.of(cx).await;
        Ok(match state {
            Sale::Offer { token, patience_ms } => wait_for([Paid::NAME])
                .timeout(Duration::from_millis(patience_ms))
                .then(Sale::Settle { token }),
            Sale::Settle { .. } => Outcome::done(cx.received::<Paid>()?.map(|paid| paid.amount)),
        })
    }

    async fn on_cancel(&self, _: Sale, cx: &Context) -> StepResult<Self> {
        self.0.give_way(cx).await
    }
}
