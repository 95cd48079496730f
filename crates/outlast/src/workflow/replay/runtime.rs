//! The state of a run in memory: the history so far, the calls of the code, and their results.
//!
//! The code shares it, through [`Flow`](super::Flow), with the
//! [`Session`](super::session::Session) that runs the code. The code registers its waits. The
//! session applies events one at a time, and polls the code after each event that answers
//! something.
//!
//! This file has the queries of the code. The other files of the folder have the calls, their
//! registration, the open calls, the application of events, and the events to record. Nothing here
//! does I/O.

mod apply;
mod calls;
mod comparison;
mod event_log;
mod open_calls;
mod queries;
mod record;
mod registration;
mod updates;
mod views;

pub(in crate::workflow) use calls::{
    Answered, Ask, AwaitedCalls, ChildStart, IssuedCall, NewCall, WaitCall, WaitKind,
};
pub(in crate::workflow) use queries::{Handler, Unanswered};
pub(in crate::workflow) use updates::{
    Check, HandlerStart, Handling, UpdateHandler, refusal, reply_of,
};

use super::events::{CallKind, Failed, Marked, Mismatch, data, fnv};
use crate::workflow::FlowError;
use event_log::EventLog;
use outlast_core::limits::{self, HISTORY_LONG};
use outlast_core::{ClosePolicy, EventKind, InstanceId, Json, NewEvent, SignalId, Timestamp};
use queries::Queries;
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet, VecDeque};
use std::task::Waker;
use std::time::Duration;
use updates::Updates;
use views::Views;

/// The instance and run that this is about.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) id: InstanceId,
    pub(crate) workflow: String,
    pub(crate) run: i32,
    pub(crate) key: Option<String>,
    pub(crate) trace: Option<String>,
}

impl Identity {
    /// Returns a random seed that no other run has.
    ///
    /// It comes from the trace, which is random for each inserted instance, and from what
    /// distinguishes runs of that trace.
    pub(in crate::workflow) fn seed(&self) -> i64 {
        let trace = self.trace.as_deref().unwrap_or_default();
        let whole = format!("{trace}:{}:{}:{}", self.workflow, self.id, self.run);
        fnv(whole.as_bytes()) as i64
    }
}

pub(crate) struct Runtime {
    pub(crate) identity: Identity,
    /// All events of this run, including those that are not written yet.
    pub(in crate::workflow) history: EventLog,
    /// The mismatch with which the history ends, if it does.
    pub(in crate::workflow) was_blocked_by: Option<Json>,
    /// The first event of each call in the stored history.
    first_of: HashMap<i32, usize>,
    /// The last call in the stored history.
    last_call: i32,
    pub(in crate::workflow) calls: Vec<IssuedCall>,
    pub(in crate::workflow) waits: Vec<AwaitedCalls>,
    /// How many of the calls and waits have been compared with the history.
    compared_calls: usize,
    compared_waits: usize,
    /// The waits that the code polled last and has not dropped since, in their order.
    polled: SmallVec<[usize; 2]>,
    /// Why the run is cancelled, once the code has received the request.
    cancelled: Option<String>,
    /// Whether the code that runs now is inside `uncancellable`.
    pub(in crate::workflow) uncancellable: bool,
    versions: HashMap<String, i32>,
    /// Changes that were answered although the history does not have them.
    unmarked: Vec<(String, i32)>,
    now: Timestamp,
    was_asked_for_now: bool,
    /// Whether the code read the time while the time of an event that it knows was still unknown.
    pub(in crate::workflow) needs_replay: bool,
    seed: i64,
    draws: u64,
    /// Steps that have run and are not written yet.
    pub(in crate::workflow) finished: VecDeque<(i32, Result<Json, Failed>)>,
    /// Signals whose consumption is not written yet.
    pub(in crate::workflow) consumed: Vec<SignalId>,
    /// How many unwritten events are starts of children that steps need not wait for.
    unwritten_starts: usize,
    /// Failures that the code received and may handle.
    handed: Vec<i32>,
    handled: HashSet<i32>,
    /// Children to cancel, because a group or a selection cancels the rest.
    pub(in crate::workflow) to_cancel: Vec<i32>,
    pub(in crate::workflow) blocked: Option<Mismatch>,
    pub(in crate::workflow) may_run: MayRun,
    /// Whether the code of a step runs now, which a replay does not run again.
    pub(in crate::workflow) in_step: bool,
    /// Whether a changed argument blocks the run even if another process recorded it.
    pub(in crate::workflow) strict: bool,
    /// Whether a changed argument was already logged.
    has_told_difference: bool,
    /// The task that waits for the steps.
    pub(in crate::workflow) waker: Option<Waker>,
    /// The waker with which the code itself is polled now.
    code_waker: Option<Waker>,
    /// Other wakers with which calls were polled. They belong to combinators that poll only woken
    /// futures.
    kept_wakers: Vec<Waker>,
    pub(in crate::workflow) handle: Option<tokio::runtime::Handle>,
    pub(in crate::workflow) step_timeout: Duration,
    pub(in crate::workflow) views: Views,
    pub(in crate::workflow) updates: Updates,
    pub(in crate::workflow) queries: Queries,
}

