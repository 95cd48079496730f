//! `Handle`: one instance, with everything that can be done with it.

use super::{Client, Signalling};
use crate::definition::{Address, Durable, Id};
use crate::error::{LookupError, WaitError};
use crate::machine::{Machine, Signal, decode_state};
use futures_util::future::BoxFuture;
use outlast_core::limits::HISTORY_PAGE_MAX;
use outlast_core::{
    CancelAnswer, Child, Event, HistoryRequest, Instance, InstanceId, Note, Result, Rows, Status,
    Target, TerminateAnswer,
};
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// The longest wait: [`output`](Handle::output) without a timeout.
pub(super) const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// An instance of `D`: its output, its status, and what can be done with it.
///
/// [`Client::start`] returns it for a new instance, [`Client::handle`] for an existing one. It is
/// cheap to clone. It does not keep the instance alive, and dropping it changes nothing.
///
/// ```
/// # use outlast::prelude::*;
/// # #[derive(Signal, Serialize, Deserialize)] struct Paid { amount: u64 }
/// # #[workflow] async fn fulfil(flow: Flow, order: u64) -> FlowResult<u64> {
/// #     Ok(flow.signal::<Paid>().await?.amount) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> outlast::Result<()> {
/// # let engine = Engine::sqlite_in_memory()?.register(fulfil).start().await?;
/// # engine.start(fulfil::with(42_u64).key("order:42")).await?;
/// let order = engine.handle::<fulfil>("order:42").await?;
/// order.signal(Paid { amount: 100 }).dedup("evt-7").await?;
/// assert_eq!(order.output().timeout(MINUTE).await?, 100);
/// # engine.shutdown().await
/// # }
/// ```
pub struct Handle<D> {
    client: Client,
    id: InstanceId,
    key: Option<String>,
    is_new: bool,
    definition: PhantomData<fn() -> D>,
}

impl Client {
    /// Returns the instance of `D` with this id or key.
    ///
    /// A key is looked up once: it addresses the holder, or else the latest stored instance that
    /// held it. The error says when there is none, or when the id belongs to another machine.
    pub async fn handle<D: Durable>(
        &self,
        address: impl Into<Address<D>>,
    ) -> Result<Handle<D>, LookupError> {
        let target = address.into().target();
        let found = match &target {
            Target::Id(id) => self.store.get(*id).await?,
            Target::Key { machine, key } => self.store.find(machine, key).await?,
        };
        let Some(instance) = found else {
            return Err(LookupError::NotFound { target });
        };
        if instance.machine != D::NAME {
            return Err(LookupError::OtherMachine {
                id: instance.id,
                expected: D::NAME,
                found: instance.machine,
            });
        }
        let key = instance.correlation_key;
        Ok(Handle::new(self.clone(), instance.id, key, false))
    }
}

impl<D> Handle<D> {
    pub(super) fn new(
        client: Client,
        id: InstanceId,
        key: Option<String>,
        is_new: bool,
    ) -> Handle<D> {
        Handle {
            client,
            id,
            key,
            is_new,
            definition: PhantomData,
        }
    }

    /// Returns its id.
    pub fn id(&self) -> Id<D> {
        Id::of(self.id)
    }

    /// Returns its correlation key, if it has one, as a [`KeyText`](outlast_core::KeyText).
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Whether this start wrote it; false when it held the key already, or was looked up.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Returns the client that made this handle.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reads its row.
    pub async fn instance(&self) -> Result<Instance, LookupError> {
        let found = self.client.find(self.id).await?;
        found.ok_or(LookupError::NotFound {
            target: self.id.into(),
        })
    }

    /// Reads its status.
    pub async fn status(&self) -> Result<Status, LookupError> {
        // The status needs no decoding, so this skips the codec.
        let found = self.client.store.get(self.id).await?;
        found.map(|it| it.status).ok_or(LookupError::NotFound {
            target: self.id.into(),
        })
    }

