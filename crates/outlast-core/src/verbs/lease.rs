//! Workers and their leases: registration and heartbeat. A worker has one lease for all its
//! claims.

use crate::Invalid;
use crate::limits;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A worker to register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewWorker {
    /// A name for people; it need not be unique.
    pub name: String,
    /// The host it runs on.
    pub host: String,
    /// The version of the program.
    pub version: String,
    /// The queues it claims from.
    pub queues: Vec<String>,
    /// The machines it runs.
    pub machines: Vec<MachineOffer>,
    /// How long its lease lasts without a heartbeat.
    pub lease: Duration,
}

impl NewWorker {
    /// Checks whether it can be registered.
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

/// A machine as a worker offers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineOffer {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: i32,
    /// The queue of its instances that name no other.
    pub queue: String,
    /// Every step, in the order of declaration.
    pub steps: Vec<String>,
}

impl MachineOffer {
    /// Finds a machine among `workers`: this version, or the newest that any of them has.
    ///
    /// It supplies values that a caller leaves out, such as the queue.
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

    /// Returns its approximate size as stored, in bytes.
    ///
    /// [`OFFER_BYTES_MAX`](limits::OFFER_BYTES_MAX) bounds the sum over all machines of a worker.
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

/// The result of a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heartbeat {
    /// The lease runs from now.
    Renewed,
    /// The worker was removed and its claims were returned: register again.
    Gone,
}
