//! Bounds how many quarantined instances run at a time, to find a step that kills its worker.
//!
//! An instance is quarantined after several crashes in a row (`QUARANTINE_AFTER`). Most of these
//! instances are innocent: they ran beside the guilty step, or their worker was killed from
//! outside. Therefore many of them run together at first, and half as many after each crash.
//! Innocent groups finish and leave the quarantine. At last the guilty step is the only
//! quarantined claim of its worker. From then on its crashes count (docs/protocol.md, defect 14).

use crate::engine::backoff::jittered;
use outlast_core::{Claim, ClaimRef, QUARANTINE_AFTER};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The shortest and the longest time for which an instance is given back when the group is full.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// An instance waits for this share of the time for which the group has run. That is short
/// compared with the steps that it waits for.
const PAUSE_SHARE: u32 = 4;

/// How long an admitted instance waits before it starts: per crash, and at most. Meanwhile the
/// others of the same claim call are given back, and fresh steps beside it finish. The next crash
/// then involves neither.
const SETTLE: Duration = Duration::from_millis(20);
const SETTLE_MAX: Duration = Duration::from_millis(200);
/// How often, and for how long, it checks whether the others are given back.
const SETTLE_LOOK: Duration = Duration::from_millis(5);
const SETTLE_PATIENCE: Duration = Duration::from_secs(1);

/// Returns whether this instance runs in a bounded group.
///
/// An instance with a partition key does not. Giving it back would lose its place in the line, and
/// no other instance of that line runs beside it.
pub(crate) fn is_quarantined(claim: &Claim) -> bool {
    claim.crashes >= quarantine_after() && claim.partition_key.is_none()
}

fn quarantine_after() -> i32 {
    #[cfg(outlast_mutants)]
    if outlast_core::mutant::is("quarantine-runs-together") {
        return i32::MAX;
    }
    #[cfg(outlast_mutants)]
    if outlast_core::mutant::is("quarantine-runs-one-at-a-time") {
        return 2;
    }
    QUARANTINE_AFTER
}

/// The quarantined instances of a node.
pub(crate) struct Quarantine {
    /// How many steps this node runs at a time, in all queues.
    slots: usize,
    group: Mutex<HashMap<ClaimRef, QuarantinedClaim>>,
    /// How many quarantined instances are being given back.
    leaving: AtomicUsize,
}

/// A quarantined instance that runs here.
struct QuarantinedClaim {
    /// How many may run together with it, itself included.
    limit: usize,
    since: Instant,
    /// A member whose claim is lost frees its place: its step may block its thread forever.
    lost: CancellationToken,
}

/// A place in the group, free again when this is dropped.
pub(crate) struct QuarantinePermit<'a> {
    quarantine: &'a Quarantine,
    claim: ClaimRef,
    crashes: i32,
}

/// A quarantined instance that is being given back, until this is dropped.
pub(crate) struct ReturnGuard<'a>(&'a AtomicUsize);

impl Quarantine {
    pub(crate) fn new(slots: usize) -> Quarantine {
        Quarantine {
            slots,
            group: Mutex::default(),
            leaving: AtomicUsize::new(0),
        }
    }

    /// Takes a place in the group, if there is one for this instance.
    pub(crate) fn admit(
        &self,
        claim: &Claim,
        lost: &CancellationToken,
    ) -> Option<QuarantinePermit<'_>> {
        let mut group = self.group();
        group.retain(|_, member| !member.lost.is_cancelled());
        let limit = self.limit(claim.crashes);
        let most = group
            .values()
            .map(|member| member.limit)
            .fold(limit, usize::min);
        if group.len() >= most {
            return None;
        }
        let member = QuarantinedClaim {
            limit,
            since: Instant::now(),
            lost: lost.clone(),
        };
        group.insert(claim.reference(), member);
        Some(QuarantinePermit {
            quarantine: self,
            claim: claim.reference(),
            crashes: claim.crashes,
        })
    }

    /// Returns how many run together: half of the slots, and half as many after each crash.
    fn limit(&self, crashes: i32) -> usize {
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("quarantine-runs-one-at-a-time") {
            return 1;
        }
        let halvings = u32::try_from(crashes - QUARANTINE_AFTER + 1).unwrap_or(0);
        self.slots.checked_shr(halvings).unwrap_or(0).max(1)
    }

    /// Returns for how long to give an instance back while the group is full.
    ///
    /// The pause grows with the age of the group. Many short pauses would keep the store busy; a
    /// long one would outlast the steps that the instance waits for.
    pub(crate) fn leave(&self) -> (Duration, ReturnGuard<'_>) {
        self.leaving.fetch_add(1, Ordering::SeqCst);
        let group = self.group();
        let ages = group.values().map(|member| member.since.elapsed());
        let members = u32::try_from(group.len()).unwrap_or(u32::MAX).max(1);
        let age: Duration = ages.sum::<Duration>() / members;
        let pause = (age / PAUSE_SHARE).clamp(PAUSE_MIN, PAUSE_MAX);
        (jittered(pause), ReturnGuard(&self.leaving))
    }

    fn group(&self) -> MutexGuard<'_, HashMap<ClaimRef, QuarantinedClaim>> {
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QuarantinePermit<'_> {
    /// Waits until the quarantined instances of the same claim call are given back.
    pub(crate) async fn settle(&self) {
        let crashes = u32::try_from(self.crashes - QUARANTINE_AFTER + 1).unwrap_or(1);
        tokio::time::sleep(SETTLE.saturating_mul(crashes).min(SETTLE_MAX)).await;
        let begun = Instant::now();
        while self.quarantine.leaving.load(Ordering::SeqCst) > 0
            && begun.elapsed() < SETTLE_PATIENCE
        {
            tokio::time::sleep(SETTLE_LOOK).await;
        }
    }
}

