//! Steps that end with something else than an outcome.

#![allow(unused)]

use outlast::Outcome;
use outlast::prelude::*;

struct Checkout;

#[steps]
enum Order {
    Start,
    Ship,
}

type Step = StepResult<Checkout>;

fn only_the_state() -> Step {
    Order::Ship
}

fn only_the_output() -> Step {
    Ok(5)
}

fn a_semicolon() -> Step {
    next(Order::Ship);
}

fn an_outcome_without_ok() -> Step {
    Outcome::requeue(Order::Ship)
}

fn a_result_in_ok() -> Step {
    Ok(next(Order::Ship))
}

fn a_wait_without_then() -> Step {
    wait_for::<Paid>().timeout(DAY)
}

fn a_sleep_without_then() -> Step {
    sleep(DAY)
}

fn children_without_then() -> Step {
    fan_out([Checkout::with(Order::Start)])
}

impl Machine for Checkout {
    const NAME: &'static str = "checkout";
    type State = Order;
    type Output = u64;

    async fn step(&self, state: Order, _cx: &Context) -> Step {
        match state {
            Order::Start => next(Order::Ship),
            Order::Ship => done(5),
        }
    }
}

#[derive(Signal, Serialize, Deserialize)]
struct Paid;

fn main() {}
