//! Fails instances whose step blocks its thread.
//!
//! A step that awaits is dropped at its time limit. A step that blocks its thread cannot be
//! dropped. Its task does not run either, so `on_failure` is never called. Without the watchdog
//! the instance would stay `executing` for as long as the process lives.
//!
//! This is the only loop with its own thread. The blocked thread may be the one that drives
//! sockets and timers for all others. A runtime with other threads then stands still until an
//! outside thread gives it a task.

use super::claims::RunningStep;
use super::node::Node;
use crate::metrics;
use outlast_core::{Answer, Commit, Error, Hints, Links, Outcome};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::Thread;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const INTERVAL: Duration = Duration::from_secs(1);
/// How far past its limit a step counts as blocking. A busy runtime may drop a step late.
const PATIENCE: Duration = Duration::from_secs(5);

/// Looks for steps that block their thread.
pub(crate) struct Watchdog {
    node: Arc<Node>,
}

/// The thread that looks, until `end` is called.
pub(crate) struct WatchdogThread {
    thread: Thread,
    over: Arc<AtomicBool>,
    ended: CancellationToken,
}

impl WatchdogThread {
    /// Stops the thread. Call it at the very end of a stop: a runtime that stands still does not
    /// stop either.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }

    /// Waits until the thread has ended. Its last findings are then tasks of `upkeep`.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

impl Watchdog {
    pub(crate) fn new(node: Arc<Node>) -> Watchdog {
        Watchdog { node }
    }

    /// Starts the thread. Its findings run in the calling runtime, as tasks of `upkeep`.
    pub(crate) fn start(node: &Arc<Node>, upkeep: &TaskTracker) -> std::io::Result<WatchdogThread> {
        let (node, upkeep, runtime) = (Arc::downgrade(node), upkeep.clone(), Handle::current());
        let over = Arc::new(AtomicBool::new(false));
        let is_over = over.clone();
        let ended = CancellationToken::new();
        let at_the_end = ended.clone().drop_guard();
        let thread = std::thread::Builder::new().name("outlast-watchdog".into());
        let thread = thread.spawn(move || {
            let _at_the_end = at_the_end;
            Watchdog::run(&node, &upkeep, &runtime, &is_over);
        })?;
        let thread = thread.thread().clone();
        Ok(WatchdogThread {
            thread,
            over,
            ended,
        })
    }

    fn run(node: &Weak<Node>, upkeep: &TaskTracker, runtime: &Handle, over: &AtomicBool) {
        // One check at a time: the store may not answer.
        let looking = Arc::new(Mutex::new(()));
        loop {
            std::thread::park_timeout(INTERVAL);
            if over.load(Ordering::SeqCst) {
                return;
            }
            let Some(node) = node.upgrade() else { return };
            let slow = |code: &RunningStep| code.since.elapsed() > INTERVAL;
            if !node.running().iter().any(slow) {
                continue;
            }
            let (watchdog, looking) = (Watchdog::new(node), looking.clone());
            let look = async move {
                let Ok(_looking) = looking.try_lock() else {
                    return;
                };
                if let Err(error) = watchdog.run_once().await {
                    metrics::store_error("watchdog");
                    tracing::warn!(%error, "could not fail a step that blocks its thread; trying again");
                }
            };
            match upkeep.is_closed() {
                false => drop(upkeep.spawn_on(look, runtime)),
                // An empty task keeps the runtime from standing still while the engine stops.
                true => drop(upkeep.spawn_on(async {}, runtime)),
            }
        }
    }

    /// Fails the instances whose step blocks now.
    pub(crate) async fn run_once(&self) -> Result<(), Error> {
        for code in self.node.running() {
            if !code.left_behind && code.since.elapsed() > code.limit + PATIENCE {
                self.end(&code).await?;
            }
        }
        Ok(())
    }

    /// Fails the instance. If the step returns after all, the fence drops its outcome.
    async fn end(&self, code: &RunningStep) -> Result<(), Error> {
        let reason = format!(
            "step {} blocks its thread: its limit of {:?} is long past, and only the end of the process can stop it; \
             mend it, then retry the instance",
            code.step, code.limit
        );
        let client = &self.node.client;
        let reason = client
            .coding
            .encode_error(code.machine, code.claim.id, reason)
            .map_err(|unwritable| unwritable.during("commit", None))?;
        let commit = Commit {
            claim: code.claim,
            received: Vec::new(),
            outcome: Outcome::fail(reason),
            answers_cancel: false,
            links: Links::UNKNOWN,
            events: Vec::new(),
            position: None,
            views: Vec::new(),
            replies: Vec::new(),
        };
        let committed = self.node.store().commit(vec![commit].into()).await?;
        self.node.leave_behind(code);
        if let [Answer::Committed { .. }] = committed.answers[..] {
            metrics::failed(code.machine, code.step, "blocked", "failed");
            tracing::warn!(
                instance = %code.claim.id, machine = code.machine, step = code.step,
                attempt = code.attempt + 1, kind = "blocked", next = "failed",
                error = "the step blocks its thread; the thread and its slot are lost until this process ends",
                "the step failed"
            );
            let mut hints = Hints::now(committed.woken);
            hints.ended.push(code.claim.id);
            hints.cascades = committed.cascades;
            client.hub.publish(self.node.store(), hints);
        }
        Ok(())
    }
}
