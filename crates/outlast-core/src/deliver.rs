//! Sending signals.

use crate::limits::{self, BATCH_MAX};
use crate::{Claim, ClaimOffer, InstanceId, Invalid, Json, NewInstance, QueueNames, SignalId};

/// A signal to deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSignal {
    /// To whom.
    pub target: Target,
    /// Its name.
    pub name: String,
    /// What it carries.
    pub payload: Json,
    /// A key that makes sending it again harmless, for as long as the instance is stored, also after its end. By key:
    /// for as long as any of the latest [`HOLDERS_MAX`](crate::limits::HOLDERS_MAX) that held the key is stored.
    pub dedup_key: Option<String>,
}

/// Whom a signal is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The instance with this id.
    Id(InstanceId),
    /// The instance of this machine that holds this correlation key.
    Key {
        /// The machine's name.
        machine: String,
        /// The correlation key.
        key: String,
    },
}

/// What became of one signal.
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
    /// The instance was already sent a signal with this dedup key, consumed or not, ended or not. By key: an instance
    /// that holds or held the key was.
    Duplicate {
        /// The instance that was sent the signal.
        instance: InstanceId,
    },
    /// There is no such instance, or it has ended, and it was never sent a signal with this dedup key: nothing would
    /// ever read the signal.
    NoTarget,
    /// The instance holds as many unconsumed signals as it may.
    InboxFull {
        /// The instance.
        instance: InstanceId,
    },
}

/// The answer to a delivery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// One per signal, in the caller's order.
    pub answers: Vec<Delivery>,
    /// The queues in which something may now be claimed.
    pub woken: QueueNames,
    /// What was woken and handed to the worker that was named, by id. Empty when none was.
    pub claims: Vec<Claim>,
}

/// A signal for whoever holds a correlation key, and the instance to start when nobody does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalOrInsert {
    /// What to start; its machine and correlation key, which it must have, are the signal's target.
    pub row: NewInstance,
    /// The signal's name.
    pub name: String,
    /// What it carries.
    pub payload: Json,
    /// A key that makes sending it again harmless, for as long as the instance is stored, also after its end. By key:
    /// for as long as any of the latest [`HOLDERS_MAX`](crate::limits::HOLDERS_MAX) that held the key is stored.
    pub dedup_key: Option<String>,
}

/// What became of a signal that may start its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalledOrInserted {
    /// The instance that was started, if nobody held the key.
    pub inserted: Option<InstanceId>,
    /// What became of the signal: in the inbox of the holder, or of the new instance.
    pub delivery: Delivery,
    /// The queues in which something may now be claimed.
    pub woken: QueueNames,
}

impl SignalOrInsert {
    /// The key that addresses the signal.
    pub fn key(&self) -> Result<&str, Invalid> {
        match &self.row.correlation {
            Some(correlation) => Ok(&correlation.key),
            None => Err(Invalid::new(
                "signal or insert",
                "has no correlation key, so there is nobody to look for; give the new instance one",
            )),
        }
    }

    /// The signal alone.
    pub fn signal(&self) -> Result<NewSignal, Invalid> {
        Ok(NewSignal {
            target: Target::Key {
                machine: self.row.machine.clone(),
                key: self.key()?.to_owned(),
            },
            name: self.name.clone(),
            payload: self.payload.clone(),
            dedup_key: self.dedup_key.clone(),
        })
    }

    /// Whether it can be stored.
    pub fn check(&self) -> Result<(), Invalid> {
        self.row.check()?;
        self.signal()?.check()
    }
}

impl NewSignal {
    /// A signal for `target` without a dedup key.
    pub fn new(target: Target, name: impl Into<String>, payload: Json) -> NewSignal {
        NewSignal {
            target,
            name: name.into(),
            payload,
            dedup_key: None,
        }
    }

    /// Delivered at most once under this key.
    pub fn dedup_key(mut self, key: impl Into<String>) -> NewSignal {
        self.dedup_key = Some(key.into());
        self
    }

    /// Whether it can be stored.
    pub fn check(&self) -> Result<(), Invalid> {
        limits::check_new_name("signal", &self.name)?;
        if let Target::Key { machine, key } = &self.target {
            limits::check_machine(machine)?;
            limits::check_key("correlation key", key)?;
        }
        match &self.dedup_key {
            Some(key) => limits::check_new_key("dedup key", key),
            None => Ok(()),
        }
    }

    /// Whether all of `signals` can be delivered together; names the first that cannot.
    pub fn check_all(signals: &[NewSignal]) -> Result<(), Invalid> {
        limits::check_batch("deliver", signals.len(), BATCH_MAX)?;
        for (position, signal) in signals.iter().enumerate() {
            signal
                .check()
                .map_err(|invalid| invalid.within(format_args!("signal {position}")))?;
        }
        Ok(())
    }

    /// Whether all of `signals` can be delivered together, and what they wake be claimed.
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
