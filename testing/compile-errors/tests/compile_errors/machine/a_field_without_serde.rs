//! A step with a field that cannot be stored.

#![allow(unused)]

use outlast::prelude::*;

struct Checkout;

#[steps]
enum Order {
    Start { basket: Basket },
    Ship,
}

struct Basket {
    items: Vec<String>,
}

impl Machine for Checkout {
    const NAME: &'static str = "checkout";
    type State = Order;
    type Output = ();

    async fn step(&self, state: Order, _cx: &Context) -> StepResult<Self> {
        match state {
            Order::Start { basket } => next(Order::Ship),
            Order::Ship => done(()),
        }
    }
}

fn main() {}
