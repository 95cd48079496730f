//! A workflow, started as a machine.

use outlast::prelude::*;
use outlast::{Durable, Workflow};

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

fn main() {
    let _ = Fulfil::with(42);
}
