//! Asking instances to end, and ending them.

use super::Client;
use outlast_core::{
    CancelAnswer, Extent, Hints, InstanceId, Note, QueueNames, Result, Status, TerminateAnswer,
};

impl Client {
    /// Asks an instance to end. Its machine decides how: [`on_cancel`](crate::Machine::on_cancel), which ends it as
    /// cancelled unless the machine says otherwise. One that waits is woken for it, one that runs is told
    /// ([`Context::cancelled`](crate::Context::cancelled)). To ask again changes nothing.
    pub async fn cancel(&self, id: impl Into<InstanceId>, note: Note) -> Result<CancelAnswer> {
        let answers = self.cancel_all(vec![id.into()], note).await?;
        Ok(answers.into_iter().next().unwrap_or(CancelAnswer::NotFound))
    }

    /// As [`cancel`](Client::cancel), for many at once.
    pub async fn cancel_all(&self, ids: Vec<InstanceId>, note: Note) -> Result<Vec<CancelAnswer>> {
        self.ask_to_end(ids, Extent::One, note).await
    }

    /// As [`cancel`](Client::cancel), for an instance and all that descend from it, whatever their policies say. The
    /// answer is the instance's own; its descendants are told after it, by engines that keep house, also when it has
    /// ended itself. [`family`](Client::family) counts whom that meets, [`closures`](Client::closures) says of each
    /// parent which of its children were told.
    pub async fn cancel_tree(&self, id: impl Into<InstanceId>, note: Note) -> Result<CancelAnswer> {
        let answers = self.ask_to_end(vec![id.into()], Extent::Tree, note).await?;
        Ok(answers.into_iter().next().unwrap_or(CancelAnswer::NotFound))
    }

    /// Ends an instance as cancelled now, whatever it does: nobody is asked. A step that runs is dropped where it
    /// awaits, and its outcome with it. To do it again changes nothing.
    pub async fn terminate(
        &self,
        id: impl Into<InstanceId>,
        note: Note,
    ) -> Result<TerminateAnswer> {
        let answers = self.terminate_all(vec![id.into()], note).await?;
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
        id: impl Into<InstanceId>,
        note: Note,
    ) -> Result<TerminateAnswer> {
        let answers = self.end(vec![id.into()], Extent::Tree, note).await?;
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
