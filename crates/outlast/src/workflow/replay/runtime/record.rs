//! What is to be written of a run, and what becomes of it.

use super::Runtime;
use super::calls::{Answered, Ask, WaitKind};
use crate::machine::RetryPolicy;
use crate::workflow::replay::events::{
    CallKind, Completed, Marked, Reason, Scheduled, Told, Waiting, digest, event, process,
};
use outlast_core::{EventKind, Json, NewEvent, NewInstance, Timestamp};
use std::collections::BTreeSet;

impl Runtime {
    /// What is to be written of what the code waits for and the history does not have yet: all but children, who are
    /// started.
    pub(in crate::workflow) fn record_waiting(&mut self) {
        self.record_groups();
        // What is over is written itself.
        let is_over = |call| self.finished.iter().any(|(over, _)| *over == call);
        let new = self.open().filter_map(|(number, call)| {
            let (kind, after_us) = match &call.ask {
                // One that is waited for alone is known by its result, at the price of one event.
                Ask::Work if call.kind == CallKind::Step && call.place.is_some() => {
                    (EventKind::StepScheduled, None)
                }
                Ask::Timer(after) => {
                    let us = outlast_core::micros(*after);
                    (EventKind::TimerScheduled, Some(us))
                }
                Ask::Signal => (EventKind::SignalAwaited, None),
                Ask::Work | Ask::Child(_) | Ask::Nothing => return None,
            };
            (!call.is_recorded && !is_over(number)).then_some((number, kind, after_us))
        });
        let mut new: Vec<_> = new.collect();
        new.sort_unstable_by_key(|(number, ..)| *number);
        new.dedup_by_key(|(number, ..)| *number);
        for (number, kind, after_us) in new {
            let call = self.call(number);
            let waiting = Waiting {
                after_us,
                process: after_us.map(|_| process()),
                group: call.place.as_deref().cloned(),
            };
            let event = event(kind, Some(number), &call.name, &waiting, None);
            self.history.push(event);
        }
    }

    /// What groups consist of where the events of their calls do not tell: children that were started before stand in
    /// another call's events, and what is sent to children has an event when it was sent.
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
                call.wait as usize != number || call.kind == CallKind::Tell
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

    /// What the next step that is over has come to, to be written.
    pub(in crate::workflow) fn take_finished(&mut self) -> Option<NewEvent> {
        let (number, result) = self.finished.pop_front()?;
        let it = self.call(number);
        let (call, name) = (Some(number), it.name.as_str());
        Some(match (it.kind, result) {
            (CallKind::Tell, Ok(answer)) => {
                let told = Told {
                    child: None,
                    answer: answer.decode().unwrap_or_default(),
                };
                event(EventKind::ChildTold, call, name, &told, None)
            }
            (_, Ok(result)) => {
                let completed = Completed { result };
                event(EventKind::StepCompleted, call, name, &completed, None)
            }
            (_, Err(failed)) => event(EventKind::StepFailed, call, name, &failed, None),
        })
    }

    /// Takes the children of a unit that are still to be started, and notes that they are, as the given round.
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
            let is_lone_child = it.place.is_none() && it.kind == CallKind::Child;
            let launched = is_lone_child.then_some(is_launch);
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
                (row.step, row.state) = fixed(*policy, &row.state);
            }
            row.trace = row.trace.or_else(|| self.identity.trace.clone());
            let event = event(kind, Some(call), &it.name, &scheduled, None);
            rows.push(row);
            self.history.push(event);
        }
        rows
    }

    /// Failures that the code was handed and went on from, and forms of changes that are to be remembered: both are known
    /// once it has come to something that is written.
    pub(in crate::workflow) fn record_notes(&mut self, has_survived: bool) {
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

    /// These are written, at this moment. Time goes on with them, also with notes, which had no moment of their own.
    pub(in crate::workflow) fn committed(&mut self, events: Vec<NewEvent>, at: Timestamp) {
        let latest = self.history.wrote(events, at);
        self.now = latest.map_or(self.now, |latest| self.now.max(latest));
        self.was_blocked_by = None;
        self.consumed.clear();
    }

    /// These were to be written and were not.
    pub(in crate::workflow) fn take_back(&mut self, events: Vec<NewEvent>) {
        self.history.did_not_write(events);
    }
}

/// A job with how it is tried: the step and the state of [`Perform::Scheduled`](crate::machine::Perform).
fn fixed(policy: RetryPolicy, args: &Json) -> (String, Json) {
    #[derive(serde::Serialize)]
    struct Fixed<'a> {
        args: &'a Json,
        policy: RetryPolicy,
    }

    let text = serde_json::to_string(&Fixed { args, policy }).expect("both are plain JSON");
    let state = Json::stored(text).expect("serde writes JSON");
    ("scheduled".into(), state)
}
