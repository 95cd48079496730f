//! User code: under its limit of time, with panics caught, and `handle` asked when it has no outcome of its own.

use super::Executor;
use crate::engine::node::{Held, Running};
use crate::machine::{Context, Failure, Registered, Trouble};
use crate::metrics;
use futures_util::FutureExt;
use outlast_core::Outcome;
use std::any::Any;
use std::panic::AssertUnwindSafe;
use tokio::time::Instant;

impl Executor {
    /// Runs the step, and asks `handle` when it has no outcome of its own. `None` when the grace of a stop
    /// ran out first.
    pub(super) async fn decide(
        &self,
        machine: &Registered,
        step: &'static str,
        cx: &Context,
        held: &Held,
    ) -> Option<Outcome> {
        let code = machine.step(cx);
        match self.guarded(machine, step, cx, held, code).await? {
            Ok(outcome) => Some(outcome),
            Err(Trouble::Fatal(reason)) => {
                metrics::failed(machine.name, step, "fatal");
                self.log_failure("fatal", &reason);
                Some(Outcome::Stop { reason })
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
    ) -> Option<Outcome> {
        metrics::failed(machine.name, step, failure.kind());
        let first = failure.to_string();
        self.log_failure(failure.kind(), &first);
        let code = machine.handle(failure, cx);
        let handled = self.guarded(machine, step, cx, held, code).await?;
        Some(handled.unwrap_or_else(|second| {
            tracing::error!(
                "handle failed too; the instance fails, and its last error says of what"
            );
            let reason = format!("{first}; then handle failed: {second}");
            Outcome::Stop { reason }
        }))
    }

    /// The text is left out unless it was asked for: user code wrote it, and it may quote what the instance carries. What
    /// is stored with the instance has it.
    pub(super) fn log_failure(&self, kind: &'static str, failure: &str) {
        let failure = self.node.settings.failures_in_logs.then_some(failure);
        tracing::warn!(kind, failure, "the step failed");
    }

    /// User code under its limit of time, with panics caught; encoding its outcome is part of it. `None` when
    /// the grace of a stop ran out first.
    pub(super) async fn guarded(
        &self,
        machine: &Registered,
        step: &'static str,
        cx: &Context,
        held: &Held,
        code: impl Future<Output = Result<Outcome, Trouble>>,
    ) -> Option<Result<Outcome, Trouble>> {
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
            () = self.node.stop.grace.cancelled() => return None,
            result = tokio::time::timeout(machine.timeout, AssertUnwindSafe(code).catch_unwind()) => result,
        };
        Some(match result {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(panic)) => Err(Trouble::Failure(Failure::Panic(panic_message(&*panic)))),
            Err(_) => Err(Trouble::Failure(Failure::Timeout(machine.timeout))),
        })
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a value that is no text".to_owned())
}
