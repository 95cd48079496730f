//! The signal verbs: put signals into inboxes and wake the instances that wait for them.

use super::Tables;
use super::tables::make_runnable;
use super::workflow_outcome::wake_if_complete;
use outlast_core::{
    Claim, ClaimOffer, Delivered, Delivery, Instance, InstanceId, MachineVersion, NewSignal,
    QueueNames, Result, SignalId, SignalOrInsert, SignalRow, SignalledOrInserted, Status, Target,
    Timestamp, limits,
};
use std::collections::BTreeSet;

impl Tables {
    pub(super) fn deliver(
        &mut self,
        signals: Vec<NewSignal>,
        claim_for: Option<&ClaimOffer>,
        now: Timestamp,
    ) -> Result<Delivered> {
        NewSignal::check_delivery(&signals, claim_for)
            .map_err(|invalid| invalid.during("deliver"))?;
        let mut delivered = Delivered::default();
        if signals.is_empty() {
            return Ok(delivered);
        }
        if let Some(offer) = claim_for {
            self.check_lease("deliver", offer.worker, now)?;
        }
        let mut woken = BTreeSet::new();
        for signal in signals {
            let answer = self.deliver_one(signal, now, &mut QueueNames::new());
            if let Delivery::Delivered {
                instance,
                woke: true,
                ..
            } = answer
            {
                woken.insert(instance);
            }
            delivered.answers.push(answer);
        }
        for id in woken {
            match claim_for.and_then(|offer| self.take_woken(id, offer, now)) {
                Some(claim) => delivered.claims.push(claim),
                None => self.hint(id, now, &mut delivered.woken),
            }
        }
        Ok(delivered)
    }

    /// Claims a row that was just woken, if the worker can start it at once.
    fn take_woken(&mut self, id: InstanceId, offer: &ClaimOffer, now: Timestamp) -> Option<Claim> {
        let row = self.instances.get(&id)?;
        let registered =
            |it: &MachineVersion| it.machine == row.machine && it.version == row.version;
        let possible = offer.queues.contains(&row.queue)
            && !self.paused.contains(&row.queue)
            && offer.machines.iter().any(registered)
            && row.partition_key.is_none()
            && row.round == 0;
        if !possible {
            return None;
        }
        self.take(id, offer.worker, now);
        self.claim_on(id, now)
    }

    /// Signals the holder of the key, and starts one if there is none.
    pub(super) fn signal_or_insert(
        &mut self,
        request: SignalOrInsert,
        now: Timestamp,
    ) -> Result<SignalledOrInserted> {
        let checked = request.check().and_then(|()| request.signal());
        let signal = checked.map_err(|invalid| invalid.during("signal_or_insert"))?;
        let mut woken = QueueNames::new();
        if let Some(instance) = self.known(&signal) {
            return Ok(SignalledOrInserted {
                inserted: None,
                delivery: Delivery::Duplicate { instance },
                woken,
            });
        }
        let inserted = self.add(request.row, None, now).ok();
        if let Some(id) = inserted {
            self.hint(id, now, &mut woken);
        }
        let delivery = self.deliver_one(signal, now, &mut woken);
        Ok(SignalledOrInserted {
            inserted,
            delivery,
            woken,
        })
    }

    fn deliver_one(
        &mut self,
        signal: NewSignal,
        now: Timestamp,
        woken: &mut QueueNames,
    ) -> Delivery {
        if let Some(instance) = self.known(&signal) {
            return Delivery::Duplicate { instance };
        }
        let Some(instance) = self.target(&signal.target) else {
            return Delivery::NoTarget;
        };
        if self.inbox(instance).count() >= limits::INBOX_MAX {
            return Delivery::InboxFull { instance };
        }
        let woke = self.wake(instance, &signal.name, now, woken);
        let id = SignalId(self.next_id());
        let row = SignalRow {
            id,
            target: instance,
            name: signal.name,
            payload: Some(signal.payload),
            dedup_key: signal.dedup_key,
            wants_reply: signal.wants_reply,
            inserted_at: now,
            consumed_at: None,
        };
        self.signals.insert(id, row);
        let executes = |row: &Instance| row.status == Status::Executing;
        if self.instances.get(&instance).is_some_and(executes) {
            self.latest_signals.insert(instance, id);
        }
        Delivery::Delivered { id, instance, woke }
    }

    /// Returns the target of a signal; `None` once it has finished (docs/protocol.md, defect 10).
    fn target(&self, target: &Target) -> Option<InstanceId> {
        let row = match target {
            Target::Id(id) => self.instances.get(id),
            Target::Key { machine, key } => self.holder(machine, key),
        };
        row.filter(|row| !row.status.is_terminal())
            .map(|row| row.id)
    }

    /// Returns the instance that has received this dedup key before.
    ///
    /// Consumed signals count too: their tombstones keep the key (docs/protocol.md, defect 9).
    fn known(&self, signal: &NewSignal) -> Option<InstanceId> {
        let dedup_key = signal.dedup_key.as_deref()?;
        let was_sent = |id: &InstanceId| {
            let mut signals = self.signals.values();
            signals.any(|it| it.target == *id && it.dedup_key.as_deref() == Some(dedup_key))
        };
        match &signal.target {
            Target::Id(id) => Some(*id).filter(was_sent),
            Target::Key { machine, key } => {
                self.held(machine, key).map(|row| row.id).find(was_sent)
            }
        }
    }

    fn wake(
        &mut self,
        instance: InstanceId,
        name: &str,
        now: Timestamp,
        woken: &mut QueueNames,
    ) -> bool {
        let awaited = |row: &&mut Instance| {
            let awaits = row.awaits.as_deref().unwrap_or_default();
            let waits_for_ends = row.status == Status::AwaitingChildren && row.joining.is_some();
            let waits = row.status == Status::AwaitingSignal || waits_for_ends;
            waits && awaits.iter().any(|it| it == name)
        };
        match self.instances.get_mut(&instance).filter(awaited) {
            Some(row) if row.needs_all => {
                if let Some(awaits) = &mut row.awaits {
                    awaits.retain(|it| it != name);
                }
                row.updated_at = now;
                row.status == Status::AwaitingSignal && wake_if_complete(row, now, woken)
            }
            Some(row) => {
                make_runnable(row, now, woken);
                true
            }
            None => false,
        }
    }
}
