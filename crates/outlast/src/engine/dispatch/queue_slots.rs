//! The slots of one queue on one node, and the number of claims that may wait for them.
//!
//! A claim is *held* from the answer of the store until its task ends. Meanwhile it waits for a
//! slot, runs in it, or has its outcome written. A slot is for user code only, so other steps run
//! while outcomes are written.
//!
//! The number of claims that wait for a slot follows the pace of the queue. It is bounded by what
//! starts within a few claims' time, so that no claim waits here that another node could run.

use crate::engine::stats::run_counters::StartDelays;
use crate::hub::Alarm;
use crate::metrics;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, TryAcquireError};

/// The bound on claims whose outcomes are being written. Above it the database is behind, and more
/// work does not help it.
const WRITING_MAX: usize = 3_000;
/// The bounds on claims that wait for a slot: in total and per slot. A more urgent instance that
/// arrives later waits behind them.
const WAITING_MAX: usize = 3_000;
const WAITING_PER_SLOT: usize = 30;

/// A queue on this node: its slots, its held claims, and the alarm of its picker.
pub(crate) struct QueueSlots {
    pub(crate) queue: Arc<str>,
    pub(crate) alarm: Arc<Alarm>,
    slots: Arc<Semaphore>,
    concurrency: usize,
    /// How many claims may wait for a slot while the pace is unknown.
    read_ahead: usize,
    held: AtomicUsize,
    running: AtomicUsize,
    writing: AtomicUsize,
    /// How many first steps of claims have started since the start of the engine. It may wrap.
    started: AtomicUsize,
    /// How long those steps had waited, since the last flush.
    pub(crate) waits: StartDelays,
    /// How many first steps start while one claim call is under way.
    pace: AtomicUsize,
    /// Whether to wake the picker when there is room.
    wants_more: AtomicBool,
    /// Whether the queue had more work than there was room for.
    backlog: AtomicBool,
}

impl QueueSlots {
    pub(crate) fn new(
        queue: &str,
        concurrency: usize,
        read_ahead: usize,
        alarm: Arc<Alarm>,
    ) -> QueueSlots {
        QueueSlots {
            queue: queue.into(),
            alarm,
            slots: Arc::new(Semaphore::new(concurrency)),
            concurrency,
            read_ahead,
            held: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            writing: AtomicUsize::new(0),
            started: AtomicUsize::new(0),
            waits: StartDelays::default(),
            pace: AtomicUsize::new(0),
            wants_more: AtomicBool::new(false),
            backlog: AtomicBool::new(false),
        }
    }

    /// Returns how many claims to ask for; 0 while all slots are taken and enough claims wait.
    pub(crate) fn room(&self) -> usize {
        let writing = self.writing.load(Ordering::SeqCst);
        let (live, waiting) = (self.live(), self.waiting());
        let pace = self.pace.load(Ordering::SeqCst);
        let ahead = self.ahead(pace);
        // Ask for more only when half of them are gone, or claim calls would be many and small.
        let enough = (2 * pace).min(ahead / 2);
        if writing >= WRITING_MAX || (live >= self.concurrency && waiting >= enough) {
            return 0;
        }
        (self.concurrency + ahead).saturating_sub(live)
    }

    /// Returns the number of held claims whose outcomes are not being written.
    fn live(&self) -> usize {
        let writing = self.writing.load(Ordering::SeqCst);
        self.held.load(Ordering::SeqCst).saturating_sub(writing)
    }

    /// Returns the number of claims that wait for a slot.
    fn waiting(&self) -> usize {
        self.live()
            .saturating_sub(self.running.load(Ordering::SeqCst))
    }

    /// Returns how many claims may wait for a slot: as many as start during four claim calls.
    ///
    /// The next claim call then returns before the last of them have started.
    fn ahead(&self, pace: usize) -> usize {
        let most = WAITING_MAX.min(WAITING_PER_SLOT * self.concurrency);
        (4 * pace).min(most).max(self.read_ahead)
    }

    /// Sets whether the queue holds more than could be claimed.
    pub(crate) fn set_backlog(&self, backlog: bool) {
        self.backlog.store(backlog, Ordering::SeqCst);
    }

    /// Holds one more claim, if it can run at once and nothing is known to wait before it.
    pub(crate) fn hold_if_idle(self: &Arc<QueueSlots>) -> Option<ClaimPermit> {
        let is_idle = self.held.load(Ordering::SeqCst) < self.concurrency
            && !self.backlog.load(Ordering::SeqCst);
        is_idle.then(|| self.hold())
    }

