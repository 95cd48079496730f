//! A `run` with wrong parameters.

#![allow(unused)]

use outlast::prelude::*;
use outlast::{Durable, Workflow};

struct BorrowedFlow;

impl Durable for BorrowedFlow {
    const NAME: &'static str = "borrowed_flow";
    type Input = u64;
    type Output = u64;
}

impl Workflow for BorrowedFlow {
    async fn run(&self, flow: &Flow, order: u64) -> FlowResult<u64> {
        Ok(order)
    }
}

struct OtherInput;

impl Durable for OtherInput {
    const NAME: &'static str = "other_input";
    type Input = u64;
    type Output = u64;
}

impl Workflow for OtherInput {
    async fn run(&self, flow: Flow, order: String) -> FlowResult<u64> {
        Ok(5)
    }
}

struct OtherOutput;

impl Durable for OtherOutput {
    const NAME: &'static str = "other_output";
    type Input = u64;
    type Output = u64;
}

impl Workflow for OtherOutput {
    async fn run(&self, flow: Flow, order: u64) -> FlowResult<String> {
        Ok(String::new())
    }
}

fn main() {}
