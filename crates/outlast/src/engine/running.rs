//! `Engine`: a running engine, from its start to its stop.
//!
//! It owns the tasks of all loops. A stop never waits for a step that blocks its thread.

use super::builder::EngineBuilder;
use super::cancel_watcher::CancelWatcher;
use super::committer::{Committer, HANDS};
use super::dispatch::fast_path::FastPath;
use super::dispatch::picker::Picker;
use super::dispatch::queue_slots::QueueSlots;
use super::executor::Executor;
use super::heartbeat::Heartbeat;
use super::maintenance::cascader::Cascader;
use super::maintenance::collector::Collector;
use super::maintenance::reaper::Reaper;
use super::maintenance::reconciler::Reconciler;
use super::maintenance::timers::Timers;
use super::node::Node;
use super::notifier::Notifier;
use super::stats::gauge_sampler::GaugeSampler;
use super::stats::stats_flusher::StatsFlusher;
use super::unserved_queues::warn_of_machines;
use super::watchdog::{Watchdog, WatchdogThread};
use crate::client::{Client, Handle};
use crate::definition::{Address, Durable, New};
use crate::error::{LookupError, Result, SetupError, ShutdownError};
use crate::metrics;
use outlast_core::{Inspect, Store};
use std::fmt;
#[cfg(feature = "sqlite")]
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

/// How long the last calls of the loops may take.
const LAST_CALLS: Duration = Duration::from_secs(5);
/// How long a step that awaits may take to be dropped after its grace.
const DROPPED_BY: Duration = Duration::from_secs(1);
/// How long the last hints to other nodes may take when an engine stops.
const LAST_HINTS: Duration = Duration::from_secs(1);

/// A running engine.
///
/// [`client`](Engine::client) does everything that an application does; the engine itself starts
/// and finds instances.
///
/// Stop it with [`shutdown`](Engine::shutdown). Dropping it drops its steps where they are.
/// Nothing is lost: the steps run again on another node, at the latest when the lease has expired.
#[must_use = "an engine that is dropped stops"]
pub struct Engine {
    node: Arc<Node>,
    queues: Vec<Arc<QueueSlots>>,
    /// The fast path that the hub uses until this engine stops.
    fast_path: Mutex<Option<Arc<FastPath>>>,
    /// The pickers and the tasks that they started.
    work: TaskTracker,
    /// The committers, the heartbeat and the maintenance loops.
    upkeep: TaskTracker,
    watchdog: Option<WatchdogThread>,
    stats_flusher: Option<Arc<StatsFlusher>>,
    /// A stop did not end in time. A second stop does not change that.
    late: AtomicBool,
}

impl Engine {
    /// Starts to build an engine on the SQLite database in this file, which is created if needed.
    #[cfg(feature = "sqlite")]
    pub fn sqlite(path: impl AsRef<Path>) -> Result<EngineBuilder> {
        Ok(Engine::builder(crate::Sqlite::open(path)?))
    }

    /// Starts to build an engine on a new SQLite database in memory, for tests.
    #[cfg(feature = "sqlite")]
    pub fn sqlite_in_memory() -> Result<EngineBuilder> {
        Ok(Engine::builder(crate::Sqlite::in_memory()?))
    }

    /// Starts to build an engine on a PostgreSQL database. Creates and migrates its schema.
    ///
    /// [`Postgres::options`](crate::Postgres::options) has the settings of the store.
    #[cfg(feature = "postgres")]
    pub async fn postgres(url: impl AsRef<str>) -> Result<EngineBuilder> {
        Ok(Engine::builder(
            crate::Postgres::connect(url.as_ref()).await?,
        ))
    }

    /// Starts to build an engine on `store`.
    pub fn builder(store: impl Store + Inspect) -> EngineBuilder {
        EngineBuilder::new(store)
    }

    /// Returns the client of the engine, to clone and hand around.
    pub fn client(&self) -> &Client {
        &self.node.client
    }

