//! A `step` with a wrong signature.

#![allow(unused)]

use outlast::prelude::*;

#[steps]
enum Order {
    Start,
}

struct NotAsync;

impl Machine for NotAsync {
    const NAME: &'static str = "not_async";
    type State = Order;
    type Output = ();

    fn step(&self, _: Order, _cx: &Context) -> StepResult<Self> {
        done(())
    }
}

struct MutableSelf;

impl Machine for MutableSelf {
    const NAME: &'static str = "mutable_self";
    type State = Order;
    type Output = ();

    async fn step(&mut self, _: Order, _cx: &Context) -> StepResult<Self> {
        done(())
    }
}

struct ContextByValue;

impl Machine for ContextByValue {
    const NAME: &'static str = "context_by_value";
    type State = Order;
    type Output = ();

    async fn step(&self, _: Order, _cx: Context) -> StepResult<Self> {
        done(())
    }
}

struct NoContext;

impl Machine for NoContext {
    const NAME: &'static str = "no_context";
    type State = Order;
    type Output = ();

    async fn step(&self, _: Order) -> StepResult<Self> {
        done(())
    }
}

struct NoResult;

impl Machine for NoResult {
    const NAME: &'static str = "no_result";
    type State = Order;
    type Output = ();

    async fn step(&self, _: Order, _cx: &Context) -> Order {
        Order::Start
    }
}

struct ResultOfTheState;

impl Machine for ResultOfTheState {
    const NAME: &'static str = "result_of_the_state";
    type State = Order;
    type Output = ();

    async fn step(&self, _: Order, _cx: &Context) -> StepResult<Order> {
        next(Order::Start)
    }
}

fn main() {}
