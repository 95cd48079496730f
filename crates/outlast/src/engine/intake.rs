//! Runs at once what is inserted here: a row that goes into the store as this worker's claim needs nobody to
//! find it.

use super::executor::Executor;
use super::lane::{Lane, Place};
use super::node::{Held, Node};
use super::picker::Pick;
use outlast_core::{
    Claim, Error, ErrorKind, Inserted, Inserts, NewInstance, Result, Start, WorkerId,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// The intake of one queue on one node.
pub(crate) struct Intake {
    node: Arc<Node>,
    lane: Arc<Lane>,
    executor: Arc<Executor>,
    tasks: TaskTracker,
}

/// Room to run one new instance at once.
pub(crate) struct Room {
    intake: Arc<Intake>,
    worker: WorkerId,
    place: Place,
    /// Keeps a stop waiting.
    _token: TaskTrackerToken,
}

impl Intake {
    pub(crate) fn new(
        node: Arc<Node>,
        lane: Arc<Lane>,
        executor: Arc<Executor>,
        tasks: TaskTracker,
    ) -> Intake {
        Intake {
            node,
            lane,
            executor,
            tasks,
        }
    }

    /// Room for this row, if it may run at once and nothing waits before it.
    pub(crate) fn room_for(self: &Arc<Intake>, row: &NewInstance) -> Option<Room> {
        // Before looking whether the engine stops: a stop that comes later waits for it.
        let token = self.tasks.token();
        let can_run = row.start == Start::Now
            && row.partition_key.is_none()
            && self.node.registry.get(&row.machine, row.version).is_some()
            && !self.node.stop.working.is_cancelled();
        let worker = self.node.worker().filter(|_| can_run)?;
        let place = self.lane.hold_if_idle()?;
        Some(Room {
            intake: self.clone(),
            worker,
            place,
            _token: token,
        })
    }
}

impl Room {
    /// Inserts the row and runs it. Answers when it is stored.
    ///
    /// In a task of the engine's: a caller that goes away must not leave a claim that nobody knows of.
    pub(crate) async fn insert(self, row: NewInstance) -> Result<Inserts> {
        let (reply, answer) = oneshot::channel();
        let tasks = self.intake.tasks.clone();
        tasks.spawn(async move {
            let (answer, claim) = self.insert_as_claim(row).await;
            // The caller may have gone away.
            let _ = reply.send(answer);
            if let Some((claim, held)) = claim {
                let pick = Pick {
                    claim: Box::new(claim),
                    held,
                    place: self.place,
                    taken: Instant::now(),
                };
                self.intake.executor.run(pick).await;
            }
        });
        let closed = Error::Closed {
            operation: "insert",
        };
        answer.await.unwrap_or(Err(closed))
    }

    /// The answer to the insert, and the claim that came with it, if one did.
    async fn insert_as_claim(&self, row: NewInstance) -> (Result<Inserts>, Option<(Claim, Held)>) {
        let node = &self.intake.node;
        node.claiming(async {
            let rows = vec![row.clone()];
            match node.store().insert(rows, Some(self.worker)).await {
                Ok(inserts) => {
                    let claim = claim_of(row, &inserts).map(|claim| {
                        let held = node.hold(claim.reference());
                        (claim, held)
                    });
                    (Ok(inserts), claim)
                }
                Err(error) => (self.recover(error, row).await, None),
            }
        })
        .await
    }

    async fn recover(&self, error: Error, row: NewInstance) -> Result<Inserts> {
        let Intake { node, lane, .. } = &*self.intake;
        match error.kind() {
            // The lease has run out, so nothing was written: somebody else may run it.
            ErrorKind::Conflict => {
                node.renew_now();
                node.store().insert(vec![row], None).await
            }
            ErrorKind::Transient | ErrorKind::Corrupt => {
                // Whether the row was inserted, as a claim of ours, is unknown: the next look finds out.
                node.set_unsure();
                lane.alarm.ring_in(Duration::ZERO);
                Err(error)
            }
            ErrorKind::Invalid | ErrorKind::Closed => Err(error),
        }
    }
}

/// The claim on the only row of an insert, if the store handed it over.
fn claim_of(row: NewInstance, inserts: &Inserts) -> Option<Claim> {
    match inserts.rows.first()? {
        Inserted::New {
            id,
            claimed: Some(revision),
        } => Some(Claim::at_insert(row, *id, *revision)),
        Inserted::New { claimed: None, .. } | Inserted::Duplicate { .. } => None,
    }
}
