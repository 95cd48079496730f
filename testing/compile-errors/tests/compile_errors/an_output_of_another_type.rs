//! An end with something that the machine does not lead to.

use outlast::prelude::*;

struct Checkout;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state")]
enum Order {
    Start,
}

impl Machine for Checkout {
    const NAME: &'static str = "checkout";
    type State = Order;
    type Output = u64;

    async fn step(&self, _: Order, _cx: &Context) -> StepResult<Self> {
        Ok(Outcome::done("shipped"))
    }
}

fn main() {}
