//! Items that every machine, job and workflow has.

#![allow(unused)]

use outlast::prelude::*;
use outlast::{Durable, Job, JobError, Workflow};

#[steps]
enum Order {
    Start,
}

struct NoName;

impl Machine for NoName {
    type State = Order;
    type Output = ();

    async fn step(&self, _: Order, _cx: &Context) -> StepResult<Self> {
        done(())
    }
}

struct NoOutput;

impl Machine for NoOutput {
    const NAME: &'static str = "no_output";
    type State = Order;

    async fn step(&self, _: Order, _cx: &Context) -> StepResult<Self> {
        done(())
    }
}

struct NoArgs;

impl Job for NoArgs {
    const NAME: &'static str = "no_args";
    type Output = ();

    async fn perform(&self, _: u64, _cx: &Context) -> Result<(), JobError> {
        Ok(())
    }
}

struct NoInput;

impl Durable for NoInput {
    const NAME: &'static str = "no_input";
    type Output = ();
}

impl Workflow for NoInput {
    async fn run(&self, _flow: Flow, _: u64) -> FlowResult<()> {
        Ok(())
    }
}

fn main() {}
