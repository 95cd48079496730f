//! Sending signals.

use super::Client;
use crate::machine::{Id, Machine, New, Signal};
use crate::metrics;
use futures_util::future::BoxFuture;
use outlast_core::{
    Delivered, Delivery, InstanceId, Invalid, NewSignal, Result, SignalOrInsert, Target,
};
use std::fmt;
use std::marker::PhantomData;

impl Client {
    /// Sends a signal to an instance, by its id or by `Machine::key(..)`: await it.
    ///
    /// Set a dedup key if it may be sent again:
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// # #[derive(Serialize, Deserialize)] struct Approved;
    /// # impl Signal for Approved { const NAME: &'static str = "approved"; }
    /// # async fn send(client: Client, id: InstanceId) -> Result<(), outlast::Error> {
    /// client.signal(id, Approved).dedup("webhook-1234").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn signal<S: Signal>(&self, target: impl Into<Target>, signal: S) -> Signalling<'_> {
        Signalling {
            client: self,
            signal: signal.to(target),
        }
    }

    /// Creates the signal that [`signal`](Client::signal) would send, for your transaction.
    ///
    /// It is encoded if this client has a codec.
    pub fn prepare_signal<S: Signal>(
        &self,
        target: impl Into<Target>,
        signal: S,
    ) -> Result<NewSignal> {
        let signal = signal.to(target);
        self.encode_signal(signal.map_err(|invalid| invalid.during("signal"))?, None)
    }

    fn encode_signal(&self, signal: NewSignal, place: Option<&str>) -> Result<NewSignal> {
        let encoded = self.coding.encode_signal(signal);
        encoded.map_err(|unwritable| unwritable.during("signal", place))
    }

    /// Sends untyped signals, in order.
    ///
    /// At most [`BATCH_MAX`](outlast_core::limits::BATCH_MAX) at once.
    ///
    /// Signals that were [prepared](Client::prepare_signal) with this client's codec are sent
    /// unchanged.
    pub async fn signal_rows(&self, mut signals: Vec<NewSignal>) -> Result<Vec<Delivery>> {
        if !self.coding.is_none() {
            let encoded = signals.into_iter().enumerate().map(|(position, signal)| {
                self.encode_signal(signal, Some(&format!("signal {position}")))
            });
            signals = encoded.collect::<Result<Vec<_>>>()?;
        }
        let delivered = self.deliver(signals).await?;
        self.publish(delivered.woken);
        delivered.answers.iter().for_each(metrics::signalled);
        Ok(delivered.answers)
    }

    /// Delivers one transaction.
    ///
    /// An instance that a single signal wakes may go straight into a free slot of an engine in
    /// this process.
    async fn deliver(&self, mut signals: Vec<NewSignal>) -> Result<Delivered> {
        if signals.len() == 1
            && let Some(reservation) = self.hub.reserve_for_woken()
            && let Some(signal) = signals.pop()
        {
            return reservation.dispatch(signal).await;
        }
        self.store.deliver(signals, None).await
    }

    /// Sends a signal to the holder of the key of `new`, or starts `new` with it.
    ///
    /// A new instance has the signal in its inbox. It is one transaction. `new` needs a
    /// [`key`](New::key).
    pub fn signal_or_insert<M: Machine, S: Signal>(
        &self,
        new: New<M>,
        signal: S,
    ) -> SignallingOrInserting<'_, M> {
        let request = self.prepare(new).and_then(|row| {
            Ok(SignalOrInsert {
                row,
                name: S::NAME.to_owned(),
                payload: signal
                    .payload()
                    .map_err(|invalid| invalid.during("signal"))?,
                dedup_key: None,
            })
        });
        SignallingOrInserting {
            client: self,
            request,
            machine: PhantomData,
        }
    }
}

/// A signal to send: await it.
#[must_use = "a signal is sent when it is awaited"]
#[derive(Debug)]
pub struct Signalling<'a> {
    client: &'a Client,
    signal: Result<NewSignal, Invalid>,
}

impl Signalling<'_> {
    /// Sets the dedup key.
    ///
    /// The signal is delivered at most once under it, while the instance is stored.
    pub fn dedup(mut self, key: impl Into<String>) -> Self {
        self.signal = self.signal.map(|signal| signal.dedup_key(key));
        self
    }
}

impl<'a> IntoFuture for Signalling<'a> {
    type Output = Result<Delivery>;
    type IntoFuture = BoxFuture<'a, Result<Delivery>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let signal = self.signal.map_err(|invalid| invalid.during("signal"))?;
            let answers = self.client.signal_rows(vec![signal]).await?;
            Ok(answers.into_iter().next().unwrap_or(Delivery::NoTarget))
        })
    }
}

/// A signal that starts its target if there is none: await it.
#[must_use = "a signal is sent when it is awaited"]
pub struct SignallingOrInserting<'a, M> {
    client: &'a Client,
    request: Result<SignalOrInsert>,
    machine: PhantomData<fn() -> M>,
}

impl<M> SignallingOrInserting<'_, M> {
    /// Sets the dedup key.
    ///
    /// The signal is delivered at most once under it, while the instance is stored.
    pub fn dedup(mut self, key: impl Into<String>) -> Self {
        if let Ok(request) = &mut self.request {
            request.dedup_key = Some(key.into());
        }
        self
    }
}

/// The result of a signal that may start its target.
pub enum SignalledOrInserted<M> {
    /// No instance held the key: this one was started, with the signal in its inbox.
    Inserted(Id<M>),
    /// An instance held the key; this is the delivery to it.
    Signalled(Delivery),
}

impl<M> SignalledOrInserted<M> {
    /// Returns the instance that the signal is for, if there is one.
    pub fn id(&self) -> Option<Id<M>> {
        let holder: InstanceId = match self {
            SignalledOrInserted::Inserted(id) => return Some(*id),
            SignalledOrInserted::Signalled(delivery) => match delivery {
                Delivery::Delivered { instance, .. }
                | Delivery::Duplicate { instance }
                | Delivery::InboxFull { instance } => *instance,
                Delivery::NoTarget => return None,
            },
        };
        Some(Id::of(holder))
    }
}

// Implemented by hand: `M` need not implement `Debug`.
impl<M> fmt::Debug for SignalledOrInserted<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SignalledOrInserted::Inserted(id) => f.debug_tuple("Inserted").field(id).finish(),
            SignalledOrInserted::Signalled(delivery) => {
                f.debug_tuple("Signalled").field(delivery).finish()
            }
        }
    }
}

impl<'a, M: Machine> IntoFuture for SignallingOrInserting<'a, M> {
    type Output = Result<SignalledOrInserted<M>>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            // Encodes here, because the encoding includes the dedup key, which is known only now.
            let encoded = self.client.coding.encode_signal_or_insert(self.request?);
            let request = encoded.map_err(|unwritable| unwritable.during("signal", None))?;
            let answer = self.client.store.signal_or_insert(request).await?;
            self.client.publish(answer.woken);
            metrics::signalled(&answer.delivery);
            Ok(match answer.inserted {
                Some(id) => SignalledOrInserted::Inserted(Id::of(id)),
                None => SignalledOrInserted::Signalled(answer.delivery),
            })
        })
    }
}
