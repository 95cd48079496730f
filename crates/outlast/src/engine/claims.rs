//! A claim that is held here: what is known of it, and what is done about it.

use super::node::Node;
use crate::lease::{Covered, Epoch};
use crate::machine::CancelFlag;
use outlast_core::{CancelRequest, ClaimRef, InstanceId, Revision};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What is known here of a claim that is held.
pub(crate) struct ClaimEntry {
    id: InstanceId,
    /// It is known to be lost.
    lost: CancellationToken,
    now: Mutex<Current>,
}

struct Current {
    /// The last that was heard of it. In the store it is at most one further: an outcome that keeps the claim may
    /// be written and not answered yet.
    revision: Revision,
    doing: Phase,
    /// When it was surely this worker's: at its claim, or when its last outcome was about to be written.
    epoch: Epoch,
    /// When the last user code came back.
    written_in: Epoch,
    /// What was wished of it since it came to this revision.
    cancel_flag: Arc<CancelFlag>,
}

/// What is done about a claim.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Phase {
    /// Nothing yet: its step waits for a slot.
    Waiting,
    /// User's code runs.
    Running(Running),
    /// Its outcome is written, or it is given back.
    CommitPermit,
}

/// User's code that runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    /// For this claim, as it is now: steps that follow one another change its revision.
    pub(crate) claim: ClaimRef,
    pub(crate) machine: &'static str,
    pub(crate) step: &'static str,
    /// How often the step was tried before.
    pub(crate) attempt: i32,
    /// How long it may take.
    pub(crate) limit: Duration,
    pub(crate) since: Instant,
    /// Its claim has come to an end without it.
    pub(crate) left_behind: bool,
}

impl ClaimEntry {
    pub(super) fn new(claim: ClaimRef, epoch: Epoch) -> ClaimEntry {
        ClaimEntry {
            id: claim.id,
            lost: CancellationToken::new(),
            now: Mutex::new(Current {
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

    /// Every claim that this one may have been in the store since it was heard of at revision `before`. No other
    /// claim of the instance is among them: that is at least two revisions further.
    pub(super) fn claims_since(&self, before: Revision) -> impl Iterator<Item = ClaimRef> {
        let id = self.id;
        let furthest = self.revision().next();
        (before.0..=furthest.0).map(move |revision| ClaimRef {
            id,
            revision: Revision(revision),
        })
    }

    /// The claim as it is now, and what is done about it.
    pub(super) fn look(&self) -> (ClaimRef, Phase) {
        let now = self.now();
        let claim = ClaimRef {
            id: self.id,
            revision: now.revision,
        };
        (claim, now.doing)
    }

    pub(super) fn running(&self) -> Option<Running> {
        match self.now().doing {
            Phase::Running(running) => Some(running),
            Phase::Waiting | Phase::CommitPermit => None,
        }
    }

    pub(super) fn lose(&self) {
        self.lost.cancel();
    }

    pub(super) fn leave_behind(&self, code: &Running) {
        if let Phase::Running(running) = &mut self.now().doing
            && running.claim == code.claim
        {
            running.left_behind = true;
            self.lost.cancel();
        }
    }

    /// The instance was asked to end while it was this claim. An answer that comes too late is about another one: the
    /// machine has decided by then, or will be told again.
    pub(crate) fn tell(&self, claim: ClaimRef, request: CancelRequest) {
        let now = self.now();
        if now.revision == claim.revision {
            now.cancel_flag.tell(request);
        }
    }

    /// The store did not have this claim while nothing of it was on its way there: it is not this worker's any more.
    pub(crate) fn lose_unless_moved(&self, claim: ClaimRef) {
        let now = self.now();
        let unmoved = match &now.doing {
            Phase::Waiting => now.revision == claim.revision,
            Phase::Running(running) => running.claim == claim,
            Phase::CommitPermit => false,
        };
        if unmoved {
            self.lost.cancel();
        }
    }

    fn now(&self) -> MutexGuard<'_, Current> {
        // What it guards is whole between any two statements, so a panic elsewhere leaves it usable.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A claim that this node holds.
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

    /// What is wished of it from now on, or was while it waited.
    pub(crate) fn cancel_flag(&self) -> Arc<CancelFlag> {
        self.entry.now().cancel_flag.clone()
    }

    /// Loses the claim unless the lease surely covers it. To be asked before user code starts: past the lease another
    /// worker may have run the step.
    pub(crate) fn lose_unless_covered(&self) {
        if !self.covered().is_sure() {
            self.lost.cancel();
        }
    }

    /// Says at any time whether the lease still covers the claim.
    pub(crate) fn covered(&self) -> Covered {
        Covered::new(self.node.coverage.clone(), self.entry.now().epoch)
    }

    /// Notes that user's code runs, for as long as the answer lives.
    pub(crate) fn run(&self, code: Running) -> impl Drop {
        /// The code has come back.
        struct Ran<'a>(&'a ClaimGuard);

        impl Drop for Ran<'_> {
            fn drop(&mut self) {
                let epoch = self.0.node.coverage.epoch();
                let mut now = self.0.entry.now();
                now.doing = Phase::CommitPermit;
                now.written_in = epoch;
            }
        }

        self.entry.now().doing = Phase::Running(code);
        Ran(self)
    }

    /// An outcome was written, and the claim kept at this revision. To be noted before the next is written. What was
    /// wished before has come back with the answer, or was what the outcome decided about.
    pub(crate) fn move_on(&self, revision: Revision) {
        let mut now = self.entry.now();
        // The claim was this worker's when the outcome was written, which was after this epoch began.
        let epoch = now.written_in;
        *now = Current {
            revision,
            doing: Phase::Waiting,
            epoch,
            written_in: epoch,
            cancel_flag: Arc::default(),
        };
    }

    /// A call broke whose answer would have said whether the claim still stands. It is not held from now on,
    /// so that the next look gives it back if it does.
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
        Phase::Running(Running {
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
    fn a_claim_that_the_store_does_not_have_is_lost_unless_its_outcome_is_on_the_way() {
        for (doing, is_lost) in [
            (Phase::Waiting, true),
            (running(CLAIM), true),
            // It has gone on to its next step since the store was asked.
            (running(next(CLAIM)), false),
            (Phase::CommitPermit, false),
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
    fn a_wish_is_told_to_the_claim_it_was_found_with_and_to_no_later_one() {
        let request = CancelRequest {
            reason: "cancelled by ada".into(),
            requested_at: Timestamp(0),
            answered: false,
        };
        let entry = ClaimEntry::new(next(CLAIM), epoch());
        entry.tell(CLAIM, request.clone());
        assert!(entry.now().cancel_flag.request().is_none());
        entry.tell(next(CLAIM), request.clone());
        assert_eq!(entry.now().cancel_flag.request(), Some(&request));
    }
}