    /// Sends it a signal: await it.
    ///
    /// An instance that has ended is an error. Set a [dedup key](Signalling::dedup) if the signal
    /// may be sent again.
    pub fn signal<S: Signal>(&self, signal: S) -> Signalling<'_> {
        self.client.signal(self.id, signal)
    }

    /// Waits until it has finished, successfully or not, and returns its row: await it.
    ///
    /// [`timeout`](Settling::timeout) limits the wait.
    pub fn ended(&self) -> Settling<'_> {
        Settling::new(&self.client, self.id, Reached::Ended)
    }

    /// Waits until it has finished or parked, and returns its row: await it.
    ///
    /// A parked instance changes only after a signal, a child or its deadline.
    pub fn settled(&self) -> Settling<'_> {
        Settling::new(&self.client, self.id, Reached::Settled)
    }

    /// Cancels it: its code decides how it ends. A second cancel changes nothing.
    ///
    /// See [`Admin::cancel`](super::Admin::cancel).
    pub async fn cancel(&self, note: Note) -> Result<CancelAnswer> {
        self.client.admin().cancel(self.id, note).await
    }

    /// Ends it as cancelled now, without asking its code. A second call changes nothing.
    ///
    /// See [`Admin::terminate`](super::Admin::terminate).
    pub async fn terminate(&self, note: Note) -> Result<TerminateAnswer> {
        self.client.admin().terminate(self.id, note).await
    }

    /// Reads events of its history, in order: await it.
    ///
    /// Workflows have a history, and machines whose [`HISTORY`](Machine::HISTORY) says so.
    pub fn history(&self) -> HistoryQuery<'_> {
        HistoryQuery {
            client: &self.client,
            run: None,
            request: HistoryRequest {
                id: self.id,
                run: 1,
                after: 0,
                max: HISTORY_PAGE_MAX,
            },
        }
    }

    /// Reads its stored children, of all fan-outs, oldest first.
    pub async fn children(&self) -> Result<Vec<Child>> {
        self.client.admin().children(self.id).await
    }

    /// Explains in one sentence what it waits for and until when.
    ///
    /// See [`Admin::explain`](super::Admin::explain).
    pub async fn explain(&self) -> Result<String, LookupError> {
        let instance = self.instance().await?;
        Ok(self.client.admin().explain(&instance).await?)
    }
}

impl<D: Durable> Handle<D> {
    /// Waits until it has finished, and returns its output: await it.
    ///
    /// [`timeout`](Outputting::timeout) limits the wait. A failed or cancelled instance is a
    /// [`WaitError::Ended`].
    pub fn output(&self) -> Outputting<'_, D> {
        Outputting {
            client: &self.client,
            id: self.id,
            at_most: FOREVER,
            definition: PhantomData,
        }
    }
}

impl<M: Machine> Handle<M> {
    /// Reads the state of its current step.
    pub async fn state(&self) -> Result<M::State, LookupError> {
        let instance = self.instance().await?;
        decode_state::<M>(&instance).map_err(|invalid| LookupError::Undecodable {
            id: self.id,
            invalid,
        })
    }
}

impl<D> Clone for Handle<D> {
    fn clone(&self) -> Handle<D> {
        Handle::new(self.client.clone(), self.id, self.key.clone(), self.is_new)
    }
}

// By hand, like the rest: `D` need not implement `Debug`.
impl<D> fmt::Debug for Handle<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("id", &self.id)
            .field("key", &self.key)
            .field("is_new", &self.is_new)
            .finish_non_exhaustive()
    }
}

impl<D> From<Handle<D>> for Target {
    fn from(handle: Handle<D>) -> Target {
        Target::Id(handle.id)
    }
}

impl<D> From<Handle<D>> for InstanceId {
    fn from(handle: Handle<D>) -> InstanceId {
        handle.id
    }
}

impl<D> From<Handle<D>> for Address<D> {
    fn from(handle: Handle<D>) -> Address<D> {
        handle.id.into()
    }
}

impl<D> From<&Handle<D>> for Target {
    fn from(handle: &Handle<D>) -> Target {
        Target::Id(handle.id)
    }
}

