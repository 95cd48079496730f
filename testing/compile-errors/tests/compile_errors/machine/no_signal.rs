//! Waits for something that is no signal.

#![allow(unused)]

use outlast::prelude::*;

struct Checkout;

#[steps]
enum Order {
    Pay,
    Named,
    Text,
    Received,
    Ship,
}

#[derive(Serialize, Deserialize)]
struct Paid;

#[derive(Signal, Serialize, Deserialize)]
struct Withdrawn;

impl Machine for Checkout {
    const NAME: &'static str = "checkout";
    type State = Order;
    type Output = ();

    async fn step(&self, state: Order, cx: &Context) -> StepResult<Self> {
        match state {
            Order::Pay => wait_for::<Paid>().then(Order::Ship),
            Order::Named => wait_for::<(Paid, Withdrawn)>().then(Order::Ship),
            Order::Text => wait_for(["paid"]).then(Order::Ship),
            Order::Received => match cx.received::<Paid>()? {
                Some(Paid) => next(Order::Ship),
                None => fail("not paid"),
            },
            Order::Ship => done(()),
        }
    }
}

fn main() {}
