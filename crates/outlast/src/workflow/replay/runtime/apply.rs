//! Applies events to the calls of the code, one after another.
//!
//! The session calls it. It changes the run in memory only.

use super::calls::{Answered, Ask, CallEnd, WaitKind};
use super::{MayRun, Runtime, index_of};
use crate::workflow::FlowErrorKind;
use crate::workflow::replay::events::{
    Accepted, CallKind, ChildMessage, Completed, Consumed, Ended, Failed, Outline, Reason,
    Resolved, RunStart, Scheduled, WaitData, data, event, failure_kind,
};
use outlast_core::{EventKind, Invalid, Json, NewEvent, Timestamp};
use std::collections::BTreeSet;

impl Runtime {
    /// Returns whether there is an event that the code does not know and that can be applied.
    pub(in crate::workflow) fn has_news(&self) -> bool {
        self.history.next().is_some() && self.blocked.is_none()
    }

    /// Applies the next event. Returns whether it answers something that the code waits for.
    pub(in crate::workflow) fn apply_next(&mut self) -> bool {
        let index = self.history.known();
        let applied = self.apply(index);
        let answers = applied.unwrap_or_else(|invalid| {
            let expected = self.describe_event(index);
            self.block(expected, format!("one that cannot be read: {invalid}"));
            false
        });
        self.history.note_known();
        answers
    }

    /// Passes the result of the only awaited step to the code during its poll.
    ///
    /// The code then continues at once, up to the first call that needs the result to be written.
    /// Returns whether there was a result.
    pub(in crate::workflow) fn deliver_only_step(&mut self) -> bool {
        // Code that has read the time receives the result after the write: only then the time is
        // known.
        if self.may_run != MayRun::OneStep || self.was_asked_for_now() {
            return false;
        }
        self.record_notes(true);
        let Some(recorded) = self.take_finished() else {
            return false;
        };
        self.may_run = MayRun::No;
        self.history.push(recorded);
        self.apply_next()
    }

    fn apply(&mut self, index: usize) -> Result<bool, Invalid> {
        let Some(event) = self.history.get(index) else {
            return Ok(false);
        };
        self.now = event.at.map_or(self.now, |at| self.now.max(at));
        if event.kind == EventKind::RunStarted {
            let RunStart { seed } = data(event)?;
            self.seed = seed;
            return Ok(false);
        }
        if event.kind == EventKind::CancelRequested {
            let Reason { reason } = data(event)?;
            self.cancelled = Some(reason);
            return Ok(true);
        }
        if event.kind == EventKind::UpdateAccepted {
            let accepted: Accepted = data(event)?;
            let (name, expected) = (event.name.clone(), self.describe_event(index));
            self.accept(&name, accepted, expected);
            return Ok(true);
        }
        if CallKind::of(event.kind).is_none() {
            return Ok(false);
        }
        let known = event.call.filter(|call| index_of(*call) < self.calls.len());
        let Some(call) = known else {
            let expected = self.describe_event(index);
            let last = self.last_call();
            self.block(expected, format!("no such call: it waits after {last}"));
            return Ok(false);
        };
        let kind = event.kind;
        match kind {
            EventKind::ActivityScheduled | EventKind::ChildScheduled => {
                let scheduled: Scheduled = data(event)?;
                let it = self.call_mut(call);
                it.is_recorded = true;
                if let Some(link) = it.link_mut() {
                    link.round = scheduled.round;
                    link.position = scheduled.position;
                }
                Ok(false)
            }
            EventKind::StepScheduled | EventKind::SignalAwaited | EventKind::TimerScheduled => {
                let waiting: WaitData = data(event)?;
                let due = waiting.after_us.zip(event.at);
                let it = self.call_mut(call);
                it.is_recorded = true;
                it.due = due.map(|(us, at)| Timestamp(at.0.saturating_add(us)));
                Ok(false)
            }
            EventKind::GroupAwaited | EventKind::SelectionAwaited => {
                let _: Outline = data(event)?;
                self.call_mut(call).is_recorded = true;
                Ok(false)
            }
            EventKind::ChildStarted => {
                let started: Ended = data(event)?;
                self.note_child(call, &started);
                let wait = self.call(call).wait as usize;
                Ok(self.waits[wait].kind == WaitKind::Launch)
            }
            EventKind::StepCompleted => {
                let Completed { result } = data(event)?;
                Ok(self.end(index, kind, call, Answered::Well(result)))
            }
            EventKind::StepFailed => {
                let failed: Box<Failed> = data(event)?;
                Ok(self.end(index, kind, call, Answered::Step(failed)))
            }
            EventKind::ChildMessaged if self.call(call).kind == CallKind::Message => {
                let message: ChildMessage = data(event)?;
                let answer = Json::of(&message.answer)?;
                Ok(self.end(index, kind, call, Answered::Well(answer)))
            }
            EventKind::ChildMessaged => {
                self.to_cancel.retain(|waiting| *waiting != call);
                Ok(false)
            }
            EventKind::ActivityCompleted | EventKind::ChildCompleted => {
                let ended: Ended = data(event)?;
                self.note_child(call, &ended);
                let result = ended.result.unwrap_or_else(Json::null);
                Ok(self.end(index, kind, call, Answered::Well(result)))
            }
            EventKind::ActivityFailed
            | EventKind::ActivityCancelled
            | EventKind::ChildFailed
            | EventKind::ChildCancelled
            | EventKind::ChildTerminated => {
                let ended: Box<Ended> = data(event)?;
                self.note_child(call, &ended);
                let failure = match ended.child {
                    Some(_) => failure_kind(kind),
                    None => FlowErrorKind::ChildGone,
                };
                Ok(self.end(index, kind, call, Answered::Child(failure, ended)))
            }
            EventKind::TimerFired => Ok(self.end(index, kind, call, Answered::Well(Json::null()))),
            EventKind::SignalConsumed => {
                let consumed: Consumed = data(event)?;
                let is_update = matches!(self.call(call).ask, Ask::Update(_));
                let answer = match is_update {
                    true => self.note_update(call, consumed)?,
                    false => consumed.payload,
                };
                Ok(self.end(index, kind, call, Answered::Well(answer)))
            }
            EventKind::GroupResolved | EventKind::SelectionResolved => {
                let resolved: Resolved = data(event)?;
                Ok(self.resolve(call, resolved))
            }
            // The code no longer waits for the timer, and it may never fire.
            EventKind::TimerCancelled => Ok(false),
            EventKind::RunStarted
            | EventKind::CancelRequested
            | EventKind::UpdateAccepted
            | EventKind::UpdateCompleted
            | EventKind::VersionMarked
            | EventKind::FailureHandled
            | EventKind::ReplayBlocked
            | EventKind::ContinuedAsNew
            | EventKind::RunCompleted
            | EventKind::RunFailed
            | EventKind::RunCancelled
            | EventKind::TimedOut
            | EventKind::Transitioned => Ok(false),
        }
    }

