//! Runs instances at once that are inserted or woken through this engine.
//!
//! The client calls it for inserts and signals. The store returns the instance as a claim of this
//! worker, so no picker has to find it. It is never used
//! for a queue where instances are known to wait.

use super::picker::Pick;
use super::queue_slots::{ClaimPermit, QueueSlots};
use crate::client::Backend;
use crate::engine::claims::ClaimGuard;
use crate::engine::executor::Executor;
use crate::engine::node::Node;
use crate::lease::Epoch;
use outlast_core::limits::QUEUES_MAX;
use outlast_core::{
    Claim, ClaimOffer, Delivered, Error, ErrorKind, Inserted, Inserts, NewInstance, NewSignal,
    Result, Start, WorkerId,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// The fast path of one node.
pub(crate) struct FastPath {
    node: Arc<Node>,
    queues: Vec<Arc<QueueSlots>>,
    executor: Arc<Executor>,
    tasks: TaskTracker,
}

/// Room to run one instance at once.
pub(crate) struct Reservation {
    fast_path: Arc<FastPath>,
    worker: WorkerId,
    /// The epoch at the reservation: the claim is requested after it.
    epoch: Epoch,
    /// A permit in each queue that the instance may turn out to belong to.
    places: Vec<ClaimPermit>,
    /// Makes a stop wait for this reservation.
    _token: TaskTrackerToken,
}

impl FastPath {
    pub(crate) fn new(
        node: Arc<Node>,
        queues: Vec<Arc<QueueSlots>>,
        executor: Arc<Executor>,
        tasks: TaskTracker,
    ) -> FastPath {
        FastPath {
            node,
            queues,
            executor,
            tasks,
        }
    }

    /// Reserves room for this row, if it may run at once and nothing waits before it.
    pub(crate) fn reserve_for(self: &Arc<FastPath>, row: &NewInstance) -> Option<Reservation> {
        let can_run = row.start == Start::Now
            && row.partition_key.is_none()
            && self
                .node
                .code
                .registry
                .get(&row.machine, row.version)
                .is_some();
        let mut queues = self.queues.iter();
        let queue_slots = queues.find(|queue_slots| can_run && *queue_slots.queue == *row.queue)?;
        self.reserve_in(std::slice::from_ref(queue_slots))
    }

    /// Reserves room for an instance that a signal wakes, in every queue where nothing waits.
    pub(crate) fn reserve_for_woken(self: &Arc<FastPath>) -> Option<Reservation> {
        self.reserve_in(&self.queues)
    }

    fn reserve_in(self: &Arc<FastPath>, queues: &[Arc<QueueSlots>]) -> Option<Reservation> {
        // Take the token before the check for a stop: a later stop then waits for it.
        let token = self.tasks.token();
        let stops = self.node.stop.working.is_cancelled();
        let epoch = self.node.coverage.epoch();
        let worker = self.node.worker().filter(|_| !stops)?;
        let idle = queues.iter().filter_map(QueueSlots::hold_if_idle);
        let places: Vec<ClaimPermit> = idle.take(QUEUES_MAX).collect();
        (!places.is_empty()).then(|| Reservation {
            fast_path: self.clone(),
            worker,
            epoch,
            places,
            _token: token,
        })
    }
}

/// An insert or signal that may come back as a claim.
pub(crate) trait Submission: Clone + Send + Sync + 'static {
    /// The store's answer to it.
    type Answer: Send + 'static;

    /// The name of the store's verb.
    const OPERATION: &'static str;

    /// Sends it to the store, with the offer to claim if there is room.
    fn submit(
        self,
        store: &Arc<dyn Backend>,
        room: Option<&Reservation>,
    ) -> impl Future<Output = Result<(Self::Answer, Option<Claim>)>> + Send;
}

impl Submission for NewInstance {
    type Answer = Inserts;

    const OPERATION: &'static str = "insert";

    async fn submit(
        self,
        store: &Arc<dyn Backend>,
        room: Option<&Reservation>,
    ) -> Result<(Inserts, Option<Claim>)> {
        let worker = room.map(|room| room.worker);
        let inserts = store.insert(vec![self.clone()], worker).await?;
        let claim = match inserts.rows.first() {
            Some(Inserted::New {
                id,
                claimed: Some(revision),
            }) => Some(Claim::at_insert(self, *id, *revision)),
            Some(Inserted::New { claimed: None, .. } | Inserted::Duplicate { .. }) | None => None,
        };
        Ok((inserts, claim))
    }
}

