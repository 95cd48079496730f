//! Replays of recorded histories against the current code.

use crate::workflow::{ExportedRun, Session, Workflow};
use outlast_core::Invalid;
use std::fmt;

/// Replays an exported history against the code of a workflow.
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
/// use outlast::testing::replay;
///
/// #[derive(Default)]
/// struct Greet;
///
/// impl Workflow for Greet {
///     const NAME: &'static str = "greet";
///     type Input = String;
///     type Output = String;
///
///     async fn run(&self, flow: Flow, name: String) -> FlowResult<String> {
///         let text = flow.step("compose", async || Ok::<_, String>(format!("Hello {name}"))).await?;
///         Ok(text)
///     }
/// }
///
/// let recorded = r#"{ "format": 1, "instance": 7, "workflow": "greet", "version": 1, "run": 1, "status": "done",
///     "input": "Ada", "events": [
///         { "seq": 1, "at": 0, "kind": "run_started", "data": { "seed": 1 } },
///         { "seq": 2, "at": 0, "kind": "step_completed", "call": 1, "name": "compose", "data": { "result": "Hello Ada" } },
///         { "seq": 3, "at": 0, "kind": "run_completed", "data": {} } ] }"#;
/// replay::<Greet>(recorded).unwrap();
///
/// let other = recorded.replace("compose", "write");
/// let difference = replay::<Greet>(&other).unwrap_err().to_string();
/// assert!(difference.contains(r#"step_completed "write" of call 1"#), "{difference}");
/// assert!(difference.contains(r#"call 1: step "compose""#), "{difference}");
/// ```
pub fn replay<W: Workflow + Default>(history: &str) -> Result<(), ReplayError> {
    replay_with(W::default(), history)
}

/// Like [`replay`], for a workflow without `Default`.
pub fn replay_with<W: Workflow>(workflow: W, history: &str) -> Result<(), ReplayError> {
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
    let mismatch = Session::replayed(workflow, history).map_err(ReplayError::Unreadable)?;
    match mismatch {
        Some((expected, found)) => Err(ReplayError::Differs { expected, found }),
        None => Ok(()),
    }
}

/// Why a history and the code do not fit.
#[derive(Debug)]
pub enum ReplayError {
    /// The history cannot be read, or belongs to another workflow.
    Unreadable(Invalid),
    /// The code makes another call than the history has.
    Differs {
        /// The call of the history.
        expected: String,
        /// The call of the code.
        found: String,
    },
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::Unreadable(invalid) => invalid.fmt(f),
            ReplayError::Differs { expected, found } => {
                write!(f, "the history has {expected}; the code has {found}")
            }
        }
    }
}

impl std::error::Error for ReplayError {}
