//! What a run does next, by how it stands: decided here, done by the session.

use crate::workflow::replay::events::CallKind;
use crate::workflow::replay::runtime::{Ask, Runtime, WaitKind};
use outlast_core::limits::{HISTORY_BYTES_MAX, HISTORY_MAX};
use outlast_core::{NewEvent, Signal, Timestamp};

/// What is next.
pub(super) enum NextAction {
    /// Ask those to end that a group or a selection was decided without.
    CancelRest,
    /// Write everything that is not written yet, and go on.
    Write,
    /// The code is over.
    End,
    /// The history is too long.
    Fail(String),
    /// A group or a selection is decided: the event says how.
    Resolve { wait: usize, resolved: NewEvent },
    /// A signal that this call waits for is at this place of the inbox.
    Consume { call: i32, place: usize },
    /// Steps have run.
    RecordFinished,
    /// The code waits, and for nothing that is durable.
    Stray,
    /// Start the children of a unit, and wait if there is nothing else to do.
    Start { wait: usize, goes_on: bool },
    /// Run steps, until the first timer beside them is due.
    RunSteps { due: Option<Timestamp> },
    /// Look who the children are that are waited for.
    SeeChildren,
    /// Wait.
    Park,
}

impl NextAction {
    /// What a run does next whose code knows all that has happened, and waits or is over.
    pub(super) fn next(runtime: &Runtime, inbox: &[Signal], is_over: bool) -> NextAction {
        // What a group or a selection said of the others holds also when the code ends with it.
        if !runtime.to_cancel.is_empty() {
            return match runtime.is_dirty() {
                false => NextAction::CancelRest,
                true => NextAction::Write,
            };
        }
        if is_over {
            return NextAction::End;
        }
        // Children that are about to be started are in the history before they have done anything.
        if let Some(reason) = too_long(runtime, runtime.calls_to_start()) {
            return NextAction::Fail(reason);
        }
        if let Some((wait, resolved)) = runtime.resolved_unit() {
            return NextAction::Resolve { wait, resolved };
        }
        if let Some((call, place)) = awaited_signal(runtime, inbox) {
            return NextAction::Consume { call, place };
        }
        if !runtime.finished.is_empty() {
            return NextAction::RecordFinished;
        }
        if runtime.waiting().next().is_none() {
            return NextAction::Stray;
        }
        NextAction::of_waiting(runtime)
    }

    /// What follows from what the code waits for.
    fn of_waiting(runtime: &Runtime) -> NextAction {
        let has_work = runtime
            .open()
            .any(|(_, call)| matches!(call.ask, Ask::Work));
        let timers = Timers::of(runtime);
        let mut to_start = runtime.waiting().filter(|wait| runtime.is_to_start(*wait));
        if let Some(wait) = to_start.next() {
            let is_launch = runtime.waits[wait].kind == WaitKind::Launch;
            let others = to_start.next().is_some();
            let goes_on = is_launch || others || has_work || timers.are_mixed();
            // Who parks says whom it waits for: also of those that were started a moment ago, beside these.
            return match !goes_on && has_unseen_children(runtime) {
                true => NextAction::SeeChildren,
                false => NextAction::Start { wait, goes_on },
            };
        }
        #[cfg(outlast_mutants)]
        if has_work && outlast_core::mutant::is("step-runs-before-what-led-to-it") {
            return NextAction::RunSteps { due: timers.first };
        }
        // All that led to a step is written before it runs, and so are the timers beside it.
        if has_work && (timers.any_new || runtime.is_dirty()) {
            return NextAction::Write;
        }
        if has_work {
            return NextAction::RunSteps { due: timers.first };
        }
        if timers.are_mixed() {
            return NextAction::Write;
        }
        match has_unseen_children(runtime) {
            true => NextAction::SeeChildren,
            false => NextAction::Park,
        }
    }
}

/// Whether children that are waited for have been started, and it is not known who they are.
fn has_unseen_children(runtime: &Runtime) -> bool {
    let mut children = runtime
        .open()
        .filter(|(_, call)| call.kind.is_child() && call.is_recorded);
    children.any(|(_, call)| call.link().found.is_none())
}

