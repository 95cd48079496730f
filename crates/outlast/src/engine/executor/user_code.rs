//! Runs user code under its time limit, catches panics, and calls `on_failure`.
//!
//! The executor calls it. User code never runs inside a transaction.

use super::Executor;
use super::failure_report::AttemptFailure;
use crate::engine::claims::{ClaimGuard, RunningStep};
use crate::machine::{Context, Decided, Failure, Registered, Trouble, panic_message};
use crate::metrics;
use crate::workflow::Session;
use futures_util::FutureExt;
use outlast_core::Outcome;
use std::panic::AssertUnwindSafe;
use tokio::time::Instant;

/// Why user code was dropped before it had an outcome.
#[derive(Clone, Copy, Debug)]
pub(super) enum Interrupted {
    /// The grace of a stop is over.
    GraceOver,
    /// The claim of this machine's instance is lost: its outcome would be dropped.
    Lost(&'static str),
    /// The store did not return values that the code needs.
    Unanswered,
}

impl Executor {
    /// Runs the step or the cancel handler, and calls `on_failure` if that has no outcome.
    pub(super) async fn decide(
        &self,
        machine: &Registered,
        step: &'static str,
        cx: &Context,
        held: &ClaimGuard,
        session: &mut Option<Box<Session>>,
    ) -> Result<(Decided, Option<AttemptFailure>), Interrupted> {
        let code = machine.run(cx, session);
        match self.guarded(machine, step, cx, held, code).await? {
            Ok(decided) => Ok((decided, None)),
            Err(Trouble::Fatal(reason)) => {
                let failed = AttemptFailure::new("fatal", reason.clone());
                Ok((Decided::of(Outcome::fail(reason)), Some(failed)))
            }
            // Serde quotes the state, which must not appear in any log.
            Err(Trouble::Undecodable(reason)) => {
                let text = "its state does not decode; the error of the instance says why";
                let failed = AttemptFailure::ours("fatal", text.into());
                Ok((Decided::of(Outcome::fail(reason)), Some(failed)))
            }
            Err(Trouble::Store(error)) => {
                metrics::store_error("executor");
                tracing::warn!(
                    instance = %cx.claim().id, machine = machine.name, step, %error,
                    "could not query the store; giving the claim back"
                );
                Err(Interrupted::Unanswered)
            }
            Err(Trouble::Failure(failure)) => {
                let handled = Box::pin(self.on_failure(machine, step, failure, cx, held)).await;
                handled.map(|(decided, failed)| (decided, Some(failed)))
            }
        }
    }

    pub(super) async fn on_failure(
        &self,
        machine: &Registered,
        step: &'static str,
        failure: Failure,
        cx: &Context,
        held: &ClaimGuard,
    ) -> Result<(Decided, AttemptFailure), Interrupted> {
        let failed = AttemptFailure::of(&failure);
        let code = machine.on_failure(failure, cx);
        let handled = self.guarded(machine, step, cx, held, code).await?;
        #[cfg(outlast_mutants)]
        let handled = handled.map(without_parks);
        Ok(match handled {
            Ok(decided) => (decided, failed),
            Err(second) => {
                let reason = format!("{}; then on_failure failed: {second}", failed.error);
                let failed = AttemptFailure::new(failed.kind, reason.clone());
                (Decided::of(Outcome::fail(reason)), failed)
            }
        })
    }

    /// Runs user code under its time limit and catches panics; encoding the outcome is included.
    ///
    /// The code is dropped while it awaits when its outcome can no longer be used. It is not
    /// started when that is known before.
    pub(super) async fn guarded(
        &self,
        machine: &Registered,
        step: &'static str,
        cx: &Context,
        held: &ClaimGuard,
        code: impl Future<Output = Result<Decided, Trouble>>,
    ) -> Result<Result<Decided, Trouble>, Interrupted> {
        held.lose_unless_covered();
        let _running = held.run(RunningStep {
            claim: cx.claim().reference(),
            machine: machine.name,
            step,
            attempt: cx.claim().attempt,
            limit: machine.timeout,
            since: Instant::now(),
            left_behind: false,
        });
        let result = tokio::select! {
            biased;
            () = self.node.stop.grace.cancelled() => return Err(Interrupted::GraceOver),
            () = held.lost.cancelled() => return Err(Interrupted::Lost(machine.name)),
            result = tokio::time::timeout(machine.timeout, AssertUnwindSafe(code).catch_unwind()) => result,
        };
        Ok(match result {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(panic)) => Err(Trouble::Failure(Failure::Panic(panic_message(&*panic)))),
            Err(_) => Err(Trouble::Failure(Failure::Timeout(machine.timeout))),
        })
    }
}

/// A defect: `on_failure` can neither wait, nor start children, nor cancel.
#[cfg(outlast_mutants)]
fn without_parks(decided: Decided) -> Decided {
    let is_other = matches!(
        decided.outcome,
        Outcome::Wait { .. } | Outcome::FanOut { .. } | Outcome::Cancel { .. }
    );
    match is_other && outlast_core::mutant::is("on-failure-only-ends-or-goes-on") {
        true => Decided::of(Outcome::fail("the handler did not decide")),
        false => decided,
    }
}
