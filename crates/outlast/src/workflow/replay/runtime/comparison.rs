//! Compares the calls of the code with the history, after each poll.
//!
//! Calls of one poll have no order among each other: `select!` polls its branches at random. So a
//! call may have another number than in the history, if all new calls together are those of the
//! history.

use super::calls::{Ask, WaitKind};
use super::{Identity, Runtime, describe_call};
use crate::workflow::replay::events::{
    self, CallKind, GroupPosition, Mismatch, Outline, Scheduled, WaitData, data, is_digest_of,
};
use outlast_core::{EventKind, Invalid, NewEvent};
use std::fmt;
use std::ops::Range;

/// How many waits of one poll are put into the order of the history. More are compared in the
/// order in which they were polled.
const REORDERED_MAX: usize = 100;
/// How many placements are tried for them.
const SEARCH_STEPS_MAX: usize = 10_000;

/// Searches for an order of the new calls that matches the history.
struct OrderSearch<'a> {
    runtime: &'a Runtime,
    /// The index after the last new call.
    end: usize,
    /// How many more blocks may be tried.
    steps: usize,
    ordered: Vec<Range<usize>>,
}

impl OrderSearch<'_> {
    /// Puts all these blocks into an order that the history has from this index on.
    fn finds_order(&mut self, at: usize, rest: &[Range<usize>]) -> bool {
        if rest.is_empty() {
            return true;
        }
        let mut candidates: Vec<(BlockFit, usize)> = (0..)
            .zip(rest)
            .filter_map(|(index, block)| Some((self.rank(block, at)?, index)))
            .collect();
        candidates.sort_unstable();
        for (_, index) in candidates {
            let Some(steps) = self.steps.checked_sub(1) else {
                return false;
            };
            self.steps = steps;
            let mut rest = rest.to_vec();
            let block = rest.remove(index);
            let next = at + block.len();
            self.ordered.push(block);
            if self.finds_order(next, &rest) {
                return true;
            }
            self.ordered.pop();
        }
        false
    }

    /// Returns how well a block fits at an index; `None` when the history has another call there.
    fn rank(&self, block: &Range<usize>, at: usize) -> Option<BlockFit> {
        let is_recorded_at = |at| self.runtime.block_is_alike(block, at) == Some(true);
        match self.runtime.block_is_alike(block, at) {
            Some(true) => Some(BlockFit::Recorded),
            Some(false) => None,
            None if (at..self.end).any(is_recorded_at) => Some(BlockFit::RecordedLater),
            None => Some(BlockFit::Unrecorded),
        }
    }
}

/// How well a block fits, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum BlockFit {
    /// The history has the block there.
    Recorded,
    /// The history has nothing there, and the block nowhere.
    Unrecorded,
    /// The history has nothing there, and the block at a later index.
    RecordedLater,
}

/// A difference between the code and the history.
enum Difference {
    /// Another call; it blocks the run.
    Call(Mismatch),
    /// Another argument than this process supplied before.
    Input {
        mismatch: Mismatch,
        process: Option<u32>,
    },
}

impl Runtime {
    /// Compares the calls and waits that the code has registered since the last comparison.
    pub(super) fn compare_new_calls(&mut self) {
        let (calls, waits) = (self.compared_calls, self.compared_waits);
        self.compared_calls = self.calls.len();
        self.compared_waits = self.waits.len();
        // Calls after the last one of the history are new to it.
        if calls >= self.last_call as usize {
            return;
        }
        self.order_as_in_history(calls, waits);
        for call in calls..self.calls.len() {
            match self.difference(call as i32 + 1) {
                None => {}
                Some(Difference::Call(mismatch)) => self.block_by(mismatch),
                Some(Difference::Input { mismatch, process }) => {
                    self.note_input(mismatch, process);
                }
            }
        }
        for wait in waits..self.waits.len() {
            if let Some(mismatch) = self.outline_mismatch(wait) {
                self.block_by(mismatch);
            }
        }
    }

