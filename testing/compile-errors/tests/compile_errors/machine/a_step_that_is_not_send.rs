//! A step that holds a value that is not `Send` while it awaits.

#![allow(unused)]

use outlast::prelude::*;
use std::rc::Rc;

struct Checkout;

#[steps]
enum Order {
    Start,
}

impl Machine for Checkout {
    const NAME: &'static str = "checkout";
    type State = Order;
    type Output = usize;

    async fn step(&self, _: Order, cx: &Context) -> StepResult<Self> {
        let basket = Rc::new(vec![1, 2, 3]);
        cx.client().admin().queues().await?;
        done(basket.len())
    }
}

fn main() {}
