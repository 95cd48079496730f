//! The hub of a process: passes hints from writers to the loops and clients that wait.
//!
//! One hub serves all clients and engines of a process that use the same database. It rings local
//! alarms at once, and sends hints to other nodes through the store, outside any transaction.
//! While one message is being sent, the next hints are merged into one. Nothing may depend on a
//! hint: every loop also polls.

use crate::client::Backend;
use crate::engine::{FastPath, Node, Reservation};
use outlast_core::{
    ClaimRef, Hints, InstanceId, Json, NewInstance, Outcome, Revision, Status, limits,
};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Ended instances in one message; clients that wait for others find out by polling.
const ENDED_MAX: usize = 500;
/// Cancelled running instances in one message; workers find the others by polling.
const CANCELLED_MAX: usize = 500;

/// The hubs of this process, by the identity of their database.
static HUBS: Mutex<Option<HashMap<String, Weak<Hub>>>> = Mutex::new(None);

/// Notifies alarms and watchers of rows that may be worth a look.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    listeners: Mutex<Listeners>,
    outbox: Mutex<HintOutbox>,
    sent: Notify,
}

#[derive(Debug, Default)]
struct Listeners {
    queues: HashMap<String, Vec<Weak<Alarm>>>,
    timers: Vec<Weak<Alarm>>,
    cascades: Vec<Weak<Alarm>>,
    /// Nodes that run steps.
    runners: Vec<Weak<Node>>,
    watchers: HashMap<InstanceId, Vec<Weak<Watcher>>>,
    /// Instances that run in this process: it will report how they continue.
    local_runs: HashMap<InstanceId, LocalInstance>,
    fast_paths: Vec<Weak<FastPath>>,
}

/// What is known of an instance that runs here, without a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalInstance {
    pub(crate) machine: String,
    pub(crate) revision: Revision,
}

#[derive(Debug, Default)]
struct HintOutbox {
    waiting: Hints,
    sending: bool,
}

impl Hub {
    /// Returns the hub of this database, and creates it when it is missing.
    pub(crate) fn of(place: &str) -> Arc<Hub> {
        let mut hubs = lock(&HUBS);
        let hubs = hubs.get_or_insert_default();
        if let Some(hub) = hubs.get(place).and_then(Weak::upgrade) {
            return hub;
        }
        hubs.retain(|_, hub| hub.strong_count() > 0);
        let hub = Arc::new(Hub::default());
        hubs.insert(place.to_owned(), Arc::downgrade(&hub));
        hub
    }

    /// Returns an alarm that rings for this queue.
    pub(crate) fn queue_alarm(&self, queue: &str) -> Arc<Alarm> {
        let alarm = Arc::new(Alarm::default());
        let mut listeners = lock(&self.listeners);
        let alarms = listeners.queues.entry(queue.to_owned()).or_default();
        alarms.retain(|alarm| alarm.strong_count() > 0);
        alarms.push(Arc::downgrade(&alarm));
        alarm
    }

    /// Returns an alarm that rings for deadlines of waits.
    pub(crate) fn timer_alarm(&self) -> Arc<Alarm> {
        let alarm = Arc::new(Alarm::default());
        let mut listeners = lock(&self.listeners);
        listeners.timers.retain(|alarm| alarm.strong_count() > 0);
        listeners.timers.push(Arc::downgrade(&alarm));
        alarm
    }

    /// Returns an alarm that rings when there is a cascade to run.
    pub(crate) fn cascade_alarm(&self) -> Arc<Alarm> {
        let alarm = Arc::new(Alarm::default());
        let mut listeners = lock(&self.listeners);
        listeners.cascades.retain(|alarm| alarm.strong_count() > 0);
        listeners.cascades.push(Arc::downgrade(&alarm));
        alarm
    }

    /// Registers a node: while it lives, it is notified of cancels of the instances it may run.
    pub(crate) fn notify_cancels(&self, node: &Arc<Node>) {
        let mut listeners = lock(&self.listeners);
        listeners.runners.retain(|node| node.strong_count() > 0);
        listeners.runners.push(Arc::downgrade(node));
    }

    /// Registers a fast path: while it lives, inserted and woken instances may run in it at once.
    pub(crate) fn offer_fast_path(&self, fast_path: &Arc<FastPath>) {
        let mut listeners = lock(&self.listeners);
        listeners
            .fast_paths
            .retain(|fast_path| fast_path.strong_count() > 0);
        listeners.fast_paths.push(Arc::downgrade(fast_path));
    }

    /// Reserves a slot for this row in an engine of this process.
    pub(crate) fn reserve_for(&self, row: &NewInstance) -> Option<Reservation> {
        self.reservation(|fast_path| fast_path.reserve_for(row))
    }

