//! Asking instances to end, and ending them.

use super::Client;
use outlast_core::{
    CancelAnswer, Extent, Hints, InstanceId, Note, QueueNames, Result, Status, Target,
    TerminateAnswer,
};

impl Client {
    /// Asks an instance to end. Its machine decides how: [`on_cancel`](crate::Machine::on_cancel), which ends it as
    /// cancelled unless the machine says otherwise. One that waits is woken for it, one that runs is told
    /// ([`Context::cancelled`](crate::Context::cancelled)). To ask again changes nothing.
    ///
    /// By its id or by `Machine::key(..)`. A key is looked up once: the instance that holds it, else the latest that
    /// held it, which then is [already ended](CancelAnswer::AlreadyEnded) unless it let go of the key before its end.
    pub async fn cancel(&self, target: impl Into<Target>, note: Note) -> Result<CancelAnswer> {
        let ids = self.resolve(target.into()).await?.into_iter().collect();
        let answers = self.cancel_all(ids, note).await?;
        Ok(answers.into_iter().next().unwrap_or(CancelAnswer::NotFound))
    }

    /// As [`cancel`](Client::cancel), for many at once.
    pub async fn cancel_all(&self, ids: Vec<InstanceId>, note: Note) -> Result<Vec<CancelAnswer>> {
        self.ask_to_end(ids, Extent::One, note).await
    }

    /// As [`cancel`](Client::cancel), for an instance and all that descend from it, whatever their policies say. The
    /// answer is the instance's own; its descendants are told after it, by engines that keep house, also when it has
    /// ended itself. [`family`](Client::family) counts whom that meets, [`close_actions`](Client::close_actions) says of each
    /// parent which of its children were told.
    pub async fn cancel_tree(&self, root: impl Into<Target>, note: Note) -> Result<CancelAnswer> {
        let ids = self.resolve(root.into()).await?.into_iter().collect();
        let answers = self.ask_to_end(ids, Extent::Tree, note).await?;
        Ok(answers.into_iter().next().unwrap_or(CancelAnswer::NotFound))
    }

    /// JoinSets an instance as cancelled now, whatever it does: nobody is asked. A step that runs is dropped where it
    /// awaits, and its outcome with it. To do it again changes nothing. By its id or by `Machine::key(..)`, as
    /// [`cancel`](Client::cancel).
    pub async fn terminate(
        &self,
        target: impl Into<Target>,
        note: Note,
    ) -> Result<TerminateAnswer> {
        let ids = self.resolve(target.into()).await?.into_iter().collect();
        let answers = self.terminate_all(ids, note).await?;
        Ok(answers
            .into_iter()
            .next()
            .unwrap_or(TerminateAnswer::NotFound))
    }

    /// As [`terminate`](Client::terminate), for many at once.
    pub async fn terminate_all(
        &self,
        ids: Vec<InstanceId>,
        note: Note,
    ) -> Result<Vec<TerminateAnswer>> {
        self.end(ids, Extent::One, note).await
    }

    /// As [`terminate`](Client::terminate), for an instance and all that descend from it; see
    /// [`cancel_tree`](Client::cancel_tree).
    pub async fn terminate_tree(
        &self,
        root: impl Into<Target>,
        note: Note,
    ) -> Result<TerminateAnswer> {
        let ids = self.resolve(root.into()).await?.into_iter().collect();
        let answers = self.end(ids, Extent::Tree, note).await?;
        Ok(answers
            .into_iter()
            .next()
            .unwrap_or(TerminateAnswer::NotFound))
    }

    async fn ask_to_end(
        &self,
        ids: Vec<InstanceId>,
        extent: Extent,
        note: Note,
    ) -> Result<Vec<CancelAnswer>> {
        let cancelled = self.store.cancel(ids.clone(), extent, note).await?;
        let mut hints = hints(cancelled.woken, cancelled.cascades);
        for (id, answer) in ids.into_iter().zip(&cancelled.answers) {
            match answer {
                // Told again if it was asked before: the first hint may have been lost.
                CancelAnswer::Requested(Status::Executing)
                | CancelAnswer::AlreadyRequested(Status::Executing) => hints.told.push(id),
                CancelAnswer::NeverStarted => hints.ended.push(id),
                CancelAnswer::Requested(_)
                | CancelAnswer::AlreadyRequested(_)
                | CancelAnswer::AlreadyEnded(_)
                | CancelAnswer::NotFound => {}
            }
        }
        self.hub.publish(&self.store, hints);
        Ok(cancelled.answers)
    }

    async fn end(
        &self,
        ids: Vec<InstanceId>,
        extent: Extent,
        note: Note,
    ) -> Result<Vec<TerminateAnswer>> {
        let terminated = self.store.terminate(ids.clone(), extent, note).await?;
        let mut hints = hints(terminated.woken, terminated.cascades);
        for (id, answer) in ids.into_iter().zip(&terminated.answers) {
            match answer {
                TerminateAnswer::Terminated(before) => {
                    hints.ended.push(id);
                    if *before == Status::Executing {
                        hints.told.push(id);
                    }
                }
                TerminateAnswer::AlreadyEnded(_) | TerminateAnswer::NotFound => {}
            }
        }
        self.hub.publish(&self.store, hints);
        Ok(terminated.answers)
    }
}

fn hints(woken: QueueNames, cascades: bool) -> Hints {
    Hints {
        cascades,
        ..Hints::now(woken)
    }
}
