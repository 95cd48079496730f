//! One type that is two of machine, job and workflow.

#![allow(unused)]

use outlast::prelude::*;
use outlast::{Durable, Job, JobError, Workflow};

#[steps]
enum Order {
    Start,
}

struct MachineAndJob;

impl Machine for MachineAndJob {
    const NAME: &'static str = "machine_and_job";
    type State = Order;
    type Output = ();

    async fn step(&self, _: Order, _cx: &Context) -> StepResult<Self> {
        done(())
    }
}

impl Job for MachineAndJob {
    const NAME: &'static str = "machine_and_job";
    type Args = u64;
    type Output = ();

    async fn perform(&self, _: u64, _cx: &Context) -> Result<(), JobError> {
        Ok(())
    }
}

struct MachineAndWorkflow;

impl Machine for MachineAndWorkflow {
    const NAME: &'static str = "machine_and_workflow";
    type State = Order;
    type Output = ();

    async fn step(&self, _: Order, _cx: &Context) -> StepResult<Self> {
        done(())
    }
}

impl Durable for MachineAndWorkflow {
    const NAME: &'static str = "machine_and_workflow";
    type Input = u64;
    type Output = ();
}

impl Workflow for MachineAndWorkflow {
    async fn run(&self, _flow: Flow, _order: u64) -> FlowResult<()> {
        Ok(())
    }
}

fn main() {}
