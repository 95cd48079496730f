//! Replays of recorded histories against the current code.

use crate::definition::{Needs, Provided};
use crate::error::SetupError;
use crate::workflow::{ExportedRun, Session, Workflow};
use outlast_core::{Invalid, MachineVersion};

/// A replay of an exported history against the code of a workflow.
///
/// `outlast export` writes such histories. The error says where code and history differ.
///
/// Use it in tests, so that a change does not break running instances. It runs no step, and sends
/// and stores nothing.
///
/// It compares kind, name and order of the calls, and the arguments of children and timers. It
/// also compares the end of the run: done, failed, cancelled or continued as new.
///
/// ```
/// use outlast::prelude::*;
/// use outlast::testing::Replay;
///
/// #[workflow]
/// async fn greet(flow: Flow, name: String) -> FlowResult<String> {
///     flow.step("compose", async || Ok::<_, String>(format!("Hello {name}"))).await
/// }
///
/// let recorded = r#"{ "format": 1, "instance": 7, "workflow": "greet", "version": 1, "run": 1, "status": "done",
///     "input": "Ada", "events": [
///         { "seq": 1, "at": 0, "kind": "run_started", "data": { "seed": 1 } },
///         { "seq": 2, "at": 0, "kind": "step_completed", "call": 1, "name": "compose", "data": { "result": "Hello Ada" } },
///         { "seq": 3, "at": 0, "kind": "run_completed", "data": {} } ] }"#;
/// Replay::of(greet).check(recorded).unwrap();
///
/// let other = recorded.replace("compose", "write");
/// let difference = Replay::of(greet).check(&other).unwrap_err().to_string();
/// assert!(difference.contains(r#"step_completed "write" of call 1"#), "{difference}");
/// assert!(difference.contains(r#"call 1: step "compose""#), "{difference}");
/// ```
#[derive(Debug)]
#[must_use = "call check with a history"]
pub struct Replay<W> {
    workflow: W,
    provided: Provided,
    provided_twice: Option<&'static str>,
}

impl<W: Workflow> Replay<W> {
    /// Prepares a replay against this workflow.
    pub fn of(workflow: W) -> Replay<W> {
        Replay {
            workflow,
            provided: Provided::default(),
            provided_twice: None,
        }
    }

    /// Provides a value that the code takes by its type. No step runs, so a fake is enough.
    pub fn provide<T: Send + Sync + 'static>(mut self, value: T) -> Replay<W> {
        self.provided_twice = self.provided_twice.or(self.provided.add(value).err());
        self
    }

    /// Replays this history, a document that `outlast export` wrote.
    pub fn check(self, history: &str) -> Result<(), ReplayError> {
        let history = ExportedRun::parse(history).map_err(ReplayError::Unreadable)?;
        if history.workflow != W::NAME || history.version != W::VERSION {
            let reason = format!(
                "is of {}/{}, and the code is {}/{}",
                history.workflow,
                history.version,
                W::NAME,
                W::VERSION
            );
            return Err(ReplayError::Unreadable(Invalid::new("history", reason)));
        }
        if let Some(type_name) = self.provided_twice {
            return Err(SetupError::ProvidedTwice { type_name }.into());
        }
        let mut needs = Needs::default();
        W::needs(&mut needs);
        if let Some(missing) = self.provided.missing(&needs) {
            let definition = MachineVersion::new(W::NAME, W::VERSION);
            return Err(SetupError::MissingData {
                definition,
                missing,
            }
            .into());
        }
        let mismatch = Session::replayed(self.workflow, history, self.provided);
        match mismatch.map_err(ReplayError::Unreadable)? {
            Some((expected, found)) => Err(ReplayError::Differs { expected, found }),
            None => Ok(()),
        }
    }
}

/// Why a history and the code do not fit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The history cannot be read, or belongs to another workflow.
    #[error(transparent)]
    Unreadable(Invalid),
    /// A value that the code takes was not provided, or was provided twice.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The code makes another call than the history has.
    #[error("the history has {expected}; the code has {found}")]
    Differs {
        /// The call of the history.
        expected: String,
        /// The call of the code.
        found: String,
    },
}
