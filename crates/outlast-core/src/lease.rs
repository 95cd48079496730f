//! Being alive: one lease per worker.

use crate::Invalid;
use crate::limits;
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
    /// How long it counts as alive without a heartbeat.
    pub lease: Duration,
}

impl NewWorker {
    /// Whether it can be registered.
    pub fn check(&self) -> Result<(), Invalid> {
        limits::check_name("worker name", &self.name)?;
        limits::check_name("worker host", &self.host)?;
        limits::check_name("worker version", &self.version)?;
        for queue in &self.queues {
            limits::check_name("queue", queue)?;
        }
        limits::check_lease(self.lease)
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
