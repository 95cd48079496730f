//! What the loops of one engine share.

use super::builder::Settings;
use super::faults::Fault;
use crate::client::{Backend, Client};
use crate::hub::Alarm;
use crate::machine::Registry;
use outlast_core::{ClaimRef, Error, MachineVersion, WorkerId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::RwLock;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// One running engine, as its loops see it.
pub(crate) struct Node {
    pub(crate) client: Client,
    pub(crate) settings: Settings,
    pub(crate) registry: Registry,
    /// What every claim asks for.
    pub(crate) machines: Arc<[MachineVersion]>,
    pub(crate) stop: Stop,
    pub(crate) fault: Option<Fault>,
    /// By claim and not by instance: one that goes through the queue may be claimed again here before the
    /// task of the claim before is gone.
    held: Mutex<HashMap<ClaimRef, Holding>>,
    /// Claims are taken under the read side; the write side is whoever must know that none is under way.
    claiming: RwLock<()>,
    /// A call broke, and what it claimed or kept is unknown.
    unsure: AtomicBool,
    lease: Mutex<Option<Lease>>,
    /// Rings for the heartbeat.
    pub(crate) lease_alarm: Alarm,
}

/// What is known here of a claim that is held.
#[derive(Clone, Default)]
struct Holding {
    /// It is known to be lost.
    lost: CancellationToken,
    /// The user's code that runs for it right now.
    running: Arc<Mutex<Option<Running>>>,
}

/// User's code that runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    /// For this claim, as it is now: steps that follow one another change its revision.
    pub(crate) claim: ClaimRef,
    pub(crate) machine: &'static str,
    pub(crate) step: &'static str,
    /// How long it may take.
    pub(crate) limit: Duration,
    pub(crate) since: Instant,
    /// Its claim has come to an end without it.
    pub(crate) left_behind: bool,
}

/// How far an engine has stopped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop {
    /// No new work.
    pub(crate) working: CancellationToken,
    /// Running steps have had their time.
    pub(crate) grace: CancellationToken,
    /// Everything else, once the work has ended.
    pub(crate) everything: CancellationToken,
}

/// The worker that this engine is at present.
#[derive(Clone, Copy, Debug)]
struct Lease {
    worker: WorkerId,
    renewed: Instant,
}

impl Node {
    pub(crate) fn new(
        client: Client,
        settings: Settings,
        registry: Registry,
        fault: Option<Fault>,
    ) -> Node {
        Node {
            machines: registry.versions(),
            client,
            settings,
            registry,
            stop: Stop::default(),
            fault,
            held: Mutex::default(),
            claiming: RwLock::default(),
            unsure: AtomicBool::new(false),
            lease: Mutex::default(),
            lease_alarm: Alarm::default(),
        }
    }

    pub(crate) fn store(&self) -> &Arc<dyn Backend> {
        &self.client.store
    }

    /// Who this engine is; nobody before it has registered and after it has stopped.
    pub(crate) fn worker(&self) -> Option<WorkerId> {
        lock(&self.lease).map(|lease| lease.worker)
    }

    /// When the lease was last renewed.
    pub(crate) fn renewed(&self) -> Option<Instant> {
        lock(&self.lease).map(|lease| lease.renewed)
    }

    pub(crate) fn set_worker(&self, worker: Option<WorkerId>) {
        let renewed = Instant::now();
        *lock(&self.lease) = worker.map(|worker| Lease { worker, renewed });
    }

    /// Takes claims with `claim`, which must note what it got as held before it returns.
    pub(crate) async fn claiming<T>(&self, claim: impl Future<Output = T>) -> T {
        let _claiming = self.claiming.read().await;
        claim.await
    }

    /// Notes that this claim is held. The answer says when it is known to be lost.
    pub(crate) fn hold(self: &Arc<Node>, claim: ClaimRef) -> Held {
        let Holding { lost, running } = Holding::default();
        let holding = Holding {
            lost: lost.clone(),
            running: running.clone(),
        };
        lock(&self.held).insert(claim, holding);
        Held {
            node: self.clone(),
            claim,
            lost,
            running,
        }
    }

    /// All user's code that runs right now.
    pub(crate) fn running(&self) -> Vec<Running> {
        let held = lock(&self.held);
        held.values()
            .filter_map(|holding| *lock(&holding.running))
            .collect()
    }

    /// The claim of this code has come to its end without it: whatever it returns one day is dropped.
    pub(crate) fn leave_behind(&self, code: &Running) {
        for holding in lock(&self.held).values() {
            if let Some(running) = &mut *lock(&holding.running)
                && running.claim == code.claim
            {
                running.left_behind = true;
                holding.lost.cancel();
            }
        }
    }

    /// Tells every step that runs that its claim is gone.
    pub(crate) fn lose_all(&self) {
        lock(&self.held)
            .values()
            .for_each(|holding| holding.lost.cancel());
    }

    /// Asks for a heartbeat at once.
    pub(crate) fn renew_now(&self) {
        self.lease_alarm.ring_in(Duration::ZERO);
    }

    /// A call broke whose answer would have said what this worker holds.
    pub(crate) fn set_unsure(&self) {
        self.unsure.store(true, Ordering::SeqCst);
    }

    /// Gives back what this worker holds without knowing it, if that can be. Waits until no claim is under
    /// way, so that none of those is given back by mistake.
    pub(crate) async fn forget_if_unsure(&self) -> Result<(), Error> {
        if !self.unsure.load(Ordering::SeqCst) {
            return Ok(());
        }
        let _nobody_claims = self.claiming.write().await;
        if !self.unsure.swap(false, Ordering::SeqCst) {
            return Ok(());
        }
        let Some(worker) = self.worker() else {
            return Ok(());
        };
        let held: Vec<_> = lock(&self.held).keys().map(|claim| claim.id).collect();
        let given_back = self.store().forget(worker, held).await;
        let given_back = given_back.inspect_err(|_| self.set_unsure())?;
        if !given_back.is_empty() {
            tracing::info!(
                claims = given_back.len(),
                "gave back claims whose answer was lost"
            );
            self.client.hub.look_again();
        }
        Ok(())
    }
}

/// A claim that this node holds.
pub(crate) struct Held {
    node: Arc<Node>,
    claim: ClaimRef,
    pub(crate) lost: CancellationToken,
    running: Arc<Mutex<Option<Running>>>,
}

impl Held {
    /// Notes that user's code runs, for as long as the answer lives.
    pub(crate) fn run(&self, code: Running) -> impl Drop {
        /// The code has come back.
        struct Ran<'a>(&'a Mutex<Option<Running>>);

        impl Drop for Ran<'_> {
            fn drop(&mut self) {
                *lock(self.0) = None;
            }
        }

        *lock(&self.running) = Some(code);
        Ran(&self.running)
    }

    /// A call broke whose answer would have said whether the claim still stands. It is not held from now on,
    /// so that the next look gives it back if it does.
    pub(crate) fn forsake(&self) {
        self.let_go();
        self.node.set_unsure();
    }

    fn let_go(&self) {
        lock(&self.node.held).remove(&self.claim);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// What these locks guard is whole between any two statements, so a panic elsewhere leaves it usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
