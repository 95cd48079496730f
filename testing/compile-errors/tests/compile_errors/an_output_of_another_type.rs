//! An outcome `done` with a value that is not the machine's output.

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
        done("shipped")
    }
}

fn main() {}