    /// Starts an instance: [`Client::start`].
    pub async fn start<D: Durable>(&self, new: New<D>) -> Result<Handle<D>> {
        Ok(self.node.client.start(new).await?)
    }

    /// Returns the instance of `D` with this id or key: [`Client::handle`].
    pub async fn handle<D: Durable>(
        &self,
        address: impl Into<Address<D>>,
    ) -> Result<Handle<D>, LookupError> {
        self.node.client.handle(address).await
    }

    pub(super) async fn run(node: Arc<Node>) -> Result<Engine, SetupError> {
        metrics::describe();
        let mut engine = Engine {
            queues: Vec::new(),
            fast_path: Mutex::default(),
            work: TaskTracker::new(),
            upkeep: TaskTracker::new(),
            watchdog: None,
            stats_flusher: None,
            late: AtomicBool::new(false),
            node,
        };
        engine
            .upkeep
            .spawn(Notifier::new(engine.node.clone()).run());
        if engine.node.settings.roles.maintenance {
            engine.start_maintenance();
        }
        if engine.node.settings.roles.worker {
            engine.work().await?;
        }
        Ok(engine)
    }

    async fn work(&mut self) -> Result<(), SetupError> {
        let node = &self.node;
        let heartbeat = Heartbeat::new(node.clone());
        heartbeat.register().await?;
        warn_of_machines(node).await;
        self.upkeep.spawn(heartbeat.run());
        node.client.hub.notify_cancels(node);
        self.upkeep.spawn(CancelWatcher::new(node.clone()).run());
        let watchdog = Watchdog::start(node, &self.upkeep).map_err(SetupError::Thread)?;
        self.watchdog = Some(watchdog);
        let (committer, outbox) = Committer::new(node.clone());
        for _ in 0..HANDS {
            self.upkeep.spawn(committer.clone().run());
        }
        let executor = Arc::new(Executor::new(node.clone(), outbox));
        for (queue, concurrency) in &node.settings.queues {
            let queue_slots = Arc::new(QueueSlots::new(
                queue,
                *concurrency,
                read_ahead(*concurrency),
                node.client.hub.queue_alarm(queue),
            ));
            self.queues.push(queue_slots.clone());
            let picker = Picker::new(
                node.clone(),
                queue_slots,
                executor.clone(),
                self.work.clone(),
            );
            self.work.spawn(picker.run());
        }
        let stats_flusher = Arc::new(StatsFlusher::new(node.clone(), self.queues.clone()));
        self.upkeep.spawn(stats_flusher.clone().run());
        self.stats_flusher = Some(stats_flusher);
        let fast_path = Arc::new(FastPath::new(
            node.clone(),
            self.queues.clone(),
            executor,
            self.work.clone(),
        ));
        node.client.hub.offer_fast_path(&fast_path);
        *self.fast_path() = Some(fast_path);
        Ok(())
    }

    fn start_maintenance(&self) {
        let node = || self.node.clone();
        self.upkeep.spawn(Reaper::new(node()).run());
        self.upkeep.spawn(Timers::new(node()).run());
        self.upkeep.spawn(Cascader::new(node()).run());
        self.upkeep.spawn(Reconciler::new(node()).run());
        self.upkeep.spawn(GaugeSampler::new(node()).run());
        if let Some(retention) = self.node.settings.retention {
            self.upkeep.spawn(Collector::new(node(), retention).run());
        }
    }

