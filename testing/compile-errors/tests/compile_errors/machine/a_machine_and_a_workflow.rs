//! A machine that is a workflow too: every machine is `Durable` already.

use outlast::Workflow;
use outlast::engine::EngineBuilder;
use outlast::prelude::*;

struct Checkout;

#[steps]
enum Order {
    Start,
}

impl Machine for Checkout {
    const NAME: &'static str = "checkout";
    type State = Order;
    type Output = ();

    async fn step(&self, _: Order, _cx: &Context) -> StepResult<Self> {
        done(())
    }
}

impl Workflow for Checkout {
    async fn run(&self, _flow: Flow, _order: Order) -> FlowResult<()> {
        Ok(())
    }
}

fn register(engine: EngineBuilder) -> EngineBuilder {
    engine.register(Checkout)
}

fn start() {
    let _ = Checkout::with(Order::Start);
}

fn main() {}
