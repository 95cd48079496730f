//! A step that `Machine::step` does not handle.

use outlast::prelude::*;

struct Checkout;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state")]
enum Order {
    Start { number: u64 },
    Ship { number: u64 },
}

impl Machine for Checkout {
    const NAME: &'static str = "checkout";
    type State = Order;
    type Output = ();

    async fn step(&self, state: Order, _cx: &Context) -> StepResult<Self> {
        match state {
            Order::Start { number } => next(Order::Ship { number }),
        }
    }
}

fn main() {}
