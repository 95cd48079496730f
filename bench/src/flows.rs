//! The workflows that are measured: they do nothing but go on.

use crate::machines::{CHAIN_STEPS, Counter, Go};
use outlast::prelude::*;
use std::sync::atomic::Ordering;

/// As many steps as a chain has.
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

/// Waits for all of its activities, and answers how many there were.
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

/// Has so many events behind it, waits to be told to go on, and is done.
pub(crate) struct Long(pub(crate) Counter);

/// What a run has beside its steps when it waits: that it has begun, and that it waits.
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
