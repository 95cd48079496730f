//! The context of a step: what it may read and reach.

use super::cancel_flag::CancelFlag;
use super::children::{ChildHandle, ChildOf, SentSignals, readable};
use super::update::{StepReplies, TakeReply, Update};
use super::{Request, Signal, StepError};
use crate::client::Client;
use crate::definition::{Data, Durable, MissingData, Provided};
use crate::lease::Covered;
use outlast_core::{
    Child, Claim, DroppedChild, Error, InstanceId, Invalid, Joined, Json, NewReply, Parent,
    ReplyKind, Signal as Message,
};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tracing::Span;

/// The context of a step: its instance, its inbox, its children.
#[derive(Debug)]
pub struct Context {
    claim: Box<Claim>,
    surroundings: StepHandles,
    /// The signals that this run of the step has sent to its children.
    sent: SentSignals,
    /// The replies of this run of the step to updates.
    replies: Arc<StepReplies>,
}

/// The engine's part of a context, beside the claim.
#[derive(Clone, Debug)]
pub(crate) struct StepHandles {
    pub(crate) client: Client,
    pub(crate) span: Span,
    /// Cancelled when the claim is known to be lost.
    pub(crate) lost: CancellationToken,
    /// Whether the lease certainly covers the claim.
    pub(crate) covered: Covered,
    /// The flag that a cancel sets while the step runs.
    pub(crate) cancel_flag: Arc<CancelFlag>,
    /// Cancelled when the engine is about to stop.
    pub(crate) stopping: CancellationToken,
    /// The values of [`EngineBuilder::provide`](crate::engine::EngineBuilder::provide).
    pub(crate) provided: Provided,
}

impl Context {
    pub(crate) fn new(claim: Box<Claim>, surroundings: StepHandles) -> Context {
        Context {
            claim,
            surroundings,
            sent: SentSignals::default(),
            replies: Arc::default(),
        }
    }

    pub(crate) fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Returns only while the lease certainly covers the claim.
    ///
    /// The engine awaits it before it starts more user code. Past the lease the claim is lost, and
    /// the engine drops the code that runs for it.
    pub(crate) async fn stay_covered(&self) {
        if !self.surroundings.covered.is_sure() {
            self.surroundings.lost.cancel();
            std::future::pending::<()>().await;
        }
    }

    pub(crate) fn into_claim(self) -> Box<Claim> {
        self.claim
    }

    /// Returns the id of the instance.
    pub fn id(&self) -> InstanceId {
        self.claim.id
    }

    /// Returns the name of its machine.
    pub fn machine(&self) -> &str {
        &self.claim.machine
    }

    /// Returns the version of its machine.
    pub fn version(&self) -> i32 {
        self.claim.version
    }

    /// Returns the step that runs.
    pub fn step(&self) -> &str {
        &self.claim.step
    }

    /// Returns how often this step was tried before: after a retry or the death of a worker.
    ///
    /// A wait does not reset it, so the step after a wait also counts the retries of the step
    /// before.
    pub fn attempt(&self) -> u32 {
        self.claim.attempt.try_into().unwrap_or(0)
    }

    /// Returns how many of those attempts ended with the death of the worker.
    pub fn crashes(&self) -> u32 {
        self.claim.crashes.try_into().unwrap_or(0)
    }

    /// Returns the queue it was claimed from.
    pub fn queue(&self) -> &str {
        &self.claim.queue
    }

    /// Returns its correlation key, held or released, as a
    /// [`KeyText`](outlast_core::KeyText).
    pub fn key(&self) -> Option<&str> {
        self.claim.correlation_key.as_deref()
    }

    /// Returns its partition key, as a [`KeyText`](outlast_core::KeyText).
    pub fn partition_key(&self) -> Option<&str> {
        self.claim.partition_key.as_deref()
    }

    /// Returns the parent that started it by a fan-out.
    pub fn parent(&self) -> Option<Parent> {
        self.claim.parent
    }

    /// Returns the trace it belongs to: a W3C `traceparent`.
    pub fn trace(&self) -> Option<&str> {
        self.claim.trace.as_deref()
    }

    /// Returns a key for effects that must not happen twice.
    ///
    /// The key is the same however often this visit of the step runs, after retries and crashes.
    /// It differs when the instance comes to the step again, and in `on_cancel`.
    pub fn idempotency_key(&self) -> String {
        let Claim {
            id, step, entered, ..
        } = &*self.claim;
        // Undoing the effect of a step is another effect, so it has another key.
        let answer = match self.claim.is_to_answer_cancel() {
            true => ":cancel",
            false => "",
        };
        format!("{id}:{step}:{entered}{answer}")
    }

