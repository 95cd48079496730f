//! Runs steps that took their worker down one at a time.
//!
//! Which of those that ran beside each other did it shows when only one of them is there to be counted at the next
//! crash (PROTOCOL §3 #14).

use super::backoff::jittered;
use outlast_core::{Claim, ClaimRef};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often in a row a step has taken its worker down when it is run apart from others like it: once, a machine
/// was lost or a process killed, and most that ran there are innocent.
const SUSPECT_AFTER: i32 = 2;
/// How long a suspect is left when another is running here; longer, the more were left meanwhile.
const SUSPECT_PAUSE: Duration = Duration::from_millis(200);
const SUSPECTS_AHEAD_MAX: u32 = 50;

/// Whether this is to run apart. One with a partition key is not: it must not lose its place in the line, and none
/// of its line runs beside it.
pub(crate) fn is_suspect(claim: &Claim) -> bool {
    #[cfg(outlast_mutants)]
    if outlast_core::mutant::is("suspects-run-together") {
        return false;
    }
    claim.crashes >= SUSPECT_AFTER && claim.partition_key.is_none()
}

/// The suspects of a node.
#[derive(Default)]
pub(crate) struct Suspects {
    /// The one that runs here, until it has survived or its claim is lost: one that blocks its thread must not keep
    /// the place for ever.
    place: Mutex<Option<Suspect>>,
    /// How many were left since it began.
    left: AtomicU32,
}

struct Suspect {
    claim: ClaimRef,
    lost: CancellationToken,
}

/// The place of the one suspect that runs here; free again when this is gone.
pub(crate) struct Apart<'a> {
    suspects: &'a Suspects,
    claim: ClaimRef,
}

impl Suspects {
    /// The place of the one suspect that runs here, if it is free.
    pub(crate) fn set_apart(&self, claim: ClaimRef, lost: &CancellationToken) -> Option<Apart<'_>> {
        let mut place = self.place();
        if place.as_ref().is_some_and(|it| !it.lost.is_cancelled()) {
            return None;
        }
        let lost = lost.clone();
        *place = Some(Suspect { claim, lost });
        self.left.store(0, Ordering::Relaxed);
        Some(Apart {
            suspects: self,
            claim,
        })
    }

    /// How long to leave one while another runs.
    pub(crate) fn leave(&self) -> Duration {
        let ahead = self.left.fetch_add(1, Ordering::Relaxed);
        jittered(SUSPECT_PAUSE * (1 + ahead.min(SUSPECTS_AHEAD_MAX)))
    }

    fn place(&self) -> MutexGuard<'_, Option<Suspect>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Apart<'_> {
    fn drop(&mut self) {
        let mut place = self.suspects.place();
        if place.as_ref().is_some_and(|it| it.claim == self.claim) {
            *place = None;
        }
    }
}
