//! The measured workflows. Their steps do nothing.

use crate::machines::{CHAIN_STEPS, Counter, Go};
use outlast::prelude::*;
use std::sync::atomic::Ordering;

/// A workflow with as many steps as a chain.
pub(crate) struct Steps(pub(crate) Counter);

impl Workflow for Steps {
    const NAME: &'static str = "steps";
    type Input = u64;
    type Output = u64;

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
pub(crate) struct Together(pub(crate) Counter);

impl Workflow for Together {
    const NAME: &'static str = "together";
    type Input = u64;
    type Output = usize;

    async fn run(&self, flow: Flow, activities: u64) -> FlowResult<usize> {
        let unit = |number| flow.activity(Unit(self.0.clone()), number);
        let results = flow.all((0..activities).map(unit).collect::<Vec<_>>());
        Ok(results.await?.len())
    }
}

/// Has this many events, waits for a signal, and completes.
pub(crate) struct Long(pub(crate) Counter);

/// The events of a waiting run besides its steps: its start, and its wait.
const BESIDE_STEPS: usize = 2;

impl Workflow for Long {
    const NAME: &'static str = "long";
    type Input = usize;
    type Output = usize;

    async fn run(&self, flow: Flow, events: usize) -> FlowResult<usize> {
        for number in BESIDE_STEPS..events {
            step(&flow, &self.0, number as u64).await?;
        }
        flow.signal::<Go>().await?;
        Ok(flow.history_length())
    }
}