/// Whether steps may run: everything that led to them is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::workflow) enum MayRun {
    No,
    /// The steps that the code waits for.
    Steps,
    /// The one step that the code waits for, if it waits for nothing else.
    OneStep,
}

impl Runtime {
    pub(in crate::workflow) fn new(identity: Identity, history: Vec<NewEvent>) -> Runtime {
        let mut first_of = HashMap::new();
        let mut versions = HashMap::new();
        let mut handled = HashSet::new();
        for (index, event) in history.iter().enumerate() {
            match (event.kind, event.call) {
                (EventKind::VersionMarked, _) => {
                    if let Ok(Marked { version }) = data(event) {
                        versions.insert(event.name.clone(), version);
                    }
                }
                (EventKind::FailureHandled, Some(call)) => {
                    handled.insert(call);
                }
                (_, Some(call)) => {
                    first_of.entry(call).or_insert(index);
                }
                (_, None) => {}
            }
        }
        let updates = Updates::of(&history);
        Runtime {
            last_call: first_of.keys().copied().max().unwrap_or(0),
            was_blocked_by: blocked_at_the_end(&history),
            identity,
            history: EventLog::stored(history),
            first_of,
            calls: Vec::new(),
            waits: Vec::new(),
            compared_calls: 0,
            compared_waits: 0,
            polled: SmallVec::new(),
            cancelled: None,
            uncancellable: false,
            versions,
            unmarked: Vec::new(),
            now: Timestamp(0),
            was_asked_for_now: false,
            needs_replay: false,
            seed: 0,
            draws: 0,
            finished: VecDeque::new(),
            consumed: Vec::new(),
            unwritten_starts: 0,
            handed: Vec::new(),
            handled,
            to_cancel: Vec::new(),
            blocked: None,
            may_run: MayRun::No,
            in_step: false,
            strict: false,
            has_told_difference: false,
            waker: None,
            code_waker: None,
            kept_wakers: Vec::new(),
            handle: None,
            step_timeout: Duration::MAX,
            views: Views::default(),
            updates,
            queries: Queries::default(),
        }
    }

    pub(in crate::workflow) fn call(&self, call: i32) -> &IssuedCall {
        &self.calls[index_of(call)]
    }

    /// Returns whether the code has made this call.
    pub(in crate::workflow) fn has_made(&self, call: Option<i32>) -> bool {
        call.is_some_and(|call| index_of(call) < self.calls.len())
    }

    pub(in crate::workflow) fn call_mut(&mut self, call: i32) -> &mut IssuedCall {
        &mut self.calls[index_of(call)]
    }

