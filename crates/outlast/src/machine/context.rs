//! What a step may look at.

use super::{Id, Machine, Signal, StepError};
use crate::client::Client;
use crate::codec::refusal;
use outlast_core::{
    Child, Claim, DroppedChild, Error, InstanceId, Invalid, Json, Parent, Signal as Message, Status,
};
use std::fmt;
use tokio_util::sync::CancellationToken;
use tracing::Span;

/// What a step may look at: its instance, its inbox, its children.
#[derive(Debug)]
pub struct Context {
    claim: Box<Claim>,
    surroundings: Surroundings,
}

/// What the engine hands to a step beside its claim.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    pub(crate) client: Client,
    pub(crate) span: Span,
    /// The claim is known to be lost.
    pub(crate) lost: CancellationToken,
    /// The engine is about to stop.
    pub(crate) stopping: CancellationToken,
}

impl Context {
    pub(crate) fn new(claim: Box<Claim>, surroundings: Surroundings) -> Context {
        Context {
            claim,
            surroundings,
        }
    }

    pub(crate) fn claim(&self) -> &Claim {
        &self.claim
    }

    pub(crate) fn into_claim(self) -> Box<Claim> {
        self.claim
    }

    /// The instance.
    pub fn id(&self) -> InstanceId {
        self.claim.id
    }

    /// Its machine's name.
    pub fn machine(&self) -> &str {
        &self.claim.machine
    }

    /// Its machine's version.
    pub fn version(&self) -> i32 {
        self.claim.version
    }

    /// The step that runs.
    pub fn step(&self) -> &str {
        &self.claim.step
    }

    /// How often this step was tried before: by a retry, or by a worker that died. A wait leaves it alone, so
    /// the step after a wait also counts the retries of the step before.
    pub fn attempt(&self) -> u32 {
        self.claim.attempt.try_into().unwrap_or(0)
    }

    /// How many of those tries ended with the death of the worker.
    pub fn crashes(&self) -> u32 {
        self.claim.crashes.try_into().unwrap_or(0)
    }

    /// The queue it came from.
    pub fn queue(&self) -> &str {
        &self.claim.queue
    }

    /// Its correlation key, held or released.
    pub fn key(&self) -> Option<&str> {
        self.claim.correlation_key.as_deref()
    }

    /// Its partition key.
    pub fn partition_key(&self) -> Option<&str> {
        self.claim.partition_key.as_deref()
    }

    /// Who started it by a fan-out.
    pub fn parent(&self) -> Option<Parent> {
        self.claim.parent
    }

    /// The trace it belongs to: a W3C `traceparent`.
    pub fn trace(&self) -> Option<&str> {
        self.claim.trace.as_deref()
    }

    /// A key for effects that must not happen twice: the same however often this visit of the step is run,
    /// by retries or after a crash, and another one when the instance comes to the step again.
    pub fn idempotency_key(&self) -> String {
        let Claim {
            id, step, entered, ..
        } = &*self.claim;
        format!("{id}:{step}:{entered}")
    }

    /// The signals that the wait before this step was for, oldest first. Empty after a wait means that its
    /// time was up.
    pub fn awaited(&self) -> impl Iterator<Item = &Message> {
        self.claim.awaited()
    }

    /// Every signal that had not been consumed when the instance was claimed, oldest first, awaited or not. A
    /// payload that a [`codec`](crate::codec) refuses stands there as such, and no type reads it.
    pub fn inbox(&self) -> &[Message] {
        &self.claim.inbox
    }

    /// The oldest awaited signal of this type, if one came.
    pub fn received<S: Signal>(&self) -> Result<Option<S>, StepError> {
        self.received_messages::<S>().next().transpose()
    }

    /// Every awaited signal of this type, oldest first.
    pub fn received_all<S: Signal>(&self) -> Result<Vec<S>, StepError> {
        self.received_messages::<S>().collect()
    }

    fn received_messages<S: Signal>(&self) -> impl Iterator<Item = Result<S, StepError>> {
        let messages = self.awaited().filter(|message| message.name == S::NAME);
        messages.map(|message| {
            readable(&message.payload, "payload")
                .and_then(Json::decode)
                .map_err(|invalid| {
                    let place = format!("signal {} ({})", message.id, message.name);
                    StepError::from(invalid.within(place))
                })
        })
    }

    /// The children of machine `M` that the last fan-out started, in the order they were asked for.
    pub fn children<M: Machine>(&self) -> Result<Vec<ChildOf<M>>, StepError> {
        let children = self.claim.children.iter();
        children
            .filter(|child| child.machine == M::NAME)
            .map(|child| ChildOf::read(child).map_err(StepError::from))
            .collect()
    }

    /// Every child of this round, whatever its machine, in the order they were asked for.
    pub fn round(&self) -> &[Child] {
        &self.claim.children
    }

    /// Every child that is still stored, of all rounds, oldest first.
    pub async fn all_children(&self) -> Result<Vec<Child>, Error> {
        self.surroundings.client.children(self.id()).await
    }

    /// Children of this round that were not started because somebody else held their key.
    pub fn dropped(&self) -> &[DroppedChild] {
        &self.claim.dropped
    }

    /// A client whose inserts belong to the trace of this instance.
    pub fn client(&self) -> &Client {
        &self.surroundings.client
    }

    /// Whether the outcome of this step will be dropped: the claim is no longer this worker's. Long steps
    /// may look, and return early.
    pub fn is_cancelled(&self) -> bool {
        self.surroundings.lost.is_cancelled()
    }

    /// Whether the engine is about to stop: a long step had better come to an end.
    pub fn is_stopping(&self) -> bool {
        self.surroundings.stopping.is_cancelled()
    }

    /// The span of this step.
    pub fn span(&self) -> &Span {
        &self.surroundings.span
    }
}

/// A child of machine `M`, as its parent sees it after the join.
#[non_exhaustive]
pub struct ChildOf<M: Machine> {
    /// The child.
    pub id: Id<M>,
    /// How it ended.
    pub status: Status,
    /// What it led to, when it is done.
    pub output: Option<M::Output>,
    /// Its error, when it failed or was cancelled.
    pub error: Option<String>,
}

impl<M: Machine> ChildOf<M> {
    fn read(child: &Child) -> Result<ChildOf<M>, Invalid> {
        let output = match &child.result {
            Some(result) => Some(readable(result, "result").and_then(Json::decode).map_err(
                |invalid| {
                    invalid.within(format_args!(
                        "output of child {} ({})",
                        child.id, child.machine
                    ))
                },
            )?),
            None => None,
        };
        Ok(ChildOf {
            id: Id::of(child.id),
            status: child.status,
            output,
            error: child.last_error.clone(),
        })
    }

    /// What it led to, or an error that says how it ended instead.
    pub fn into_output(self) -> Result<M::Output, StepError> {
        self.output.ok_or_else(|| {
            let reason = self.error.as_deref().unwrap_or("no reason given");
            StepError::new(format!("child {} is {}: {reason}", self.id, self.status))
        })
    }
}

/// A value, unless it was refused: it was changed in the database, or is plain where only encoded ones are
/// accepted.
fn readable<'a>(value: &'a Json, what: &str) -> Result<&'a Json, Invalid> {
    match refusal(value) {
        Some(refused) => Err(Invalid::new(what, refused.to_string())),
        None => Ok(value),
    }
}

impl<M: Machine> fmt::Debug for ChildOf<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildOf")
            .field("id", &self.id)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}
