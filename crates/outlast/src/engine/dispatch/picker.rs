//! Claims instances from one queue, as many as there is room for.
//!
//! The engine starts one picker per queue. It never drops a claim call that is under way.

use super::queue_slots::{ClaimPermit, QueueSlots};
use crate::engine::backoff::{Backoff, jittered};
use crate::engine::claims::ClaimGuard;
use crate::engine::executor::Executor;
use crate::engine::node::Node;
use crate::lease::Epoch;
use crate::metrics;
use outlast_core::limits::CLAIM_MAX;
use outlast_core::{Claim, ClaimRequest, Error, ErrorKind};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

/// The most claims in one call. They start together, so the first waits for the last. If there is
/// room for more, the next call follows at once.
const AT_ONCE_MAX: usize = 1_000;
const _: () = assert!(AT_ONCE_MAX <= CLAIM_MAX);

/// The pause after a call that returned nothing although the queue may hold more.
const PATIENCE: Duration = Duration::from_millis(5);

/// The picker of one queue.
pub(crate) struct Picker {
    node: Arc<Node>,
    queue_slots: Arc<QueueSlots>,
    executor: Arc<Executor>,
    tasks: TaskTracker,
}

/// A claim with its permit.
pub(crate) struct Pick {
    pub(crate) claim: Box<Claim>,
    pub(crate) held: ClaimGuard,
    pub(crate) place: ClaimPermit,
    pub(crate) taken: Instant,
}

/// The result of one claim call.
pub(crate) struct Picked {
    pub(crate) picks: Vec<Pick>,
    /// When to look again without a hint.
    pub(crate) look_again_in: Option<Duration>,
}

impl Picker {
    pub(crate) fn new(
        node: Arc<Node>,
        queue_slots: Arc<QueueSlots>,
        executor: Arc<Executor>,
        tasks: TaskTracker,
    ) -> Picker {
        Picker {
            node,
            queue_slots,
            executor,
            tasks,
        }
    }

    pub(crate) async fn run(self) {
        let stop = self.node.stop.working.clone();
        let mut backoff = Backoff::default();
        let mut last_look = (Instant::now(), self.queue_slots.started());
        loop {
            let look = (Instant::now(), self.queue_slots.started());
            // Wait for a claim call under way: if it were dropped, its claims would be unknown.
            let looked = self.run_once().await;
            self.queue_slots.learn_pace(
                self.queue_slots.started().wrapping_sub(last_look.1),
                last_look.0.elapsed(),
                look.0.elapsed(),
            );
            last_look = look;
            let next_look = match looked {
                Ok(picked) => {
                    backoff.reset();
                    self.start(picked.picks);
                    picked.look_again_in
                }
                Err(error) => {
                    self.recover(&error);
                    Some(backoff.next())
                }
            };
            let poll = jittered(self.node.settings.poll_interval);
            let latest = Instant::now() + next_look.map_or(poll, |next| next.min(poll));
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.queue_slots.alarm.rung(latest) => {}
            }
        }
    }

    /// Asks once for as many claims as there is room for.
    pub(crate) async fn run_once(&self) -> Result<Picked, Error> {
        // Set this before looking: a slot that comes free in between must wake the picker.
        self.queue_slots.set_wants_more(true);
        let room = self.queue_slots.room().min(AT_ONCE_MAX);
        let epoch = self.node.coverage.epoch();
        let (Some(worker), 1..) = (self.node.worker(), room) else {
            return Ok(Picked {
                picks: Vec::new(),
                look_again_in: None,
            });
        };
        self.node.give_back_if_unsure().await?;
        let request = ClaimRequest {
            worker,
            queue: self.queue_slots.queue.as_ref().to_owned(),
            machines: self.node.machines.clone(),
            max: room,
        };
        let span = tracing::debug_span!("claim", queue = %self.queue_slots.queue, worker = %worker, asked = room, claimed = tracing::field::Empty);
        self.node
            .claiming(self.ask(request, epoch).instrument(span))
            .await
    }

    async fn ask(&self, request: ClaimRequest, epoch: Epoch) -> Result<Picked, Error> {
        let asked = Instant::now();
        let claimed = self.node.store().claim(request).await?;
        let taken = Instant::now();
        metrics::claimed(&self.queue_slots.queue, claimed.claims.len(), taken - asked);
        tracing::Span::current().record("claimed", claimed.claims.len());
        self.queue_slots.set_wants_more(claimed.more);
        self.queue_slots.set_backlog(claimed.more);
        let brought_nothing = claimed.claims.is_empty();
        let pick = |claim: Claim| {
            tracing::debug!(instance = %claim.id, revision = %claim.revision, "claimed");
            Pick {
                held: self.node.hold(claim.reference(), epoch),
                place: self.queue_slots.hold(),
                claim: Box::new(claim),
                taken,
            }
        };
        let picks = claimed.claims.into_iter().map(pick).collect();
        let look_again_in = match (claimed.more, brought_nothing) {
            // Without room, the next free slot wakes the picker.
            (true, false) => Some(Duration::ZERO).filter(|_| self.queue_slots.room() > 0),
            (true, true) => Some(PATIENCE),
            (false, _) => claimed.next_due_in,
        };
        Ok(Picked {
            picks,
            look_again_in,
        })
    }

    /// Starts a task for each claim, from another task: the next claim call is sent meanwhile.
    fn start(&self, picks: Vec<Pick>) {
        let (tasks, executor) = (self.tasks.clone(), self.executor.clone());
        self.tasks.spawn(async move {
            for pick in picks {
                let executor = executor.clone();
                tasks.spawn(async move { executor.run(pick).await });
            }
        });
    }

    fn recover(&self, error: &Error) {
        metrics::store_error("picker");
        match error.kind() {
            ErrorKind::Conflict => {
                tracing::warn!(queue = %self.queue_slots.queue, %error, "the lease has expired; registering again");
                self.node.renew_now();
            }
            ErrorKind::Transient | ErrorKind::Invalid | ErrorKind::Corrupt | ErrorKind::Closed => {
                tracing::warn!(queue = %self.queue_slots.queue, %error, "could not claim; trying again");
                // It is unknown whether the store took the claim.
                self.node.set_unsure();
            }
        }
    }
}