    /// Renumbers the calls from `first_unit` on, if the history has them in another order.
    fn order_as_in_history(&mut self, first_call: usize, first_wait: usize) {
        let blocks = self.blocks(first_call);
        let is_as_recorded = || {
            let mut calls = first_call..self.calls.len();
            calls.all(|call| self.is_alike(call, call) != Some(false))
        };
        if blocks.len() < 2 || blocks.len() > REORDERED_MAX || is_as_recorded() {
            return;
        }
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("calls-keep-the-order-of-the-poll") {
            return;
        }
        let mut search = OrderSearch {
            runtime: self,
            end: self.calls.len(),
            steps: SEARCH_STEPS_MAX,
            ordered: Vec::with_capacity(blocks.len()),
        };
        if search.finds_order(first_call, &blocks) {
            let ordered = search.ordered;
            self.renumber(first_call, first_wait, &ordered);
        }
    }

    /// Returns the calls of each wait, as ranges of indexes.
    fn blocks(&self, first_call: usize) -> Vec<Range<usize>> {
        let waits = self.calls[first_call..].chunk_by(|a, b| a.wait == b.wait);
        let mut begin = first_call;
        let blocks = waits.map(|calls| {
            let end = begin + calls.len();
            std::mem::replace(&mut begin, end)..end
        });
        blocks.collect()
    }

    /// Returns whether the history has these calls from this index on.
    ///
    /// `None` when it has none of them there.
    fn block_is_alike(&self, block: &Range<usize>, at: usize) -> Option<bool> {
        let calls = block.clone().zip(at..);
        let alike = calls.filter_map(|(call, at)| self.is_alike(call, at));
        alike.reduce(|a, b| a && b)
    }

    /// Returns whether the history has the same call at this index: kind, name and argument.
    ///
    /// `None` when it has no event of a call there.
    fn is_alike(&self, call: usize, at: usize) -> Option<bool> {
        let call = &self.calls[call];
        let event = self.first_event(at as i32 + 1)?.1;
        let is_same_input = || match RecordedCall::of(event) {
            Ok(recorded) => recorded.differs_from(&call.ask).is_none_or(|it| !it.0),
            Err(_) => true,
        };
        Some(is_same_call(call.kind, &call.name, event) && is_same_input())
    }

    fn first_event(&self, call: i32) -> Option<(usize, &NewEvent)> {
        let first = *self.first_of.get(&call)?;
        self.history.get(first).map(|event| (first, event))
    }

    /// Renumbers calls by this order of their blocks.
    fn renumber(&mut self, first_call: usize, first_wait: usize, ordered: &[Range<usize>]) {
        let mut numbers = vec![0; self.calls.len() - first_call];
        let mut next = first_call as i32;
        for index in ordered.iter().flat_map(Range::clone) {
            next += 1;
            numbers[index - first_call] = next;
        }
        let renumbered = |call: &mut i32| {
            let new = usize::try_from(*call - 1).ok();
            let new = new.and_then(|index| index.checked_sub(first_call));
            if let Some(index) = new {
                *call = numbers[index];
            }
        };
        let calls: Vec<_> = self.calls.drain(first_call..).collect();
        let mut calls: Vec<_> = calls.into_iter().zip(&numbers).collect();
        calls.sort_by_key(|(_, number)| **number);
        for (mut call, _) in calls {
            let path = call.place.iter_mut().flat_map(|place| &mut place.path);
            path.for_each(&renumbered);
            self.calls.push(call);
        }
        for wait in &mut self.waits[first_wait..] {
            wait.leaves.iter_mut().for_each(&renumbered);
            if let Some(combinator) = &mut wait.combinator {
                renumbered(&mut combinator.call);
            }
        }
    }

    /// Returns how a call differs from the history.
    fn difference(&self, call: i32) -> Option<Difference> {
        // Most groups have no event before they are resolved. A call that the code did not wait
        // for may have none either.
        let (first, event) = self.first_event(call)?;
        let it = self.call(call);
        let found = describe_call(call, it.kind, &it.name);
        if !is_same_call(it.kind, &it.name, event) {
            let expected = self.describe_event(first);
            return Some(Difference::Call(Mismatch { expected, found }));
        }
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("open-groups-are-not-compared") {
            return None;
        }
        // An unreadable event blocks when it is applied.
        let recorded = RecordedCall::of(event).ok()?;
        let setting = CallForm::of(self.waits[it.wait as usize].kind, it.place.as_deref());
        if let Some(recorded) = recorded.setting()
            && !setting.fits(recorded)
            && !self.was_changed_before(first, setting, recorded)
        {
            let expected = format!("{}, {recorded}", self.describe_event(first));
            let found = format!("{found}, {setting}");
            return Some(Difference::Call(Mismatch { expected, found }));
        }
        let (differs, process) = recorded.differs_from(&it.ask)?;
        differs.then(|| {
            let expected = format!("{} as it was given then", self.describe_event(first));
            let found = format!(
                "{found} given something else; does the code before it read a clock, chance or the world? use \
                 flow.now(), flow.random(), flow.uuid() or flow.step"
            );
            let mismatch = Mismatch { expected, found };
            Difference::Input { mismatch, process }
        })
    }

