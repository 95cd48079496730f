//! Waits for a payment, and gives up when none comes.

use super::work;
use outlast::prelude::*;
use outlast::{History, Outcome};

/// A checkout.
pub(in crate::demo) struct Checkout;

/// The steps of a checkout.
#[steps]
pub(in crate::demo) enum Payment {
    Start { order: u64, amount: u64 },
    Paid { order: u64, amount: u64 },
    Ship { order: u64 },
}

/// The payment has arrived.
#[derive(Signal, Serialize, Deserialize)]
pub(in crate::demo) struct PaymentConfirmed {
    pub(in crate::demo) amount: u64,
}

impl Machine for Checkout {
    const NAME: &'static str = "checkout";
    const HISTORY: History = History::States;
    type State = Payment;
    type Output = String;

    async fn step(&self, state: Payment, cx: &Context) -> StepResult<Self> {
        match state {
            Payment::Start { order, amount } => wait_for::<PaymentConfirmed>()
                .timeout(MINUTE)
                .then(Payment::Paid { order, amount }),
            Payment::Paid { order, amount } => match cx.received::<PaymentConfirmed>()? {
                Some(paid) if paid.amount == amount => next(Payment::Ship { order }),
                Some(paid) => fail(format!("paid {} instead of {amount}", paid.amount)),
                None => Ok(Outcome::cancelled("no payment arrived")),
            },
            Payment::Ship { order } => {
                work(Duration::from_secs(2)).await;
                done(format!("order {order} is on its way"))
            }
        }
    }
}
