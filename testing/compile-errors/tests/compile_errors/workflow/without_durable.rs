//! A workflow without a name and types.

use outlast::Workflow;
use outlast::prelude::*;

struct Fulfil;

impl Workflow for Fulfil {
    async fn run(&self, flow: Flow, order: u64) -> FlowResult<u64> {
        Ok(order)
    }
}

fn start(engine: outlast::engine::EngineBuilder) {
    let _ = engine.register(Fulfil);
}

fn main() {}
