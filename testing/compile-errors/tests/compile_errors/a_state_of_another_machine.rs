//! A transition to a step of another machine.

use outlast::prelude::*;

struct Checkout;
struct Refund;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state")]
enum Order {
    Start,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state")]
enum Return {
    Pay,
}

impl Machine for Refund {
    const NAME: &'static str = "refund";
    type State = Return;
    type Output = ();

    async fn step(&self, _: Return, _cx: &Context) -> StepResult<Self> {
        done(())
    }
}

impl Machine for Checkout {
    const NAME: &'static str = "checkout";
    type State = Order;
    type Output = ();

    async fn step(&self, state: Order, _cx: &Context) -> StepResult<Self> {
        match state {
            Order::Start => wait_for_named(["returned"]).then(Return::Pay),
        }
    }
}

fn main() {}
