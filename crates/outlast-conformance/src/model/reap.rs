//! Returning the claims of dead workers.

use super::Tables;
use super::settle::Effects;
use super::tables::change_status;
use outlast_core::{
    ClaimRef, HeldClaim, InstanceId, ReapRequest, Reaped, Result, Status, Timestamp, WorkerId,
    gave_up,
};

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
        for id in lost {
            self.reap_one(id, request.crashes_max, now, &mut effects, &mut reaped);
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

    fn reap_one(
        &mut self,
        id: InstanceId,
        crashes_max: i32,
        now: Timestamp,
        effects: &mut Effects,
        reaped: &mut Reaped,
    ) {
        let Some(row) = self.instances.get_mut(&id) else {
            return;
        };
        row.attempt += 1;
        row.crashes += 1;
        row.revision = row.revision.next();
        row.updated_at = now;
        if row.crashes > crashes_max {
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
