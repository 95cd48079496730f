//! What a step may look at.

use super::cancel_flag::CancelFlag;
use super::children::{ChildHandle, ChildOf, Sent, readable};
use super::{Machine, Signal, StepError};
use crate::client::Client;
use crate::lease::Covered;
use outlast_core::{
    Child, Claim, DroppedChild, Error, InstanceId, Invalid, Joined, Json, Parent, Signal as Message,
};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tracing::Span;

/// What a step may look at: its instance, its inbox, its children.
#[derive(Debug)]
pub struct Context {
    claim: Box<Claim>,
    surroundings: Surroundings,
    /// What this run of the step has sent to its children.
    sent: Sent,
}

/// What the engine hands to a step beside its claim.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    pub(crate) client: Client,
    pub(crate) span: Span,
    /// The claim is known to be lost.
    pub(crate) lost: CancellationToken,
    /// Whether the claim is surely still this worker's.
    pub(crate) covered: Covered,
    /// A cancel that comes while the step runs.
    pub(crate) cancel_flag: Arc<CancelFlag>,
    /// The engine is about to stop.
    pub(crate) stopping: CancellationToken,
}

impl Context {
    pub(crate) fn new(claim: Box<Claim>, surroundings: Surroundings) -> Context {
        Context {
            claim,
            surroundings,
            sent: Sent::default(),
        }
    }