    /// Reserves a slot for an instance that a signal wakes, in an engine of this process.
    pub(crate) fn reserve_for_woken(&self) -> Option<Reservation> {
        self.reservation(FastPath::reserve_for_woken)
    }

    fn reservation(
        &self,
        reservation: impl Fn(&Arc<FastPath>) -> Option<Reservation>,
    ) -> Option<Reservation> {
        // Upgrades outside the lock: this may drop the last owner of an engine.
        let fast_paths = lock(&self.listeners).fast_paths.clone();
        let mut living = fast_paths.iter().filter_map(Weak::upgrade);
        living.find_map(|fast_path| reservation(&fast_path))
    }

    /// Watches `id`: the watch is notified when it ends or parks.
    pub(crate) fn watch(self: &Arc<Hub>, id: InstanceId) -> InstanceWatch {
        let watcher = Arc::<Watcher>::default();
        let mut listeners = lock(&self.listeners);
        listeners
            .watchers
            .entry(id)
            .or_default()
            .push(Arc::downgrade(&watcher));
        InstanceWatch {
            hub: self.clone(),
            id,
            watcher,
            local_runs: listeners.local_runs.get(&id).cloned(),
        }
    }

    /// Marks an instance as running in this process, until the answer is dropped.
    ///
    /// Its watchers need not query the store: this process notifies them.
    pub(crate) fn mark_running(self: &Arc<Hub>, claim: ClaimRef, machine: &str) -> LocalRun {
        let known = LocalInstance {
            machine: machine.to_owned(),
            revision: claim.revision,
        };
        lock(&self.listeners).local_runs.insert(claim.id, known);
        LocalRun {
            hub: self.clone(),
            id: claim.id,
        }
    }

    /// Notifies this process, and other nodes through `store`.
    pub(crate) fn publish(self: &Arc<Hub>, store: &Arc<dyn Backend>, hints: Hints) {
        if hints.is_empty() {
            return;
        }
        self.notify_local(&hints);
        let mut outbox = lock(&self.outbox);
        outbox.waiting.merge(hints);
        outbox.waiting.ended.truncate(ENDED_MAX);
        outbox.waiting.cancelled.truncate(CANCELLED_MAX);
        // Without a runtime nothing can be sent now: it goes with the next hints.
        if !outbox.sending
            && let Ok(runtime) = Handle::try_current()
        {
            outbox.sending = true;
            runtime.spawn(self.clone().send(store.clone()));
        }
    }

    /// Notifies this process.
    pub(crate) fn notify_local(&self, hints: &Hints) {
        let listeners = lock(&self.listeners);
        for (queue, due_in) in &hints.queues {
            ring(listeners.queues.get(queue), *due_in);
        }
        if let Some(due_in) = hints.deadline {
            ring(Some(&listeners.timers), due_in);
        }
        if hints.cascades {
            ring(Some(&listeners.cascades), Duration::ZERO);
        }
        for id in &hints.ended {
            notify_watchers(&listeners, *id);
        }
        if hints.cancelled.is_empty() {
            return;
        }
        let runners = listeners.runners.clone();
        // Drops outside the lock: this may drop the last owner of an engine.
        drop(listeners);
        let cancelled: HashSet<InstanceId> = hints.cancelled.iter().copied().collect();
        for node in runners.iter().filter_map(Weak::upgrade) {
            node.notify_cancelled(&cancelled);
        }
    }

    /// Notifies the watchers of this instance that it has changed.
    pub(crate) fn moved(&self, id: InstanceId) {
        notify_watchers(&lock(&self.listeners), id);
    }

    /// Passes the end of this instance to its watchers: they need not query the store.
    pub(crate) fn ended(&self, id: InstanceId, revision: Revision, outcome: &Outcome) {
        let mut listeners = lock(&self.listeners);
        // Under the same lock: a watcher that starts after this must query the store.
        listeners.local_runs.remove(&id);
        let Some(watchers) = listeners.watchers.get(&id) else {
            return;
        };
        let Some(end) = InstanceEnd::of(revision, outcome) else {
            return;
        };
        for watcher in watchers.iter().filter_map(Weak::upgrade) {
            *lock(&watcher.end) = Some(end.clone());
            watcher.moved.notify_one();
        }
    }

    /// Wakes every waiter, because hints may have been lost.
    pub(crate) fn look_again(&self) {
        let listeners = lock(&self.listeners);
        for alarms in listeners.queues.values() {
            ring(Some(alarms), Duration::ZERO);
        }
        ring(Some(&listeners.timers), Duration::ZERO);
        ring(Some(&listeners.cascades), Duration::ZERO);
        let runners = listeners.runners.clone();
        drop(listeners);
        for node in runners.iter().filter_map(Weak::upgrade) {
            node.check_for_cancel(Duration::ZERO);
        }
    }