    /// Returns whether an unwritten event exists that steps may depend on, or a reply that its
    /// sender waits for.
    ///
    /// The start of the run is no such event, unless the code has read the time. Nor are starts of
    /// children ([`note_start`](Runtime::note_start)).
    pub(in crate::workflow) fn is_dirty(&self) -> bool {
        let (written, len) = (self.history.written(), self.history.len());
        let only_begun = written == 0 && len == 1 && !self.was_asked_for_now;
        let has_replies = self.updates.has_replies();
        #[cfg(outlast_mutants)]
        let has_replies = has_replies && !outlast_core::mutant::is("replies-wait-for-the-step");
        written + self.unwritten_starts < len && !only_begun
            || !self.unmarked.is_empty()
            || has_replies
    }

    /// Returns whether a call made here fails with the cancel.
    pub(in crate::workflow) fn is_cancelled_here(&self) -> bool {
        self.cancelled.is_some() && !self.uncancellable
    }

    pub(in crate::workflow) fn cancel_reason(&self) -> Option<&str> {
        self.cancelled.as_deref()
    }

    /// Returns whether a wait has its answer.
    pub(in crate::workflow) fn is_ready(&self, wait: usize) -> bool {
        let it = &self.waits[wait];
        match it.kind {
            WaitKind::Single => it.open == 0,
            WaitKind::Group | WaitKind::Selection => it.resolved().is_some(),
            WaitKind::Launch => it.leaves.iter().all(|call| {
                let call = self.call(*call);
                call.link().child.is_some() || call.end.is_some()
            }),
        }
    }

    /// Returns the result of a finished call.
    ///
    /// Only the result of a child is kept; any other is moved out, because the code cannot ask for
    /// it again. The code may handle a failure that is returned here.
    pub(in crate::workflow) fn answer(&mut self, call: i32) -> Result<Json, FlowError> {
        let it = self.call_mut(call);
        let is_child = it.kind.is_child();
        let error = match it.end.as_mut().map(|end| &mut end.answer) {
            Some(Answered::Well(result)) if is_child => return Ok(result.clone()),
            Some(answer @ Answered::Well(_)) => {
                return match std::mem::replace(answer, Answered::Given) {
                    Answered::Well(result) => Ok(result),
                    Answered::Given | Answered::Step(_) | Answered::Child(..) => Ok(Json::null()),
                };
            }
            Some(Answered::Step(failed)) => {
                FlowError::of_step(call, &it.name, Failed::clone(failed))
            }
            Some(Answered::Child(kind, ended)) => FlowError::of_child(*kind, call, &it.name, ended),
            Some(Answered::Given) => FlowError::new(format!("call {call} was answered before")),
            None => FlowError::new(format!("call {call} has not ended")),
        };
        if !self.handled.contains(&call) {
            self.handed.push(call);
        }
        Err(error)
    }

    pub(in crate::workflow) fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the time for the next events.
    ///
    /// It is `None` when they are written together with events whose time is still unknown.
    pub(in crate::workflow) fn moment(&self) -> Option<Timestamp> {
        (!self.history.is_ahead()).then_some(self.now)
    }

    /// Returns the time to the code.
    pub(in crate::workflow) fn read_clock(&mut self) -> Timestamp {
        if !self.in_step {
            self.was_asked_for_now = true;
            self.needs_replay |= self.history.is_ahead();
        }
        self.now
    }

    pub(in crate::workflow) fn was_asked_for_now(&self) -> bool {
        self.was_asked_for_now
    }

