//! The reference model: the contract in its plainest form.
//!
//! All data is in maps behind one lock, and every verb scans the rows it needs in order. The model
//! has no index and no optimisation. Where a store and the model disagree, one of them reads the
//! contract wrongly (I12). There is one file per verb, named as in the stores.

mod cascade;
mod claim;
mod collect;
mod commit;
mod deliver;
mod effects;
mod family;
mod fire;
mod history_events;
mod insert;
mod inspect;
mod lease;
mod operate;
mod reap;
mod repair;
mod run_stats;
mod step_count;
mod tables;
mod time_out;
mod workflow_outcome;

pub(crate) use tables::Tables;

use async_trait::async_trait;
use outlast_core::{
    Cancelled, CascadeRequest, Cascaded, ClaimOffer, ClaimRef, ClaimRequest, Claimed, Clock,
    CollectRequest, Collected, Commit, Committed, DeleteAnswer, Delivered, Error, Extent, Fired,
    Heartbeat, HeldClaim, Inserts, InstanceId, ManualClock, NewInstance, NewSignal, NewWorker,
    Note, ReapRequest, Reaped, Release, Released, Repaired, Result, Retried, RunStats, Signal,
    SignalOrInsert, SignalledOrInserted, Store, Terminated, TimedOut, Timestamp, WorkerId,
    WriteCheck,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// An in-memory store that takes its time from a [`ManualClock`].
#[derive(Debug)]
pub struct Model {
    clock: ManualClock,
    place: String,
    /// `None` once the store is closed.
    tables: Mutex<Option<Tables>>,
}

impl Model {
    /// Makes an empty store.
    pub fn new(clock: ManualClock) -> Model {
        static MODELS: AtomicU64 = AtomicU64::new(0);
        Model {
            clock,
            place: format!("model {}", MODELS.fetch_add(1, Ordering::Relaxed)),
            tables: Mutex::new(Some(Tables::default())),
        }
    }

    /// Runs one verb under the lock.
    pub(crate) fn alone<T>(
        &self,
        operation: &'static str,
        verb: impl FnOnce(&mut Tables, Timestamp) -> Result<T>,
    ) -> Result<T> {
        match self.lock().as_mut() {
            Some(tables) => verb(tables, self.clock.now()),
            None => Err(Error::Closed { operation }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Tables>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for Model {
    async fn now(&self) -> Result<Timestamp> {
        self.alone("now", |_, now| Ok(now))
    }

    async fn check_writes(&self) -> Result<WriteCheck> {
        self.alone("check_writes", |_, _| Ok(WriteCheck::Works))
    }

    async fn insert(&self, rows: Vec<NewInstance>, claim_for: Option<WorkerId>) -> Result<Inserts> {
        self.alone("insert", |tables, now| tables.insert(rows, claim_for, now))
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Claimed> {
        self.alone("claim", |tables, now| tables.claim(&request, now))
    }

    async fn commit(&self, commits: Arc<Vec<Commit>>) -> Result<Committed> {
        self.alone("commit", |tables, now| tables.commit(&commits, now))
    }

    async fn release(&self, releases: Vec<Release>) -> Result<Released> {
        self.alone("release", |tables, now| tables.release(&releases, now))
    }

    async fn inbox(&self, claim: ClaimRef) -> Result<Option<Vec<Signal>>> {
        self.alone("inbox", |tables, _| Ok(tables.inbox_of(claim)))
    }

    async fn claims_of(&self, worker: WorkerId) -> Result<Vec<HeldClaim>> {
        self.alone("claims_of", |tables, _| {
            Ok(tables.claims_of(worker).collect())
        })
    }

    async fn deliver(
        &self,
        signals: Vec<NewSignal>,
        claim_for: Option<ClaimOffer>,
    ) -> Result<Delivered> {
        self.alone("deliver", |tables, now| {
            tables.deliver(signals, claim_for.as_ref(), now)
        })
    }

    async fn register(&self, worker: NewWorker) -> Result<WorkerId> {
        self.alone("register", |tables, now| tables.register(worker, now))
    }

    async fn heartbeat(&self, worker: WorkerId, lease: Duration) -> Result<Heartbeat> {
        self.alone("heartbeat", |tables, now| {
            tables.heartbeat(worker, lease, now)
        })
    }

    async fn deregister(&self, worker: WorkerId) -> Result<()> {
        self.alone("deregister", |tables, now| {
            tables.deregister(worker, now);
            Ok(())
        })
    }

    async fn reap(&self, request: ReapRequest) -> Result<Reaped> {
        self.alone("reap", |tables, now| tables.reap(request, now))
    }

    async fn fire(&self, max: usize) -> Result<Fired> {
        self.alone("fire", |tables, now| tables.fire(max, now))
    }

    async fn time_out(&self, max: usize) -> Result<TimedOut> {
        self.alone("time_out", |tables, now| tables.time_out(max, now))
    }

    async fn collect(&self, request: CollectRequest) -> Result<Collected> {
        self.alone("collect", |tables, now| tables.collect(request, now))
    }

    async fn add_run_stats(&self, stats: RunStats) -> Result<()> {
        self.alone("record", |tables, now| tables.add_run_stats(stats, now))
    }

    async fn cancel(&self, ids: Vec<InstanceId>, extent: Extent, note: Note) -> Result<Cancelled> {
        self.alone("cancel", |tables, now| {
            tables.cancel(&ids, extent, &note, now)
        })
    }

    async fn terminate(
        &self,
        ids: Vec<InstanceId>,
        extent: Extent,
        note: Note,
    ) -> Result<Terminated> {
        self.alone("terminate", |tables, now| {
            tables.terminate(&ids, extent, &note, now)
        })
    }

    async fn cascade(&self, request: CascadeRequest) -> Result<Cascaded> {
        self.alone("cascade", |tables, now| tables.cascade(request, now))
    }

    async fn retry(&self, ids: Vec<InstanceId>, note: Note) -> Result<Retried> {
        self.alone("retry", |tables, now| tables.retry(&ids, &note, now))
    }

    async fn repair(&self, ids: Vec<InstanceId>, note: Note) -> Result<Repaired> {
        self.alone("repair", |tables, now| tables.repair(&ids, &note, now))
    }

    async fn delete(&self, ids: Vec<InstanceId>, note: Note) -> Result<Vec<DeleteAnswer>> {
        self.alone("delete", |tables, now| tables.delete(&ids, &note, now))
    }

    async fn pause(&self, queue: &str, note: Note) -> Result<bool> {
        self.alone("pause", |tables, now| tables.pause(queue, &note, now))
    }

    async fn resume(&self, queue: &str, note: Note) -> Result<bool> {
        self.alone("resume", |tables, now| tables.resume(queue, &note, now))
    }

    async fn signal_or_insert(&self, request: SignalOrInsert) -> Result<SignalledOrInserted> {
        self.alone("signal_or_insert", |tables, now| {
            tables.signal_or_insert(request, now)
        })
    }

    fn database_id(&self) -> &str {
        &self.place
    }

    async fn close(&self) {
        *self.lock() = None;
    }
}
