//! The registry entry of a held claim, and its guard.
//!
//! The executor holds a `ClaimGuard` for each claim it runs. The heartbeat, the cancel watcher and
//! the watchdog read the entries through `Node`. An entry is never proof of a claim: only the
//! store's fence is.

use super::node::Node;
use crate::lease::{Covered, Epoch};
use crate::machine::CancelFlag;
use outlast_core::{CancelRequest, ClaimRef, InstanceId, Revision};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What this node knows about a claim that it holds.
pub(crate) struct ClaimEntry {
    id: InstanceId,
    /// Cancelled when the claim is known to be lost.
    lost: CancellationToken,
    now: Mutex<ClaimState>,
}

struct ClaimState {
    /// The last known revision. The store is at most one revision ahead: an outcome that keeps the
    /// claim may be written and not answered yet.
    revision: Revision,
    doing: Phase,
    /// An epoch in which the claim surely was this worker's.
    ///
    /// It began before the claim, or before the commit of its last outcome.
    epoch: Epoch,
    /// The epoch in which user code returned last.
    written_in: Epoch,
    /// Cancel requests since the claim came to this revision.
    cancel_flag: Arc<CancelFlag>,
}

/// What happens with a claim now.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Phase {
    /// Its step waits for a slot.
    Waiting,
    /// User code runs.
    Running(RunningStep),
    /// Its outcome is being written, or the claim is being given back.
    Committing,
}

/// User code that runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunningStep {
    /// The claim at its current revision: each step of a run changes it.
    pub(crate) claim: ClaimRef,
    pub(crate) machine: &'static str,
    pub(crate) step: &'static str,
    /// How many attempts of the step came before.
    pub(crate) attempt: i32,
    /// How long the code may take.
    pub(crate) limit: Duration,
    pub(crate) since: Instant,
    /// The claim has ended without this code.
    pub(crate) left_behind: bool,
}

impl ClaimEntry {
    pub(super) fn new(claim: ClaimRef, epoch: Epoch) -> ClaimEntry {
        ClaimEntry {
            id: claim.id,
            lost: CancellationToken::new(),
            now: Mutex::new(ClaimState {
                revision: claim.revision,
                doing: Phase::Waiting,
                epoch,
                written_in: epoch,
                cancel_flag: Arc::default(),
            }),
        }
    }

    pub(super) fn revision(&self) -> Revision {
        self.now().revision
    }

    /// Returns every claim that this entry may have been in the store since revision `before`.
    ///
    /// Another claim of the same instance is never among them: it is at least two revisions ahead.
    pub(super) fn claims_since(&self, before: Revision) -> impl Iterator<Item = ClaimRef> {
        let id = self.id;
        let furthest = self.revision().next();
        (before.0..=furthest.0).map(move |revision| ClaimRef {
            id,
            revision: Revision(revision),
        })
    }

    /// Returns the claim at its current revision, and its phase.
    pub(super) fn look(&self) -> (ClaimRef, Phase) {
        let now = self.now();
        let claim = ClaimRef {
            id: self.id,
            revision: now.revision,
        };
        (claim, now.doing)
    }

    pub(super) fn running(&self) -> Option<RunningStep> {
        match self.now().doing {
            Phase::Running(running) => Some(running),
            Phase::Waiting | Phase::Committing => None,
        }
    }

    pub(super) fn lose(&self) {
        self.lost.cancel();
    }

    pub(super) fn leave_behind(&self, code: &RunningStep) {
        if let Phase::Running(running) = &mut self.now().doing
            && running.claim == code.claim
        {
            running.left_behind = true;
            self.lost.cancel();
        }
    }

    /// Passes a cancel request to the claim it was found with.
    ///
    /// A request that arrives too late is ignored. By then the machine has decided, or the next
    /// claim carries the request.
    pub(crate) fn set_cancel(&self, claim: ClaimRef, request: CancelRequest) {
        let now = self.now();
        if now.revision == claim.revision {
            now.cancel_flag.set(request);
        }
    }

    /// Marks the claim as lost if it has not moved since the store was asked.
    ///
    /// The store did not have this claim, and no outcome of it was under way. So it is no longer
    /// this worker's.
    pub(crate) fn lose_unless_moved(&self, claim: ClaimRef) {
        let now = self.now();
        let unmoved = match &now.doing {
            Phase::Waiting => now.revision == claim.revision,
            Phase::Running(running) => running.claim == claim,
            Phase::Committing => false,
        };
        if unmoved {
            self.lost.cancel();
        }
    }

