//! The machines of these tests.

use outlast::prelude::*;

/// Waits for a payment.
pub(crate) struct Checkout;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
pub(crate) enum Order {
    Start { number: u64 },
    Ship { number: u64 },
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Paid {
    pub(crate) amount: u64,
}

impl Signal for Paid {
    const NAME: &'static str = "paid";
}

impl Machine for Checkout {
    const NAME: &'static str = "checkout";
    type State = Order;
    type Output = String;

    async fn step(&self, state: Order, cx: &Context) -> StepResult<Self> {
        Ok(match state {
            Order::Start { number } => wait_for([Paid::NAME]).then(Order::Ship { number }),
            Order::Ship { number } => match cx.received::<Paid>()? {
                Some(paid) => Outcome::done(format!("order {number}, paid {}", paid.amount)),
                None => Outcome::fail("payment never came"),
            },
        })
    }
}

/// Starts one checkout per item, and waits for all of them.
pub(crate) struct Parcel;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
pub(crate) enum Packing {
    Begin { items: u64 },
    Join,
}

impl Machine for Parcel {
    const NAME: &'static str = "parcel";
    type State = Packing;
    type Output = ();

    async fn step(&self, state: Packing, _: &Context) -> StepResult<Self> {
        Ok(match state {
            Packing::Begin { items } => {
                let children = (0..items).map(|number| New::<Checkout>(Order::Start { number }));
                fan_out(children).then(Packing::Join)
            }
            Packing::Join => Outcome::done(()),
        })
    }
}

/// Fails at once.
pub(crate) struct Fails;

impl Job for Fails {
    const NAME: &'static str = "fails";
    const QUEUE: &'static str = "other";
    type Args = ();
    type Output = ();

    async fn perform(&self, (): (), _: &Context) -> Result<(), JobError> {
        Err(JobError::fatal("it cannot be done"))
    }
}
