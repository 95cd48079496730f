//! Sending signals.

use super::{Admin, Client, Handle};
use crate::definition::{Durable, New};
use crate::error::SignalError;
use crate::machine::Signal;
use crate::metrics;
use futures_util::future::BoxFuture;
use outlast_core::{
    Delivered, Delivery, InstanceId, Invalid, KeyText, NewSignal, Result, SignalOrInsert, Target,
};
use std::marker::PhantomData;

impl Client {
    /// Sends a signal to an instance, by its id or by `Machine::key(..)`: await it.
    ///
    /// An instance that has ended, or a key that nobody holds, is a [`SignalError`]. Set a dedup
    /// key if the signal may be sent again:
    ///
    /// ```
    /// # use outlast::{Client, InstanceId, prelude::*};
    /// # #[derive(Signal, Serialize, Deserialize)] struct Approved;
    /// # async fn send(client: Client, id: InstanceId) -> outlast::Result<()> {
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

    /// Sends a signal to the holder of the key of `new`, or starts `new` with it: await it.
    ///
    /// A new instance has the signal in its inbox. It is one transaction. `new` needs a
    /// [`key`](New::key).
    pub fn signal_or_start<D: Durable, S: Signal>(
        &self,
        new: New<D>,
        signal: S,
    ) -> SignallingOrStarting<'_, D> {
        let operation = "signal_or_start";
        let request = self.prepare_during(new, operation).and_then(|row| {
            Ok(SignalOrInsert {
                row,
                name: S::NAME.to_owned(),
                payload: signal
                    .payload()
                    .map_err(|invalid| invalid.during(operation))?,
                dedup_key: None,
            })
        });
        SignallingOrStarting {
            client: self,
            request,
            definition: PhantomData,
        }
    }
}

impl Admin<'_> {
    /// Sends untyped signals, in order.
    ///
    /// At most [`BATCH_MAX`](outlast_core::limits::BATCH_MAX) at once.
    ///
    /// Signals that were [prepared](Client::prepare_signal) with this client's codec are sent
    /// unchanged.
    pub async fn signal_rows(self, mut signals: Vec<NewSignal>) -> Result<Vec<Delivery>> {
        if !self.client.coding.is_none() {
            let encoded = signals.into_iter().enumerate().map(|(position, signal)| {
                self.client
                    .encode_signal(signal, Some(&format!("signal {position}")))
            });
            signals = encoded.collect::<Result<Vec<_>>>()?;
        }
        let delivered = self.client.deliver(signals).await?;
        self.client.publish(delivered.woken);
        delivered.answers.iter().for_each(metrics::signalled);
        Ok(delivered.answers)
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
    pub fn dedup(mut self, key: impl Into<KeyText>) -> Self {
        self.signal = self.signal.map(|signal| signal.dedup_key(key));
        self
    }
}

impl<'a> IntoFuture for Signalling<'a> {
    type Output = Result<Sent, SignalError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let signal = self.signal.map_err(|invalid| invalid.during("signal"))?;
            let name = signal.name.clone();
            let answers = self.client.admin().signal_rows(vec![signal]).await?;
            let delivery = answers.into_iter().next().unwrap_or(Delivery::NoTarget);
            Sent::read(delivery, name)
        })
    }
}

/// A delivered signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The instance that the signal went to.
    pub instance: InstanceId,
    /// Whether the signal is new; false when one with the same dedup key was delivered before.
    pub is_new: bool,
}

impl Sent {
    fn read(delivery: Delivery, signal: String) -> Result<Sent, SignalError> {
        match delivery {
            Delivery::Delivered { instance, .. } => Ok(Sent {
                instance,
                is_new: true,
            }),
            Delivery::Duplicate { instance } => Ok(Sent {
                instance,
                is_new: false,
            }),
            Delivery::NoTarget => Err(SignalError::NoTarget { signal }),
            Delivery::InboxFull { instance } => Err(SignalError::InboxFull { signal, instance }),
        }
    }
}

/// A signal that starts its target if there is none: await it.
#[must_use = "a signal is sent when it is awaited"]
pub struct SignallingOrStarting<'a, D> {
    client: &'a Client,
    request: Result<SignalOrInsert>,
    definition: PhantomData<fn() -> D>,
}

impl<D> SignallingOrStarting<'_, D> {
    /// Sets the dedup key.
    ///
    /// The signal is delivered at most once under it, while the instance is stored.
    pub fn dedup(mut self, key: impl Into<KeyText>) -> Self {
        if let Ok(request) = &mut self.request {
            request.dedup_key = Some(key.into().into());
        }
        self
    }
}

impl<'a, D: Durable> IntoFuture for SignallingOrStarting<'a, D> {
    type Output = Result<Handle<D>, SignalError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            // Encodes here, because the encoding includes the dedup key, which is known only now.
            let encoded = self.client.coding.encode_signal_or_insert(self.request?);
            let request =
                encoded.map_err(|unwritable| unwritable.during("signal_or_start", None))?;
            let name = request.name.clone();
            let correlation = request.row.correlation.as_ref();
            let key = correlation.map(|it| it.key.clone());
            let answer = self.client.store.signal_or_insert(request).await?;
            self.client.publish(answer.woken);
            metrics::signalled(&answer.delivery);
            let (id, is_new) = match answer.inserted {
                Some(id) => (id, true),
                None => (Sent::read(answer.delivery, name)?.instance, false),
            };
            Ok(Handle::new(self.client.clone(), id, key, is_new))
        })
    }
}
