//! Creates the events to write for a run, and handles the answer to the write.

use super::Runtime;
use super::calls::{Answered, Ask, IssuedCall, WaitKind};
use crate::workflow::replay::events::{
    CallKind, ChildMessage, Completed, Ended, Marked, Reason, Scheduled, WaitData, digest, event,
    process,
};
use outlast_core::limits::{HISTORY_WITH_STARTS_MAX, RUNS_KEPT};
use outlast_core::{Child, EventKind, NewEvent, NewInstance, Timestamp};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

impl Runtime {
    /// Adds events for the waits that the history does not have yet.
    ///
    /// Children are not among them: they get their events when they are started.
    pub(in crate::workflow) fn record_waiting(&mut self) {
        self.record_groups();
        // A step that has ended gets its final event instead.
        let is_over = |call| self.finished.iter().any(|(over, _)| *over == call);
        let new = self.open().filter_map(|(number, call)| {
            let (kind, after_us) = match &call.ask {
                // A step awaited alone gets no scheduled event: its result identifies it, so it
                // costs one event.
                Ask::Work if call.kind == CallKind::Step && call.place.is_some() => {
                    (EventKind::StepScheduled, None)
                }
                Ask::Timer(after) => {
                    let us = outlast_core::micros(*after);
                    (EventKind::TimerScheduled, Some(us))
                }
                Ask::Signal | Ask::Update(_) => (EventKind::SignalAwaited, None),
                Ask::Work | Ask::Child(_) | Ask::Nothing => return None,
            };
            (!call.is_recorded && !is_over(number)).then_some((number, kind, after_us))
        });
        let mut new: Vec<_> = new.collect();
        new.sort_unstable_by_key(|(number, ..)| *number);
        new.dedup_by_key(|(number, ..)| *number);
        for (number, kind, after_us) in new {
            let call = self.call(number);
            let waiting = WaitData {
                after_us,
                process: after_us.map(|_| process()),
                group: call.place.as_deref().cloned(),
            };
            let event = event(kind, Some(number), &call.name, &waiting, None);
            self.history.push(event);
        }
    }

    /// Adds the outline of groups that the events of their calls do not show.
    ///
    /// Children that were started before have the events of another call. A message to a child has
    /// an event only when it was sent.
    fn record_groups(&mut self) {
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("groups-of-started-children-are-not-recorded") {
            return;
        }
        let new = self.waiting().filter_map(|number| {
            let wait = &self.waits[number];
            let group = wait.combinator.as_ref()?.call;
            let is_untold = |leaf: &i32| {
                let call = self.call(*leaf);
                call.wait as usize != number || call.kind == CallKind::Message
            };
            let is_new = !self.call(group).is_recorded && wait.leaves.iter().any(is_untold);
            is_new.then(|| (group, wait.outline()))
        });
        let new: Vec<_> = new.collect();
        for (group, outline) in new {
            let kind = match self.call(group).kind == CallKind::Selection {
                true => EventKind::SelectionAwaited,
                false => EventKind::GroupAwaited,
            };
            self.history
                .push(event(kind, Some(group), "", &outline, None));
        }
    }

    /// Takes the result of the next finished step, as an event to write.
    pub(in crate::workflow) fn take_finished(&mut self) -> Option<NewEvent> {
        let (number, result) = self.finished.pop_front()?;
        let it = self.call(number);
        let (call, name) = (Some(number), it.name.as_str());
        Some(match (it.kind, result) {
            (CallKind::Message, Ok(answer)) => {
                let message = ChildMessage {
                    child: None,
                    answer: answer.decode().unwrap_or_default(),
                };
                event(EventKind::ChildMessaged, call, name, &message, None)
            }
            (_, Ok(result)) => {
                let completed = Completed { result };
                event(EventKind::StepCompleted, call, name, &completed, None)
            }
            (_, Err(failed)) => event(EventKind::StepFailed, call, name, &failed, None),
        })
    }

    /// Takes the children of a wait that are not started, and records them in the given round.
    pub(in crate::workflow) fn schedule(&mut self, wait: usize, round: i32) -> Vec<NewInstance> {
        let leaves = self.waits[wait].leaves.clone();
        let mut rows = Vec::new();
        for call in leaves {
            let it = self.call(call);
            if it.is_recorded || it.end.is_some() {
                continue;
            }
            let Ask::Child(child) = &it.ask else {
                continue;
            };
            let (row, policy) = (&child.row, &child.policy);
            let kind = match it.kind == CallKind::Activity {
                true => EventKind::ActivityScheduled,
                false => EventKind::ChildScheduled,
            };
            let is_launch = self.waits[wait].kind == WaitKind::Launch;
            // A job that is awaited is recorded as it always was, without this.
            let is_noted = is_launch || it.kind == CallKind::Child;
            let launched = (it.place.is_none() && is_noted).then_some(is_launch);
            let scheduled = Scheduled {
                round,
                position: rows.len() as i32,
                machine: row.machine.clone(),
                version: row.version,
                on_parent_close: row.on_parent_close,
                input: digest(&row.state),
                process: Some(process()),
                policy: *policy,
                group: it.place.as_deref().cloned(),
                launched,
            };
            let mut row = row.clone();
            if let Some(policy) = policy {
                (row.step, row.state) = policy.scheduled_state(&row.state);
            }
            row.trace = row.trace.or_else(|| self.identity.trace.clone());
            let event = event(kind, Some(call), &it.name, &scheduled, None);
            rows.push(row);
            self.history.push(event);
        }
        rows
    }

