//! Machines as the engine sees them: without their types.

use super::{Context, Failure, History, Machine, Trouble, codec};
use crate::error::SetupError;
use crate::workflow::{Begun, Session, Workflow};
use async_trait::async_trait;
use outlast_core::{Claim, MachineOffer, MachineVersion, NewEvent, Outcome, SignalId, limits};
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
    /// What is recorded of its outcomes. A workflow has its own.
    pub(crate) history: History,
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
            history: M::HISTORY,
            runner: Box::new(Typed(machine)),
        })
    }

    /// Checks a workflow and forgets its type.
    pub(crate) fn workflow<W: Workflow>(workflow: W) -> Result<Registered, SetupError> {
        let mut registered = Registered::new(crate::workflow::Running::<W>::new())?;
        // A step of it has a limit of its own, which is to be up first: then it has failed, and not the workflow.
        registered.timeout = W::STEP_TIMEOUT.saturating_add(STEP_MARGIN);
        registered.runner = Box::new(Replayed(Arc::new(workflow)));
        Ok(registered)
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

    /// Runs the step that `cx` is about; or asks what becomes of its instance, when that is to end. A workflow is kept in
    /// `session` for as long as its claim is.
    pub(crate) async fn run(
        &self,
        cx: &Context,
        session: &mut Option<Box<Session>>,
    ) -> Result<Decided, Trouble> {
        self.runner.run(cx, session).await
    }

    /// Asks what to do about a failure of that step.
    pub(crate) async fn on_failure(
        &self,
        failure: Failure,
        cx: &Context,
    ) -> Result<Decided, Trouble> {
        self.runner.on_failure(failure, cx).await
    }
}

/// So long after a step of a workflow should have been dropped, its workflow is.
const STEP_MARGIN: Duration = Duration::from_secs(10);

/// What user code has come to, as it is to be written.
#[derive(Debug)]
pub(crate) struct Decided {
    pub(crate) outcome: Outcome,
    /// What goes into the history with it.
    pub(crate) events: Vec<NewEvent>,
    /// The signals it consumes; all that it awaited unless something is said.
    pub(crate) received: Option<Vec<SignalId>>,
    /// Whether it answers a cancel; it does when one waits for it, unless something is said.
    pub(crate) answers_cancel: Option<bool>,
}

impl Decided {
    /// An outcome, and nothing more to say.
    pub(crate) fn of(outcome: Outcome) -> Decided {
        Decided {
            outcome,
            events: Vec::new(),
            received: None,
            answers_cancel: None,
        }
    }

    /// Tells the outcome of this claim in the history of its instance, if the machine has its history recorded.
    pub(crate) fn record(&mut self, machine: &Registered, claim: &Claim) {
        let event = machine.history.event(claim, &self.outcome);
        self.events.extend(event);
    }
}

#[async_trait]
trait Run: Send + Sync {
    async fn run(
        &self,
        cx: &Context,
        session: &mut Option<Box<Session>>,
    ) -> Result<Decided, Trouble>;
    async fn on_failure(&self, failure: Failure, cx: &Context) -> Result<Decided, Trouble>;
}

struct Typed<M>(M);

#[async_trait]
impl<M: Machine> Run for Typed<M> {
    async fn run(&self, cx: &Context, _: &mut Option<Box<Session>>) -> Result<Decided, Trouble> {
        let state = state_of::<M>(cx)?;
        let outcome = match cx.claim().is_to_answer_cancel() {
            true => self.0.on_cancel(state, cx).await?,
            false => self.0.step(state, cx).await?,
        };
        Ok(Decided::of(outcome.record(cx)?))
    }

    async fn on_failure(&self, failure: Failure, cx: &Context) -> Result<Decided, Trouble> {
        let outcome = self.0.on_failure(state_of::<M>(cx)?, failure, cx).await?;
        Ok(Decided::of(outcome.record(cx)?))
    }
}

/// A workflow, whose one step goes through its history.
struct Replayed<W>(Arc<W>);

#[async_trait]
impl<W: Workflow> Run for Replayed<W> {
    async fn run(
        &self,
        cx: &Context,
        session: &mut Option<Box<Session>>,
    ) -> Result<Decided, Trouble> {
        let session = match session {
            Some(session) if !session.needs_replay() => session,
            none => match Session::begin(self.0.clone(), cx).await? {
                Begun::Session(begun) => none.insert(begun),
                Begun::Blocked(decided) => return Ok(decided),
            },
        };
        session.next(cx).await
    }

    /// Its code has panicked, or cannot be written: the end.
    async fn on_failure(&self, failure: Failure, _: &Context) -> Result<Decided, Trouble> {
        Ok(crate::workflow::failed(failure.to_string()))
    }
}

/// A state that does not decode never will: the instance ends with the reason, and an operator can retry it
/// when a build that reads it is there.
fn state_of<M: Machine>(cx: &Context) -> Result<M::State, Trouble> {
    codec::decode(cx.step(), &cx.claim().state)
        .map_err(|invalid| Trouble::Undecodable(invalid.to_string()))
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
