//! Reports failed attempts: one log line, one count, and the status of the span for each.
//!
//! The executor reports after the outcome is written, because only then the next action is known.
//! It reports once per attempt, however many things went wrong in it.

use super::Executor;
use crate::machine::{Decided, Failure};
use crate::metrics;
use crate::workflow::failed_step;
use outlast_core::{BLOCKED, Claim, EventKind, Outcome};
use std::time::Duration;
use tracing::Span;

/// A failure in an attempt.
#[derive(Debug)]
pub(super) struct AttemptFailure {
    pub(super) kind: &'static str,
    pub(super) error: String,
    /// Whether the engine wrote the text, so that it quotes nothing of the instance.
    pub(super) is_ours: bool,
}

/// All failures of an attempt, and what happens next.
pub(super) struct Failures {
    /// The failure of the attempt itself.
    own: Option<(AttemptFailure, Next)>,
    /// The failed steps that a workflow ran in it.
    steps: Vec<(String, AttemptFailure)>,
}

/// What happens next to an instance whose attempt failed: a word for the metric, and a text.
pub(super) struct Next(&'static str, String);

/// What happened to the outcome.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Written,
    /// The claim was lost, and the outcome is dropped.
    Lost,
    /// The outcome cannot be encoded now, and the claim is given back.
    Released,
}

impl AttemptFailure {
    pub(super) fn new(kind: &'static str, error: String) -> AttemptFailure {
        AttemptFailure {
            kind,
            error,
            is_ours: false,
        }
    }

    pub(super) fn of(failure: &Failure) -> AttemptFailure {
        AttemptFailure::new(failure.kind(), failure.to_string())
    }

    /// Creates a failure whose text the engine wrote.
    pub(super) fn ours(kind: &'static str, error: String) -> AttemptFailure {
        AttemptFailure {
            is_ours: true,
            ..AttemptFailure::new(kind, error)
        }
    }

    /// Returns this failure with a second one that followed it.
    pub(super) fn then(self, second: &AttemptFailure) -> AttemptFailure {
        AttemptFailure {
            error: format!("{}; then {}", self.error, second.error),
            is_ours: self.is_ours && second.is_ours,
            ..self
        }
    }
}

impl Failures {
    /// Returns the failures of a decided attempt, if any.
    ///
    /// `failed` is the reason why the outcome is not the step's own.
    pub(super) fn of(decided: &Decided, failed: Option<AttemptFailure>) -> Option<Box<Failures>> {
        let own = failed.or_else(|| reported(&decided.outcome));
        let own = own.map(|failed| (failed, Next::of(&decided.outcome)));
        let mut steps = Vec::new();
        for event in &decided.events {
            if event.kind == EventKind::StepFailed {
                let (kind, error) = failed_step(event);
                steps.push((event.name.clone(), AttemptFailure::new(kind, error)));
            }
        }
        let is_any = own.is_some() || !steps.is_empty();
        is_any.then(|| Box::new(Failures { own, steps }))
    }

    /// Returns the failure of the attempt itself.
    pub(super) fn into_own(self) -> Option<AttemptFailure> {
        self.own.map(|(failed, _)| failed)
    }
}

/// Returns the failure that an outcome itself reports: a job or a machine decided about it.
fn reported(outcome: &Outcome) -> Option<AttemptFailure> {
    #[cfg(outlast_mutants)]
    if outlast_core::mutant::is("failures-of-jobs-are-not-logged") {
        return None;
    }
    match outcome {
        Outcome::Retry {
            error: Some(error), ..
        } if error.starts_with(BLOCKED) => Some(AttemptFailure::ours("replay", error.clone())),
        Outcome::Retry {
            error: Some(error), ..
        } => Some(AttemptFailure::new("error", error.clone())),
        Outcome::Fail { reason, .. } => Some(AttemptFailure::new("error", reason.clone())),
        Outcome::Retry { error: None, .. }
        | Outcome::Next { .. }
        | Outcome::Wait { .. }
        | Outcome::FanOut { .. }
        | Outcome::Flow { .. }
        | Outcome::ContinueAsNew { .. }
        | Outcome::Done { .. }
        | Outcome::Cancel { .. } => None,
    }
}

impl Next {
    fn of(outcome: &Outcome) -> Next {
        match outcome {
            Outcome::Retry { delay, error, .. } => {
                let is_blocked = error.as_ref().is_some_and(|it| it.starts_with(BLOCKED));
                let word = if is_blocked { "blocked" } else { "retry" };
                let again = format!("tried again in {}", seconds(*delay));
                let text = if is_blocked {
                    format!("blocked, {again}")
                } else {
                    again
                };
                Next(word, text)
            }
            Outcome::Fail { .. } => Next("failed", "failed".into()),
            Outcome::Cancel { .. } => Next("cancelled", "cancelled".into()),
            Outcome::Next { step, .. } => handled(format_args!("goes on with step {step}")),
            Outcome::Wait { step, .. } => handled(format_args!("waits for step {step}")),
            Outcome::FanOut { step, .. } => {
                handled(format_args!("starts children before step {step}"))
            }
            Outcome::Done { .. } => handled(format_args!("done")),
            Outcome::Flow { .. } | Outcome::ContinueAsNew { .. } => {
                handled(format_args!("goes on"))
            }
        }
    }

    fn after(self, fate: Fate) -> Next {
        match fate {
            Fate::Written => self,
            Fate::Lost => Next(
                "lost",
                "dropped: the instance is no longer this worker's".into(),
            ),
            Fate::Released => Next(
                "retry",
                "given back: its outcome cannot be encoded now".into(),
            ),
        }
    }
}

fn handled(then: std::fmt::Arguments<'_>) -> Next {
    Next("handled", format!("handled: {then}"))
}

/// Formats a pause for people.
fn seconds(pause: Duration) -> String {
    match pause.subsec_millis() {
        0 => format!("{} s", pause.as_secs()),
        _ if pause.as_secs() >= 10 => format!("{} s", pause.as_secs()),
        _ => format!("{:.3} s", pause.as_secs_f64()),
    }
}

impl Executor {
    /// Reports the failures of an attempt.
    pub(super) fn report(&self, claim: &Claim, failures: Option<Box<Failures>>, fate: Fate) {
        let Some(failures) = failures else {
            return;
        };
        let Failures { own, steps } = *failures;
        for (step, failed) in &steps {
            let next = Next("told", "passed to the code of its workflow".into()).after(fate);
            self.report_one(claim, step, failed, &next);
        }
        if let Some((failed, next)) = own {
            self.report_one(claim, &claim.step, &failed, &next.after(fate));
        }
    }

    /// Reports one failure. The log line repeats every field, because the span may be filtered
    /// out.
    fn report_one(&self, claim: &Claim, step: &str, failed: &AttemptFailure, next: &Next) {
        let Next(word, next) = next;
        metrics::failed(claim.machine.clone(), step.to_owned(), failed.kind, word);
        let shows_text = failed.is_ours || self.node.shows_failures();
        let error = shows_text.then_some(failed.error.as_str());
        let span = Span::current();
        span.record("otel.status_code", "ERROR");
        span.record("otel.status_description", error.unwrap_or(failed.kind));
        tracing::warn!(
            instance = %claim.id,
            machine = claim.machine,
            version = claim.version,
            step,
            attempt = claim.attempt + 1,
            kind = failed.kind,
            error,
            next,
            "the step failed"
        );
    }
}