    /// Returns whether an older build has let a group grow, before groups were compared.
    ///
    /// Then the group has events of both sizes.
    fn was_changed_before(
        &self,
        first: usize,
        found: CallForm<'_>,
        recorded: CallForm<'_>,
    ) -> bool {
        let (CallForm::In(place), CallForm::In(recorded)) = (found, recorded) else {
            return false;
        };
        let has_same_place = (&place.path, place.index) == (&recorded.path, recorded.index);
        if !has_same_place || place.is_beside(recorded) {
            return false;
        }
        let mut later = (first..).map_while(|index| self.history.get(index));
        later.any(|event| {
            let recorded = RecordedCall::of(event);
            let recorded = recorded.as_ref().ok().and_then(RecordedCall::setting);
            matches!(recorded, Some(CallForm::In(recorded)) if place.is_beside(recorded))
        })
    }

    /// Returns how a group or a selection differs from the history.
    fn outline_mismatch(&self, wait: usize) -> Option<Mismatch> {
        let wait = &self.waits[wait];
        let group = wait.combinator.as_ref()?.call;
        let (first, event) = self.first_event(group)?;
        let is_outline = matches!(
            event.kind,
            EventKind::GroupAwaited | EventKind::SelectionAwaited
        );
        let recorded: Outline = data(event).ok().filter(|_| is_outline)?;
        let outline = wait.outline();
        (outline != recorded).then(|| {
            let found = describe_call(group, self.call(group).kind, "");
            Mismatch {
                expected: format!("{}, {recorded}", self.describe_event(first)),
                found: format!("{found} {outline}"),
            }
        })
    }

    /// Notes that a call has another argument than in the history.
    ///
    /// The code then depends on something outside its history.
    ///
    /// A process is one build with one set of settings. So a difference to its own earlier
    /// argument is a bug of the code, and blocks. Another process may have another form of a type,
    /// or another timeout. The recorded call was carried out and stays, so the difference is only
    /// logged. No build could repeat what a clock returned either.
    fn note_input(&mut self, mismatch: Mismatch, process: Option<u32>) {
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("inputs-are-not-compared") {
            return;
        }
        if self.strict || process == Some(events::process()) {
            self.block_by(mismatch);
        } else if !std::mem::replace(&mut self.has_told_difference, true) {
            let Identity { id, workflow, .. } = &self.identity;
            let Mismatch { expected, found } = mismatch;
            tracing::warn!(instance = %id, workflow, "the history has {expected}; the code has {found}");
        }
    }

    fn block_by(&mut self, mismatch: Mismatch) {
        self.block(mismatch.expected, mismatch.found);
    }
}

/// Returns whether the first event of a call is of this kind and name.
fn is_same_call(kind: CallKind, name: &str, event: &NewEvent) -> bool {
    // A message to a child that could not be sent is recorded as a failed step.
    let is_unsent = kind == CallKind::Message && event.kind == EventKind::StepFailed;
    (CallKind::of(event.kind) == Some(kind) || is_unsent)
        && (event.name == name || kind == CallKind::Group)
}

/// What the first event of a call says about it.
enum RecordedCall {
    Child(Box<Scheduled>),
    Waiting(WaitData),
    /// The call was answered at once, or is a group.
    Other,
}