/// The timers that the code waits for.
struct Timers {
    /// When the first of those that have begun is due.
    first: Option<Timestamp>,
    any_begun: bool,
    any_new: bool,
}

impl Timers {
    fn of(runtime: &Runtime) -> Timers {
        let mut timers = Timers {
            first: None,
            any_begun: false,
            any_new: false,
        };
        for (_, call) in runtime
            .open()
            .filter(|(_, call)| call.kind == CallKind::Timer)
        {
            timers.any_begun |= call.is_recorded;
            timers.any_new |= !call.is_recorded;
            timers.first = [timers.first, call.due].into_iter().flatten().min();
        }
        timers
    }

    /// Of timers that are compared all must have begun, so that it is known which is the first.
    fn are_mixed(&self) -> bool {
        self.any_begun && self.any_new
    }
}

/// The first call that waits for a signal which has come, and where that is in the inbox.
fn awaited_signal(runtime: &Runtime, inbox: &[Signal]) -> Option<(i32, usize)> {
    if inbox.is_empty() {
        return None;
    }
    let waiting = runtime
        .open()
        .filter(|(_, call)| call.kind == CallKind::Signal);
    let come = waiting.filter_map(|(number, call)| {
        let place = inbox.iter().position(|it| it.name == call.name)?;
        Some((number, place))
    });
    come.min()
}

/// Why a history to which so many events are added cannot be kept.
fn too_long(runtime: &Runtime, new: usize) -> Option<String> {
    let (events, bytes) = (runtime.history.len() + new, runtime.history.bytes());
    if events > HISTORY_MAX {
        return Some(format!(
            "its history has {events} events, and at most {HISTORY_MAX} are kept; use flow.continue_as_new(..) when \
             flow.history_pressure() says so"
        ));
    }
    (bytes > HISTORY_BYTES_MAX).then(|| {
        format!(
            "its history has {bytes} bytes, and at most {HISTORY_BYTES_MAX} are kept; keep large things elsewhere and use \
             flow.continue_as_new(..)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::flow::Flow;
    use crate::workflow::replay::events::event;
    use crate::workflow::replay::runtime::Identity;
    use outlast_core::limits::HISTORY_LONG;
    use outlast_core::{EventKind, InstanceId};

    /// A run with so many events that carry so much each.
    fn run(events: usize, data: &str) -> Runtime {
        let identity = Identity {
            id: InstanceId(1),
            workflow: "idle".into(),
            run: 1,
            key: None,
            trace: None,
        };
        let kind = EventKind::VersionMarked;
        let event = event(kind, None, "", &data, Some(Timestamp(0)));
        Runtime::new(identity, vec![event; events])
    }

    #[test]
    fn a_history_is_too_long_from_one_event_over_the_limit_on() {
        assert_eq!(too_long(&run(HISTORY_MAX, ""), 0), None);
        for (events, new) in [(HISTORY_MAX + 1, 0), (HISTORY_MAX, 1)] {
            let reason = too_long(&run(events, ""), new);
            let reason = reason.expect("it is too long");
            assert!(reason.contains("50001 events"), "{reason}");
            assert!(reason.contains("flow.continue_as_new("), "{reason}");
        }
    }

    #[test]
    fn a_history_is_too_large_from_one_byte_over_the_limit_on() {
        // With its quotes.
        let half = "x".repeat(HISTORY_BYTES_MAX / 2 - 2);
        assert_eq!(too_long(&run(2, &half), 0), None);
        let reason = too_long(&run(2, &format!("{half}x")), 0);
        let reason = reason.expect("it is too large");
        assert!(reason.contains("bytes"), "{reason}");
        assert!(reason.contains("flow.continue_as_new("), "{reason}");
    }

    #[test]
    fn a_workflow_is_told_from_the_soft_limit_on() {
        let flow = Flow::new(run(HISTORY_LONG, ""), None);
        for _ in 1..HISTORY_LONG {
            flow.lock().history.note_known();
        }
        assert!(!flow.history_pressure());
        flow.lock().history.note_known();
        assert!(flow.history_pressure());
    }
}