    /// Returns the signals of the wait before this step, oldest first. Empty after a timeout.
    pub fn awaited(&self) -> impl Iterator<Item = &Message> {
        self.claim.awaited()
    }

    /// Returns every unconsumed signal, oldest first, awaited or not.
    ///
    /// It has all signals that were sent before the previous step ended, or before this one was
    /// claimed.
    ///
    /// A payload that a [`codec`](crate::codec) refuses appears as refused; no type reads it.
    pub fn inbox(&self) -> &[Message] {
        &self.claim.inbox
    }

    /// Returns the oldest awaited signal of this type, if one arrived.
    pub fn received<S: Signal>(&self) -> Result<Option<S>, StepError> {
        self.received_messages::<S>().next().transpose()
    }

    /// Returns every awaited signal of this type, oldest first.
    pub fn received_all<S: Signal>(&self) -> Result<Vec<S>, StepError> {
        self.received_messages::<S>().collect()
    }

    /// Returns the oldest update of this type in the inbox, awaited or not, that has no reply yet.
    ///
    /// Its reply is stored with the outcome of the step, and consumes it. An update without a
    /// reply stays in the inbox. But a step that has awaited it and goes on without a reply has
    /// failed to answer it. With a retry the step sees the same updates again.
    ///
    /// An update whose payload does not fit the type is rejected and skipped. So `None` does not
    /// mean that the time of a wait is up; then [`awaited`](Context::awaited) is empty.
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// # #[derive(Signal, Serialize, Deserialize)] #[signal(reply = u64)] struct SetPrice { to: u64 }
    /// # struct M; #[steps] enum Sale { Open { price: u64 } }
    /// # impl Machine for M { const NAME: &'static str = "m"; type State = Sale; type Output = ();
    /// # async fn step(&self, state: Sale, cx: &Context) -> StepResult<Self> {
    /// let Sale::Open { mut price } = state;
    /// while let Some(change) = cx.update::<SetPrice>() {
    ///     let old = std::mem::replace(&mut price, change.to);
    ///     change.reply(old)?;
    /// }
    /// wait_for::<SetPrice>().then(Sale::Open { price })
    /// # } }
    /// ```
    pub fn update<R: Request>(&self) -> Option<Update<R>> {
        let messages = self.claim.inbox.iter();
        let updates = messages.filter(|it| it.wants_reply && it.name == R::NAME);
        for message in updates {
            if self.replies.has(message.id) {
                continue;
            }
            match readable(&message.payload, "payload").and_then(Json::decode) {
                Ok(request) => {
                    let named = (message.id, message.dedup_key.clone());
                    return Some(Update::new(request, named, self.replies.clone()));
                }
                Err(invalid) => {
                    let reason = format!("its payload does not fit: {invalid}");
                    let rejected = ReplyKind::Rejected;
                    self.replies
                        .take(NewReply::because(message.id, rejected, &reason));
                }
            }
        }
        None
    }