    fn note_child(&mut self, call: i32, ended: &Ended) {
        if let Some(link) = self.call_mut(call).link_mut() {
            link.child = ended.child.or(link.child);
            link.found = link.child;
            link.run = ended.run;
        }
    }

    /// Sets the end of a call. Returns whether the code waits for this call alone.
    fn end(&mut self, event: usize, kind: EventKind, call: i32, answer: Answered) -> bool {
        let is_bad = answer.is_bad();
        let it = self.call_mut(call);
        it.is_recorded = true;
        if it.end.is_some() {
            return false;
        }
        it.end = Some(CallEnd {
            event: event as u32,
            kind,
            answer,
        });
        let mut answers = false;
        let it = &self.calls[index_of(call)];
        let own = (it.wait, it.place.as_ref().map_or(0, |place| place.index));
        for &(number, index) in std::iter::once(&own).chain(&it.link().joins) {
            let wait = &mut self.waits[number as usize];
            wait.open -= 1;
            if is_bad && wait.first_bad.is_none() {
                wait.first_bad = Some(call);
            }
            if let Some(combinator) = &mut wait.combinator {
                combinator.note_end(index, event as u32, is_bad.then_some(call));
            }
            answers |= matches!(wait.kind, WaitKind::Single | WaitKind::Launch);
        }
        answers
    }

    fn resolve(&mut self, group: i32, resolved: Resolved) -> bool {
        let wait = self.call(group).wait as usize;
        self.call_mut(group).is_recorded = true;
        let Some(combinator) = &mut self.waits[wait].combinator else {
            return false;
        };
        combinator.resolved = Some(resolved);
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("rest-is-not-cancelled") {
            return true;
        }
        let cancelled = combinator.cancelled.clone();
        let leaves = &self.waits[wait].leaves;
        let cancelled = cancelled.into_iter().flat_map(|group| &leaves[group]);
        let living = cancelled.copied().filter(|leaf| {
            let it = self.call(*leaf);
            it.end.is_none() && it.kind.is_child() && it.is_recorded
        });
        // A child listed twice is cancelled once.
        let living: BTreeSet<i32> = living.collect();
        self.to_cancel.extend(living);
        true
    }

    /// Returns the event that decides a wait, if its finished calls decide it.
    pub(in crate::workflow) fn decide(&self, wait: usize) -> Option<NewEvent> {
        let it = &self.waits[wait];
        let combinator = it.combinator.as_ref().filter(|it| it.resolved.is_none())?;
        let group = combinator.call;
        match it.kind {
            WaitKind::Single | WaitKind::Launch => None,
            WaitKind::Group => {
                let failed = it.first_bad;
                let is_decided = failed.is_some() || it.open == 0;
                is_decided.then(|| {
                    let resolved = Resolved {
                        failed,
                        winner: None,
                    };
                    event(
                        EventKind::GroupResolved,
                        Some(group),
                        "",
                        &resolved,
                        self.moment(),
                    )
                })
            }
            WaitKind::Selection => {
                let decided = combinator.progress.iter().enumerate();
                let decided = decided.filter_map(|(index, member)| {
                    member.decided.map(|(event, bad)| (event, index, bad))
                });
                decided.min().map(|(_, winner, failed)| {
                    let resolved = Resolved {
                        failed,
                        winner: Some(winner),
                    };
                    let kind = EventKind::SelectionResolved;
                    event(kind, Some(group), "", &resolved, self.moment())
                })
            }
        }
    }
}
