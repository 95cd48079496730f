//! The measured workflows. Their steps do nothing.

use crate::machines::{CHAIN_STEPS, Counter, Go};
use outlast::prelude::*;
use outlast::{Durable, Job, JobError, Workflow};
use std::sync::atomic::Ordering;

/// A workflow with as many steps as a chain.
pub(crate) struct Steps(pub(crate) Counter);

impl Durable for Steps {
    const NAME: &'static str = "steps";
    type Input = u64;
    type Output = u64;
}

impl Workflow for Steps {
    async fn run(&self, flow: Flow, number: u64) -> FlowResult<u64> {
        let mut sum = number;
        for _ in 0..CHAIN_STEPS {
            sum = step(&flow, &self.0, sum).await?;
        }
        Ok(sum)
    }
}

async fn step(flow: &Flow, counter: &Counter, sum: u64) -> FlowResult<u64> {
    flow.step("link", async || {
        counter.fetch_add(1, Ordering::Relaxed);
        anyhow::Ok(sum + 1)
    })
    .await
}

/// One activity.
pub(crate) struct Unit(pub(crate) Counter);

impl Job for Unit {
    const NAME: &'static str = "unit";
    type Args = u64;
    type Output = u64;

    async fn perform(&self, number: u64, _cx: &Context) -> Result<u64, JobError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(number)
    }
}

/// Waits for all of its activities, and returns their number.
#[workflow]
pub(crate) async fn together(flow: Flow, activities: u64) -> FlowResult<usize> {
    let unit = |number| flow.run(Unit::with(number));
    let results = flow.all((0..activities).map(unit).collect::<Vec<_>>());
    Ok(results.await?.len())
}

/// Has this many events, waits for a signal, and completes.
pub(crate) struct Long(pub(crate) Counter);

/// The events of a waiting run besides its steps: its start, and its wait.
const BESIDE_STEPS: usize = 2;

impl Durable for Long {
    const NAME: &'static str = "long";
    type Input = usize;
    type Output = usize;
}

impl Workflow for Long {
    async fn run(&self, flow: Flow, events: usize) -> FlowResult<usize> {
        for number in BESIDE_STEPS..events {
            step(&flow, &self.0, number as u64).await?;
        }
        flow.signal::<Go>().await?;
        Ok(flow.history_length())
    }
}
