//! Runs code against a recorded history, for tests.
//!
//! It never sends, runs or writes anything.

use super::Session;
use crate::definition::Provided;
use crate::workflow::flow::Flow;
use crate::workflow::replay::runtime::{Identity, Runtime};
use crate::workflow::{ExportedRun, Workflow};
use outlast_core::{EventKind, Invalid, NewEvent};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

impl Session {
    /// Runs a workflow against a recorded history, and returns the mismatch, if any.
    pub(crate) fn replayed<W: Workflow>(
        workflow: W,
        history: ExportedRun,
        provided: Provided,
    ) -> Result<Option<(String, String)>, Invalid> {
        let input: W::Input = history
            .input
            .decode()
            .map_err(|invalid| invalid.within("input"))?;
        let identity = Identity {
            id: history.instance,
            workflow: history.workflow,
            run: history.run,
            key: history.key,
            trace: history.trace,
        };
        let events = history.events.into_iter().map(|event| NewEvent {
            kind: event.kind,
            call: event.call,
            name: event.name,
            data: event.data,
            at: Some(event.at),
        });
        let mut runtime = Runtime::new(identity, events.collect());
        runtime.strict = true;
        let mut session = Session::of(
            Arc::new(workflow),
            Flow::new(runtime, None, provided),
            input,
        );
        let recorded = session.recorded_end();
        if !session.flow.lock().history.is_empty() {
            match catch_unwind(AssertUnwindSafe(|| session.replay())) {
                Ok(()) => session.hold_end_against_history(recorded),
                // The recorded run failed too.
                Err(_) if recorded.is_some_and(|it| it.kind == EventKind::RunFailed) => {}
                Err(panic) => resume_unwind(panic),
            }
        }
        session.is_blocked();
        let mismatch = session.flow.lock().blocked.take();
        Ok(mismatch.map(|it| (it.expected, it.found)))
    }

    /// Returns the event with which the run has ended, if it has.
    pub(super) fn recorded_end(&self) -> Option<RecordedEnd> {
        let runtime = self.flow.lock();
        let last = runtime.history.last()?;
        is_end(last.kind).then(|| RecordedEnd {
            kind: last.kind,
            description: runtime.describe_event(runtime.history.len() - 1),
        })
    }

    /// Compares the end of the code with the history.
    ///
    /// A run that has ended must end in the same way, and a run that waits must not end.
    pub(super) fn hold_end_against_history(&mut self, recorded: Option<RecordedEnd>) {
        let found = self.kind_of_end();
        let mut runtime = self.flow.lock();
        let is_open = runtime
            .calls
            .iter()
            .any(|call| call.is_recorded && call.end.is_none());
        let after = runtime.last_call();
        match (found, recorded) {
            (None, Some(recorded)) => runtime.block(
                recorded.description,
                format!("something to wait for, {after}"),
            ),
            (Some(_), None) if is_open => {
                runtime.block(
                    "something that is waited for".into(),
                    format!("its end, after {after}"),
                );
            }
            (Some((kind, why)), Some(recorded)) if kind != recorded.kind => {
                let found = format!("its end by {kind}{why}, after {after}");
                runtime.block(recorded.description, found);
            }
            (Some(_), _) | (None, None) => {}
        }
    }

    /// Returns how the code has ended, with the reason if there is one.
    fn kind_of_end(&self) -> Option<(EventKind, String)> {
        let error = match self.result.as_ref().filter(|_| self.is_over())? {
            Ok(_) => return Some((EventKind::RunCompleted, String::new())),
            Err(error) => error,
        };
        let kind = match error {
            error if error.is_renewal() => return Some((EventKind::ContinuedAsNew, String::new())),
            error if error.is_cancelled() && self.flow.is_cancelled() => EventKind::RunCancelled,
            _ => EventKind::RunFailed,
        };
        Some((kind, format!(" ({error})")))
    }
}

/// The event with which a run has ended.
pub(super) struct RecordedEnd {
    pub(super) kind: EventKind,
    pub(super) description: String,
}

fn is_end(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::RunCompleted
            | EventKind::RunFailed
            | EventKind::RunCancelled
            | EventKind::ContinuedAsNew
    )
}
