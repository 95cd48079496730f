//! Decides the next action of a run, from its state and from nothing else.
//!
//! The session does the action. Nothing here does I/O or changes the run.

use crate::workflow::replay::events::CallKind;
use crate::workflow::replay::runtime::{Ask, Runtime, WaitKind};
use outlast_core::limits::{HISTORY_BYTES_MAX, HISTORY_MAX};
use outlast_core::{NewEvent, Signal, Timestamp};

/// The next action of a run.
pub(super) enum NextAction {
    /// Cancel the children of decided groups and selections that cancel the rest.
    CancelRest,
    /// Write all unwritten events, and continue.
    Write,
    /// End the run: the code has ended.
    End,
    /// Fail the run: its history is too long.
    Fail(String),
    /// Record that a group or a selection is decided.
    Resolve { wait: usize, resolved: NewEvent },
    /// Start the handler of the update at this index of the inbox.
    Accept { place: usize },
    /// Pass the signal at this index of the inbox to this call.
    Consume { call: i32, place: usize },
    /// Record the steps that have run.
    RecordFinished,
    /// Report a violation: the code waits for nothing durable.
    Stray,
    /// Start the children of a wait, and park if there is nothing else to do.
    Start { wait: usize, goes_on: bool },
    /// Run steps, until the first timer beside them is due.
    RunSteps { due: Option<Timestamp> },
    /// Read the ids of the awaited children.
    SeeChildren,
    /// Park the instance.
    Park,
}

impl NextAction {
    /// Decides the next action. The code knows all events, and waits or has ended.
    pub(super) fn next(runtime: &Runtime, inbox: &[Signal], is_over: bool) -> NextAction {
        // Children are cancelled even when the code ends with the decision of their group.
        if !runtime.to_cancel.is_empty() {
            return match runtime.is_dirty() {
                false => NextAction::CancelRest,
                true => NextAction::Write,
            };
        }
        if is_over {
            return NextAction::End;
        }
        // Count the children to start: their events are written before they have run.
        if let Some(reason) = too_long(runtime, runtime.calls_to_start()) {
            return NextAction::Fail(reason);
        }
        if let Some((wait, resolved)) = runtime.resolved_unit() {
            return NextAction::Resolve { wait, resolved };
        }
        if let Some(place) = runtime.updates.first_in(inbox) {
            return NextAction::Accept { place };
        }
        if let Some((call, place)) = awaited_signal(runtime, inbox) {
            return NextAction::Consume { call, place };
        }
        if !runtime.finished.is_empty() {
            return NextAction::RecordFinished;
        }
        if runtime.waiting().next().is_none() && !awaits_handlers(runtime) {
            return NextAction::Stray;
        }
        NextAction::of_waiting(runtime)
    }

    /// Decides by what the code waits for.
    fn of_waiting(runtime: &Runtime) -> NextAction {
        let has_work = runtime
            .open()
            .any(|(_, call)| matches!(call.ask, Ask::Work));
        let timers = AwaitedTimers::of(runtime);
        let mut to_start = runtime.waiting().filter(|wait| runtime.is_to_start(*wait));
        if let Some(wait) = to_start.next() {
            let is_launch = runtime.waits[wait].kind == WaitKind::Launch;
            let others = to_start.next().is_some();
            let goes_on = is_launch || others || has_work || timers.are_mixed();
            // A park names its children. The ids of children started a moment ago may still be
            // missing.
            return match !goes_on && has_unseen_children(runtime) {
                true => NextAction::SeeChildren,
                false => NextAction::Start { wait, goes_on },
            };
        }
        #[cfg(outlast_mutants)]
        if has_work && outlast_core::mutant::is("step-runs-before-what-led-to-it") {
            return NextAction::RunSteps { due: timers.first };
        }
        // Everything that led to a step is written before it runs, including the timers beside it.
        if has_work && (timers.any_new || runtime.is_dirty()) {
            return NextAction::Write;
        }
        if has_work {
            // The code runs beside its steps, and may ask for the ids of its children.
            return match has_unseen(runtime, |kind| kind == CallKind::Child) {
                true => NextAction::SeeChildren,
                false => NextAction::RunSteps { due: timers.first },
            };
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

/// Returns whether the code waits for a condition that the handler of an update can make true.
fn awaits_handlers(runtime: &Runtime) -> bool {
    runtime.updates.awaits_condition && runtime.updates.names().next().is_some()
}

/// Returns whether an awaited child has started and its id is unknown.
fn has_unseen_children(runtime: &Runtime) -> bool {
    has_unseen(runtime, CallKind::is_child)
}

/// Returns whether an awaited child of such a kind has started and its id is unknown.
fn has_unseen(runtime: &Runtime, is_meant: impl Fn(CallKind) -> bool) -> bool {
    let mut children = runtime
        .open()
        .filter(|(_, call)| is_meant(call.kind) && call.is_recorded);
    children.any(|(_, call)| call.link().found.is_none())
}

/// The timers that the code waits for.
struct AwaitedTimers {
    /// When the first recorded timer is due.
    first: Option<Timestamp>,
    any_begun: bool,
    any_new: bool,
}

impl AwaitedTimers {
    fn of(runtime: &Runtime) -> AwaitedTimers {
        let mut timers = AwaitedTimers {
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

    /// Returns whether some timers are recorded and some are not.
    ///
    /// All of them must be recorded before it is known which is first.
    fn are_mixed(&self) -> bool {
        self.any_begun && self.any_new
    }
}

/// Returns the first call whose signal has arrived, and the index of the signal in the inbox.
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

/// Returns why the history cannot grow by this many events, if it cannot.
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

    /// Creates a run with so many events of this size.
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
        // Two bytes are for the quotes.
        let half = "x".repeat(HISTORY_BYTES_MAX / 2 - 2);
        assert_eq!(too_long(&run(2, &half), 0), None);
        let reason = too_long(&run(2, &format!("{half}x")), 0);
        let reason = reason.expect("it is too large");
        assert!(reason.contains("bytes"), "{reason}");
        assert!(reason.contains("flow.continue_as_new("), "{reason}");
    }

    #[test]
    fn history_pressure_is_set_from_the_soft_limit_on() {
        let provided = crate::definition::Provided::default();
        let flow = Flow::new(run(HISTORY_LONG, ""), None, provided);
        for _ in 1..HISTORY_LONG {
            flow.lock().history.note_known();
        }
        assert!(!flow.history_pressure());
        flow.lock().history.note_known();
        assert!(flow.history_pressure());
    }
}
