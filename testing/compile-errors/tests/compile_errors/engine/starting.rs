//! Starting instances with the wrong types.

#![allow(unused)]

use outlast::prelude::*;
use outlast::{Client, Durable, JobError, Workflow};

struct Checkout;

#[steps]
enum Order {
    Start { number: u64 },
}

impl Machine for Checkout {
    const NAME: &'static str = "checkout";
    type State = Order;
    type Output = String;

    async fn step(&self, _: Order, _cx: &Context) -> StepResult<Self> {
        done(String::new())
    }
}

#[job]
async fn send_mail(to: String) -> Result<(), JobError> {
    Ok(())
}

struct Fulfil;

impl Durable for Fulfil {
    const NAME: &'static str = "fulfil";
    type Input = String;
    type Output = u64;
}

impl Workflow for Fulfil {
    async fn run(&self, _flow: Flow, _order: String) -> FlowResult<u64> {
        Ok(7)
    }
}

async fn start(client: Client) -> outlast::Result<()> {
    client.start(Checkout::with(42)).await?;
    client.start(send_mail::with(42)).await?;
    client.start(send_mail::with()).await?;
    client.start(Fulfil::with(42)).await?;
    client.start(send_mail).await?;
    client.start(Order::Start { number: 42 }).await?;
    Ok(())
}

async fn start_typed(client: Client) -> outlast::Result<()> {
    let checkout = client
        .start(Checkout::with(Order::Start { number: 42 }))
        .await?;
    let output: u64 = checkout.output().await?;
    let id: outlast::Id<send_mail> = checkout.id();
    Ok(())
}

fn main() {}
