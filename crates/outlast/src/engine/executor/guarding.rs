//! User code: under its limit of time, with panics caught, and `handle` asked when it has no outcome of its own.

use super::Executor;
use crate::engine::holding::{Held, Running};
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
    /// Runs the step, or asks the machine about a cancel, and asks `handle` when that has no outcome of its own.
    pub(super) async fn decide(
        &self,
        machine: &Registered,
        step: &'static str,
        cx: &Context,
        held: &Held,
        session: &mut Option<Box<Session>>,
    ) -> Result<Decided, Interrupted> {
        let code = machine.run(cx, session);
        match self.guarded(machine, step, cx, held, code).await? {
            Ok(decided) => Ok(decided),
            Err(Trouble::Fatal(reason)) => {
                metrics::failed(machine.name, step, "fatal");
                self.log_failure("fatal", &reason);
                Ok(Decided::of(Outcome::Stop { reason }))
            }
            Err(Trouble::Store(error)) => {
                metrics::store_error("executor");
                tracing::warn!(%error, "the store could not be asked; the claim is given back");
                Err(Interrupted::Unanswered)
            }
            Err(Trouble::Failure(failure)) => {
                Box::pin(self.handle(machine, step, failure, cx, held)).await
            }
        }
    }

    pub(super) async fn handle(
        &self,
        machine: &Registered,
        step: &'static str,
        failure: Failure,
        cx: &Context,
        held: &Held,
    ) -> Result<Decided, Interrupted> {
        metrics::failed(machine.name, step, failure.kind());
        let first = failure.to_string();
        self.log_failure(failure.kind(), &first);
        let code = machine.handle(failure, cx);
        let handled = self.guarded(machine, step, cx, held, code).await?;
        Ok(handled.unwrap_or_else(|second| {
            tracing::error!(
                "handle failed too; the instance fails, and its last error says of what"
            );
            let reason = format!("{first}; then handle failed: {second}");
            Decided::of(Outcome::Stop { reason })
        }))
    }

    /// The text is left out unless it was asked for: user code wrote it, and it may quote what the instance carries. What
    /// is stored with the instance has it.
    pub(super) fn log_failure(&self, kind: &'static str, failure: &str) {
        let failure = self.node.settings.failures_in_logs.then_some(failure);
        tracing::warn!(kind, failure, "the step failed");
    }

    /// User code under its limit of time, with panics caught; encoding its outcome is part of it. It is dropped where
    /// it awaits when nothing would come of it any more, and not even begun when that is known before.
    pub(super) async fn guarded(
        &self,
        machine: &Registered,
        step: &'static str,
        cx: &Context,
        held: &Held,
        code: impl Future<Output = Result<Decided, Trouble>>,
    ) -> Result<Result<Decided, Trouble>, Interrupted> {
        let _running = held.run(Running {
            claim: cx.claim().reference(),
            machine: machine.name,
            step,
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
