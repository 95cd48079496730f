//! User code: under its limit of time, with panics caught, and `on_failure` asked when it has no outcome of its own.

use super::Executor;
use super::failure_report::Failed;
use crate::engine::claims::{ClaimGuard, Running};
use crate::machine::{Context, Decided, Failure, Registered, Trouble, panic_message};
use crate::metrics;
use crate::workflow::Session;
use futures_util::FutureExt;
use outlast_core::Outcome;
use std::panic::AssertUnwindSafe;
use tokio::time::Instant;

/// Why user code was dropped before it came to an outcome.
#[derive(Clone, Copy, Debug)]
pub(super) enum Interrupted {
    /// The grace of a stop ran out.
    GraceOver,
    /// The claim of this machine's instance is no longer this worker's: whatever it came to would be dropped.
    Lost(&'static str),
    /// The store did not answer what the code has to know.
    Unanswered,
}

impl Executor {
    /// Runs the step, or asks the machine about a cancel, and asks `on_failure` when that has no outcome of its own.
    pub(super) async fn decide(
        &self,
        machine: &Registered,
        step: &'static str,
        cx: &Context,
        held: &ClaimGuard,
        session: &mut Option<Box<Session>>,
    ) -> Result<(Decided, Option<Failed>), Interrupted> {
        let code = machine.run(cx, session);
        match self.guarded(machine, step, cx, held, code).await? {
            Ok(decided) => Ok((decided, None)),
            Err(Trouble::Fatal(reason)) => {
                let failed = Failed::new("fatal", reason.clone());
                Ok((Decided::of(Outcome::Fail { reason }), Some(failed)))
            }
            // Serde quotes the state, which no log may have.
            Err(Trouble::Undecodable(reason)) => {
                let text = "its state does not decode; the error of the instance says why";
                let failed = Failed::ours("fatal", text.into());
                Ok((Decided::of(Outcome::Fail { reason }), Some(failed)))
            }
            Err(Trouble::Store(error)) => {
                metrics::store_error("executor");
                tracing::warn!(
                    instance = %cx.claim().id, machine = machine.name, step, %error,
                    "the store could not be asked; the claim is given back"
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
    ) -> Result<(Decided, Failed), Interrupted> {
        let failed = Failed::of(&failure);
        let code = machine.on_failure(failure, cx);
        let handled = self.guarded(machine, step, cx, held, code).await?;
        Ok(match handled {
            Ok(decided) => (decided, failed),
            Err(second) => {
                let reason = format!("{}; then on_failure failed: {second}", failed.error);
                let failed = Failed::new(failed.kind, reason.clone());
                (Decided::of(Outcome::Fail { reason }), failed)
            }
        })
    }

    /// User code under its limit of time, with panics caught; encoding its outcome is part of it. It is dropped where
    /// it awaits when nothing would come of it any more, and not even begun when that is known before.
    pub(super) async fn guarded(
        &self,
        machine: &Registered,
        step: &'static str,
        cx: &Context,
        held: &ClaimGuard,
        code: impl Future<Output = Result<Decided, Trouble>>,
    ) -> Result<Result<Decided, Trouble>, Interrupted> {
        held.lose_unless_covered();
        let _running = held.run(Running {
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