    pub(super) fn replies(&self) -> &StepReplies {
        &self.replies
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

    /// Returns the children of machine `M` of the last fan-out, in the order of the fan-out.
    ///
    /// Live children are included when the join did not wait for them.
    pub fn children<M: Durable>(&self) -> Result<Vec<ChildOf<M>>, StepError> {
        typed(&self.claim.children)
    }

    /// Reads the children of machine `M` of one fan-out, in the order of the fan-out.
    ///
    /// Fan-outs are counted from 1. The children are as they are now.
    pub async fn children_of<M: Durable>(&self, round: u32) -> Result<Vec<ChildOf<M>>, StepError> {
        let round = round.try_into().unwrap_or(i32::MAX);
        let client = &self.surroundings.client;
        typed(&client.admin().children_of(self.id(), round).await?)
    }

    /// Returns every child of this round, of any machine, in the order of the fan-out.
    pub fn round(&self) -> &[Child] {
        &self.claim.children
    }

    /// Returns how many fan-outs this instance has made; the last of them is the current round.
    pub fn round_number(&self) -> u32 {
        self.claim.round.try_into().unwrap_or(0)
    }

    /// Reads every child that is still stored, of all rounds, oldest first.
    pub async fn all_children(&self) -> Result<Vec<Child>, Error> {
        self.surroundings.client.admin().children(self.id()).await
    }

    /// Returns the children of this round that were not started because their key was occupied.
    pub fn dropped(&self) -> &[DroppedChild] {
        &self.claim.dropped
    }

    /// Returns why the join of the current round woke this instance.
    ///
    /// `None` before the first fan-out, and when a cancel came first. It stays the same when the
    /// step runs again, whatever has finished since.
    pub fn joined(&self) -> Option<Joined> {
        self.claim.joined
    }

    /// Returns the child of the current round whose failure was written first.
    ///
    /// Of several in one transaction it is the first in the order of the fan-out. It stays the
    /// same when the step runs again, unless an operator retried that child while this instance
    /// waited.
    pub fn first_failure(&self) -> Option<&Child> {
        let first = self.claim.first_failure?;
        self.claim.children.iter().find(|child| child.id == first)
    }

    /// Returns a handle to a child of this instance, of any round: to read, signal or cancel it.
    ///
    /// Any other instance is an error; use the [`client`](Context::client) for those.
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

    pub(super) fn sent(&self) -> &SentSignals {
        &self.sent
    }

    /// Returns the value of this type that the builder was given.
    ///
    /// A type in [`needs`](super::Machine::needs) is certainly there. Functions with
    /// [`#[job]`](macro@crate::job) take the value as a parameter.
    pub fn data<T: Send + Sync + 'static>(&self) -> Result<Data<T>, MissingData> {
        self.surroundings.provided.get()
    }

    pub(crate) fn provided(&self) -> &Provided {
        &self.surroundings.provided
    }

    /// Returns a client whose inserts belong to the trace of this instance.
    pub fn client(&self) -> &Client {
        &self.surroundings.client
    }

    /// Whether a cancel was requested that the machine has not answered yet.
    ///
    /// The cancel came before the step, which makes this [`on_cancel`](super::Machine::on_cancel), or
    /// while the step runs. A long step may check this, or wait for
    /// [`cancelled`](Context::cancelled), and return early. Whatever it returns, `on_cancel` runs
    /// next. In the steps after `on_cancel` it is false again, because they follow from the
    /// answer.
    ///
    /// It is also true when this worker has lost the claim, because the instance was terminated or
    /// the lease expired. The engine drops such a step at its next await, so only a step that does
    /// not await sees it.
    pub fn is_cancelled(&self) -> bool {
        self.claim.is_to_answer_cancel()
            || self.surroundings.cancel_flag.request().is_some()
            || self.surroundings.lost.is_cancelled()
    }

    /// Waits until the step is cancelled: for a `select` beside the work of a long step.
    ///
    /// [`is_cancelled`](Context::is_cancelled) is true afterwards.
    ///
    /// A cancel from this process arrives at once, one from another node with its hint. A cancel
    /// whose hint was lost arrives within a third of the lease.
    ///
    /// ```
    /// # use outlast::{Outcome, prelude::*};
    /// # async fn download() -> Result<(), std::io::Error> { Ok(()) }
    /// # struct M; #[steps] enum Film { Fetch, Cut }
    /// # impl Machine for M { const NAME: &'static str = "m"; type State = Film; type Output = ();
    /// # async fn step(&self, state: Film, cx: &Context) -> StepResult<Self> {
    /// tokio::select! {
    ///     fetched = download() => fetched?,
    ///     // The rest need not be fetched; on_cancel runs next.
    ///     () = cx.cancelled() => return Ok(Outcome::requeue(state)),
    /// }
    /// # next(Film::Cut) } }
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

    /// Returns the operator and the reason of a cancel: `cancelled by ada: ordered twice`.
    ///
    /// It stays through the steps after [`on_cancel`](super::Machine::on_cancel).
    pub fn cancel_reason(&self) -> Option<&str> {
        let known = self.claim.cancel.as_ref();
        let request = known.or_else(|| self.surroundings.cancel_flag.request());
        request.map(|request| request.reason.as_str())
    }

    /// Whether the engine is about to stop: a long step should come to an end.
    pub fn is_stopping(&self) -> bool {
        self.surroundings.stopping.is_cancelled()
    }

    /// Returns the span of this step.
    pub fn span(&self) -> &Span {
        &self.surroundings.span
    }
}

fn typed<M: Durable>(children: &[Child]) -> Result<Vec<ChildOf<M>>, StepError> {
    let children = children.iter();
    children
        .filter(|child| child.machine == M::NAME)
        .map(|child| ChildOf::read(child).map_err(StepError::from))
        .collect()
}
