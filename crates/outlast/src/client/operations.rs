//! Operations on instances and queues. Each is recorded with its operator and reason.

use super::Admin;
use outlast_core::{
    DeleteAnswer, Hints, InstanceId, Note, RepairAnswer, Result, RetryAnswer, Target,
};

impl Admin<'_> {
    /// Restarts a failed or cancelled instance at the step where it ended.
    ///
    /// Takes an id or `Machine::key(..)`: the holder of the key, or else the latest instance that
    /// held it.
    pub async fn retry(self, target: impl Into<Target>, note: Note) -> Result<RetryAnswer> {
        let ids = self
            .client
            .resolve(target.into())
            .await?
            .into_iter()
            .collect();
        let answers = self.retry_all(ids, note).await?;
        Ok(answers.into_iter().next().unwrap_or(RetryAnswer::NotFound))
    }

    /// Like [`retry`](Admin::retry), for many instances at once.
    pub async fn retry_all(self, ids: Vec<InstanceId>, note: Note) -> Result<Vec<RetryAnswer>> {
        let retried = self.client.store.retry(ids, note).await?;
        self.client.publish(retried.woken);
        Ok(retried.answers)
    }

    /// Deletes a finished instance.
    ///
    /// Takes an id or `Machine::key(..)`, like [`retry`](Admin::retry).
    pub async fn delete(self, target: impl Into<Target>, note: Note) -> Result<DeleteAnswer> {
        let ids = self
            .client
            .resolve(target.into())
            .await?
            .into_iter()
            .collect();
        let answers = self.delete_all(ids, note).await?;
        Ok(answers.into_iter().next().unwrap_or(DeleteAnswer::NotFound))
    }

    /// Like [`delete`](Admin::delete), for many instances at once.
    pub async fn delete_all(self, ids: Vec<InstanceId>, note: Note) -> Result<Vec<DeleteAnswer>> {
        self.client.store.delete(ids, note).await
    }

    /// Repairs an instance that nothing would ever wake.
    ///
    /// Takes an id or `Machine::key(..)`, like [`retry`](Admin::retry). The answer says what was
    /// wrong. An instance that needs no repair stays as it is, so a repair does no harm.
    /// [`liveness`](Admin::liveness) says whether an instance needs one.
    pub async fn repair(self, target: impl Into<Target>, note: Note) -> Result<RepairAnswer> {
        let ids = self
            .client
            .resolve(target.into())
            .await?
            .into_iter()
            .collect();
        let answers = self.repair_all(ids, note).await?;
        Ok(answers.into_iter().next().unwrap_or(RepairAnswer::NotFound))
    }

    /// Like [`repair`](Admin::repair), for many instances at once.
    pub async fn repair_all(self, ids: Vec<InstanceId>, note: Note) -> Result<Vec<RepairAnswer>> {
        let repaired = self.client.store.repair(ids, note).await?;
        let hints = Hints {
            cascades: repaired.cascades,
            ..Hints::now(repaired.woken)
        };
        self.client.hub.publish(&self.client.store, hints);
        Ok(repaired.answers)
    }

    /// Pauses a queue on every node: no instance of it is claimed. Running steps continue.
    ///
    /// Answers whether this changed anything. Any name can be paused, also in advance;
    /// [`missing_queue`](Admin::missing_queue) says whether a queue of this name exists.
    pub async fn pause(self, queue: &str, note: Note) -> Result<bool> {
        self.client.store.pause(queue, note).await
    }

    /// Resumes a paused queue. Answers whether this changed anything.
    pub async fn resume(self, queue: &str, note: Note) -> Result<bool> {
        let changed = self.client.store.resume(queue, note).await?;
        self.client.publish([queue.to_owned()].into());
        Ok(changed)
    }
}
