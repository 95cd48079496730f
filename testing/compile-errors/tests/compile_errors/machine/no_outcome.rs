//! A step that ends with something else than an outcome.

use outlast::Outcome;
use outlast::prelude::*;

struct Checkout;

#[steps]
enum Order {
    State,
    Output,
    Nothing,
    NoOk,
    TwoOks,
    NoThen,
    NoThenAfterChildren,
}

impl Machine for Checkout {
    const NAME: &'static str = "checkout";
    type State = Order;
    type Output = u64;

    async fn step(&self, state: Order, _cx: &Context) -> StepResult<Self> {
        match state {
            Order::State => Order::Output,
            Order::Output => 5,
            Order::Nothing => {
                next(Order::NoOk);
            }
            Order::NoOk => Outcome::requeue(Order::NoThen),
            Order::TwoOks => Ok(next(Order::NoThen)),
            Order::NoThen => wait_for::<Paid>().timeout(DAY),
            Order::NoThenAfterChildren => fan_out([Checkout::with(Order::State)]),
        }
    }
}

#[derive(Signal, Serialize, Deserialize)]
struct Paid;

fn main() {}
