//! Being alive: one lease per worker.

use crate::Invalid;
use crate::limits;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A worker that registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewWorker {
    /// A name for people, not necessarily unique.
    pub name: String,
    /// The machine it runs on.
    pub host: String,
    /// The version of the program.
    pub version: String,
    /// The queues it works on.
    pub queues: Vec<String>,
    /// The machines it runs.
    pub machines: Vec<MachineOffer>,
    /// How long it counts as alive without a heartbeat.
    pub lease: Duration,
}

impl NewWorker {
    /// Whether it can be registered.
    pub fn check(&self) -> Result<(), Invalid> {
        limits::check_new_name("worker name", &self.name)?;
        limits::check_new_name("worker host", &self.host)?;
        limits::check_new_name("worker version", &self.version)?;
        limits::check_batch("queues", self.queues.len(), limits::QUEUES_MAX)?;
        for queue in &self.queues {
            limits::check_name("queue", queue)?;
        }
        limits::check_batch("machines", self.machines.len().max(1), limits::MACHINES_MAX)?;
        self.machines.iter().try_for_each(MachineOffer::check)?;
        let bytes: usize = self.machines.iter().map(MachineOffer::bytes).sum();
        if bytes > limits::OFFER_BYTES_MAX {
            let most = limits::OFFER_BYTES_MAX;
            let reason = format!("take {bytes} bytes to name; at most {most} are kept");
            return Err(Invalid::new("machines", reason));
        }
        limits::check_lease(self.lease)
    }
}

/// A machine as a worker has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineOffer {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: i32,
    /// The queue its instances wait in unless they say otherwise.
    pub queue: String,
    /// Every step there is, in the order in which they were written down.
    pub steps: Vec<String>,
}

impl MachineOffer {
    /// What `workers` say of a machine: of this version, or of the newest that any has. Fills in what a caller leaves
    /// out, such as the queue.
    pub fn among<'a>(
        workers: &'a [crate::Worker],
        machine: &str,
        version: Option<i32>,
    ) -> Option<&'a MachineOffer> {
        let offers = workers.iter().flat_map(|worker| &worker.machines);
        let fits = |offer: &&MachineOffer| {
            offer.name == machine && version.is_none_or(|version| version == offer.version)
        };
        offers.filter(fits).max_by_key(|offer| offer.version)
    }

    /// How many bytes it is written with, about, which together with those of others are bounded by
    /// [`OFFER_BYTES_MAX`](limits::OFFER_BYTES_MAX).
    pub fn bytes(&self) -> usize {
        const FIELDS: usize = 60;
        const QUOTES_AND_COMMA: usize = 3;
        let steps = self.steps.iter();
        let steps: usize = steps.map(|step| step.len() + QUOTES_AND_COMMA).sum();
        self.name.len() + self.queue.len() + steps + FIELDS
    }

    fn check(&self) -> Result<(), Invalid> {
        limits::check_name("machine", &self.name)?;
        limits::check_version(self.version)?;
        limits::check_name("queue", &self.queue)?;
        limits::check_batch("steps", self.steps.len().max(1), limits::STEPS_MAX)?;
        let mut steps = self.steps.iter();
        steps.try_for_each(|step| limits::check_name("step", step))
    }
}

/// What a heartbeat found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heartbeat {
    /// The lease runs again from now.
    Renewed,
    /// The worker was declared dead and its claims were taken: register again.
    Gone,
}
