//! A workflow, started as a machine.

use outlast::prelude::*;

struct Fulfil;

impl Workflow for Fulfil {
    const NAME: &'static str = "fulfil";
    type Input = u64;
    type Output = u64;

    async fn run(&self, _flow: Flow, order: u64) -> FlowResult<u64> {
        Ok(order)
    }
}

fn main() {
    let _ = New::<Fulfil>(42);
}
