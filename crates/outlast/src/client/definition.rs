//! `Client` and `Admin`: what applications do, and what operators do.

use crate::codec::{Codec, Coding};
use crate::hub::Hub;
use crate::machine::Code;
use crate::trace::{self, NoPropagator, Propagator};
use outlast_core::{Hints, Inspect, QueueNames, Store};
use std::fmt;
use std::sync::{Arc, Weak};

/// A store that can also be queried.
pub(crate) trait Backend: Store + Inspect {}

impl<T: Store + Inspect> Backend for T {}

/// Starts, signals and finds instances. Clones are cheap and share everything.
///
/// [`admin`](Client::admin) has what operators do: queues, workers, retries, counts, checks.
///
/// Clients and engines of one process that use the same database notify each other at once, even
/// when they were created independently.
#[derive(Clone)]
pub struct Client {
    pub(crate) store: Arc<dyn Backend>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) propagator: Arc<dyn Propagator>,
    pub(crate) coding: Coding,
    /// The code of the engine that this client belongs to, as long as that engine lives.
    ///
    /// Weak, because that code may own a client.
    pub(crate) code: Weak<Code>,
    /// The trace of the step that this client was given to.
    trace: Option<Arc<str>>,
}

impl Client {
    /// Creates a client of `store`, without machines and workers.
    pub fn new(store: impl Store + Inspect) -> Client {
        Client::on(Arc::new(store))
    }

    pub(crate) fn on(store: Arc<dyn Backend>) -> Client {
        Client {
            hub: Hub::of(store.database_id()),
            store,
            propagator: Arc::new(NoPropagator),
            coding: Coding::default(),
            code: Weak::new(),
            trace: None,
        }
    }

    /// Sets the propagator: it provides the trace of new instances.
    pub fn propagator(mut self, propagator: impl Propagator) -> Client {
        self.propagator = Arc::new(propagator);
        self
    }

    /// Sets the codec: it encodes written and decodes read values ([`codec`](crate::codec)).
    ///
    /// These are states, results, payloads of signals and error texts. Without a codec the client
    /// returns encoded values as stored.
    pub fn codec(mut self, codec: impl Codec) -> Client {
        self.coding = Coding::new(codec);
        self
    }

    /// Returns what operators do with the same store.
    pub fn admin(&self) -> Admin<'_> {
        Admin { client: self }
    }

    /// Wakes the pickers of `queue`.
    ///
    /// The client's verbs do so themselves. Call it after you commit a transaction that inserted
    /// or signalled.
    pub fn wake(&self, queue: impl Into<String>) {
        self.publish([queue.into()].into());
    }

    pub(crate) fn within(&self, trace: Option<&str>) -> Client {
        Client {
            trace: trace.map(Into::into),
            ..self.clone()
        }
    }

    /// Returns the trace for an instance that is started now.
    pub(crate) fn current_trace(&self) -> String {
        let within = || self.trace.as_deref().map(str::to_owned);
        let current = self.propagator.current().or_else(within);
        current.unwrap_or_else(trace::new_traceparent)
    }

    pub(crate) fn publish(&self, woken: QueueNames) {
        self.hub.publish(&self.store, Hints::now(woken));
    }
}

/// What operators do, with instances of any machine; made by [`Client::admin`].
///
/// | to | call |
/// |---|---|
/// | cancel, terminate, retry, delete | [`cancel`](Admin::cancel), [`terminate`](Admin::terminate), [`retry`](Admin::retry), [`delete`](Admin::delete), each also for many or a tree |
/// | repair what nothing would wake | [`repair`](Admin::repair), [`liveness`](Admin::liveness) |
/// | pause and resume queues | [`pause`](Admin::pause), [`resume`](Admin::resume) |
/// | look at an instance | [`explain`](Admin::explain), [`history`](Admin::history), [`children`](Admin::children), [`signals`](Admin::signals), [`tree`](Admin::tree) |
/// | look at the whole | [`queues`](Admin::queues), [`workers`](Admin::workers), [`count_by_step`](Admin::count_by_step), [`run_stats`](Admin::run_stats), [`doctor`](Admin::doctor) |
/// | insert and signal without types | [`insert_rows`](Admin::insert_rows), [`signal_rows`](Admin::signal_rows) |
#[derive(Clone, Copy, Debug)]
pub struct Admin<'a> {
    pub(crate) client: &'a Client,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("place", &self.store.database_id())
            .finish_non_exhaustive()
    }
}
