//! `fail_with` on a machine that does not say which error it fails with.

#![allow(unused)]

use outlast::prelude::*;
use std::fmt;

struct Checkout;

#[steps]
enum Order {
    Start,
}

#[derive(Serialize, Deserialize)]
struct OutOfStock;

impl fmt::Display for OutOfStock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of stock")
    }
}

impl Machine for Checkout {
    const NAME: &'static str = "checkout";
    type State = Order;
    type Output = ();

    async fn step(&self, _: Order, _cx: &Context) -> StepResult<Self> {
        fail_with(OutOfStock)
    }
}

fn main() {}
