//! Machines whose fields cannot be shared by threads.

#![allow(unused)]

use outlast::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

#[steps]
enum Order {
    Start,
}

struct WithRc {
    prices: Rc<Vec<u64>>,
}

impl Machine for WithRc {
    const NAME: &'static str = "with_rc";
    type State = Order;
    type Output = ();

    async fn step(&self, _: Order, _cx: &Context) -> StepResult<Self> {
        done(())
    }
}

struct WithCell {
    count: RefCell<u64>,
}

impl Machine for WithCell {
    const NAME: &'static str = "with_cell";
    type State = Order;
    type Output = ();

    async fn step(&self, _: Order, _cx: &Context) -> StepResult<Self> {
        done(())
    }
}

fn main() {}
