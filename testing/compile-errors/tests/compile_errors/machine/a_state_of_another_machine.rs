//! Transitions to a step of another machine.

#![allow(unused)]

use outlast::machine::Outcome;
use outlast::prelude::*;

struct Checkout;

#[steps]
enum Order {
    Next,
    Requeue,
    Wait,
    Sleep,
    FanOut,
}

#[steps]
enum Return {
    Pay,
}

impl Machine for Checkout {
    const NAME: &'static str = "checkout";
    type State = Order;
    type Output = ();

    async fn step(&self, state: Order, _cx: &Context) -> StepResult<Self> {
        match state {
            Order::Next => next(Return::Pay),
            Order::Requeue => Ok(Outcome::requeue(Return::Pay)),
            Order::Wait => wait_for::<Paid>().then(Return::Pay),
            Order::Sleep => sleep(DAY).then(Return::Pay),
            Order::FanOut => fan_out([Checkout::with(Order::Next)]).then(Return::Pay),
        }
    }
}

#[derive(Signal, Serialize, Deserialize)]
struct Paid;

fn main() {}