impl<D> From<&Handle<D>> for InstanceId {
    fn from(handle: &Handle<D>) -> InstanceId {
        handle.id
    }
}

impl<D> From<&Handle<D>> for Address<D> {
    fn from(handle: &Handle<D>) -> Address<D> {
        handle.id.into()
    }
}

/// A wait for an output; made by [`Handle::output`]. Await it.
#[must_use = "await it"]
pub struct Outputting<'a, D> {
    client: &'a Client,
    id: InstanceId,
    at_most: Duration,
    definition: PhantomData<fn() -> D>,
}

impl<D> Outputting<'_, D> {
    /// Waits at most this long. Default: as long as it takes.
    ///
    /// After that the answer is [`WaitError::TimedOut`]; the instance continues.
    pub fn timeout(mut self, at_most: Duration) -> Self {
        self.at_most = at_most;
        self
    }
}

impl<'a, D: Durable> IntoFuture for Outputting<'a, D> {
    type Output = Result<D::Output, WaitError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let waited = self.client.wait_output::<D>(self.id, self.at_most).await;
            explained(self.client, waited).await
        })
    }
}

#[derive(Clone, Copy)]
enum Reached {
    Ended,
    Settled,
}

/// A wait for a status; made by [`Handle::ended`] and [`Handle::settled`]. Await it.
#[must_use = "await it"]
pub struct Settling<'a> {
    client: &'a Client,
    id: InstanceId,
    reached: Reached,
    at_most: Duration,
}

impl<'a> Settling<'a> {
    fn new(client: &'a Client, id: InstanceId, reached: Reached) -> Settling<'a> {
        Settling {
            client,
            id,
            reached,
            at_most: FOREVER,
        }
    }

    /// Waits at most this long. Default: as long as it takes.
    ///
    /// After that the answer is [`WaitError::TimedOut`]; the instance continues.
    pub fn timeout(mut self, at_most: Duration) -> Self {
        self.at_most = at_most;
        self
    }
}

impl<'a> IntoFuture for Settling<'a> {
    type Output = Result<Instance, WaitError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let admin = self.client.admin();
            let waited = match self.reached {
                Reached::Ended => admin.wait_ended(self.id, self.at_most).await,
                Reached::Settled => admin.wait_settled(self.id, self.at_most).await,
            };
            explained(self.client, waited).await
        })
    }
}

/// Adds to a wait that timed out what the instance waits for.
async fn explained<T>(client: &Client, waited: Result<T, WaitError>) -> Result<T, WaitError> {
    match waited {
        Err(WaitError::TimedOut { instance, .. }) => {
            let why = client.admin().explain(&instance).await.ok();
            Err(WaitError::TimedOut { instance, why })
        }
        waited => waited,
    }
}

/// A query for events; made by [`Handle::history`]. Await it.
#[must_use = "await it"]
pub struct HistoryQuery<'a> {
    client: &'a Client,
    run: Option<i32>,
    request: HistoryRequest,
}

impl HistoryQuery<'_> {
    /// Reads this run. Default: the current run.
    pub fn run(mut self, run: i32) -> Self {
        self.run = Some(run);
        self
    }

    /// Reads the events after this position. Default: from the start.
    pub fn after(mut self, position: i32) -> Self {
        self.request.after = position;
        self
    }

    /// Reads at most this many events. Default: a page of
    /// [`HISTORY_PAGE_MAX`](outlast_core::limits::HISTORY_PAGE_MAX).
    pub fn limit(mut self, events: usize) -> Self {
        self.request.max = events;
        self
    }
}

impl<'a> IntoFuture for HistoryQuery<'a> {
    type Output = Result<Rows<Event>>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move {
            self.request.run = match self.run {
                Some(run) => run,
                None => {
                    let instance = self.client.store.get(self.request.id).await?;
                    instance.map_or(1, |it| it.run)
                }
            };
            self.client.admin().history(self.request).await
        })
    }
}