    /// Returns the next random number. The sequence is the same for every replay of this run.
    pub(in crate::workflow) fn draw(&mut self) -> u64 {
        if self.in_step {
            return fastrand::u64(..);
        }
        self.draws += 1;
        // SplitMix64.
        let seed = self.seed as u64;
        let mut z = seed.wrapping_add(self.draws.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns the version of a change that this run uses. A history from before the change uses
    /// `min`.
    pub(in crate::workflow) fn version(&mut self, change: &str, min: i32, max: i32) -> i32 {
        if let Err(invalid) = limits::check_name("change", change) {
            let after = self.last_call();
            let found = format!("after {after}, a change whose name cannot be: {invalid}");
            self.block("only changes that can be recorded".into(), found);
            return max;
        }
        let known = self.versions.get(change).copied();
        let version = known.unwrap_or_else(|| {
            // The history has a later call, so this run passed here before the change existed.
            let came_past = self.calls.len() < index_of(self.last_call + 1);
            let version = if came_past { min } else { max };
            self.versions.insert(change.to_owned(), version);
            self.unmarked.push((change.to_owned(), version));
            version
        });
        if !(min..=max).contains(&version) {
            self.block(
                format!("form {version} of the change {change:?}, which this run has"),
                format!("code that knows forms {min} to {max} of it"),
            );
        }
        version
    }

    /// Returns how many events the code knows.
    ///
    /// It is the same for every replay of this run, however long the history is by then.
    pub(in crate::workflow) fn known_events(&self) -> usize {
        self.history.known()
    }

    pub(in crate::workflow) fn history_is_long(&self) -> bool {
        self.known_events() >= HISTORY_LONG
    }

    /// Returns the children in the history, in the order of their calls.
    pub(in crate::workflow) fn children(&self) -> impl Iterator<Item = (i32, &IssuedCall)> {
        let calls = self.calls.iter().enumerate();
        calls
            .map(|(index, call)| (index as i32 + 1, call))
            .filter(|(_, call)| call.kind == CallKind::Child && call.is_recorded)
    }

    pub(in crate::workflow) fn block(&mut self, expected: String, found: String) {
        self.blocked.get_or_insert(Mismatch { expected, found });
    }

    /// Blocks code that cannot read the result of a call, and returns whether it does so.
    ///
    /// Payloads from other senders do not block.
    pub(in crate::workflow) fn block_unread(&mut self, call: i32, found: String) -> bool {
        let it = self.call(call);
        let Some(end) = it.end.as_ref().filter(|_| it.kind != CallKind::Signal) else {
            return false;
        };
        let event = end.event as usize;
        let expected = match event < self.history.written() {
            true => describe(event, end.kind, &it.name, Some(call)),
            // It has no number yet. The text must be the same at each attempt, or each adds an event.
            false => describe_unnumbered(end.kind, &it.name, Some(call)),
        };
        self.block(expected, found);
        true
    }

    /// Describes an event for people.
    pub(in crate::workflow) fn describe_event(&self, index: usize) -> String {
        match self.history.get(index) {
            Some(event) => describe(index, event.kind, &event.name, event.call),
            None => format!("event {}", index + 1),
        }
    }

    /// Describes the last call of the code for people.
    pub(in crate::workflow) fn last_call(&self) -> String {
        match self.calls.last() {
            Some(call) => describe_call(self.calls.len() as i32, call.kind, &call.name),
            None => "the start".into(),
        }
    }

    /// Returns the close policy of a child.
    pub(in crate::workflow) fn policy_of(&self, call: i32) -> ClosePolicy {
        let row = self.call(call).row();
        row.map_or(ClosePolicy::Abandon, |row| row.on_parent_close)
    }
}

fn index_of(call: i32) -> usize {
    usize::try_from(call - 1).unwrap_or(usize::MAX)
}

/// Returns the mismatch with which a history ends, if it does.
pub(in crate::workflow) fn blocked_at_the_end(history: &[NewEvent]) -> Option<Json> {
    let last = history.last()?;
    (last.kind == EventKind::ReplayBlocked).then(|| last.data.clone())
}

fn describe(index: usize, kind: EventKind, name: &str, call: Option<i32>) -> String {
    let event = describe_unnumbered(kind, name, call);
    format!("event {}: {event}", index + 1)
}

fn describe_unnumbered(kind: EventKind, name: &str, call: Option<i32>) -> String {
    let name = match name {
        "" => String::new(),
        name => format!(" {name:?}"),
    };
    match call {
        Some(call) => format!("{kind}{name} of call {call}"),
        None => format!("{kind}{name}"),
    }
}

fn describe_call(call: i32, kind: CallKind, name: &str) -> String {
    match name {
        "" => format!("call {call}: {}", kind.as_str()),
        name => format!("call {call}: {} {name:?}", kind.as_str()),
    }
}
