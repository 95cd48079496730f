//! The client itself.

use crate::codec::{Codec, Coding};
use crate::hub::Hub;
use crate::trace::{self, NoPropagator, Propagator};
use outlast_core::{Hints, Inspect, QueueNames, Store};
use std::fmt;
use std::sync::Arc;

/// A store that can also be looked into.
pub(crate) trait Backend: Store + Inspect {}

impl<T: Store + Inspect> Backend for T {}

/// Starts instances, sends signals, waits, and looks. Clones are cheap and share everything.
///
/// Clients and engines of one process that use the same database hear of each other's doings at once,
/// whether or not they were made from one another.
#[derive(Clone)]
pub struct Client {
    pub(crate) store: Arc<dyn Backend>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) propagator: Arc<dyn Propagator>,
    pub(crate) coding: Coding,
    /// The trace of the step this client was handed to.
    trace: Option<Arc<str>>,
}

impl Client {
    /// A client of `store`: no machines, no workers.
    pub fn new(store: impl Store + Inspect) -> Client {
        Client::on(Arc::new(store))
    }

    pub(crate) fn on(store: Arc<dyn Backend>) -> Client {
        Client {
            hub: Hub::of(store.place()),
            store,
            propagator: Arc::new(NoPropagator),
            coding: Coding::default(),
            trace: None,
        }
    }

    /// Takes the trace of what it starts from here.
    pub fn propagator(mut self, propagator: impl Propagator) -> Client {
        self.propagator = Arc::new(propagator);
        self
    }

    /// Encodes what it writes and decodes what it reads: states, results, payloads of signals and error texts
    /// ([`codec`](crate::codec)). Without one it sees what is encoded as it is stored.
    pub fn codec(mut self, codec: impl Codec) -> Client {
        self.coding = Coding::new(codec);
        self
    }

    /// Says that something may be claimed in `queue` now. Verbs of the client say so themselves; call it
    /// after committing a transaction of your own that inserted or signalled.
    pub fn wake(&self, queue: impl Into<String>) {
        self.publish([queue.into()].into());
    }

    pub(crate) fn within(&self, trace: Option<&str>) -> Client {
        Client {
            trace: trace.map(Into::into),
            ..self.clone()
        }
    }

    /// The trace that something started now belongs to.
    pub(super) fn current_trace(&self) -> String {
        let within = || self.trace.as_deref().map(str::to_owned);
        let current = self.propagator.current().or_else(within);
        current.unwrap_or_else(trace::new_traceparent)
    }

    pub(super) fn publish(&self, woken: QueueNames) {
        self.hub.publish(&self.store, Hints::now(woken));
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("place", &self.store.place())
            .finish_non_exhaustive()
    }
}