    pub(crate) fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Comes back only while the claim is surely this worker's. To be awaited before more user code starts: past the
    /// lease the claim is lost, and the engine drops what runs for it.
    pub(crate) async fn stay_covered(&self) {
        if !self.surroundings.covered.is_sure() {
            self.surroundings.lost.cancel();
            std::future::pending::<()>().await;
        }
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
    /// by retries or after a crash, and another one when the instance comes to the step again, and in `on_cancel`.
    pub fn idempotency_key(&self) -> String {
        let Claim {
            id, step, entered, ..
        } = &*self.claim;
        // What undoes a step's effect is not that effect.
        let answer = match self.claim.is_to_answer_cancel() {
            true => ":cancel",
            false => "",
        };
        format!("{id}:{step}:{entered}{answer}")
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

    /// The children of machine `M` that the last fan-out started, in the order they were asked for. Those that
    /// still live are among them when the join did not wait for them.
    pub fn children<M: Machine>(&self) -> Result<Vec<ChildOf<M>>, StepError> {
        typed(&self.claim.children)
    }

    /// The children of machine `M` that one fan-out of this instance started, counted from 1, in the order they were
    /// asked for, as they are now.
    pub async fn children_of<M: Machine>(&self, round: u32) -> Result<Vec<ChildOf<M>>, StepError> {
        let round = round.try_into().unwrap_or(i32::MAX);
        let client = &self.surroundings.client;
        typed(&client.children_of(self.id(), round).await?)
    }

    /// Every child of this round, whatever its machine, in the order they were asked for.
    pub fn round(&self) -> &[Child] {
        &self.claim.children
    }

    /// How many fan-outs this instance has made; the last of them is the present round.
    pub fn round_number(&self) -> u32 {
        self.claim.round.try_into().unwrap_or(0)
    }

    /// Every child that is still stored, of all rounds, oldest first.
    pub async fn all_children(&self) -> Result<Vec<Child>, Error> {
        self.surroundings.client.children(self.id()).await
    }

    /// Children of this round that were not started because somebody else held their key.
    pub fn dropped(&self) -> &[DroppedChild] {
        &self.claim.dropped
    }

    /// Why the join of the present round woke this instance. `None` before the first fan-out, and when a cancel came
    /// first. It does not change when the step is run again, whatever has ended since.
    pub fn joined(&self) -> Option<Joined> {
        self.claim.joined
    }

    /// The child of the present round whose bad end was written first; of several in one transaction, the first in
    /// the order they were asked for. It is the same one when the step is run again, unless an operator retried that
    /// child while this instance still waited.
    pub fn first_failure(&self) -> Option<&Child> {
        let first = self.claim.first_failure?;
        self.claim.children.iter().find(|child| child.id == first)
    }

    /// One of this instance's own children, of any round: to look at, to signal, to cancel. Any other instance is an
    /// error that says so; the [`client`](Context::client) reaches those.
    pub async fn child(&self, id: impl Into<InstanceId>) -> Result<ChildHandle<'_>, StepError> {
        let id = id.into();
        if self.claim.children.iter().any(|child| child.id == id) {
            return Ok(ChildHandle::new(self, id, self.claim.round));
        }
        let stored = self.surroundings.client.store.get(id).await?;
        let parent = stored.and_then(|instance| instance.parent);
        match parent.filter(|parent| parent.id == self.id()) {
            Some(parent) => Ok(ChildHandle::new(self, id, parent.round)),
            None => {
                let reason = format!(
                    "{id} is none of instance {}; cx.client() is for instances that are not one's own",
                    self.id()
                );
                Err(Invalid::new("child", reason).into())
            }
        }
    }

    pub(super) fn sent(&self) -> &Sent {
        &self.sent
    }

    /// A client whose inserts belong to the trace of this instance.
    pub fn client(&self) -> &Client {
        &self.surroundings.client
    }

    /// Whether the instance was asked to end and its machine has not decided about that yet: before the step, which
    /// means that this is [`on_cancel`](Machine::on_cancel), or while it runs. Long steps may look, or wait for
    /// [`cancelled`](Context::cancelled), and return early: whatever they return, `on_cancel` comes next. In the steps
    /// that `on_cancel` leads to it is false again, since they are what was decided.
    ///
    /// It is true as well when the claim is no longer this worker's, because the instance was terminated or the
    /// worker's lease has ended. A step is then dropped where it awaits, so only one that does not await sees it.
    pub fn is_cancelled(&self) -> bool {
        self.claim.is_to_answer_cancel()
            || self.surroundings.cancel_flag.request().is_some()
            || self.surroundings.lost.is_cancelled()
    }

    /// Waits until [`is_cancelled`](Context::is_cancelled) says yes: for a `select` beside what a long step waits for.
    ///
    /// A cancel from this process is known at once, one from another node as soon as its hint arrives, and one whose
    /// hint was lost within a third of the lease.
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// # async fn download() -> Result<(), std::io::Error> { Ok(()) }
    /// # struct M; #[derive(Serialize, Deserialize)] #[serde(tag = "step", content = "state")] enum Film { Fetch, Cut }
    /// # impl Machine for M { const NAME: &'static str = "m"; type State = Film; type Output = ();
    /// # async fn step(&self, state: Film, cx: &Context) -> StepResult<Self> {
    /// tokio::select! {
    ///     fetched = download() => fetched?,
    ///     // Nothing is to be fetched any more; on_cancel runs next.
    ///     () = cx.cancelled() => return Ok(Outcome::requeue(state)),
    /// }
    /// # Ok(Outcome::next(Film::Cut)) } }
    /// ```
    pub async fn cancelled(&self) {
        if self.is_cancelled() {
            return;
        }
        tokio::select! {
            () = self.surroundings.cancel_flag.came() => {}
            () = self.surroundings.lost.cancelled() => {}
        }
    }

    /// Who asked it to end and why, once it was asked: `cancelled by ada: ordered twice`. It stays through the steps
    /// that [`on_cancel`](Machine::on_cancel) leads to.
    pub fn cancel_reason(&self) -> Option<&str> {
        let known = self.claim.cancel.as_ref();
        let request = known.or_else(|| self.surroundings.cancel_flag.request());
        request.map(|request| request.reason.as_str())
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

fn typed<M: Machine>(children: &[Child]) -> Result<Vec<ChildOf<M>>, StepError> {
    let children = children.iter();
    children
        .filter(|child| child.machine == M::NAME)
        .map(|child| ChildOf::read(child).map_err(StepError::from))
        .collect()
}
