//! Blocks an instance that commits again and again without progress.
//!
//! The executor counts such commits while it keeps the claim. When the claim goes back through the
//! queue, the count is kept here. It continues when this node claims the instance again.

use crate::machine::Decided;
use crate::metrics;
use outlast_core::limits::COMMITS_WITHOUT_PROGRESS_MAX;
use outlast_core::{Claim, Flowing, InstanceId, Json, NO_PROGRESS, Outcome};
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many instances are remembered. Few instances commit without progress even once before they
/// go through the queue.
const REMEMBERED_MAX: usize = 1_000;

/// The first and the longest pause of a blocked instance. The pause doubles with each attempt.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The instances of a node whose last commits made no progress.
#[derive(Default)]
pub(crate) struct NoProgressCounts {
    /// How many are remembered: at zero, no claim takes the lock.
    remembered: AtomicUsize,
    counts: Mutex<HashMap<InstanceId, LastCount>>,
}

#[derive(Clone, Copy)]
struct LastCount {
    /// A hash of the instance's position; see [`position`].
    position: u64,
    commits: u32,
}

/// Counts the commits in a row without progress while the claim is kept.
pub(crate) struct NoProgressCounter<'a> {
    node_counts: &'a NoProgressCounts,
    id: InstanceId,
    commits: u32,
}

impl NoProgressCounts {
    /// Continues the count of a claimed instance. It starts at zero if the instance has moved.
    pub(crate) fn resume(&self, claim: &Claim) -> NoProgressCounter<'_> {
        let mut commits = 0;
        if self.remembered.load(Ordering::Relaxed) > 0
            && let Some(before) = self.forget(claim.id)
            && before.position == position(claim)
        {
            commits = before.commits;
        }
        NoProgressCounter {
            node_counts: self,
            id: claim.id,
            commits,
        }
    }

    fn forget(&self, id: InstanceId) -> Option<LastCount> {
        let mut counts = self.lock();
        let before = counts.remove(&id);
        self.remembered.store(counts.len(), Ordering::Relaxed);
        before
    }

    fn remember(&self, id: InstanceId, remembered: LastCount) {
        let mut counts = self.lock();
        if counts.len() >= REMEMBERED_MAX {
            counts.clear();
        }
        counts.insert(id, remembered);
        self.remembered.store(counts.len(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<InstanceId, LastCount>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NoProgressCounter<'_> {
    /// Counts a commit that is about to be made.
    ///
    /// A commit too many without progress is replaced by a pause with an error that says so.
    pub(crate) fn check(&mut self, claim: &Claim, decided: &mut Decided) {
        if makes_progress(claim, decided) {
            self.commits = 0;
            return;
        }
        self.commits += 1;
        if self.commits > COMMITS_WITHOUT_PROGRESS_MAX {
            // The next attempt is blocked at its first commit without progress.
            self.commits = COMMITS_WITHOUT_PROGRESS_MAX;
            *decided = blocked(claim);
            self.keep(claim);
        } else if !decided.outcome.keeps_claim() {
            self.keep(claim);
        }
    }

    fn keep(&self, claim: &Claim) {
        let remembered = LastCount {
            position: position(claim),
            commits: self.commits,
        };
        self.node_counts.remember(self.id, remembered);
    }
}

/// Returns a hash of an instance's position: the same until it makes progress.
///
/// The length of the history is not part of it: a recorded history of a machine grows with every
/// commit.
fn position(claim: &Claim) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&claim.step, claim.state.as_str()).hash(&mut hasher);
    (claim.round, claim.run).hash(&mut hasher);
    hasher.finish()
}

/// Returns whether a commit changes more of an instance than its revision.
fn makes_progress(claim: &Claim, decided: &Decided) -> bool {
    // A reply consumes its update.
    if !decided.replies.is_empty() {
        return true;
    }
    let moves = |step: &String, state: &Json| {
        *step != claim.step
            || *state != claim.state
            || claim.awaited().next().is_some()
            || claim.is_to_answer_cancel()
    };
    match &decided.outcome {
        Outcome::Next { step, state, .. } => moves(step, state),
        // A join without children is decided at once.
        Outcome::FanOut {
            children,
            step,
            state,
            ..
        } => !children.is_empty() || moves(step, state),
        Outcome::Flow { children, then, .. } => {
            !children.is_empty()
                || !decided.events.is_empty()
                || matches!(then, Flowing::Park(_))
                || decided.received.as_ref().is_some_and(|it| !it.is_empty())
                || decided.answers_cancel == Some(true)
        }
        // A counted attempt, a pause, another run, or the end.
        Outcome::Retry { .. }
        | Outcome::Wait { .. }
        | Outcome::ContinueAsNew { .. }
        | Outcome::Done { .. }
        | Outcome::Fail { .. }
        | Outcome::Cancel { .. } => true,
    }
}

/// Leaves the instance as it is, with a pause and an error that says why.
fn blocked(claim: &Claim) -> Decided {
    let error = format!(
        "{NO_PROGRESS}{COMMITS_WITHOUT_PROGRESS_MAX} commits at step {} have changed nothing; it continues with a build whose step changes the instance",
        claim.step
    );
    metrics::circled(&claim.machine);
    tracing::warn!(instance = %claim.id, machine = claim.machine, step = claim.step, "{error}");
    let doublings = u32::try_from(claim.attempt.clamp(0, 6)).unwrap_or(0);
    Decided::of(Outcome::Retry {
        state: claim.state.clone(),
        delay: (PAUSE * (1 << doublings)).min(PAUSE_MAX),
        error: Some(error),
    })
}
