//! Machines as the engine sees them: without their types.
//!
//! The builder registers them; the executor runs them by name and version.

use super::{Context, Failure, History, Machine, Trouble, codec};
use crate::client::Client;
use crate::definition::{MissingData, Needs, Provided};
use crate::error::{RequestError, SetupError};
use crate::workflow::{Begun, Replayed, Session, Workflow};
use async_trait::async_trait;
use outlast_core::{
    Claim, Instance, Invalid, MachineOffer, MachineVersion, NewEvent, NewReply, NewView, Outcome,
    ReplyKind, SignalId, WORKFLOW_STEP, limits,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// A machine that the engine can run.
pub(crate) struct Registered {
    pub(crate) name: &'static str,
    pub(crate) version: i32,
    /// The queue of instances that name no other.
    queue: &'static str,
    pub(crate) steps: &'static [&'static str],
    pub(crate) timeout: Duration,
    pub(crate) runs_ahead: bool,
    /// What is recorded of its outcomes. A workflow always has a history.
    pub(crate) history: History,
    needs: Needs,
    runner: Box<dyn RunStep>,
}

impl Registered {
    /// Checks a machine and erases its type.
    pub(crate) fn new<M: Machine>(machine: M) -> Result<Registered, SetupError> {
        let refused = refusal(M::NAME, M::VERSION);
        let steps = codec::steps::<M::State>().map_err(&refused)?;
        for step in steps {
            limits::check_name("step", step).map_err(&refused)?;
        }
        let mut needs = Needs::default();
        M::needs(&mut needs);
        Registered {
            name: M::NAME,
            version: M::VERSION,
            queue: M::QUEUE,
            steps,
            timeout: M::STEP_TIMEOUT,
            runs_ahead: M::RUN_AHEAD,
            history: M::HISTORY,
            needs,
            runner: Box::new(MachineRunner(machine)),
        }
        .checked()
    }

    /// Checks a workflow and erases its type.
    pub(crate) fn workflow<W: Workflow>(workflow: W) -> Result<Registered, SetupError> {
        let mut needs = Needs::default();
        W::needs(&mut needs);
        Registered {
            name: W::NAME,
            version: W::VERSION,
            queue: W::QUEUE,
            steps: &[WORKFLOW_STEP],
            // A step of the workflow has a shorter limit. That limit must pass first, so that the
            // step fails and not the workflow.
            timeout: W::STEP_TIMEOUT.saturating_add(STEP_MARGIN),
            runs_ahead: true,
            history: History::Off,
            needs,
            runner: Box::new(WorkflowRunner(Arc::new(workflow))),
        }
        .checked()
    }

    fn checked(self) -> Result<Registered, SetupError> {
        let refused = refusal(self.name, self.version);
        limits::check_machine(self.name).map_err(&refused)?;
        limits::check_version(self.version).map_err(&refused)?;
        limits::check_name("queue", self.queue).map_err(&refused)?;
        Ok(self)
    }

    /// Returns the queue of instances that name no other.
    pub(crate) fn queue(&self) -> &'static str {
        self.queue
    }

    /// Returns the first value that its code needs and that is not provided.
    pub(crate) fn missing(&self, provided: &Provided) -> Option<MissingData> {
        provided.missing(&self.needs)
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

    /// Returns the step of this name, if this build has it.
    pub(crate) fn step_name(&self, step: &str) -> Option<&'static str> {
        self.steps.iter().copied().find(|known| *known == step)
    }

    /// Runs the step of `cx`, or `on_cancel` when its instance was cancelled.
    ///
    /// A workflow stays in `session` while its claim is kept.
    pub(crate) async fn run(
        &self,
        cx: &Context,
        session: &mut Option<Box<Session>>,
    ) -> Result<Decided, Trouble> {
        self.runner.run(cx, session).await
    }

    /// Replays the history of an instance for queries.
    pub(crate) async fn replay(
        &self,
        client: &Client,
        row: &Instance,
        provided: &Provided,
    ) -> Result<Replayed, RequestError> {
        self.runner.replay(client, row, provided).await
    }

    /// Calls `on_failure` after a failure of that step.
    pub(crate) async fn on_failure(
        &self,
        failure: Failure,
        cx: &Context,
    ) -> Result<Decided, Trouble> {
        self.runner.on_failure(failure, cx).await
    }
}

/// Returns a function that turns a fault of a definition into the error of `start`.
fn refusal(name: &str, version: i32) -> impl Fn(Invalid) -> SetupError + use<> {
    let machine = format!("{name}/{version}");
    move |invalid| SetupError::Machine {
        machine: machine.clone(),
        invalid,
    }
}

/// How long after its step's limit a workflow is dropped.
const STEP_MARGIN: Duration = Duration::from_secs(10);

/// The decision of user code, ready to be written.
#[derive(Debug)]
pub(crate) struct Decided {
    pub(crate) outcome: Outcome,
    /// The events to append to the history.
    pub(crate) events: Vec<NewEvent>,
    /// The signals to consume; `None` consumes all awaited ones.
    pub(crate) received: Option<Vec<SignalId>>,
    /// Whether it answers a cancel; `None` answers the pending one, if any.
    pub(crate) answers_cancel: Option<bool>,
    /// The views to write.
    pub(crate) views: Vec<NewView>,
    /// The replies to write.
    pub(crate) replies: Vec<NewReply>,
}

impl Decided {
    /// Creates a decision from an outcome alone.
    pub(crate) fn of(outcome: Outcome) -> Decided {
        Decided {
            outcome,
            events: Vec::new(),
            received: None,
            answers_cancel: None,
            views: Vec::new(),
            replies: Vec::new(),
        }
    }

