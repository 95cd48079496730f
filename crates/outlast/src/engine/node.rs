//! The state that the loops of one engine share: settings, machines, held claims and the lease.
//!
//! `builder` creates it. No lock in this file is held across a call of user code.

use super::builder::Settings;
use super::claims::{ClaimEntry, ClaimGuard, Phase, RunningStep};
use super::faults::Fault;
use super::stats::run_counters::RunCounters;
use crate::client::{Backend, Client};
use crate::hub::Alarm;
use crate::lease::{Coverage, Epoch};
use crate::machine::Code;
use outlast_core::limits::BATCH_MAX;
use outlast_core::{
    ClaimRef, Error, HeldClaim, Hints, InstanceId, MachineVersion, Release, ReleaseAnswer, WorkerId,
};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::RwLock;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long the answer to a claim usually takes at most.
const CLAIM_UNDER_WAY: Duration = Duration::from_millis(100);

/// One running engine, as its loops see it.
pub(crate) struct Node {
    pub(crate) client: Client,
    pub(crate) settings: Settings,
    pub(crate) code: Arc<Code>,
    /// The machines and versions that every claim asks for.
    pub(crate) machines: Arc<[MachineVersion]>,
    /// The runs since the last flush to the store.
    pub(crate) run_counters: RunCounters,
    pub(crate) stop: Stop,
    pub(crate) fault: Option<Fault>,
    /// The held claims, by claim and not by instance. An instance that goes through the queue may
    /// be claimed here again before the task of its last claim has ended.
    held: Mutex<HashMap<ClaimRef, Arc<ClaimEntry>>>,
    /// Claims are taken under the read side. The write side waits until no claim is under way.
    claiming: RwLock<()>,
    /// Set when a call broke, so that this worker may hold claims it does not know of.
    unsure: AtomicBool,
    lease: Mutex<Option<Lease>>,
    /// Which claims the lease surely covers.
    pub(crate) coverage: Arc<Coverage>,
    /// Wakes the heartbeat.
    pub(crate) lease_alarm: Alarm,
    /// Wakes the cancel watcher.
    pub(crate) cancel_alarm: Alarm,
}

/// How far an engine has stopped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop {
    /// Cancelled when the engine takes no new work.
    pub(crate) working: CancellationToken,
    /// Cancelled when the grace of running steps is over.
    pub(crate) grace: CancellationToken,
    /// Cancelled last, when all work has ended.
    pub(crate) everything: CancellationToken,
}

/// The worker that this engine is registered as.
#[derive(Clone, Copy, Debug)]
struct Lease {
    worker: WorkerId,
    renewed: Instant,
}

impl Node {
    /// Returns whether the log contains the texts of failures.
    ///
    /// Default: yes, unless a codec also keeps them out of the database.
    pub(crate) fn shows_failures(&self) -> bool {
        let default = self.client.coding.is_none();
        self.settings.failures_in_logs.unwrap_or(default)
    }

    pub(crate) fn new(
        client: Client,
        settings: Settings,
        code: Arc<Code>,
        fault: Option<Fault>,
    ) -> Node {
        Node {
            machines: code.registry.versions(),
            run_counters: RunCounters::default(),
            client,
            settings,
            code,
            stop: Stop::default(),
            fault,
            held: Mutex::default(),
            claiming: RwLock::default(),
            unsure: AtomicBool::new(false),
            lease: Mutex::default(),
            coverage: Arc::default(),
            lease_alarm: Alarm::default(),
            cancel_alarm: Alarm::default(),
        }
    }

    pub(crate) fn store(&self) -> &Arc<dyn Backend> {
        &self.client.store
    }

    /// Returns this engine's worker: `None` before it registers and after it stops.
    pub(crate) fn worker(&self) -> Option<WorkerId> {
        lock(&self.lease).map(|lease| lease.worker)
    }

    /// Returns when the lease was last renewed.
    pub(crate) fn renewed(&self) -> Option<Instant> {
        lock(&self.lease).map(|lease| lease.renewed)
    }

    /// Sets or keeps the worker of this engine.
    ///
    /// `sent` is the time at which the call was sent that began or renewed the lease.
    pub(crate) fn set_worker(&self, worker: WorkerId, sent: Duration) {
        let mut lease = lock(&self.lease);
        if lease.is_none_or(|lease| lease.worker != worker) {
            self.coverage.end();
        }
        self.coverage.renewed(sent, self.settings.lease);
        let renewed = Instant::now();
        *lease = Some(Lease { worker, renewed });
    }

    /// Removes the worker of this engine.
    pub(crate) fn unset_worker(&self) {
        *lock(&self.lease) = None;
        self.coverage.end();
    }

    /// Takes claims with `claim`, which must register them as held before it returns.
    pub(crate) async fn claiming<T>(&self, claim: impl Future<Output = T>) -> T {
        let _claiming = self.claiming.read().await;
        claim.await
    }

