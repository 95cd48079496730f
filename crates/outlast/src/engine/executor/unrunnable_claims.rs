//! Claims that do not run to their end here: given back, left for other nodes, or lost.
//!
//! The executor calls it. It never fails an instance that another node may be able to run.

use super::failure_report::{AttemptFailure, Failures};
use super::unrunnable::Unrunnable;
use super::user_code::Interrupted;
use super::{ClaimEnd, Executor};
use crate::codec::Unreadable;
use crate::engine::claims::ClaimGuard;
use crate::machine::{Context, Decided, Registered};
use crate::metrics;
use outlast_core::{Claim, Hints, Outcome, Release, ReleaseAnswer};
use std::time::Duration;

/// How long to leave an instance alone when its history, children or inbox could not be read.
pub(super) const UNANSWERED_PAUSE: Duration = Duration::from_secs(1);

impl Executor {
    /// Leaves a step that this build does not know to a node with a newer build.
    pub(super) async fn leave_unknown_step(&self, claim: &Claim, held: &ClaimGuard) -> ClaimEnd {
        let step = (claim.machine.clone(), claim.version, claim.step.clone());
        let postponed = self
            .unrunnables
            .note(Unrunnable::UnknownStep(step.0, step.1, step.2));
        if postponed.is_new {
            tracing::warn!(
                machine = claim.machine, version = claim.version, step = claim.step, instance = %claim.id,
                "this build does not know the step; leaving the instance in the queue for a newer build"
            );
        }
        let pause = postponed.pause;
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("unknown-step-is-charged") {
            let (state, error) = (claim.state.clone(), None);
            let retry = Outcome::Retry {
                state,
                delay: pause,
                error,
            };
            self.write(claim, Decided::of(retry)).await;
            return ClaimEnd::Finished;
        }
        #[cfg(outlast_mutants)]
        let pause = match outlast_core::mutant::is("pause-of-an-unknown-step-does-not-grow") {
            true => Duration::from_secs(1),
            false => pause,
        };
        self.release(claim, held, pause, "unknown_step").await
    }

    /// Gives back a quarantined instance for which the group has no place.
    pub(super) async fn leave_suspect(&self, claim: &Claim, held: &ClaimGuard) -> ClaimEnd {
        let (pause, _leaving) = self.quarantine.leave();
        self.release(claim, held, pause, "suspect").await
    }

    /// Handles an instance whose values cannot be read here.
    ///
    /// If this node lacks the key, the instance is left to a node that has it. If its state was
    /// changed in the database, the instance fails: no node can ever read it.
    pub(super) async fn leave_unreadable(
        &self,
        machine: &Registered,
        claim: Box<Claim>,
        unreadable: Unreadable,
        held: &ClaimGuard,
    ) -> ClaimEnd {
        if unreadable.error.may_pass() {
            return self.put_aside(&claim, &unreadable, held).await;
        }
        let reason = unreadable.to_string();
        let failed = AttemptFailure::ours("unreadable", reason.clone());
        let mut stop = Decided::of(Outcome::fail(reason));
        stop.record(machine, &claim);
        let failures = Failures::of(&stop, Some(failed));
        let written = self.write(&claim, stop).await;
        match self
            .conclude(machine, claim, (written, failures), held)
            .await
        {
            Ok(_) => ClaimEnd::Finished,
            Err(ran) => ran,
        }
    }

    /// Leaves an instance to a node that can read and write its values.
    pub(super) async fn put_aside(
        &self,
        claim: &Claim,
        unreadable: &Unreadable,
        held: &ClaimGuard,
    ) -> ClaimEnd {
        let postponed = self.unrunnables.note(Unrunnable::of(&unreadable.error));
        if postponed.is_new {
            tracing::warn!(
                instance = %claim.id, machine = claim.machine, version = claim.version, step = claim.step,
                "{unreadable}; leaving the instance in the queue for a node that can read it"
            );
        }
        self.release(claim, held, postponed.pause, "unreadable")
            .await
    }

    /// Handles user code that was dropped while it awaited, and so has no outcome.
    pub(super) async fn interrupted(
        &self,
        by: Interrupted,
        cx: &Context,
        held: &ClaimGuard,
    ) -> ClaimEnd {
        match by {
            Interrupted::GraceOver => {
                let claim = cx.claim();
                tracing::warn!(
                    instance = %claim.id, machine = claim.machine, step = claim.step,
                    "the step did not end within the grace period; giving its claim back"
                );
                self.release(cx.claim(), held, Duration::ZERO, "grace_over")
                    .await
            }
            Interrupted::Unanswered => {
                self.release(cx.claim(), held, UNANSWERED_PAUSE, "unanswered")
                    .await
            }
            Interrupted::Lost(machine) => {
                metrics::lost(machine);
                tracing::info!(
                    "the instance was terminated or the lease has expired; dropping the step"
                );
                self.lose(cx.claim(), held)
            }
        }
    }

    pub(super) async fn release(
        &self,
        claim: &Claim,
        held: &ClaimGuard,
        pause: Duration,
        reason: &'static str,
    ) -> ClaimEnd {
        metrics::released(reason);
        let release = Release {
            claim: claim.reference(),
            pause,
        };
        match self.node.store().release(vec![release]).await {
            Ok(released) => {
                let mut hints = Hints::now(released.woken);
                if !pause.is_zero() {
                    hints.queue(&claim.queue, pause);
                }
                self.node.client.hub.publish(self.node.store(), hints);
                match released.answers.first() {
                    Some(ReleaseAnswer::Released) => ClaimEnd::Released,
                    Some(ReleaseAnswer::Lost) | None => self.lose(claim, held),
                }
            }
            Err(error) => {
                tracing::warn!(instance = %claim.id, %error, "could not give the claim back; trying again later");
                held.forsake();
                ClaimEnd::Released
            }
        }
    }

    /// Drops a claim that is no longer what it was held for.
    ///
    /// The store may still show the instance as this worker's. A first attempt may have been
    /// written without an answer, with the claim kept. Or a server that took over has lost a
    /// commit. The next check of unknown claims gives it back, or no worker would run it.
    pub(super) fn lose(&self, claim: &Claim, held: &ClaimGuard) -> ClaimEnd {
        held.lost.cancel();
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("unseen-commit-loses-its-claim") {
            return ClaimEnd::Lost;
        }
        held.forsake();
        self.node.client.wake(claim.queue.clone());
        ClaimEnd::Lost
    }
}