    /// Adds the event of this outcome, if the machine records its history.
    pub(crate) fn record(&mut self, machine: &Registered, claim: &Claim) {
        let event = machine.history.event(claim, &self.outcome);
        self.events.extend(event);
    }
}

#[async_trait]
trait RunStep: Send + Sync {
    async fn run(
        &self,
        cx: &Context,
        session: &mut Option<Box<Session>>,
    ) -> Result<Decided, Trouble>;
    async fn on_failure(&self, failure: Failure, cx: &Context) -> Result<Decided, Trouble>;
    async fn replay(
        &self,
        client: &Client,
        row: &Instance,
        provided: &Provided,
    ) -> Result<Replayed, RequestError>;
}

struct MachineRunner<M>(M);

#[async_trait]
impl<M: Machine> RunStep for MachineRunner<M> {
    async fn run(&self, cx: &Context, _: &mut Option<Box<Session>>) -> Result<Decided, Trouble> {
        let state = state_of::<M>(cx)?;
        let outcome = match cx.claim().is_to_answer_cancel() {
            true => self.0.on_cancel(state, cx).await?,
            false => self.0.step(state, cx).await?,
        };
        Ok(replying(cx, Decided::of(outcome.record(cx)?)))
    }

    async fn on_failure(&self, failure: Failure, cx: &Context) -> Result<Decided, Trouble> {
        // Replies of the failed step are not given: it may run again.
        cx.replies().taken();
        let outcome = self.0.on_failure(state_of::<M>(cx)?, failure, cx).await?;
        Ok(replying(cx, Decided::of(outcome.record(cx)?)))
    }

    async fn replay(
        &self,
        _: &Client,
        row: &Instance,
        _: &Provided,
    ) -> Result<Replayed, RequestError> {
        Err(RequestError::NotAWorkflow {
            id: row.id,
            machine: row.machine.clone(),
        })
    }
}

/// Adds the replies of a step to its decision.
///
/// A retry gives none, because the step sees the same updates again. An outcome that goes on and is
/// no wait consumes the awaited updates, so those without a reply get an error as theirs. An end
/// is the answer to all that are left.
fn replying(cx: &Context, mut decided: Decided) -> Decided {
    let replies = cx.replies().taken();
    #[cfg(outlast_mutants)]
    if outlast_core::mutant::is("a-retry-gives-replies") {
        decided.replies = replies;
        return decided;
    }
    if matches!(decided.outcome, Outcome::Retry { .. }) {
        return decided;
    }
    decided.replies = replies;
    let goes_on = decided.outcome.end().is_none();
    if goes_on && !matches!(decided.outcome, Outcome::Wait { .. }) {
        for update in cx.awaited().filter(|it| it.wants_reply) {
            if decided.replies.iter().all(|it| it.signal != update.id) {
                let reason = format!("step {:?} went on without a reply", cx.step());
                let failed = NewReply::because(update.id, ReplyKind::Failed, &reason);
                decided.replies.push(failed);
            }
        }
    }
    decided
}

/// A workflow; its one step replays its history.
struct WorkflowRunner<W>(Arc<W>);

#[async_trait]
impl<W: Workflow> RunStep for WorkflowRunner<W> {
    async fn run(
        &self,
        cx: &Context,
        session: &mut Option<Box<Session>>,
    ) -> Result<Decided, Trouble> {
        let session = match session {
            Some(session) if !session.needs_replay() => session,
            none => match Session::begin(self.0.clone(), cx).await? {
                Begun::Session(begun) => none.insert(begun),
                Begun::Blocked(decided) => return Ok(*decided),
            },
        };
        session.next(cx).await
    }

    /// Its code panicked, or its outcome cannot be stored: it fails.
    async fn on_failure(&self, failure: Failure, _: &Context) -> Result<Decided, Trouble> {
        Ok(crate::workflow::failed(failure.to_string()))
    }

    async fn replay(
        &self,
        client: &Client,
        row: &Instance,
        provided: &Provided,
    ) -> Result<Replayed, RequestError> {
        Replayed::of(self.0.clone(), client, row, provided).await
    }
}

/// Decodes the state.
///
/// A state that does not decode fails the instance with the reason. An operator can retry it with
/// a build that reads it.
fn state_of<M: Machine>(cx: &Context) -> Result<M::State, Trouble> {
    codec::decode(cx.step(), &cx.claim().state)
        .map_err(|invalid| Trouble::Undecodable(invalid.to_string()))
}

/// The code of an engine: what it has registered, and the values that this takes.
#[derive(Default)]
pub(crate) struct Code {
    pub(crate) registry: Registry,
    pub(crate) provided: Provided,
}

/// Every machine that a node can run.
#[derive(Default)]
pub(crate) struct Registry {
    machines: HashMap<MachineVersion, Registered>,
}

impl Registry {
    /// Adds a machine; refuses a second one with the same name and version.
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

    /// Returns the versions for a claim request, sorted so that all requests are alike.
    pub(crate) fn versions(&self) -> Arc<[MachineVersion]> {
        let mut versions: Vec<_> = self.machines.keys().cloned().collect();
        versions.sort();
        versions.into()
    }

    /// Returns the machines for the worker's registration.
    ///
    /// They are for people to read, so only as many as fit are sent.
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

    /// Returns every registered machine, job and workflow.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Registered> {
        self.machines.values()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.machines.is_empty()
    }
}
