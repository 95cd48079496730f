//! Waiting for an instance, from any node.

use super::handle::FOREVER;
use super::{Admin, Client};
use crate::definition::Durable;
use crate::error::{WaitError, decode};
use crate::hub::InstanceWatch;
use outlast_core::{Instance, InstanceId, Json, Revision, Status, Target};
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::Instant;

/// The first and the longest pause between two polls. Hints make most polls unnecessary, but a
/// node without an engine receives no hints from other nodes.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

impl Client {
    /// Waits until the instance has finished, at most this long, and returns its output.
    pub(super) async fn wait_output<D: Durable>(
        &self,
        id: InstanceId,
        at_most: Duration,
    ) -> Result<D::Output, WaitError> {
        let is_ended = Status::is_terminal;
        let seen = self.look_until(id, at_most, is_ended, InstanceWatch::end_after);
        match seen.await? {
            WaitEnd::Reported(end) => {
                let result = end.result;
                let result = result.map(|result| self.coding.decode_result(D::NAME, id, result));
                let reason = end.reason;
                let reason = reason.map(|reason| self.coding.decode_reason(D::NAME, id, reason));
                output::<D>(id, end.status, result.transpose()?, reason.transpose()?)
            }
            WaitEnd::Stored(it) => output::<D>(id, it.status, it.result, it.last_error),
        }
    }

    /// Waits until the hints of this client are sent: for a program that exits at once.
    ///
    /// A node without the hint finds out by polling; a cancelled running step within a third of
    /// its lease.
    pub async fn flush_hints(&self) {
        self.hub.flushed().await;
    }

    async fn wait_until(
        &self,
        target: Target,
        at_most: Duration,
        is_reached: impl Fn(Status) -> bool,
    ) -> Result<Instance, WaitError> {
        let id = self.id_of(target).await?;
        let told_nothing = |_: &InstanceWatch, _: Revision| None::<Infallible>;
        let seen = self.look_until(id, at_most, is_reached, told_nothing);
        match seen.await? {
            WaitEnd::Stored(instance) => Ok(*instance),
            WaitEnd::Reported(never) => match never {},
        }
    }

    /// Polls the store after each hint, until the condition is met.
    ///
    /// Accepts an end that this process reported without a query.
    async fn look_until<T>(
        &self,
        id: InstanceId,
        at_most: Duration,
        is_reached: impl Fn(Status) -> bool,
        told: impl Fn(&InstanceWatch, Revision) -> Option<T>,
    ) -> Result<WaitEnd<T>, WaitError> {
        // A longer time has no representable end.
        let deadline = Instant::now() + at_most.min(FOREVER);
        let mut watch = self.hub.watch(id);
        let mut pause = FIRST_PAUSE;
        loop {
            // An instance that runs here has not finished or parked yet, and the hub reports when
            // it does.
            let revision = match watch.take_known() {
                Some(known) => known.revision,
                None => {
                    let instance = self.store.get(id).await?.ok_or(WaitError::NotFound)?;
                    if is_reached(instance.status) {
                        let instance = self.coding.decode_instance(instance, "wait")?;
                        return Ok(WaitEnd::Stored(Box::new(instance)));
                    }
                    if Instant::now() >= deadline {
                        let instance = self.coding.decode_instance(instance, "wait")?;
                        return Err(WaitError::TimedOut {
                            instance: Box::new(instance),
                            why: None,
                        });
                    }
                    instance.revision
                }
            };
            let next_look = (Instant::now() + pause).min(deadline);
            // A timeout means only that it is time to poll.
            let _ = tokio::time::timeout_at(next_look, watch.moved()).await;
            if let Some(told) = told(&watch, revision) {
                return Ok(WaitEnd::Reported(told));
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn id_of(&self, target: Target) -> Result<InstanceId, WaitError> {
        self.resolve(target).await?.ok_or(WaitError::NotFound)
    }

    /// Finds the instance: by key the holder, or else the latest that held it.
    pub(super) async fn resolve(
        &self,
        target: Target,
    ) -> Result<Option<InstanceId>, outlast_core::Error> {
        match target {
            Target::Id(id) => Ok(Some(id)),
            Target::Key { machine, key } => {
                let found = self.store.find(&machine, &key).await?;
                Ok(found.map(|instance| instance.id))
            }
        }
    }
}

impl Admin<'_> {
    /// Waits until the instance has finished, successfully or not, at most this long.
    ///
    /// A key is looked up once: the holder, or else the latest instance that held it.
    pub async fn wait_ended(
        self,
        target: impl Into<Target>,
        at_most: Duration,
    ) -> Result<Instance, WaitError> {
        self.client
            .wait_until(target.into(), at_most, Status::is_terminal)
            .await
    }

    /// Waits until the instance has finished or parked, at most this long.
    ///
    /// A parked instance changes only after a signal, a child or its deadline.
    pub async fn wait_settled(
        self,
        target: impl Into<Target>,
        at_most: Duration,
    ) -> Result<Instance, WaitError> {
        self.client
            .wait_until(target.into(), at_most, |status| match status {
                Status::Runnable | Status::Executing => false,
                Status::AwaitingSignal
                | Status::Sleeping
                | Status::AwaitingChildren
                | Status::Done
                | Status::Failed
                | Status::Cancelled => true,
            })
            .await
    }
}

/// How a wait ended.
enum WaitEnd<T> {
    /// By a query.
    Stored(Box<Instance>),
    /// By the report of this process.
    Reported(T),
}

fn output<D: Durable>(
    id: InstanceId,
    status: Status,
    result: Option<Json>,
    reason: Option<String>,
) -> Result<D::Output, WaitError> {
    match (status, result) {
        (Status::Done, Some(result)) => {
            decode(&result).map_err(|invalid| WaitError::Result { id, invalid })
        }
        (status, value) => Err(WaitError::Ended {
            id,
            status,
            reason,
            value: value.map(|value| (D::NAME.to_owned(), value)),
        }),
    }
}