    /// Waits until all hints to other nodes are sent.
    pub(crate) async fn flushed(&self) {
        loop {
            let sent = self.sent.notified();
            if !lock(&self.outbox).sending {
                return;
            }
            sent.await;
        }
    }

    async fn send(self: Arc<Hub>, store: Arc<dyn Backend>) {
        let mut sending = HintSender::new(self);
        while let Some(hints) = sending.next() {
            if let Err(error) = store.notify(hints).await {
                // Other nodes find out by polling.
                tracing::debug!(%error, "a hint to other nodes was lost");
            }
        }
    }
}

/// The one task that sends. It may be dropped with its runtime while others still use the hub.
struct HintSender {
    hub: Arc<Hub>,
    ended: bool,
}

impl HintSender {
    fn new(hub: Arc<Hub>) -> HintSender {
        HintSender { hub, ended: false }
    }

    /// Returns the collected hints. With none left, the sender is finished.
    fn next(&mut self) -> Option<Hints> {
        let mut outbox = lock(&self.hub.outbox);
        if outbox.waiting.is_empty() {
            outbox.sending = false;
            self.ended = true;
            return None;
        }
        Some(std::mem::take(&mut outbox.waiting))
    }
}

impl Drop for HintSender {
    fn drop(&mut self) {
        if !self.ended {
            lock(&self.hub.outbox).sending = false;
        }
        self.hub.sent.notify_waiters();
    }
}

fn ring(alarms: Option<&Vec<Weak<Alarm>>>, due_in: Duration) {
    for alarm in alarms.into_iter().flatten().filter_map(Weak::upgrade) {
        alarm.ring_in(due_in);
    }
}

fn notify_watchers(listeners: &Listeners, id: InstanceId) {
    let watchers = listeners.watchers.get(&id).into_iter().flatten();
    for watcher in watchers.filter_map(Weak::upgrade) {
        watcher.moved.notify_one();
    }
}

/// The end of an instance.
#[derive(Clone, Debug)]
pub(crate) struct InstanceEnd {
    /// The revision of the end: an operator may have restarted the instance since.
    pub(crate) revision: Revision,
    pub(crate) status: Status,
    pub(crate) result: Option<Json>,
    pub(crate) reason: Option<String>,
}

impl InstanceEnd {
    /// Returns the end that an outcome is, as the store would report it.
    fn of(revision: Revision, outcome: &Outcome) -> Option<InstanceEnd> {
        let (result, reason) = match outcome {
            Outcome::Done { result } => (Some(result.clone()), None),
            Outcome::Fail { reason, error } => (error.clone(), Some(limits::clean_error(reason))),
            Outcome::Cancel { reason } => (None, Some(limits::clean_error(reason))),
            Outcome::Next { .. }
            | Outcome::Retry { .. }
            | Outcome::Wait { .. }
            | Outcome::FanOut { .. }
            | Outcome::Flow { .. }
            | Outcome::ContinueAsNew { .. } => return None,
        };
        Some(InstanceEnd {
            revision,
            status: outcome.end()?,
            result,
            reason,
        })
    }
}

/// An instance that runs in this process.
#[derive(Debug)]
pub(crate) struct LocalRun {
    hub: Arc<Hub>,
    id: InstanceId,
}

impl Drop for LocalRun {
    /// Wakes the watchers: unless the end was reported, they must query the store.
    fn drop(&mut self) {
        let mut listeners = lock(&self.hub.listeners);
        if listeners.local_runs.remove(&self.id).is_some() {
            notify_watchers(&listeners, self.id);
        }
    }
}

#[derive(Debug, Default)]
struct Watcher {
    moved: Notify,
    end: Mutex<Option<InstanceEnd>>,
}

/// A subscription to the changes of one instance.
#[derive(Debug)]
pub(crate) struct InstanceWatch {
    hub: Arc<Hub>,
    id: InstanceId,
    watcher: Arc<Watcher>,
    local_runs: Option<LocalInstance>,
}

impl InstanceWatch {
    /// Returns machine and revision of an instance that runs here, known without a query.
    ///
    /// Returns them once: by the next call the instance may have changed.
    pub(crate) fn take_known(&mut self) -> Option<LocalInstance> {
        self.local_runs.take()
    }

    /// Returns its end after `revision`, if this process reported it.
    pub(crate) fn end_after(&self, revision: Revision) -> Option<InstanceEnd> {
        lock(&self.watcher.end)
            .clone()
            .filter(|end| end.revision > revision)
    }

