//! Creates the outcome with which a run ends.

use super::Session;
use crate::machine::{Decided, ErrorValue};
use crate::workflow::FlowError;
use crate::workflow::replay::events::{Reason, Renewed, event};
use outlast_core::{EventKind, Json, Outcome};

impl Session {
    /// Ends the run with the result of the code.
    pub(super) fn end(&mut self, result: Result<Json, FlowError>) -> Decided {
        self.flow.lock().record_notes(has_survived(&result));
        match result {
            Ok(result) => {
                self.close(EventKind::RunCompleted, None);
                self.decided(Outcome::Done { result })
            }
            Err(error) => match error.into_renewal() {
                Ok(state) => {
                    let input = Some(self.input.clone());
                    let kind = EventKind::ContinuedAsNew;
                    let last = event(kind, None, "", &Renewed { input }, None);
                    self.flow.lock().history.push(last);
                    self.decided(Outcome::ContinueAsNew { state })
                }
                Err(error) if error.is_cancelled() && self.flow.is_cancelled() => {
                    let reason = self.flow.cancel_reason().unwrap_or_default();
                    self.close(EventKind::RunCancelled, Some(&reason));
                    self.decided(Outcome::Cancel { reason })
                }
                Err(mut error) => {
                    let value = error.take_value();
                    self.fail(error.to_string(), value)
                }
            },
        }
    }

    pub(super) fn fail(&mut self, reason: String, value: Option<ErrorValue>) -> Decided {
        let reason = outlast_core::limits::clean_error(&reason);
        self.close(EventKind::RunFailed, Some(&reason));
        self.decided(ErrorValue::outcome(value, reason))
    }

    fn close(&mut self, kind: EventKind, reason: Option<&str>) {
        let last = match reason {
            Some(reason) => {
                let reason = Reason {
                    reason: reason.to_owned(),
                };
                event(kind, None, "", &reason, None)
            }
            None => event(kind, None, "", &serde_json::Map::new(), None),
        };
        self.flow.lock().history.push(last);
    }
}

/// Returns whether code with this result has handled its failures.
pub(super) fn has_survived(result: &Result<Json, FlowError>) -> bool {
    match result {
        Ok(_) => true,
        Err(error) => error.is_renewal(),
    }
}

/// Ends a run whose code has no outcome.
pub(crate) fn failed(reason: String) -> Decided {
    let reason = outlast_core::limits::clean_error(&reason);
    let last = Reason {
        reason: reason.clone(),
    };
    Decided {
        events: vec![event(EventKind::RunFailed, None, "", &last, None)],
        ..Decided::of(Outcome::fail(reason))
    }
}