    fn now(&self) -> MutexGuard<'_, ClaimState> {
        // The value is consistent between any two statements, so a panic elsewhere leaves it
        // usable.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A claim that this node holds until the guard is dropped.
pub(crate) struct ClaimGuard {
    node: Arc<Node>,
    claim: ClaimRef,
    pub(crate) lost: CancellationToken,
    entry: Arc<ClaimEntry>,
}

impl ClaimGuard {
    pub(super) fn new(node: Arc<Node>, claim: ClaimRef, entry: Arc<ClaimEntry>) -> ClaimGuard {
        let lost = entry.lost.clone();
        ClaimGuard {
            node,
            claim,
            lost,
            entry,
        }
    }

    /// Returns the flag for cancel requests, including those that came while the claim waited.
    pub(crate) fn cancel_flag(&self) -> Arc<CancelFlag> {
        self.entry.now().cancel_flag.clone()
    }

    /// Loses the claim unless the lease surely covers it.
    ///
    /// Call it before user code starts: after the lease another worker may have run the step.
    pub(crate) fn lose_unless_covered(&self) {
        if !self.covered().is_sure() {
            self.lost.cancel();
        }
    }

    /// Returns a handle that says at any time whether the lease still covers the claim.
    pub(crate) fn covered(&self) -> Covered {
        Covered::new(self.node.coverage.clone(), self.entry.now().epoch)
    }

    /// Registers user code as running until the returned value is dropped.
    pub(crate) fn run(&self, code: RunningStep) -> impl Drop {
        /// Marks the code as returned when dropped.
        struct ReturnMark<'a>(&'a ClaimGuard);

        impl Drop for ReturnMark<'_> {
            fn drop(&mut self) {
                let epoch = self.0.node.coverage.epoch();
                let mut now = self.0.entry.now();
                now.doing = Phase::Committing;
                now.written_in = epoch;
            }
        }

        self.entry.now().doing = Phase::Running(code);
        ReturnMark(self)
    }

    /// Moves the claim to the revision of a written outcome that kept it.
    ///
    /// Call it before the next outcome is written. Earlier cancel requests came back with the
    /// answer, or were answered by the outcome.
    pub(crate) fn move_on(&self, revision: Revision) {
        let mut now = self.entry.now();
        // The claim was this worker's when the outcome was written, after this epoch began.
        let epoch = now.written_in;
        *now = ClaimState {
            revision,
            doing: Phase::Waiting,
            epoch,
            written_in: epoch,
            cancel_flag: Arc::default(),
        };
    }

    /// Stops holding a claim after a call broke, so that its state is unknown.
    ///
    /// If the store still has it, the next check of unknown claims gives it back.
    pub(crate) fn forsake(&self) {
        self.node.let_go(self.claim);
        self.node.set_unsure();
    }
}

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        self.node.let_go(self.claim);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Coverage;
    use outlast_core::Timestamp;

    const CLAIM: ClaimRef = ClaimRef {
        id: InstanceId(1),
        revision: Revision(5),
    };

    fn epoch() -> Epoch {
        Coverage::default().epoch()
    }

    fn running(claim: ClaimRef) -> Phase {
        Phase::Running(RunningStep {
            claim,
            machine: "machine",
            step: "step",
            attempt: 0,
            limit: Duration::from_secs(1),
            since: Instant::now(),
            left_behind: false,
        })
    }

    fn next(claim: ClaimRef) -> ClaimRef {
        ClaimRef {
            revision: claim.revision.next(),
            ..claim
        }
    }

    #[test]
    fn a_claim_missing_in_the_store_is_lost_unless_its_commit_is_under_way() {
        for (doing, is_lost) in [
            (Phase::Waiting, true),
            (running(CLAIM), true),
            // The claim has moved to its next step since the store was asked.
            (running(next(CLAIM)), false),
            (Phase::Committing, false),
        ] {
            let entry = ClaimEntry::new(CLAIM, epoch());
            entry.now().doing = doing;
            entry.lose_unless_moved(CLAIM);
            assert_eq!(entry.lost.is_cancelled(), is_lost, "{doing:?}");
        }
        let moved = ClaimEntry::new(next(CLAIM), epoch());
        moved.lose_unless_moved(CLAIM);
        assert!(!moved.lost.is_cancelled(), "it waits for a slot again");
    }

    #[test]
    fn a_cancel_sets_the_flag_only_of_the_claim_it_was_read_for() {
        let request = CancelRequest {
            reason: "cancelled by ada".into(),
            requested_at: Timestamp(0),
            answered: false,
        };
        let entry = ClaimEntry::new(next(CLAIM), epoch());
        entry.set_cancel(CLAIM, request.clone());
        assert!(entry.now().cancel_flag.request().is_none());
        entry.set_cancel(next(CLAIM), request.clone());
        assert_eq!(entry.now().cancel_flag.request(), Some(&request));
    }
}