    /// Returns how many first steps have started, to compare with an earlier value.
    pub(crate) fn started(&self) -> usize {
        self.started.load(Ordering::SeqCst)
    }

    /// Updates the pace: how many first steps start during one claim call.
    ///
    /// `started` steps started during `interval`, and the claim call took `asking`. As long as the
    /// pace is at most the number of slots, no claim needs to wait. A slow interval halves the
    /// pace and does not reset it.
    pub(crate) fn learn_pace(&self, started: usize, interval: Duration, asking: Duration) {
        let share = asking.as_secs_f64() / interval.as_secs_f64().max(f64::EPSILON);
        let seen = (started as f64 * share.min(1.0)) as usize;
        let seen = if seen > self.concurrency { seen } else { 0 };
        let known = self.pace.load(Ordering::SeqCst);
        self.pace.store(seen.max(known / 2), Ordering::SeqCst);
    }

    /// Holds one more claim until the permit is dropped.
    pub(crate) fn hold(self: &Arc<QueueSlots>) -> ClaimPermit {
        self.held.fetch_add(1, Ordering::SeqCst);
        ClaimPermit {
            queue_slots: self.clone(),
        }
    }

    /// Takes a slot, if one is free.
    pub(crate) fn try_slot(self: &Arc<QueueSlots>) -> Result<Slot, TryAcquireError> {
        let permit = self.slots.clone().try_acquire_owned()?;
        Ok(self.taken(permit))
    }

    /// Waits for a slot, in the order of the calls.
    pub(crate) async fn slot(self: &Arc<QueueSlots>) -> Result<Slot, AcquireError> {
        let permit = self.slots.clone().acquire_owned().await?;
        Ok(self.taken(permit))
    }

    fn taken(self: &Arc<QueueSlots>, permit: OwnedSemaphorePermit) -> Slot {
        self.running.fetch_add(1, Ordering::SeqCst);
        metrics::slot_taken(&self.queue);
        self.ring_if_there_is_room();
        Slot {
            queue_slots: self.clone(),
            _permit: permit,
        }
    }

    /// Counts the first step of a new claim.
    pub(crate) fn note_start(&self) {
        self.started.fetch_add(1, Ordering::SeqCst);
    }

    /// Sets whether to wake the picker when there is room.
    pub(crate) fn set_wants_more(&self, wants_more: bool) {
        self.wants_more.store(wants_more, Ordering::SeqCst);
    }

    /// Wakes the picker once. The picker sets the flag again when it wants more.
    fn ring_if_there_is_room(&self) {
        if self.wants_more.load(Ordering::SeqCst)
            && self.room() > 0
            && self.wants_more.swap(false, Ordering::SeqCst)
        {
            self.alarm.ring_in(Duration::ZERO);
        }
    }

    /// Stops handing out slots.
    pub(crate) fn close(&self) {
        self.slots.close();
    }
}

/// The right to run one step, until it is dropped.
pub(crate) struct Slot {
    queue_slots: Arc<QueueSlots>,
    _permit: OwnedSemaphorePermit,
}

