//! Claims of dead workers: the request and answer of `reap`, and the rules for counting crashes.

use crate::limits::{self, BATCH_MAX};
use crate::{InstanceId, Invalid, QueueNames, WorkerId};

/// A request to return claims of dead workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReapRequest {
    /// The largest number of claims.
    pub max: usize,
    /// How many [counted](Crash::of) crashes in a row an instance survives (docs/protocol.md,
    /// defect 14).
    pub crashes_max: i32,
}

impl ReapRequest {
    /// Checks whether a store can answer it.
    pub fn check(&self) -> Result<(), Invalid> {
        limits::check_batch("reap", self.max, BATCH_MAX)
    }
}

/// The crashes in a row that put an instance into quarantine. Workers bound how
/// many quarantined instances run at a time.
///
/// Two lost hosts in a row are ordinary. Healthy steps that ran there must run again at full
/// speed.
pub const QUARANTINE_AFTER: i32 = 3;

/// Crashes in a row, counted or not, that an instance survives for each one of `crashes_max`.
///
/// It bounds a step whose crashes never count because other quarantined instances always run
/// beside it.
const CRASHES_PER_COUNTED: i32 = 20;

/// The claims that one dead worker held.
///
/// A store knows which claims a worker held, but not which of their steps ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CrashScene {
    claims: usize,
    quarantined: usize,
    is_partial: bool,
}

impl CrashScene {
    /// Adds a claim whose instance had this many crashes in a row before.
    pub fn add(&mut self, crashes: i32) {
        self.claims += 1;
        self.quarantined += usize::from(crashes >= QUARANTINE_AFTER);
    }

    /// Notes that the worker may have held more claims than were added.
    pub fn set_partial(&mut self) {
        self.is_partial = true;
    }

    /// Whether one claim must have caused the crash: the only one, or the only quarantined one.
    fn blames(&self, crashes: i32) -> bool {
        #[cfg(outlast_mutants)]
        if crate::mutant::is("every-crash-is-counted") {
            return true;
        }
        let is_only_quarantined = crashes >= QUARANTINE_AFTER && self.quarantined == 1;
        !self.is_partial && (self.claims == 1 || is_only_quarantined)
    }
}

/// The effect of one more crash on an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Crashes in a row, including this one.
    pub crashes: i32,
    /// How many of them count towards `crashes_max`.
    pub counted: i32,
    /// Whether the instance fails.
    pub gives_up: bool,
}

impl Crash {
    /// Judges the crash of a worker that held `scene`.
    ///
    /// The instance had `crashes` in a row before; `counted` of them counted.
    ///
    /// A crash counts when the instance was the only claim of its worker, or the only quarantined
    /// one among them. So a busy worker that is killed again and again fails none of its healthy
    /// instances. `counted` is stale after an outcome, which resets only `crashes`.
    pub fn of(scene: &CrashScene, crashes: i32, counted: i32, crashes_max: i32) -> Crash {
        let before = if crashes > 0 { counted } else { 0 };
        let counted = before.saturating_add(i32::from(scene.blames(crashes)));
        let crashes = crashes.saturating_add(1);
        let most = crashes_max.saturating_mul(CRASHES_PER_COUNTED);
        Crash {
            crashes,
            counted,
            gives_up: counted > crashes_max || crashes > most,
        }
    }
}

/// The answer to a reap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Instances returned to their queues, by id.
    pub returned: Vec<InstanceId>,
    /// Instances that failed because they crashed too often, by id.
    pub failed: Vec<InstanceId>,
    /// Workers that were removed because they hold no claims, by id.
    pub removed: Vec<WorkerId>,
    /// Queues in which an instance may have become claimable.
    pub woken: QueueNames,
    /// Whether the failed instances left work for [`cascade`](crate::Store::cascade).
    pub cascades: bool,
    /// Whether another request may find more at once.
    pub more: bool,
}

/// Returns the error of an instance that crashed too often.
pub fn gave_up(crashes: i32, step: &str) -> String {
    format!(
        "gave up: step {step} took its worker down {crashes} times in a row; mend it, then retry the instance"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene(crashes: &[i32]) -> CrashScene {
        let mut scene = CrashScene::default();
        crashes.iter().for_each(|crashes| scene.add(*crashes));
        scene
    }

    #[test]
    fn a_crash_counts_for_the_only_claim_and_for_the_only_quarantined_instance() {
        for (held, counts) in [
            (&[0][..], true),
            (&[2], true),
            (&[3], true),
            (&[0, 0], false),
            (&[2, 0], false),
            (&[3, 0, 2], true),
            (&[3, 3], false),
            (&[3, 7], false),
        ] {
            let crash = Crash::of(&scene(held), held[0], 0, 10);
            assert_eq!(crash.counted == 1, counts, "{held:?}");
        }
        let mut partial = scene(&[3]);
        partial.set_partial();
        assert_eq!(Crash::of(&partial, 3, 0, 10).counted, 0);
    }

    #[test]
    fn crashes_before_the_last_outcome_do_not_count() {
        let alone = scene(&[0]);
        assert_eq!(Crash::of(&alone, 0, 9, 10).counted, 1);
        assert_eq!(Crash::of(&alone, 1, 9, 10).counted, 10);
    }

    #[test]
    fn an_instance_gives_up_after_counted_crashes_or_after_very_many() {
        let (alone, busy) = (scene(&[5]), scene(&[5, 5]));
        assert!(!Crash::of(&alone, 5, 1, 2).gives_up);
        assert!(Crash::of(&alone, 5, 2, 2).gives_up);
        assert!(!Crash::of(&busy, 39, 0, 2).gives_up);
        assert!(Crash::of(&busy, 40, 0, 2).gives_up);
        assert!(Crash::of(&busy, 0, 0, 0).gives_up, "no crash is allowed");
        assert!(!Crash::of(&busy, i32::MAX, 0, i32::MAX).gives_up);
    }
}
