//! A workflow that has its name and types in `Workflow`.

#![allow(unused)]

use outlast::Workflow;
use outlast::prelude::*;

struct Fulfil;

impl Workflow for Fulfil {
    const NAME: &'static str = "fulfil";
    type Input = u64;
    type Output = u64;

    async fn run(&self, flow: Flow, order: u64) -> FlowResult<u64> {
        Ok(order)
    }
}

fn main() {}