impl Slot {
    /// Turns the slot into a permit for the time in which the outcome is written.
    ///
    /// The slot is free for other steps meanwhile. A task that keeps its claim also keeps the slot
    /// while no other task waits for it. Then a later claim cannot overtake its next step.
    pub(crate) fn into_commit_permit(self, goes_on: bool) -> CommitPermit {
        let others =
            self.queue_slots.waiting() > 0 || self.queue_slots.backlog.load(Ordering::SeqCst);
        if goes_on && !others {
            return CommitPermit {
                slot: Some(self),
                aside: None,
            };
        }
        let queue_slots = self.queue_slots.clone();
        drop(self);
        queue_slots.writing.fetch_add(1, Ordering::SeqCst);
        queue_slots.ring_if_there_is_room();
        CommitPermit {
            slot: None,
            aside: Some(queue_slots),
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.queue_slots.running.fetch_sub(1, Ordering::SeqCst);
        metrics::slot_freed(&self.queue_slots.queue);
    }
}

/// An outcome that is being written, with or without the slot of its step.
pub(crate) struct CommitPermit {
    slot: Option<Slot>,
    aside: Option<Arc<QueueSlots>>,
}

impl CommitPermit {
    /// Returns the slot, if it was kept.
    pub(crate) fn into_slot(mut self) -> Option<Slot> {
        self.slot.take()
    }
}

impl Drop for CommitPermit {
    fn drop(&mut self) {
        if let Some(queue_slots) = &self.aside {
            queue_slots.writing.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// One held claim, counted in its queue until it is dropped.
pub(crate) struct ClaimPermit {
    queue_slots: Arc<QueueSlots>,
}

impl ClaimPermit {
    pub(crate) fn queue_slots(&self) -> &Arc<QueueSlots> {
        &self.queue_slots
    }
}

impl Drop for ClaimPermit {
    fn drop(&mut self) {
        self.queue_slots.held.fetch_sub(1, Ordering::SeqCst);
        self.queue_slots.ring_if_there_is_room();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue_slots(concurrency: usize) -> Arc<QueueSlots> {
        Arc::new(QueueSlots::new(
            "q",
            concurrency,
            concurrency / 2,
            Arc::default(),
        ))
    }

    #[test]
    fn a_queue_of_slow_steps_claims_no_more_than_its_slots_and_its_read_ahead() {
        let queue_slots = queue_slots(10);
        assert_eq!(queue_slots.room(), 15);
        let places: Vec<_> = (0..15).map(|_| queue_slots.hold()).collect();
        let slots: Vec<_> = (0..10).map(|_| queue_slots.try_slot().unwrap()).collect();
        assert_eq!(queue_slots.room(), 0);
        drop(slots);
        assert_eq!(queue_slots.room(), 0, "waiting claims take the slots");
        drop(places);
        assert_eq!(queue_slots.room(), 15);
    }

    #[test]
    fn steps_that_commit_leave_room_for_other_claims() {
        let queue_slots = queue_slots(10);
        let _places: Vec<_> = (0..10).map(|_| queue_slots.hold()).collect();
        assert_eq!(queue_slots.room(), 0);
        let _writing: Vec<_> = (0..10)
            .map(|_| queue_slots.try_slot().unwrap().into_commit_permit(false))
            .collect();
        assert_eq!(queue_slots.room(), 15);
    }

    #[test]
    fn a_step_that_runs_ahead_keeps_its_slot_unless_another_claim_waits() {
        let queue_slots = queue_slots(1);
        let _first = queue_slots.hold();
        let kept = queue_slots.try_slot().unwrap().into_commit_permit(true);
        assert!(queue_slots.try_slot().is_err());
        let slot = kept.into_slot().unwrap();
        let _second = queue_slots.hold();
        assert!(slot.into_commit_permit(true).into_slot().is_none());
        assert!(queue_slots.try_slot().is_ok());
    }

    #[test]
    fn a_database_that_is_behind_gets_no_more_work() {
        let queue_slots = queue_slots(10);
        let _places: Vec<_> = (0..WRITING_MAX).map(|_| queue_slots.hold()).collect();
        let _writing: Vec<_> = (0..WRITING_MAX)
            .map(|_| queue_slots.try_slot().unwrap().into_commit_permit(false))
            .collect();
        assert_eq!(queue_slots.room(), 0);
    }

    #[test]
    fn the_read_ahead_grows_with_the_pace_of_starts_up_to_a_bound() {
        let queue_slots = queue_slots(10);
        let millisecond = Duration::from_millis(1);
        queue_slots.learn_pace(30, 3 * millisecond, millisecond);
        assert_eq!(
            queue_slots.room(),
            15,
            "ten slots are enough for ten at a time"
        );
        queue_slots.learn_pace(36, 3 * millisecond, millisecond);
        assert_eq!(
            queue_slots.room(),
            10 + 48,
            "twelve start during one claim call"
        );
        queue_slots.learn_pace(0, millisecond, millisecond);
        assert_eq!(
            queue_slots.room(),
            10 + 24,
            "a slow interval halves the pace"
        );
        queue_slots.learn_pace(1_000_000, millisecond, millisecond);
        assert_eq!(queue_slots.room(), 10 + 10 * WAITING_PER_SLOT);
    }

    #[test]
    fn the_fast_path_holds_a_claim_only_when_a_slot_is_free_and_no_backlog_is_known() {
        let queue_slots = queue_slots(1);
        queue_slots.set_backlog(true);
        assert!(queue_slots.hold_if_idle().is_none());
        queue_slots.set_backlog(false);
        let place = queue_slots.hold_if_idle();
        assert!(place.is_some());
        assert!(queue_slots.hold_if_idle().is_none());
    }

    #[tokio::test]
    async fn the_picker_is_woken_once_when_there_is_room_and_it_wants_more() {
        let queue_slots = queue_slots(1);
        let place = queue_slots.hold();
        queue_slots.set_wants_more(true);
        assert_eq!(queue_slots.room(), 0);
        drop(place);
        let far = tokio::time::Instant::now() + Duration::from_secs(3600);
        queue_slots.alarm.rung(far).await;
        assert!(!queue_slots.wants_more.load(Ordering::SeqCst));
    }
}
