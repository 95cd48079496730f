//! What people do to instances and queues. Each act is recorded with who did it and why.

use super::Client;
use outlast_core::{DeleteAnswer, InstanceId, Note, Result, RetryAnswer, Target};

impl Client {
    /// Starts a failed or cancelled instance again at the step where it ended. By its id or by `Machine::key(..)`: the
    /// instance that holds the key, else the latest that held it.
    pub async fn retry(&self, target: impl Into<Target>, note: Note) -> Result<RetryAnswer> {
        let ids = self.resolve(target.into()).await?.into_iter().collect();
        let answers = self.retry_all(ids, note).await?;
        Ok(answers.into_iter().next().unwrap_or(RetryAnswer::NotFound))
    }

    /// As [`retry`](Client::retry), for many at once.
    pub async fn retry_all(&self, ids: Vec<InstanceId>, note: Note) -> Result<Vec<RetryAnswer>> {
        let retried = self.store.retry(ids, note).await?;
        self.publish(retried.woken);
        Ok(retried.answers)
    }

    /// Removes an instance that has ended. By its id or by `Machine::key(..)`, as [`retry`](Client::retry).
    pub async fn delete(&self, target: impl Into<Target>, note: Note) -> Result<DeleteAnswer> {
        let ids = self.resolve(target.into()).await?.into_iter().collect();
        let answers = self.delete_all(ids, note).await?;
        Ok(answers.into_iter().next().unwrap_or(DeleteAnswer::NotFound))
    }

    /// As [`delete`](Client::delete), for many at once.
    pub async fn delete_all(&self, ids: Vec<InstanceId>, note: Note) -> Result<Vec<DeleteAnswer>> {
        self.store.delete(ids, note).await
    }

    /// Stops a queue from giving out work, on every node; what runs goes on. Answers whether that changed
    /// anything. Any name can be paused, also in advance; [`missing_queue`](Client::missing_queue) says whether a
    /// queue of this name exists.
    pub async fn pause(&self, queue: &str, note: Note) -> Result<bool> {
        self.store.pause(queue, note).await
    }

    /// Lets a queue give out work again. Answers whether that changed anything.
    pub async fn resume(&self, queue: &str, note: Note) -> Result<bool> {
        let changed = self.store.resume(queue, note).await?;
        self.publish([queue.to_owned()].into());
        Ok(changed)
    }
}
