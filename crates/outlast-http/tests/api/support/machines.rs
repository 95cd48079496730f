//! The machines of these tests.

use outlast::JobError;
use outlast::prelude::*;

/// Waits for a payment.
pub(crate) struct Checkout;

#[steps]
pub(crate) enum Order {
    Start { number: u64 },
    Ship { number: u64 },
}

#[derive(Signal, Serialize, Deserialize)]
pub(crate) struct Paid {
    pub(crate) amount: u64,
}

impl Machine for Checkout {
    const NAME: &'static str = "checkout";
    type State = Order;
    type Output = String;

    async fn step(&self, state: Order, cx: &Context) -> StepResult<Self> {
        match state {
            Order::Start { number } => wait_for::<Paid>().then(Order::Ship { number }),
            Order::Ship { number } => match cx.received::<Paid>()? {
                Some(paid) => done(format!("order {number}, paid {}", paid.amount)),
                None => fail("payment never came"),
            },
        }
    }
}

/// Starts one checkout per item, and waits for all of them.
pub(crate) struct Parcel;

#[steps]
pub(crate) enum Packing {
    Begin { items: u64 },
    Join,
}

impl Machine for Parcel {
    const NAME: &'static str = "parcel";
    type State = Packing;
    type Output = ();

    async fn step(&self, state: Packing, _: &Context) -> StepResult<Self> {
        match state {
            Packing::Begin { items } => {
                let children = (0..items).map(|number| Checkout::with(Order::Start { number }));
                fan_out(children).then(Packing::Join)
            }
            Packing::Join => done(()),
        }
    }
}

/// Fails at once.
#[job(queue = "other")]
pub(crate) async fn fails() -> Result<(), JobError> {
    Err(JobError::fatal("it cannot be done"))
}
