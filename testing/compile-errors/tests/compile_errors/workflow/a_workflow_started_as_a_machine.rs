//! A workflow where a machine belongs.

use outlast::prelude::*;
use outlast::{Durable, Handle, LookupError, Workflow};

struct Fulfil;

impl Durable for Fulfil {
    const NAME: &'static str = "fulfil";
    type Input = u64;
    type Output = u64;
}

impl Workflow for Fulfil {
    async fn run(&self, _flow: Flow, order: u64) -> FlowResult<u64> {
        Ok(order)
    }
}

fn start() {
    let _ = <Fulfil as Machine>::with(42_u64);
}

async fn state(order: Handle<Fulfil>) -> Result<(), LookupError> {
    order.state().await?;
    Ok(())
}

fn main() {}
