//! Runs at once what is inserted or woken here: what comes out of the store as this worker's claim needs nobody
//! to find it.

use super::executor::Executor;
use super::holding::Held;
use super::lane::{Lane, Place};
use super::node::Node;
use super::picker::Pick;
use crate::client::Backend;
use crate::lease::Epoch;
use outlast_core::limits::QUEUES_MAX;
use outlast_core::{
    Claim, Delivered, Error, ErrorKind, Inserted, Inserts, NewInstance, NewSignal, Result, Start,
    Taker, WorkerId,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// The intake of one node.
pub(crate) struct Intake {
    node: Arc<Node>,
    lanes: Vec<Arc<Lane>>,
    executor: Arc<Executor>,
    tasks: TaskTracker,
}

/// Room to run one instance at once.
pub(crate) struct Room {
    intake: Arc<Intake>,
    worker: WorkerId,
    /// When it was offered: the claim that comes back was asked for after it.
    epoch: Epoch,
    /// One in each lane that it may turn out to belong to.
    places: Vec<Place>,
    /// Keeps a stop waiting.
    _token: TaskTrackerToken,
}

impl Intake {
    pub(crate) fn new(
        node: Arc<Node>,
        lanes: Vec<Arc<Lane>>,
        executor: Arc<Executor>,
        tasks: TaskTracker,
    ) -> Intake {
        Intake {
            node,
            lanes,
            executor,
            tasks,
        }
    }

    /// Room for this row, if it may run at once and nothing waits before it.
    pub(crate) fn room_for(self: &Arc<Intake>, row: &NewInstance) -> Option<Room> {
        let can_run = row.start == Start::Now
            && row.partition_key.is_none()
            && self.node.registry.get(&row.machine, row.version).is_some();
        let mut lanes = self.lanes.iter();
        let lane = lanes.find(|lane| can_run && *lane.queue == *row.queue)?;
        self.room_in(std::slice::from_ref(lane))
    }

    /// Room for whatever a signal wakes, in every lane where nothing waits.
    pub(crate) fn room_for_woken(self: &Arc<Intake>) -> Option<Room> {
        self.room_in(&self.lanes)
    }

    fn room_in(self: &Arc<Intake>, lanes: &[Arc<Lane>]) -> Option<Room> {
        // Before looking whether the engine stops: a stop that comes later waits for it.
        let token = self.tasks.token();
        let stops = self.node.stop.working.is_cancelled();
        let epoch = self.node.coverage.epoch();
        let worker = self.node.worker().filter(|_| !stops)?;
        let idle = lanes.iter().filter_map(Lane::hold_if_idle);
        let places: Vec<Place> = idle.take(QUEUES_MAX).collect();
        (!places.is_empty()).then(|| Room {
            intake: self.clone(),
            worker,
            epoch,
            places,
            _token: token,
        })
    }
}

/// What comes in, and may come back as a claim.
pub(crate) trait Arrival: Clone + Send + Sync + 'static {
    /// What the store says to it.
    type Answer: Send + 'static;

    /// The verb that brings it in.
    const OPERATION: &'static str;

    /// Brings it in, as a claim if there is room for one.
    fn bring_in(
        self,
        store: &Arc<dyn Backend>,
        room: Option<&Room>,
    ) -> impl Future<Output = Result<(Self::Answer, Option<Claim>)>> + Send;
}

impl Arrival for NewInstance {
    type Answer = Inserts;

    const OPERATION: &'static str = "insert";

    async fn bring_in(
        self,
        store: &Arc<dyn Backend>,
        room: Option<&Room>,
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

impl Arrival for NewSignal {
    type Answer = Delivered;

    const OPERATION: &'static str = "deliver";

    async fn bring_in(
        self,
        store: &Arc<dyn Backend>,
        room: Option<&Room>,
    ) -> Result<(Delivered, Option<Claim>)> {
        let taker = room.map(Room::taker);
        let mut delivered = store.deliver(vec![self], taker).await?;
        let claim = delivered.claims.pop();
        Ok((delivered, claim))
    }
}

impl Room {
    /// Brings it in and runs what comes back as a claim. Answers when it is stored.
    ///
    /// In a task of the engine's: a caller that goes away must not leave a claim that nobody knows of.
    pub(crate) async fn take_in<A: Arrival>(self, arrival: A) -> Result<A::Answer> {
        let (reply, answer) = oneshot::channel();
        let (tasks, executor) = (self.intake.tasks.clone(), self.intake.executor.clone());
        tasks.spawn(async move {
            let (answer, claim) = self.bring_in(arrival).await;
            let hub = self.intake.node.client.hub.clone();
            let pick = self.into_pick(claim);
            // Before the answer: who waits for the instance then need not look.
            let in_hand = |it: &Pick| hub.in_hand(it.claim.reference(), &it.claim.machine);
            let _in_hand = pick.as_ref().map(in_hand);
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

    /// The store's answer, and the claim that came with it, if one did.
    async fn bring_in<A: Arrival>(&self, arrival: A) -> (Result<A::Answer>, Option<(Claim, Held)>) {
        let node = &self.intake.node;
        node.claiming(async {
            match arrival.clone().bring_in(node.store(), Some(self)).await {
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

    async fn recover<A: Arrival>(&self, error: Error, arrival: A) -> Result<A::Answer> {
        let node = &self.intake.node;
        match error.kind() {
            // The lease has run out, so nothing was written: somebody else may run it.
            ErrorKind::Conflict => {
                node.renew_now();
                let (answer, _) = arrival.bring_in(node.store(), None).await?;
                Ok(answer)
            }
            ErrorKind::Transient | ErrorKind::Corrupt => {
                // Whether it was written, with a claim of ours, is unknown: the next look finds out.
                node.set_unsure();
                for place in &self.places {
                    place.lane().alarm.ring_in(Duration::ZERO);
                }
                Err(error)
            }
            ErrorKind::Invalid | ErrorKind::Closed => Err(error),
        }
    }

    /// The claim in its lane; the places in other lanes are free again.
    fn into_pick(self, claim: Option<(Claim, Held)>) -> Option<Pick> {
        let (claim, held) = claim?;
        let mut places = self.places.into_iter();
        let place = places.find(|place| *place.lane().queue == *claim.queue);
        let Some(place) = place else {
            // Of a queue that was not offered: the next look gives it back.
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

    fn taker(&self) -> Taker {
        let places = self.places.iter();
        Taker {
            worker: self.worker,
            queues: places.map(|it| it.lane().queue.to_string()).collect(),
            machines: self.intake.node.machines.clone(),
        }
    }
}
