//! Leases: one per worker.

use super::Tables;
use outlast_core::{Heartbeat, NewWorker, Result, Timestamp, Worker, WorkerId, limits};
use std::time::Duration;

impl Tables {
    pub(super) fn register(&mut self, worker: NewWorker, now: Timestamp) -> Result<WorkerId> {
        worker
            .check()
            .map_err(|invalid| invalid.during("register"))?;
        let id = WorkerId(self.next_id());
        let row = Worker {
            id,
            name: worker.name,
            host: worker.host,
            version: worker.version,
            machines: worker.machines,
            queues: worker.queues,
            started_at: now,
            heartbeat_at: now,
            lease_expires_at: now + worker.lease,
        };
        self.workers.insert(id, row);
        Ok(id)
    }

    pub(super) fn heartbeat(
        &mut self,
        worker: WorkerId,
        lease: Duration,
        now: Timestamp,
    ) -> Result<Heartbeat> {
        limits::check_lease(lease).map_err(|invalid| invalid.during("heartbeat"))?;
        let Some(row) = self.workers.get_mut(&worker) else {
            return Ok(Heartbeat::Gone);
        };
        row.heartbeat_at = now;
        row.lease_expires_at = now + lease;
        Ok(Heartbeat::Renewed)
    }

    pub(super) fn deregister(&mut self, worker: WorkerId, now: Timestamp) {
        if !self.has_claims(worker) {
            self.workers.remove(&worker);
        } else if let Some(row) = self.workers.get_mut(&worker) {
            row.lease_expires_at = row.lease_expires_at.min(now);
        }
    }

    pub(super) fn has_claims(&self, worker: WorkerId) -> bool {
        self.instances
            .values()
            .any(|row| row.locked_by == Some(worker))
    }
}
