//! Signals to deliver: the requests and answers of `deliver` and `signal_or_insert`.

use crate::limits::{self, BATCH_MAX};
use crate::{
    Claim, ClaimOffer, InstanceId, Invalid, Json, KeyText, NewInstance, QueueNames, SignalId,
};

/// A signal to deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSignal {
    /// The instance it is for.
    pub target: Target,
    /// Its name.
    pub name: String,
    /// Its payload.
    pub payload: Json,
    /// A key that makes sending it again harmless, as a [`KeyText`].
    ///
    /// It works while the instance is stored, also after its end. For a signal by key: while one
    /// of the latest [`HOLDERS_MAX`](crate::limits::HOLDERS_MAX) holders of the key is stored.
    pub dedup_key: Option<String>,
    /// Whether it is an update: its sender waits for a reply. The dedup key is then required: it
    /// is the id of the update.
    pub wants_reply: bool,
}

/// The address of a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The instance with this id.
    Id(InstanceId),
    /// The instance of this machine that holds this correlation key.
    Key {
        /// The machine's name.
        machine: String,
        /// The correlation key, as a [`KeyText`].
        key: String,
    },
}

/// The result of one signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It is in the inbox.
    Delivered {
        /// The signal's id.
        id: SignalId,
        /// The instance it went to.
        instance: InstanceId,
        /// Whether it woke the instance.
        woke: bool,
    },
    /// The instance was sent a signal with this dedup key before. The signal may have been
    /// consumed and the instance may have finished. By key: an instance that holds or held the key
    /// was sent it.
    Duplicate {
        /// The instance that was sent the first signal.
        instance: InstanceId,
    },
    /// There is no such instance, or it has finished. It was never sent a signal with this dedup
    /// key.
    NoTarget,
    /// The inbox of the instance has reached its bound.
    InboxFull {
        /// The instance.
        instance: InstanceId,
    },
}

/// The answer to a delivery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// One answer per signal, in the caller's order.
    pub answers: Vec<Delivery>,
    /// Queues in which an instance may have become claimable.
    pub woken: QueueNames,
    /// The woken instances that the offered worker claimed, by id. Empty without an offer.
    pub claims: Vec<Claim>,
}

/// A signal to the holder of a correlation key, and the instance to start when there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalOrInsert {
    /// The instance to start. Its machine and its correlation key, which is required, address the
    /// signal.
    pub row: NewInstance,
    /// The signal's name.
    pub name: String,
    /// Its payload.
    pub payload: Json,
    /// A key that makes sending it again harmless, as a [`KeyText`].
    ///
    /// It works while the instance is stored, also after its end. For a signal by key: while one
    /// of the latest [`HOLDERS_MAX`](crate::limits::HOLDERS_MAX) holders of the key is stored.
    pub dedup_key: Option<String>,
}

/// The result of a signal that may start its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalledOrInserted {
    /// The instance that was started, if there was no holder.
    pub inserted: Option<InstanceId>,
    /// The delivery to the holder or to the new instance.
    pub delivery: Delivery,
    /// Queues in which an instance may have become claimable.
    pub woken: QueueNames,
}

impl SignalOrInsert {
    /// Returns the key that addresses the signal.
    pub fn key(&self) -> Result<&str, Invalid> {
        match &self.row.correlation {
            Some(correlation) => Ok(&correlation.key),
            None => Err(Invalid::new(
                "signal or insert",
                "has no correlation key, so there is nobody to look for; give the new instance one",
            )),
        }
    }

    /// Returns the signal without the instance.
    pub fn signal(&self) -> Result<NewSignal, Invalid> {
        Ok(NewSignal {
            target: Target::Key {
                machine: self.row.machine.clone(),
                key: self.key()?.to_owned(),
            },
            name: self.name.clone(),
            payload: self.payload.clone(),
            dedup_key: self.dedup_key.clone(),
            wants_reply: false,
        })
    }

    /// Checks whether it can be stored.
    pub fn check(&self) -> Result<(), Invalid> {
        self.row.check()?;
        self.signal()?.check()
    }
}

impl NewSignal {
    /// Creates a signal for `target` without a dedup key.
    pub fn new(target: Target, name: impl Into<String>, payload: Json) -> NewSignal {
        NewSignal {
            target,
            name: name.into(),
            payload,
            dedup_key: None,
            wants_reply: false,
        }
    }

    /// Sets the dedup key: the signal is delivered at most once under it.
    pub fn dedup_key(mut self, key: impl Into<KeyText>) -> NewSignal {
        self.dedup_key = Some(key.into().into());
        self
    }

    /// Makes it an update with this id: its sender waits for a reply.
    pub fn update(mut self, id: impl Into<KeyText>) -> NewSignal {
        self.wants_reply = true;
        self.dedup_key(id)
    }

    /// Checks whether it can be stored.
    pub fn check(&self) -> Result<(), Invalid> {
        limits::check_new_name("signal", &self.name)?;
        if let Target::Key { machine, key } = &self.target {
            limits::check_machine(machine)?;
            limits::check_key("correlation key", key)?;
        }
        match &self.dedup_key {
            Some(key) => limits::check_key("dedup key", key),
            None if self.wants_reply => Err(Invalid::new(
                "update",
                "has no id, under which its reply could be found; give it a dedup key",
            )),
            None => Ok(()),
        }
    }

    /// Checks whether all `signals` can be delivered together; names the first that cannot.
    pub fn check_all(signals: &[NewSignal]) -> Result<(), Invalid> {
        limits::check_batch("deliver", signals.len(), BATCH_MAX)?;
        for (position, signal) in signals.iter().enumerate() {
            signal
                .check()
                .map_err(|invalid| invalid.within(format_args!("signal {position}")))?;
        }
        Ok(())
    }

    /// Checks whether all `signals` can be delivered together, and the woken instances claimed.
    pub fn check_delivery(
        signals: &[NewSignal],
        claim_for: Option<&ClaimOffer>,
    ) -> Result<(), Invalid> {
        NewSignal::check_all(signals)?;
        match claim_for {
            Some(offer) => offer.check(signals.len()),
            None => Ok(()),
        }
    }
}

impl From<InstanceId> for Target {
    fn from(id: InstanceId) -> Target {
        Target::Id(id)
    }
}
