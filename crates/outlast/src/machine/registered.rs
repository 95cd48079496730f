//! Machines as the engine sees them: without their types.

use super::{Context, Failure, Machine, Trouble, codec};
use crate::error::SetupError;
use async_trait::async_trait;
use outlast_core::{MachineOffer, MachineVersion, Outcome, limits};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// A machine that the engine can run.
pub(crate) struct Registered {
    pub(crate) name: &'static str,
    pub(crate) version: i32,
    /// The queue of instances that do not name another.
    queue: &'static str,
    pub(crate) steps: &'static [&'static str],
    pub(crate) timeout: Duration,
    pub(crate) runs_ahead: bool,
    runner: Box<dyn Run>,
}

impl Registered {
    /// Checks a machine and forgets its type.
    pub(crate) fn new<M: Machine>(machine: M) -> Result<Registered, SetupError> {
        let refused = |invalid| SetupError::Machine {
            machine: format!("{}/{}", M::NAME, M::VERSION),
            invalid,
        };
        limits::check_machine(M::NAME).map_err(refused)?;
        limits::check_version(M::VERSION).map_err(refused)?;
        limits::check_name("queue", M::QUEUE).map_err(refused)?;
        let steps = codec::steps::<M::State>().map_err(refused)?;
        for step in steps {
            limits::check_name("step", step).map_err(refused)?;
        }
        Ok(Registered {
            name: M::NAME,
            version: M::VERSION,
            queue: M::QUEUE,
            steps,
            timeout: M::STEP_TIMEOUT,
            runs_ahead: M::RUN_AHEAD,
            runner: Box::new(Typed(machine)),
        })
    }

    fn offer(&self) -> MachineOffer {
        let steps = self.steps.iter().take(limits::STEPS_MAX);
        MachineOffer {
            name: self.name.to_owned(),
            version: self.version,
            queue: self.queue.to_owned(),
            steps: steps.map(ToString::to_string).collect(),
        }
    }

    /// The step of this name, if this build knows it.
    pub(crate) fn step_name(&self, step: &str) -> Option<&'static str> {
        self.steps.iter().copied().find(|known| *known == step)
    }

    /// Runs the step that `cx` is about.
    pub(crate) async fn step(&self, cx: &Context) -> Result<Outcome, Trouble> {
        self.runner.step(cx).await
    }

    /// Asks what to do about a failure of that step.
    pub(crate) async fn handle(&self, failure: Failure, cx: &Context) -> Result<Outcome, Trouble> {
        self.runner.handle(failure, cx).await
    }
}

#[async_trait]
trait Run: Send + Sync {
    async fn step(&self, cx: &Context) -> Result<Outcome, Trouble>;
    async fn handle(&self, failure: Failure, cx: &Context) -> Result<Outcome, Trouble>;
}

struct Typed<M>(M);

#[async_trait]
impl<M: Machine> Run for Typed<M> {
    async fn step(&self, cx: &Context) -> Result<Outcome, Trouble> {
        let outcome = self.0.step(state_of::<M>(cx)?, cx).await?;
        Ok(outcome.record(cx)?)
    }

    async fn handle(&self, failure: Failure, cx: &Context) -> Result<Outcome, Trouble> {
        let outcome = self.0.handle(state_of::<M>(cx)?, failure, cx).await?;
        Ok(outcome.record(cx)?)
    }
}

/// A state that does not decode never will: the instance ends with the reason, and an operator can retry it
/// when a build that reads it is there.
fn state_of<M: Machine>(cx: &Context) -> Result<M::State, Trouble> {
    codec::decode(cx.step(), &cx.claim().state)
        .map_err(|invalid| Trouble::Fatal(invalid.to_string()))
}

/// Every machine a node can run.
#[derive(Default)]
pub(crate) struct Registry {
    machines: HashMap<MachineVersion, Registered>,
}

impl Registry {
    /// Adds a machine; two of one name and version could not be told apart.
    pub(crate) fn add(&mut self, machine: Registered) -> Result<(), SetupError> {
        let version = MachineVersion::new(machine.name, machine.version);
        if self.machines.contains_key(&version) {
            return Err(SetupError::MachineTwice(version));
        }
        self.machines.insert(version, machine);
        Ok(())
    }

    pub(crate) fn get(&self, machine: &str, version: i32) -> Option<&Registered> {
        self.machines.get(&MachineVersion::new(machine, version))
    }

    /// What a claim asks for, sorted so that every claim asks alike.
    pub(crate) fn versions(&self) -> Arc<[MachineVersion]> {
        let mut versions: Vec<_> = self.machines.keys().cloned().collect();
        versions.sort();
        versions.into()
    }

    /// What a worker says of its machines when it registers: for people to read, so that of too many as many are told
    /// as fit.
    pub(crate) fn offers(&self) -> Vec<MachineOffer> {
        let mut room = limits::OFFER_BYTES_MAX;
        let mut offers: Vec<_> = self.machines.values().map(Registered::offer).collect();
        offers.sort_by(|a, b| (&a.name, a.version).cmp(&(&b.name, b.version)));
        offers.truncate(limits::MACHINES_MAX);
        offers.retain(|offer| {
            let left = room.checked_sub(offer.bytes());
            room = left.unwrap_or(room);
            left.is_some()
        });
        offers
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.machines.is_empty()
    }
}