    /// Registers a claim as held until the guard is dropped.
    ///
    /// `epoch` is the epoch in which the claim was requested. The guard also says when the claim
    /// is known to be lost.
    pub(crate) fn hold(self: &Arc<Node>, claim: ClaimRef, epoch: Epoch) -> ClaimGuard {
        let entry = Arc::new(ClaimEntry::new(claim, epoch));
        lock(&self.held).insert(claim, entry.clone());
        ClaimGuard::new(self.clone(), claim, entry)
    }

    pub(super) fn let_go(&self, claim: ClaimRef) {
        lock(&self.held).remove(&claim);
    }

    /// Returns all user code that runs right now.
    pub(crate) fn running(&self) -> Vec<RunningStep> {
        let held = lock(&self.held);
        held.values().filter_map(|entry| entry.running()).collect()
    }

    /// Drops whatever this code may still return: its claim ended without it.
    pub(crate) fn leave_behind(&self, code: &RunningStep) {
        for entry in lock(&self.held).values() {
            entry.leave_behind(code);
        }
    }

    /// Wakes the cancel watcher if one of these instances may be held here.
    ///
    /// The instances received a cancel request while a worker ran them. An instance may also be in
    /// a claim whose answer is still on its way.
    pub(crate) fn notify_cancelled(&self, ids: &HashSet<InstanceId>) {
        let is_held = || {
            let held = lock(&self.held);
            held.keys().any(|claim| ids.contains(&claim.id))
        };
        let is_claiming = self.claiming.try_write().is_err();
        if is_held() {
            self.check_for_cancel(Duration::ZERO);
        } else if is_claiming {
            self.check_for_cancel(CLAIM_UNDER_WAY);
        }
    }

    /// Asks the cancel watcher for a check of all held claims.
    pub(crate) fn check_for_cancel(&self, within: Duration) {
        self.cancel_alarm.ring_in(within);
    }

    /// Returns the held claims and the phase of each.
    pub(crate) fn holdings(&self) -> Vec<(Arc<ClaimEntry>, ClaimRef, Phase)> {
        let held = lock(&self.held);
        let look = |entry: &Arc<ClaimEntry>| {
            let (claim, doing) = entry.look();
            (entry.clone(), claim, doing)
        };
        held.values().map(look).collect()
    }

    /// Marks every held claim as lost, so that running steps are dropped.
    pub(crate) fn lose_all(&self) {
        lock(&self.held).values().for_each(|entry| entry.lose());
    }

    /// Asks for a heartbeat at once.
    pub(crate) fn renew_now(&self) {
        self.lease_alarm.ring_in(Duration::ZERO);
    }

    /// Notes that a call broke whose answer would have listed claims of this worker.
    pub(crate) fn set_unsure(&self) {
        self.unsure.store(true, Ordering::SeqCst);
    }

    /// Gives back claims that this worker holds without knowing it.
    ///
    /// Waits until no claim is under way, so that none of those is given back by mistake.
    pub(crate) async fn give_back_if_unsure(&self) -> Result<(), Error> {
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
        let given_back = self.give_back_unknown(worker).await;
        given_back.inspect_err(|_| self.set_unsure())
    }

    /// Gives back the stored claims of this worker that are not registered here.
    ///
    /// Steps continue while the store answers, so each held claim counts as known at every
    /// revision it may have had meanwhile. A claim that ends meanwhile counts as known too. The
    /// fence would protect it, but the metrics would count it as unknown.
    async fn give_back_unknown(&self, worker: WorkerId) -> Result<(), Error> {
        let held: Vec<_> = lock(&self.held).values().cloned().collect();
        let before: Vec<_> = held.iter().map(|entry| entry.revision()).collect();
        let stored = self.store().claims_of(worker).await?;
        let known: HashSet<ClaimRef> = held
            .iter()
            .zip(before)
            .flat_map(|(entry, before)| entry.claims_since(before))
            .collect();
        let stored = stored.iter().map(|HeldClaim { claim, .. }| claim);
        let unknown: Vec<_> = stored.filter(|claim| !known.contains(claim)).collect();
        for batch in unknown.chunks(BATCH_MAX) {
            self.give_back(batch).await?;
        }
        Ok(())
    }

    async fn give_back(&self, claims: &[&ClaimRef]) -> Result<(), Error> {
        let releases = claims.iter().map(|claim| Release {
            claim: **claim,
            pause: Duration::ZERO,
        });
        let released = self.store().release(releases.collect()).await?;
        if released.answers.contains(&ReleaseAnswer::Lost) {
            // The claim moved on, perhaps by a commit that has no waiter any more. Check it again.
            self.set_unsure();
        }
        if released.answers.contains(&ReleaseAnswer::Released) {
            tracing::info!(
                claims = claims.len(),
                "gave back claims whose answer was lost"
            );
        }
        let hints = Hints::now(released.woken);
        self.client.hub.publish(self.store(), hints);
        Ok(())
    }
}

/// Locks, and ignores poisoning.
///
/// The guarded values are consistent between any two statements, so a panic elsewhere leaves them
/// usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
