//! What does nothing unless it is awaited, started or followed by a step.

#![deny(unused_must_use)]

use outlast::prelude::*;
use outlast::{Handle, JobError};

#[job]
async fn print_label(number: u64) -> Result<String, JobError> {
    Ok(format!("label {number}"))
}

#[derive(Signal, Serialize, Deserialize)]
struct Paid;

#[workflow]
async fn fulfil(flow: Flow, order: u64) -> FlowResult<()> {
    flow.sleep(DAY);
    flow.run(print_label::with(order));
    flow.run(print_label::with(order)).timeout(DAY);
    flow.spawn(print_label::with(order));
    flow.step("read", async || std::fs::read("order.txt"));
    flow.all((flow.sleep(DAY), flow.sleep(DAY)));
    flow.select((flow.sleep(DAY), flow.sleep(DAY)));
    Ok(())
}

async fn pay(order: Handle<fulfil>) -> outlast::Result<()> {
    order.signal(Paid);
    order.signal(Paid).dedup("evt-7");
    order.output();
    order.output().timeout(DAY);
    order.ended();
    order.history();
    order.client().start(fulfil::with(7_u64));
    fulfil::with(7_u64);
    Ok(())
}

struct Checkout;

#[steps]
enum Order {
    Start,
    Ship,
}

impl Machine for Checkout {
    const NAME: &'static str = "checkout";
    type State = Order;
    type Output = ();

    async fn step(&self, _: Order, _cx: &Context) -> StepResult<Self> {
        wait_for::<Paid>();
        fan_out([Checkout::with(Order::Start)]);
        next::<Self>(Order::Ship);
        done(())
    }
}

fn main() {}