impl Submission for NewSignal {
    type Answer = Delivered;

    const OPERATION: &'static str = "deliver";

    async fn submit(
        self,
        store: &Arc<dyn Backend>,
        room: Option<&Reservation>,
    ) -> Result<(Delivered, Option<Claim>)> {
        let offer = room.map(Reservation::offer);
        let mut delivered = store.deliver(vec![self], offer).await?;
        let claim = delivered.claims.pop();
        Ok((delivered, claim))
    }
}

impl Reservation {
    /// Submits the arrival and runs the claim that comes back. Returns once it is stored.
    ///
    /// It runs in a task of the engine: a caller that goes away must not leave an unknown claim
    /// behind.
    pub(crate) async fn dispatch<A: Submission>(self, arrival: A) -> Result<A::Answer> {
        let (reply, answer) = oneshot::channel();
        let (tasks, executor) = (
            self.fast_path.tasks.clone(),
            self.fast_path.executor.clone(),
        );
        tasks.spawn(async move {
            let (answer, claim) = self.submit(arrival).await;
            let hub = self.fast_path.node.client.hub.clone();
            let pick = self.into_pick(claim);
            // Register it before the answer: a caller that then waits for the instance need not
            // look.
            let mark = |it: &Pick| hub.mark_running(it.claim.reference(), &it.claim.machine);
            let _running = pick.as_ref().map(mark);
            // The caller may have gone away.
            let _ = reply.send(answer);
            if let Some(pick) = pick {
                executor.run(pick).await;
            }
        });
        let closed = Error::Closed {
            operation: A::OPERATION,
        };
        answer.await.unwrap_or(Err(closed))
    }

    /// Returns the store's answer, and the claim that came with it, if any.
    async fn submit<A: Submission>(
        &self,
        arrival: A,
    ) -> (Result<A::Answer>, Option<(Claim, ClaimGuard)>) {
        let node = &self.fast_path.node;
        node.claiming(async {
            match arrival.clone().submit(node.store(), Some(self)).await {
                Ok((answer, claim)) => {
                    let claim = claim.map(|claim| {
                        let held = node.hold(claim.reference(), self.epoch);
                        (claim, held)
                    });
                    (Ok(answer), claim)
                }
                Err(error) => (self.recover(error, arrival).await, None),
            }
        })
        .await
    }

    async fn recover<A: Submission>(&self, error: Error, arrival: A) -> Result<A::Answer> {
        let node = &self.fast_path.node;
        match error.kind() {
            // The lease has expired, so nothing was written. Submit it without a claim; another
            // worker may run it.
            ErrorKind::Conflict => {
                node.renew_now();
                let (answer, _) = arrival.submit(node.store(), None).await?;
                Ok(answer)
            }
            ErrorKind::Transient | ErrorKind::Corrupt => {
                // It is unknown whether it was written as a claim of ours. The next check finds
                // out.
                node.set_unsure();
                for place in &self.places {
                    place.queue_slots().alarm.ring_in(Duration::ZERO);
                }
                Err(error)
            }
            ErrorKind::Invalid | ErrorKind::Closed => Err(error),
        }
    }

    /// Returns the claim with the permit of its queue, and drops the other permits.
    fn into_pick(self, claim: Option<(Claim, ClaimGuard)>) -> Option<Pick> {
        let (claim, held) = claim?;
        let mut places = self.places.into_iter();
        let place = places.find(|place| *place.queue_slots().queue == *claim.queue);
        let Some(place) = place else {
            // The claim is of a queue that was not offered. The next check gives it back.
            held.forsake();
            return None;
        };
        Some(Pick {
            claim: Box::new(claim),
            held,
            place,
            taken: Instant::now(),
        })
    }

    fn offer(&self) -> ClaimOffer {
        let places = self.places.iter();
        ClaimOffer {
            worker: self.worker,
            queues: places
                .map(|it| it.queue_slots().queue.to_string())
                .collect(),
            machines: self.fast_path.node.machines.clone(),
        }
    }
}