    /// Waits until it has changed since the last call, as far as hints say.
    pub(crate) async fn moved(&self) {
        self.watcher.moved.notified().await;
    }
}

impl Drop for InstanceWatch {
    fn drop(&mut self) {
        let mut listeners = lock(&self.hub.listeners);
        if let Some(watchers) = listeners.watchers.get_mut(&self.id) {
            watchers.retain(|other| !std::ptr::eq(other.as_ptr(), Arc::as_ptr(&self.watcher)));
            if watchers.is_empty() {
                listeners.watchers.remove(&self.id);
            }
        }
    }
}

/// Wakes one loop: now, or at the earliest requested moment.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    due: Mutex<Option<Instant>>,
    changed: Notify,
}

impl Alarm {
    /// Rings in `delay` at the latest.
    pub(crate) fn ring_in(&self, delay: Duration) {
        let Some(at) = Instant::now().checked_add(delay) else {
            return;
        };
        let mut due = lock(&self.due);
        if due.is_none_or(|due| at < due) {
            *due = Some(at);
            self.changed.notify_one();
        }
    }

    /// Waits until it rings, or until `latest`, and resets the alarm.
    pub(crate) async fn rung(&self, latest: Instant) {
        loop {
            let due = {
                let mut due = lock(&self.due);
                let at = due.unwrap_or(latest).min(latest);
                if at <= Instant::now() {
                    due.take_if(|due| *due <= Instant::now());
                    return;
                }
                at
            };
            tokio::select! {
                () = tokio::time::sleep_until(due) => {}
                () = self.changed.notified() => {}
            }
        }
    }
}

/// Locks, ignoring poison: the guarded data is consistent between any two statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_alarm_rings_at_the_earliest_time_that_was_set() {
        let alarm = Alarm::default();
        alarm.ring_in(Duration::from_secs(60));
        alarm.ring_in(Duration::from_secs(5));
        alarm.ring_in(Duration::from_secs(30));
        let start = Instant::now();
        alarm.rung(start + Duration::from_secs(3600)).await;
        assert_eq!(start.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn an_alarm_that_is_not_rung_ends_at_its_deadline() {
        let start = Instant::now();
        Alarm::default().rung(start + Duration::from_secs(2)).await;
        assert_eq!(start.elapsed(), Duration::from_secs(2));
    }

    #[test]
    fn one_database_has_one_hub_for_as_long_as_it_is_used() {
        let first = Hub::of("here");
        assert!(Arc::ptr_eq(&first, &Hub::of("here")));
        assert!(!Arc::ptr_eq(&first, &Hub::of("there")));
    }

    #[tokio::test]
    async fn a_sender_dropped_half_way_does_not_block_other_senders() {
        let hub = Hub::of("sending");
        lock(&hub.outbox).sending = true;
        lock(&hub.outbox).waiting.queue("q", Duration::ZERO);
        let mut sending = HintSender::new(hub.clone());
        assert!(sending.next().is_some());
        drop(sending);
        hub.flushed().await;
    }

    #[tokio::test]
    async fn a_watch_of_an_instance_that_runs_here_gets_its_end_or_reads_the_store() {
        let hub = Hub::of("in hand");
        let (id, revision) = (InstanceId(1), Revision(3));
        let claim = ClaimRef { id, revision };
        let done = Outcome::Done {
            result: Json::null(),
        };
        let mut before = hub.watch(id);
        assert_eq!(before.take_known(), None, "the instance does not run here");

        let local_runs = hub.mark_running(claim, "task");
        let mut during = hub.watch(id);
        let known = LocalInstance {
            machine: "task".into(),
            revision,
        };
        assert_eq!(during.take_known(), Some(known));
        assert_eq!(
            during.take_known(),
            None,
            "known once, then read from the store"
        );
        hub.ended(id, revision.next(), &done);
        during.moved().await;
        assert!(during.end_after(revision).is_some());
        let mut after = hub.watch(id);
        assert_eq!(after.take_known(), None, "its end was reported before");
        drop(local_runs);

        let given_back = hub.mark_running(claim, "task");
        let during = hub.watch(id);
        drop(given_back);
        during.moved().await;
        assert!(
            during.end_after(revision).is_none(),
            "the watch has to read the store"
        );
        assert!(lock(&hub.listeners).local_runs.is_empty());
    }

    #[test]
    fn a_watch_that_is_dropped_leaves_nothing_behind() {
        let hub = Hub::of("watching");
        let one = hub.watch(InstanceId(1));
        let two = hub.watch(InstanceId(1));
        drop(one);
        assert_eq!(lock(&hub.listeners).watchers[&InstanceId(1)].len(), 1);
        drop(two);
        assert!(lock(&hub.listeners).watchers.is_empty());
    }
}