    /// Stops the engine; none of its tasks run when this returns, unless a step blocks its thread.
    ///
    /// The engine claims nothing new, and gives back claims whose step has not started. Running
    /// steps get their [`grace`](EngineBuilder::grace); then their claims are given back too. At
    /// last the worker is deregistered. The store stays open.
    ///
    /// Only the end of the process stops a step that blocks its thread. A runtime that is dropped
    /// waits for that step, so use [`std::process::exit`] where steps may block.
    ///
    /// The error says that steps did not end within the grace. The engine has stopped all the
    /// same.
    pub async fn shutdown(&self) -> Result<()> {
        let node = &self.node;
        node.stop.working.cancel();
        self.queues
            .iter()
            .for_each(|queue_slots| queue_slots.close());
        self.work.close();
        let ended = tokio::time::timeout(node.settings.grace, self.work.wait()).await;
        if ended.is_err() {
            self.late.store(true, Ordering::SeqCst);
        }
        node.stop.grace.cancel();
        self.wait_for_work().await;
        // This drops the last outbox, so the committers end.
        *self.fast_path() = None;
        node.stop.everything.cancel();
        self.upkeep.close();
        // A store that does not answer must not delay the stop.
        let upkeep = tokio::time::timeout(LAST_CALLS, self.upkeep.wait()).await;
        if let Some(stats_flusher) = &self.stats_flusher {
            let _ = tokio::time::timeout(LAST_HINTS, stats_flusher.record()).await;
        }
        self.deregister().await;
        // Other nodes find by polling what these hints would have announced.
        let _ = tokio::time::timeout(LAST_HINTS, node.client.hub.flushed()).await;
        self.end_watchdog();
        if let (Some(watchdog), Ok(())) = (&self.watchdog, upkeep) {
            watchdog.ended().await;
            // The thread may have been about to look. Then it has given a last task to the
            // runtime.
            let _ = tokio::time::timeout(LAST_CALLS, self.upkeep.wait()).await;
        }
        match self.late.load(Ordering::SeqCst) {
            false => Ok(()),
            true => Err(ShutdownError {
                grace: node.settings.grace,
            }
            .into()),
        }
    }

    /// Waits for all work to end, except for steps that block their thread.
    ///
    /// Those steps never end, and they hold up the other tasks of their thread. Steps that await
    /// have been dropped by now.
    async fn wait_for_work(&self) {
        let grace_over = Instant::now();
        while tokio::time::timeout(DROPPED_BY, self.work.wait())
            .await
            .is_err()
        {
            let blocking = self.node.running().len();
            if blocking > 0 && grace_over.elapsed() > LAST_CALLS {
                tracing::error!(
                    steps = blocking,
                    "stopping while steps block their threads; giving their claims back"
                );
                return;
            }
        }
    }

    fn end_watchdog(&self) {
        if let Some(watchdog) = &self.watchdog {
            watchdog.end();
        }
    }

    fn fast_path(&self) -> MutexGuard<'_, Option<Arc<FastPath>>> {
        self.fast_path
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    async fn deregister(&self) {
        let Some(worker) = self.node.worker() else {
            return;
        };
        if let Err(error) = self.node.give_back_if_unsure().await {
            tracing::debug!(%error, "could not give back the claims of an interrupted call");
        }
        self.node.unset_worker();
        let deregistering = self.node.store().deregister(worker);
        match tokio::time::timeout(LAST_CALLS, deregistering).await {
            Ok(Ok(())) => tracing::info!(%worker, "deregistered"),
            Ok(Err(error)) => {
                tracing::warn!(%worker, %error, "could not deregister the worker; its lease will expire");
            }
            Err(_) => {
                tracing::warn!(%worker, "could not deregister the worker because the store does not answer; its lease will expire");
            }
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.node.stop.working.cancel();
        self.node.stop.grace.cancel();
        self.node.stop.everything.cancel();
        self.end_watchdog();
        self.queues
            .iter()
            .for_each(|queue_slots| queue_slots.close());
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("name", &self.node.settings.name)
            .field("queues", &self.node.settings.queues)
            .field("roles", &self.node.settings.roles)
            .finish_non_exhaustive()
    }
}

/// Returns how many claims may wait for a slot: half as many as there are slots.
///
/// Slots that come free while a claim is under way then have work.
fn read_ahead(concurrency: usize) -> usize {
    concurrency / 2
}
