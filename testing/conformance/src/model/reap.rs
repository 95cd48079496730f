//! The reaper's verb: returns the claims of dead workers to their queues.

use super::Tables;
use super::effects::Effects;
use super::tables::change_status;
use outlast_core::{
    ClaimRef, HeldClaim, Instance, InstanceId, QUARANTINE_AFTER, ReapRequest, Reaped, Result,
    Status, Timestamp, WorkerId, gave_up,
};
use std::collections::BTreeSet;

impl Tables {
    pub(super) fn reap(&mut self, request: ReapRequest, now: Timestamp) -> Result<Reaped> {
        request.check().map_err(|invalid| invalid.during("reap"))?;
        let dead: Vec<WorkerId> = self
            .workers
            .values()
            .filter(|worker| worker.lease_expires_at <= now)
            .map(|worker| worker.id)
            .collect();
        let mut lost: Vec<InstanceId> = dead
            .iter()
            .flat_map(|worker| self.claims_of(*worker))
            .map(|held| held.claim.id)
            .take(request.max)
            .collect();
        lost.sort();

        let mut reaped = Reaped {
            more: !lost.is_empty() && lost.len() == request.max,
            ..Reaped::default()
        };
        let mut effects = Effects::default();
        let blamed = self.blamed(&lost, reaped.more);
        for id in lost {
            let counts = blamed.contains(&id);
            self.reap_one(
                id,
                counts,
                request.crashes_max,
                now,
                &mut effects,
                &mut reaped,
            );
        }
        let settled = self.settle(effects, now);
        reaped.woken = settled.woken;
        reaped.cascades = settled.cascades;
        for worker in dead {
            if !self.has_claims(worker) {
                self.workers.remove(&worker);
                reaped.removed.push(worker);
            }
        }
        Ok(reaped)
    }

    pub(super) fn claims_of(&self, worker: WorkerId) -> impl Iterator<Item = HeldClaim> {
        self.instances
            .values()
            .filter(move |row| row.locked_by == Some(worker))
            .map(|row| HeldClaim {
                claim: ClaimRef {
                    id: row.id,
                    revision: row.revision,
                },
                cancel: row.cancel.clone().filter(|cancel| !cancel.answered),
            })
    }

    /// Returns the claims to blame for a crash: the only claim of a worker, or its only suspect.
    ///
    /// With `more`, the claims of the last worker may be incomplete, so they are not blamed.
    fn blamed(&self, lost: &[InstanceId], more: bool) -> BTreeSet<InstanceId> {
        let rows: Vec<_> = lost
            .iter()
            .filter_map(|id| self.instances.get(id))
            .collect();
        let is_quarantined = |row: &Instance| row.crashes >= QUARANTINE_AFTER;
        let last = rows.iter().map(|row| row.locked_by).max();
        let of_one_worker = |row: &Instance| {
            let others = rows.iter().filter(|other| other.id != row.id);
            let mut others = others.filter(|other| other.locked_by == row.locked_by);
            match is_quarantined(row) {
                true => !others.any(|other| is_quarantined(other)),
                false => others.next().is_none(),
            }
        };
        let whole = rows
            .iter()
            .filter(|row| !more || Some(row.locked_by) != last);
        let blamed = whole.filter(|row| of_one_worker(row));
        blamed.map(|row| row.id).collect()
    }

    fn reap_one(
        &mut self,
        id: InstanceId,
        counts: bool,
        crashes_max: i32,
        now: Timestamp,
        effects: &mut Effects,
        reaped: &mut Reaped,
    ) {
        let Some(row) = self.instances.get_mut(&id) else {
            return;
        };
        let before = match row.crashes {
            0 => 0,
            _ => self.crashes_counted.get(&id).copied().unwrap_or(0),
        };
        let counted = before + i32::from(counts);
        self.crashes_counted.insert(id, counted);
        row.attempt += 1;
        row.crashes += 1;
        row.revision = row.revision.next();
        row.updated_at = now;
        if counted > crashes_max || row.crashes > 20 * crashes_max {
            row.last_error = Some(gave_up(row.crashes, &row.step));
            reaped.failed.push(id);
            self.end(id, Status::Failed, now, effects);
        } else {
            change_status(row, Status::Runnable);
            row.locked_by = None;
            effects.woken.insert(row.queue.clone());
            reaped.returned.push(id);
        }
    }
}