impl Drop for QuarantinePermit<'_> {
    fn drop(&mut self) {
        self.quarantine.group().remove(&self.claim);
    }
}

impl Drop for ReturnGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_core::{InstanceId, Json, NewInstance, Revision};

    fn crashed_claim(id: i64, crashes: i32) -> Claim {
        let row = NewInstance::new("machine", "step", Json::null());
        let mut claim = Claim::at_insert(row, InstanceId(id), Revision(1));
        claim.crashes = crashes;
        claim
    }

    fn admitted(quarantine: &Quarantine, crashes: &[i32]) -> usize {
        let lost = CancellationToken::new();
        let claims = (0..)
            .zip(crashes)
            .map(|(id, crashes)| crashed_claim(id, *crashes));
        let admitted: Vec<_> = claims
            .filter_map(|it| quarantine.admit(&it, &lost))
            .collect();
        admitted.len()
    }

    #[test]
    fn three_crashes_quarantine_a_claim_unless_it_has_a_partition_key() {
        assert!(!is_quarantined(&crashed_claim(1, 2)));
        assert!(is_quarantined(&crashed_claim(1, 3)));
        let mut keyed = crashed_claim(1, 9);
        keyed.partition_key = Some("key".into());
        assert!(!is_quarantined(&keyed));
    }

    #[test]
    fn each_crash_halves_how_many_run_together_down_to_one() {
        let quarantine = Quarantine::new(100);
        for (crashes, together) in [(3, 50), (4, 25), (5, 12), (8, 1), (9, 1), (i32::MAX, 1)] {
            assert_eq!(
                admitted(&quarantine, &[crashes; 200]),
                together,
                "{crashes}"
            );
        }
        assert_eq!(admitted(&Quarantine::new(1), &[3; 4]), 1);
    }

    #[test]
    fn the_member_with_the_most_crashes_bounds_the_group() {
        let quarantine = Quarantine::new(16);
        assert_eq!(admitted(&quarantine, &[6, 3, 3, 3]), 1);
        assert_eq!(admitted(&quarantine, &[3, 6, 3, 3]), 3);
    }

    #[test]
    fn a_member_whose_claim_is_lost_frees_its_place() {
        let quarantine = Quarantine::new(1);
        let (gone, lost) = (CancellationToken::new(), CancellationToken::new());
        let _blocked = quarantine.admit(&crashed_claim(1, 3), &gone).unwrap();
        assert!(quarantine.admit(&crashed_claim(2, 3), &lost).is_none());
        gone.cancel();
        assert!(quarantine.admit(&crashed_claim(2, 3), &lost).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_quarantined_claim_pauses_for_a_share_of_the_groups_run_time() {
        let quarantine = Quarantine::new(2);
        let lost = CancellationToken::new();
        let _member = quarantine.admit(&crashed_claim(1, 3), &lost);
        assert!(quarantine.leave().0 <= PAUSE_MIN * 2);
        tokio::time::advance(Duration::from_secs(8)).await;
        let pause = quarantine.leave().0;
        assert!(
            pause > Duration::from_millis(900) && pause < Duration::from_secs(4),
            "{pause:?}"
        );
        tokio::time::advance(Duration::from_secs(3_600)).await;
        assert!(quarantine.leave().0 <= PAUSE_MAX * 2);
    }
}
