//! Cancelling and terminating instances.

use super::Admin;
use outlast_core::{
    CancelAnswer, Extent, Hints, InstanceId, Note, QueueNames, Result, Status, Target,
    TerminateAnswer,
};

impl Admin<'_> {
    /// Cancels an instance. Its machine decides how it ends.
    ///
    /// By default [`on_cancel`](crate::Machine::on_cancel) ends it as cancelled. A waiting
    /// instance is woken for it; a running step is notified through
    /// [`Context::cancelled`](crate::Context::cancelled). A second cancel changes nothing.
    ///
    /// Takes an id or `Machine::key(..)`. A key is looked up once: it addresses the holder, or
    /// else the latest instance that held it. That one is [already
    /// ended](CancelAnswer::AlreadyEnded), unless it released the key before its end.
    pub async fn cancel(self, target: impl Into<Target>, note: Note) -> Result<CancelAnswer> {
        let ids = self
            .client
            .resolve(target.into())
            .await?
            .into_iter()
            .collect();
        let answers = self.cancel_all(ids, note).await?;
        Ok(answers.into_iter().next().unwrap_or(CancelAnswer::NotFound))
    }

    /// Like [`cancel`](Admin::cancel), for many instances at once.
    pub async fn cancel_all(self, ids: Vec<InstanceId>, note: Note) -> Result<Vec<CancelAnswer>> {
        self.ask_to_end(ids, Extent::One, note).await
    }

    /// Like [`cancel`](Admin::cancel), for an instance and its descendants.
    ///
    /// The policies of the descendants do not matter. The answer is that of the instance. Engines
    /// with the maintenance role cancel the descendants afterwards, also when the instance has
    /// finished. [`family`](Admin::family) counts the affected instances.
    /// [`close_actions`](Admin::close_actions) lists the affected children of a parent.
    pub async fn cancel_tree(self, root: impl Into<Target>, note: Note) -> Result<CancelAnswer> {
        let ids = self
            .client
            .resolve(root.into())
            .await?
            .into_iter()
            .collect();
        let answers = self.ask_to_end(ids, Extent::Tree, note).await?;
        Ok(answers.into_iter().next().unwrap_or(CancelAnswer::NotFound))
    }

    /// Ends an instance as cancelled now, in any status, without asking its machine.
    ///
    /// A running step is dropped where it awaits, with its outcome. A second call changes nothing.
    /// Takes an id or `Machine::key(..)`, like [`cancel`](Admin::cancel).
    pub async fn terminate(self, target: impl Into<Target>, note: Note) -> Result<TerminateAnswer> {
        let ids = self
            .client
            .resolve(target.into())
            .await?
            .into_iter()
            .collect();
        let answers = self.terminate_all(ids, note).await?;
        Ok(answers
            .into_iter()
            .next()
            .unwrap_or(TerminateAnswer::NotFound))
    }

    /// Like [`terminate`](Admin::terminate), for many instances at once.
    pub async fn terminate_all(
        self,
        ids: Vec<InstanceId>,
        note: Note,
    ) -> Result<Vec<TerminateAnswer>> {
        self.end(ids, Extent::One, note).await
    }

    /// Like [`terminate`](Admin::terminate), for an instance and its descendants.
    ///
    /// See [`cancel_tree`](Admin::cancel_tree).
    pub async fn terminate_tree(
        self,
        root: impl Into<Target>,
        note: Note,
    ) -> Result<TerminateAnswer> {
        let ids = self
            .client
            .resolve(root.into())
            .await?
            .into_iter()
            .collect();
        let answers = self.end(ids, Extent::Tree, note).await?;
        Ok(answers
            .into_iter()
            .next()
            .unwrap_or(TerminateAnswer::NotFound))
    }

    async fn ask_to_end(
        self,
        ids: Vec<InstanceId>,
        extent: Extent,
        note: Note,
    ) -> Result<Vec<CancelAnswer>> {
        let cancelled = self.client.store.cancel(ids.clone(), extent, note).await?;
        let mut hints = hints(cancelled.woken, cancelled.cascades);
        for (id, answer) in ids.into_iter().zip(&cancelled.answers) {
            match answer {
                // Sends the hint again for a repeated cancel: the first hint may have been lost.
                CancelAnswer::Requested(Status::Executing)
                | CancelAnswer::AlreadyRequested(Status::Executing) => hints.cancelled.push(id),
                CancelAnswer::NeverStarted => hints.ended.push(id),
                CancelAnswer::Requested(_)
                | CancelAnswer::AlreadyRequested(_)
                | CancelAnswer::AlreadyEnded(_)
                | CancelAnswer::NotFound => {}
            }
        }
        self.client.hub.publish(&self.client.store, hints);
        Ok(cancelled.answers)
    }

    async fn end(
        self,
        ids: Vec<InstanceId>,
        extent: Extent,
        note: Note,
    ) -> Result<Vec<TerminateAnswer>> {
        let terminated = self
            .client
            .store
            .terminate(ids.clone(), extent, note)
            .await?;
        let mut hints = hints(terminated.woken, terminated.cascades);
        for (id, answer) in ids.into_iter().zip(&terminated.answers) {
            match answer {
                TerminateAnswer::Terminated(before) => {
                    hints.ended.push(id);
                    if *before == Status::Executing {
                        hints.cancelled.push(id);
                    }
                }
                TerminateAnswer::AlreadyEnded(_) | TerminateAnswer::NotFound => {}
            }
        }
        self.client.hub.publish(&self.client.store, hints);
        Ok(terminated.answers)
    }
}

fn hints(woken: QueueNames, cascades: bool) -> Hints {
    Hints {
        cascades,
        ..Hints::now(woken)
    }
}