    /// Returns an event for each run that these children have begun since the history saw them.
    ///
    /// They have the time of the last known event: a child does not say when its run began.
    /// Starts that answer the code come last: it may then ask for the ids of all children.
    pub(in crate::workflow) fn starts(&self, children: &[(i32, &Child)]) -> Vec<NewEvent> {
        let mut starts = Vec::new();
        for (call, child) in children {
            let it = self.call(*call);
            let runs = new_runs(it, self.is_launch(it), child);
            starts.extend(runs.map(|run| Start {
                call: *call,
                run,
                child,
            }));
        }
        // Keep room for the ends of the calls, and for what the code does next.
        let events = self.history.len() + starts.len() + self.open().count();
        if events > HISTORY_WITH_STARTS_MAX {
            starts.retain(|start| !self.is_optional(start));
        }
        starts.sort_by_key(|start| self.is_launch(self.call(start.call)));
        let at = Some(self.now());
        let events = starts.into_iter().map(|start| {
            let begun = Ended {
                child: Some(start.child.id),
                run: start.run,
                ..Ended::default()
            };
            let name = &self.call(start.call).name;
            event(EventKind::ChildStarted, Some(start.call), name, &begun, at)
        });
        events.collect()
    }

    /// Returns whether a long history does without this start.
    ///
    /// The end of a child names its newest run. A living child in a group remains without an id.
    fn is_optional(&self, start: &Start<'_>) -> bool {
        let Start { call, run, child } = *start;
        let it = self.call(call);
        let answers = self.is_launch(it) && it.link().child.is_none();
        let is_alone = it.place.is_none();
        let is_told = answers || !child.status.is_terminal() && (run > 1 || is_alone);
        run < child.run || !is_told
    }

    /// Notes a start that is about to be added to the history.
    ///
    /// Steps need not wait until it is written, unless it answers the code. After a crash the row
    /// of the child has the same id.
    pub(in crate::workflow) fn note_start(&mut self, start: &NewEvent) {
        let call = start.call.map(|call| self.call(call));
        let answers = call.is_some_and(|call| self.is_launch(call));
        self.unwritten_starts += usize::from(!answers);
    }

    fn is_launch(&self, call: &IssuedCall) -> bool {
        self.waits[call.wait as usize].kind == WaitKind::Launch
    }

    /// Adds events for replies to updates, for handled failures and for versions of changes.
    ///
    /// The last two are known once the code has made a call or ended.
    pub(in crate::workflow) fn record_notes(&mut self, has_survived: bool) {
        self.record_replies();
        for (change, version) in std::mem::take(&mut self.unmarked) {
            let marked = Marked { version };
            self.history.push(event(
                EventKind::VersionMarked,
                None,
                &change,
                &marked,
                None,
            ));
            self.history.note_known();
        }
        let handed = std::mem::take(&mut self.handed);
        if !has_survived {
            return;
        }
        #[cfg(outlast_mutants)]
        if !handed.is_empty() && outlast_core::mutant::is("handled-failure-is-forgotten") {
            return;
        }
        let handed: BTreeSet<i32> = handed.into_iter().collect();
        for call in handed {
            if !self.handled.insert(call) {
                continue;
            }
            let it = self.call(call);
            let reason = match it.end.as_ref().map(|end| &end.answer) {
                Some(Answered::Step(failed)) => failed.error.clone(),
                Some(Answered::Child(_, ended)) => ended.error.clone().unwrap_or_default(),
                Some(Answered::Well(_) | Answered::Given) | None => String::new(),
            };
            let note = Reason { reason };
            let name = it.name.clone();
            self.history.push(event(
                EventKind::FailureHandled,
                Some(call),
                &name,
                &note,
                None,
            ));
            self.history.note_known();
        }
    }

    /// Confirms that these events were written at this time.
    ///
    /// The time of the run advances with them, even for notes, which have no time before.
    pub(in crate::workflow) fn committed(&mut self, events: Vec<NewEvent>, at: Timestamp) {
        let latest = self.history.wrote(events, at);
        self.now = latest.map_or(self.now, |latest| self.now.max(latest));
        self.was_blocked_by = None;
        self.unwritten_starts = 0;
        self.consumed.clear();
        self.views.wrote();
        self.updates.wrote();
    }

    /// Takes back events that were not written.
    pub(in crate::workflow) fn take_back(&mut self, events: Vec<NewEvent>) {
        self.history.did_not_write(events);
    }
}

/// A run of a child to record.
#[derive(Clone, Copy)]
struct Start<'a> {
    call: i32,
    run: i32,
    child: &'a Child,
}

/// Returns the runs of a child that the history does not have.
///
/// Of many, the last [`RUNS_KEPT`]: no history is stored of an earlier one. An awaited job has
/// none, because it has one run, which its end names.
fn new_runs(call: &IssuedCall, is_launch: bool, child: &Child) -> RangeInclusive<i32> {
    let seen = call.link().run;
    #[cfg(outlast_mutants)]
    if seen > 0 && outlast_core::mutant::is("new-runs-of-children-are-not-recorded") {
        return child.run + 1..=child.run;
    }
    let is_recorded = is_launch || call.kind == CallKind::Child;
    let first = match is_recorded {
        true => (seen + 1).max(child.run - RUNS_KEPT + 1),
        false => child.run + 1,
    };
    first..=child.run
}
