//! A state without `#[steps]`.

#![allow(unused)]

use outlast::prelude::*;

struct Checkout;

enum Order {
    Start,
    Ship,
}

impl Machine for Checkout {
    const NAME: &'static str = "checkout";
    type State = Order;
    type Output = ();

    async fn step(&self, state: Order, _cx: &Context) -> StepResult<Self> {
        match state {
            Order::Start => next(Order::Ship),
            Order::Ship => done(()),
        }
    }
}

fn start(engine: outlast::engine::EngineBuilder) {
    let _ = engine.register(Checkout);
    let _ = Checkout::with(Order::Start);
}

fn main() {}
