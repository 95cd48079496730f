//! Claims that are not run to their end here: given back, left for others, or lost.

use super::failure_report::{Failed, Failures};
use super::user_code::Interrupted;
use super::{Executor, Ran};
use crate::codec::Unreadable;
use crate::engine::claims::ClaimGuard;
use crate::engine::unrunnable::Unrunnable;
use crate::machine::{Context, Decided, Registered};
use crate::metrics;
use outlast_core::{Claim, Hints, Outcome, Release, ReleaseAnswer};
use std::time::Duration;

/// How long an instance is left alone whose history or children could not be asked for.
const UNANSWERED_PAUSE: Duration = Duration::from_secs(1);

impl Executor {
    /// A step that this build does not know, perhaps of a newer one: left for who does.
    pub(super) async fn leave_unknown_step(&self, claim: &Claim, held: &ClaimGuard) -> Ran {
        let step = (claim.machine.clone(), claim.version, claim.step.clone());
        let met = self
            .obstacles
            .meet(Unrunnable::UnknownStep(step.0, step.1, step.2));
        if met.is_new {
            tracing::warn!(
                machine = claim.machine, version = claim.version, step = claim.step, instance = %claim.id,
                "this build does not know the step; it is left in the queue for one that does"
            );
        }
        let pause = met.pause;
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("unknown-step-is-charged") {
            let (state, error) = (claim.state.clone(), None);
            let retry = Outcome::Retry {
                state,
                delay: pause,
                error,
            };
            self.write(claim, Decided::of(retry)).await;
            return Ran::Finished;
        }
        #[cfg(outlast_mutants)]
        let pause = match outlast_core::mutant::is("pause-of-an-unknown-step-does-not-grow") {
            true => Duration::from_secs(1),
            false => pause,
        };
        self.release(claim, held, pause, "unknown_step").await
    }

    /// A suspect for which the group has no place.
    pub(super) async fn leave_suspect(&self, claim: &Claim, held: &ClaimGuard) -> Ran {
        let (pause, _leaving) = self.suspects.leave();
        self.release(claim, held, pause, "suspect").await
    }

    /// An instance whose values cannot be read here. With a key that is not here yet it is left for who has it;
    /// when its state was changed in the database it ends, since nobody ever will read that.
    pub(super) async fn leave_unreadable(
        &self,
        machine: &Registered,
        claim: Box<Claim>,
        unreadable: Unreadable,
        held: &ClaimGuard,
    ) -> Ran {
        if unreadable.error.may_pass() {
            return self.put_aside(&claim, &unreadable, held).await;
        }
        let reason = unreadable.to_string();
        let failed = Failed::ours("unreadable", reason.clone());
        let mut stop = Decided::of(Outcome::Fail { reason });
        stop.record(machine, &claim);
        let failures = Failures::of(&stop, Some(failed));
        let written = self.write(&claim, stop).await;
        match self
            .conclude(machine, claim, (written, failures), held)
            .await
        {
            Ok(_) => Ran::Finished,
            Err(ran) => ran,
        }
    }

    /// Leaves an instance to whoever can read and write what it carries.
    pub(super) async fn put_aside(
        &self,
        claim: &Claim,
        unreadable: &Unreadable,
        held: &ClaimGuard,
    ) -> Ran {
        let met = self.obstacles.meet(Unrunnable::of(&unreadable.error));
        if met.is_new {
            tracing::warn!(
                instance = %claim.id, machine = claim.machine, version = claim.version, step = claim.step,
                "{unreadable}; it is left in the queue for a node that can read it"
            );
        }
        self.release(claim, held, met.pause, "unreadable").await
    }

    /// User code that was dropped where it awaited has no outcome.
    pub(super) async fn interrupted(
        &self,
        by: Interrupted,
        cx: &Context,
        held: &ClaimGuard,
    ) -> Ran {
        match by {
            Interrupted::GraceOver => {
                let claim = cx.claim();
                tracing::warn!(
                    instance = %claim.id, machine = claim.machine, step = claim.step,
                    "the step did not end within the grace of the stop; its claim is given back"
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
                    "the instance was terminated or the lease has ended; the step is dropped"
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
    ) -> Ran {
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
                    Some(ReleaseAnswer::Released) => Ran::Released,
                    Some(ReleaseAnswer::Lost) | None => self.lose(claim, held),
                }
            }
            Err(error) => {
                tracing::warn!(instance = %claim.id, %error, "could not give a claim back; trying again later");
                held.forsake();
                Ran::Released
            }
        }
    }

    /// The claim is not what it was held for. The store may still have the instance as this worker's: a first try
    /// was written unseen with the claim kept, or a server that took over has forgotten a step. Nobody would run it.
    pub(super) fn lose(&self, claim: &Claim, held: &ClaimGuard) -> Ran {
        held.lost.cancel();
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("unseen-commit-loses-its-claim") {
            return Ran::Lost;
        }
        held.forsake();
        self.node.client.wake(claim.queue.clone());
        Ran::Lost
    }
}
