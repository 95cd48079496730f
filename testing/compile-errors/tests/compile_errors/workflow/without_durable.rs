//! A workflow without a name and types.

use outlast::Workflow;
use outlast::prelude::*;

struct Fulfil;

impl Workflow for Fulfil {
    async fn run(&self, _flow: Flow, order: u64) -> FlowResult<u64> {
        Ok(order)
    }
}

fn main() {}