impl RecordedCall {
    fn of(event: &NewEvent) -> Result<RecordedCall, Invalid> {
        match event.kind {
            EventKind::ActivityScheduled | EventKind::ChildScheduled => {
                data(event).map(RecordedCall::Child)
            }
            EventKind::StepScheduled | EventKind::TimerScheduled | EventKind::SignalAwaited => {
                data(event).map(RecordedCall::Waiting)
            }
            EventKind::RunStarted
            | EventKind::StepCompleted
            | EventKind::StepFailed
            | EventKind::ActivityCompleted
            | EventKind::ActivityFailed
            | EventKind::ActivityCancelled
            | EventKind::ChildStarted
            | EventKind::ChildCompleted
            | EventKind::ChildFailed
            | EventKind::ChildCancelled
            | EventKind::ChildTerminated
            | EventKind::ChildMessaged
            | EventKind::GroupAwaited
            | EventKind::GroupResolved
            | EventKind::SelectionAwaited
            | EventKind::SelectionResolved
            | EventKind::TimerFired
            | EventKind::TimerCancelled
            | EventKind::SignalConsumed
            | EventKind::UpdateAccepted
            | EventKind::UpdateCompleted
            | EventKind::VersionMarked
            | EventKind::CancelRequested
            | EventKind::FailureHandled
            | EventKind::ReplayBlocked
            | EventKind::ContinuedAsNew
            | EventKind::RunCompleted
            | EventKind::RunFailed
            | EventKind::RunCancelled
            | EventKind::TimedOut
            | EventKind::Transitioned => Ok(RecordedCall::Other),
        }
    }

    /// Returns whether a call has another argument than recorded, and the recording process.
    ///
    /// `None` where the argument was not recorded.
    fn differs_from(&self, ask: &Ask) -> Option<(bool, Option<u32>)> {
        match (ask, self) {
            (Ask::Child(child), RecordedCall::Child(recorded)) => Some((
                !is_digest_of(&recorded.input, &child.row.state),
                recorded.process,
            )),
            (Ask::Timer(after), RecordedCall::Waiting(recorded)) => {
                let us = recorded.after_us?;
                Some((us != outlast_core::micros(*after), recorded.process))
            }
            (
                Ask::Child(_)
                | Ask::Timer(_)
                | Ask::Work
                | Ask::Signal
                | Ask::Update(_)
                | Ask::Nothing,
                _,
            ) => None,
        }
    }

    /// Returns the setting of the call; `None` where it was not recorded.
    fn setting(&self) -> Option<CallForm<'_>> {
        let (group, launched) = match self {
            // An awaited job is recorded without this.
            RecordedCall::Child(it) if it.policy.is_some() => {
                (it.group.as_ref(), Some(it.launched.unwrap_or(false)))
            }
            RecordedCall::Child(it) => (it.group.as_ref(), it.launched),
            RecordedCall::Waiting(it) => (it.group.as_ref(), None),
            RecordedCall::Other => return None,
        };
        Some(match (group, launched) {
            (Some(place), _) => CallForm::In(place),
            (None, Some(true)) => CallForm::Launched,
            (None, Some(false)) => CallForm::Awaited,
            (None, None) => CallForm::Alone,
        })
    }
}

/// How a call is made.
#[derive(Clone, Copy)]
enum CallForm<'a> {
    /// In a group or a selection.
    In(&'a GroupPosition),
    /// Alone. For a child it is unknown whether it was awaited.
    Alone,
    /// Alone, and awaited.
    Awaited,
    /// Alone, and not awaited.
    Launched,
}

impl CallForm<'_> {
    fn of(kind: WaitKind, place: Option<&GroupPosition>) -> CallForm<'_> {
        match (place, kind) {
            (Some(place), _) => CallForm::In(place),
            (None, WaitKind::Launch) => CallForm::Launched,
            (None, WaitKind::Single | WaitKind::Group | WaitKind::Selection) => CallForm::Awaited,
        }
    }

    /// Returns whether the code makes the call as the history has it.
    fn fits(self, recorded: CallForm<'_>) -> bool {
        match (self, recorded) {
            (CallForm::In(place), CallForm::In(recorded)) => place.fits(recorded),
            (CallForm::In(_), _) | (_, CallForm::In(_)) => false,
            (CallForm::Launched, CallForm::Awaited) | (CallForm::Awaited, CallForm::Launched) => {
                false
            }
            (CallForm::Alone | CallForm::Awaited | CallForm::Launched, _) => true,
        }
    }
}

impl fmt::Display for CallForm<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallForm::In(place) => place.fmt(f),
            CallForm::Alone => f.write_str("in no group"),
            CallForm::Awaited => f.write_str("awaited alone"),
            CallForm::Launched => f.write_str("started without being awaited"),
        }
    }
}
