//! What the loops of one engine share.

use super::builder::Settings;
use super::claims::{ClaimEntry, ClaimGuard, Phase, Running};
use super::faults::Fault;
use super::run_counters::RunCounters;
use crate::client::{Backend, Client};
use crate::hub::Alarm;
use crate::lease::{Coverage, Epoch};
use crate::machine::Registry;
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

/// So long does the answer to a claim take at most, usually.
const CLAIM_UNDER_WAY: Duration = Duration::from_millis(100);

/// One running engine, as its loops see it.
pub(crate) struct Node {
    pub(crate) client: Client,
    pub(crate) settings: Settings,
    pub(crate) registry: Registry,
    /// What every claim asks for.
    pub(crate) machines: Arc<[MachineVersion]>,
    /// What has run since it was last recorded.
    pub(crate) run_counters: RunCounters,
    pub(crate) stop: Stop,
    pub(crate) fault: Option<Fault>,
    /// By claim and not by instance: one that goes through the queue may be claimed again here before the
    /// task of the claim before is gone.
    held: Mutex<HashMap<ClaimRef, Arc<ClaimEntry>>>,
    /// Claims are taken under the read side; the write side is whoever must know that none is under way.
    claiming: RwLock<()>,
    /// A call broke, and what it claimed or kept is unknown.
    unsure: AtomicBool,
    lease: Mutex<Option<Lease>>,
    /// Which claims the lease surely covers.
    pub(crate) coverage: Arc<Coverage>,
    /// Rings for the heartbeat.
    pub(crate) lease_alarm: Alarm,
    /// Rings for the warden.
    pub(crate) wish_alarm: Alarm,
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
    /// Whether the log has the texts of failures. Default: it does, unless a codec keeps them out of the database too.
    pub(crate) fn shows_failures(&self) -> bool {
        let default = self.client.coding.is_none();
        self.settings.failures_in_logs.unwrap_or(default)
    }

    pub(crate) fn new(
        client: Client,
        settings: Settings,
        registry: Registry,
        fault: Option<Fault>,
    ) -> Node {
        Node {
            machines: registry.versions(),
            run_counters: RunCounters::default(),
            client,
            settings,
            registry,
            stop: Stop::default(),
            fault,
            held: Mutex::default(),
            claiming: RwLock::default(),
            unsure: AtomicBool::new(false),
            lease: Mutex::default(),
            coverage: Arc::default(),
            lease_alarm: Alarm::default(),
            wish_alarm: Alarm::default(),
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

    /// Becomes this worker, or goes on as it. `sent` is when the call was sent that has begun or renewed its lease.
    pub(crate) fn set_worker(&self, worker: WorkerId, sent: Duration) {
        let mut lease = lock(&self.lease);
        if lease.is_none_or(|lease| lease.worker != worker) {
            self.coverage.end();
        }
        self.coverage.renewed(sent, self.settings.lease);
        let renewed = Instant::now();
        *lease = Some(Lease { worker, renewed });
    }

    /// Is no worker any more.
    pub(crate) fn unset_worker(&self) {
        *lock(&self.lease) = None;
        self.coverage.end();
    }

    /// Takes claims with `claim`, which must note what it got as held before it returns.
    pub(crate) async fn claiming<T>(&self, claim: impl Future<Output = T>) -> T {
        let _claiming = self.claiming.read().await;
        claim.await
    }

    /// Notes that this claim is held, which was asked for in `epoch`. The answer says when it is known to be lost.
    pub(crate) fn hold(self: &Arc<Node>, claim: ClaimRef, epoch: Epoch) -> ClaimGuard {
        let entry = Arc::new(ClaimEntry::new(claim, epoch));
        lock(&self.held).insert(claim, entry.clone());
        ClaimGuard::new(self.clone(), claim, entry)
    }

    pub(super) fn let_go(&self, claim: ClaimRef) {
        lock(&self.held).remove(&claim);
    }

    /// All user's code that runs right now.
    pub(crate) fn running(&self) -> Vec<Running> {
        let held = lock(&self.held);
        held.values().filter_map(|entry| entry.running()).collect()
    }

    /// The claim of this code has come to its end without it: whatever it returns one day is dropped.
    pub(crate) fn leave_behind(&self, code: &Running) {
        for entry in lock(&self.held).values() {
            entry.leave_behind(code);
        }
    }

    /// Of these instances something was wished while somebody ran them: if one is held here, it is worth a look. It may
    /// also be in a claim whose answer is still on its way.
    pub(crate) fn hear_told(&self, ids: &HashSet<InstanceId>) {
        let is_held = || {
            let held = lock(&self.held);
            held.keys().any(|claim| ids.contains(&claim.id))
        };
        let is_claiming = self.claiming.try_write().is_err();
        if is_held() {
            self.look_for_wishes(Duration::ZERO);
        } else if is_claiming {
            self.look_for_wishes(CLAIM_UNDER_WAY);
        }
    }

    /// Asks for a look at what was wished of all that is held.
    pub(crate) fn look_for_wishes(&self, within: Duration) {
        self.wish_alarm.ring_in(within);
    }

    /// What is held now, and what is done about it.
    pub(crate) fn holdings(&self) -> Vec<(Arc<ClaimEntry>, ClaimRef, Phase)> {
        let held = lock(&self.held);
        let look = |entry: &Arc<ClaimEntry>| {
            let (claim, doing) = entry.look();
            (entry.clone(), claim, doing)
        };
        held.values().map(look).collect()
    }

    /// Tells every step that runs that its claim is gone.
    pub(crate) fn lose_all(&self) {
        lock(&self.held).values().for_each(|entry| entry.lose());
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

    /// Steps go on while the store is asked, so a claim is known at every revision that it may have had meanwhile.
    /// One that ends meanwhile is known too: the fence would keep it from harm, but it would count as unknown.
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
            // It has moved on, perhaps by a commit that nobody waits for any more: to be looked at again.
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

/// What these locks guard is whole between any two statements, so a panic elsewhere leaves it usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
