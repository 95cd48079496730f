//! Gives a step that runs ahead the signals that came since its claim.
//!
//! The executor calls it between two steps of one claim. A chain without signals reads nothing:
//! each commit names the latest signal, and only one that no step has seen is worth a read.

use super::unrunnable_claims::UNANSWERED_PAUSE;
use super::{ClaimEnd, Executor, NextStep};
use crate::engine::claims::ClaimGuard;
use crate::machine::Registered;
use crate::metrics;
use outlast_core::{Claim, SignalId};

/// The signals that the steps of a claim have seen, by the latest of them.
pub(super) struct SeenSignals(Option<SignalId>);

impl SeenSignals {
    /// Returns the signals in the inbox of a new claim.
    pub(super) fn of(claim: &Claim) -> SeenSignals {
        SeenSignals(claim.inbox.last().map(|signal| signal.id))
    }

    /// Returns whether the latest signal since the claim is missing.
    ///
    /// A signal of an instance is stored under its lock. So an inbox with the latest signal has all
    /// earlier ones, too.
    pub(super) fn lack(&self, latest: Option<SignalId>) -> bool {
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("run-ahead-keeps-its-inbox") {
            return false;
        }
        latest.is_some() && latest != self.0
    }
}

impl Executor {
    /// Reads the inbox again, for the next step of a kept claim.
    ///
    /// Without an inbox the step must not run. Then the claim is given back, and the next claim has
    /// the signals.
    pub(super) async fn reload_inbox(
        &self,
        machine: &Registered,
        mut next: NextStep,
        held: &ClaimGuard,
        seen: &mut SeenSignals,
    ) -> Result<NextStep, ClaimEnd> {
        match self.node.store().inbox(next.claim.reference()).await {
            Ok(Some(inbox)) => next.claim.inbox = inbox,
            Ok(None) => {
                metrics::lost(machine.name);
                tracing::info!("the claim was lost before its next step");
                return Err(self.lose(&next.claim, held));
            }
            Err(error) => {
                metrics::store_error("executor");
                tracing::warn!(instance = %next.claim.id, %error, "could not read the inbox; giving the claim back");
                let claim = &next.claim;
                return Err(self
                    .release(claim, held, UNANSWERED_PAUSE, "unanswered")
                    .await);
            }
        }
        // The read may have found a signal that is later than the one it was made for.
        let last = next.claim.inbox.last().map(|signal| signal.id);
        seen.0 = last.max(next.latest_signal);
        match self.node.client.coding.decode_inbox(&mut next.claim) {
            Ok(()) => Ok(next),
            Err(unreadable) => Err(self
                .leave_unreadable(machine, next.claim, unreadable, held)
                .await),
        }
    }
}
