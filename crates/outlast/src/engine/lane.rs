//! The slots of one queue on one node.

use crate::hub::Alarm;
use crate::metrics;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// A queue, how many of its steps run at a time here, and who wakes its picker.
pub(crate) struct Lane {
    pub(crate) queue: Arc<str>,
    pub(crate) alarm: Arc<Alarm>,
    slots: Arc<Semaphore>,
    concurrency: usize,
    /// Claims held beyond the slots, so that a slot that comes free has work at once.
    read_ahead: usize,
    /// Claims held: running, and waiting for a slot.
    held: AtomicUsize,
    /// Whether there was more to claim than there was room for.
    wants_more: AtomicBool,
}

impl Lane {
    pub(crate) fn new(
        queue: &str,
        concurrency: usize,
        read_ahead: usize,
        alarm: Arc<Alarm>,
    ) -> Lane {
        Lane {
            queue: queue.into(),
            alarm,
            slots: Arc::new(Semaphore::new(concurrency)),
            concurrency,
            read_ahead,
            held: AtomicUsize::new(0),
            wants_more: AtomicBool::new(false),
        }
    }

    /// How many claims to ask for. None while every slot is taken: what others could run must not wait here
    /// for long.
    pub(crate) fn room(&self) -> usize {
        let held = self.held.load(Ordering::SeqCst);
        if held >= self.concurrency {
            return 0;
        }
        self.concurrency + self.read_ahead - held
    }

    /// Holds one more claim until the answer is dropped.
    pub(crate) fn hold(self: &Arc<Lane>) -> Place {
        self.held.fetch_add(1, Ordering::SeqCst);
        Place { lane: self.clone() }
    }

    /// Waits for a slot, in the order of asking.
    pub(crate) async fn slot(&self) -> Result<Slot, AcquireError> {
        let permit = self.slots.clone().acquire_owned().await?;
        metrics::slot_taken(&self.queue);
        Ok(Slot {
            queue: self.queue.clone(),
            _permit: permit,
        })
    }

    /// Whether the picker is to be woken when a place comes free.
    pub(crate) fn set_wants_more(&self, wants_more: bool) {
        self.wants_more.store(wants_more, Ordering::SeqCst);
    }

    /// Lets nothing start any more.
    pub(crate) fn close(&self) {
        self.slots.close();
    }
}

/// The right to run one step, until it is dropped.
pub(crate) struct Slot {
    queue: Arc<str>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Slot {
    fn drop(&mut self) {
        metrics::slot_freed(&self.queue);
    }
}

/// A claim's place in its lane.
pub(crate) struct Place {
    lane: Arc<Lane>,
}

impl Place {
    pub(crate) fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.lane.held.fetch_sub(1, Ordering::SeqCst);
        if self.lane.wants_more.load(Ordering::SeqCst) {
            self.lane.alarm.ring_in(Duration::ZERO);
        }
    }
}
