//! Blocks a run whose code does not fit its history or breaks a rule of workflows.
//!
//! A blocked run never fails: the instance stays as it is and is tried again.

use super::Session;
use crate::machine::{Context, Decided};
use crate::workflow::replay::determinism::Violation;
use crate::workflow::replay::events::{Mismatch, event};
use outlast_core::{BLOCKED, EventKind, Json, Outcome};
use std::time::Duration;

/// The first and the longest pause of a blocked run. The pause doubles with each attempt.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl Session {
    /// Returns whether the code does not fit its history, or has broken a rule of workflows.
    pub(super) fn is_blocked(&mut self) -> bool {
        let mut runtime = self.flow.lock();
        if let Some(violation) = self.violation {
            let after = runtime.last_call();
            let found = match violation {
                Violation::Awaits => format!(
                    "after {after}, something that is not durable: a socket, a timer or a channel of the runtime, a lock or \
                     a task; put it into flow.step(..) or an activity, and wait for combinator calls with \
                     flow.all(..) or flow.select(..)"
                ),
                Violation::Spawns => format!(
                    "after {after}, a task that the code spawns and nobody would remember; use flow.step(..), an activity, or \
                     flow.all(..) for what goes on side by side"
                ),
            };
            runtime.block("only calls of its flow".into(), found);
        }
        runtime.blocked.is_some()
    }

    /// Leaves the instance as it is, and records why.
    pub(super) fn block(&mut self, cx: &Context) -> Decided {
        let runtime = self.flow.lock();
        let mismatch = runtime.blocked.clone().unwrap_or(Mismatch {
            expected: String::new(),
            found: String::new(),
        });
        blocked(cx, &mismatch, runtime.was_blocked_by.as_ref())
    }
}

/// Leaves the instance as it is, with a pause before the next attempt.
///
/// Records the reason, unless the history already ends with it. A build that fits may claim the
/// instance next.
pub(super) fn blocked(cx: &Context, mismatch: &Mismatch, was_blocked_by: Option<&Json>) -> Decided {
    let claim = cx.claim();
    let doublings = cx.attempt().min(6);
    let pause = (FIRST_PAUSE * (1 << doublings)).min(LONGEST_PAUSE);
    let error = format!(
        "{BLOCKED}the history has {}; the code has {}",
        mismatch.expected, mismatch.found
    );
    let note = event(EventKind::ReplayBlocked, None, "", mismatch, None);
    let is_known = was_blocked_by == Some(&note.data);
    crate::metrics::blocked(&claim.machine);
    Decided {
        events: if is_known { Vec::new() } else { vec![note] },
        ..Decided::of(Outcome::Retry {
            state: claim.state.clone(),
            delay: pause,
            error: Some(error),
        })
    }
}
