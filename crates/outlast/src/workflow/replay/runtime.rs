//! Where a run stands: the history so far, the calls the code has made, and what has come of them.
//!
//! It is shared by the code, through [`Flow`](super::Flow), and by the [`Session`](super::session::Session) that runs
//! the code. The code registers what it waits for; the session applies events one at a time, and runs the code on after each that
//! answers something. Here is what the code may ask; a file each has the rest: the calls themselves, how they are registered, what is
//! open, how events are applied, and what is to be recorded.

mod apply;
mod calls;
mod comparison;
mod event_log;
mod open_calls;
mod record;
mod registration;

pub(in crate::workflow) use calls::{
    Answered, Ask, Call, ChildCall, NewCall, Wait, WaitCall, WaitKind,
};

use super::events::{CallKind, Failed, Marked, Mismatch, data, fnv};
use crate::workflow::FlowError;
use event_log::History;
use outlast_core::limits::{self, HISTORY_LONG};
use outlast_core::{ClosePolicy, EventKind, InstanceId, Json, NewEvent, SignalId, Timestamp};
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet, VecDeque};
use std::task::Waker;
use std::time::Duration;

/// Whose run it is.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) id: InstanceId,
    pub(crate) workflow: String,
    pub(crate) run: i32,
    pub(crate) key: Option<String>,
    pub(crate) trace: Option<String>,
}

impl Identity {
    /// A number that no other run has: by the trace, which is drawn when an instance is inserted, and by what tells it
    /// from others of that trace.
    pub(in crate::workflow) fn seed(&self) -> i64 {
        let trace = self.trace.as_deref().unwrap_or_default();
        let whole = format!("{trace}:{}:{}:{}", self.workflow, self.id, self.run);
        fnv(whole.as_bytes()) as i64
    }
}

pub(crate) struct Runtime {
    pub(crate) identity: Identity,
    /// Everything that has happened in this run, also what is not written yet.
    pub(in crate::workflow) history: History,
    /// What the history says at its end that it was blocked by.
    pub(in crate::workflow) was_blocked_by: Option<Json>,
    /// The first event of each call that the stored history knows.
    first_of: HashMap<i32, usize>,
    /// The last call that the stored history knows.
    last_call: i32,
    pub(in crate::workflow) calls: Vec<Call>,
    pub(in crate::workflow) waits: Vec<Wait>,
    /// How many of the calls and units have been compared with the history.
    compared_calls: usize,
    compared_units: usize,
    /// The units that the code waited for when it was last run, and has not dropped since, in their order.
    polled: SmallVec<[usize; 2]>,
    /// Why the run is to end, once it was told.
    cancelled: Option<String>,
    /// Whether the code that runs now is shielded from that.
    pub(in crate::workflow) uncancellable: bool,
    versions: HashMap<String, i32>,
    /// Changes that were answered from a history that does not know them.
    unmarked: Vec<(String, i32)>,
    now: Timestamp,
    was_asked_for_now: bool,
    /// Whether the code was told a time while the moment of something that it knows of was not known.
    pub(in crate::workflow) needs_replay: bool,
    seed: i64,
    draws: u64,
    /// Steps that have run, and are to be written.
    pub(in crate::workflow) finished: VecDeque<(i32, Result<Json, Failed>)>,
    /// Signals whose consumption is to be written.
    pub(in crate::workflow) consumed: Vec<SignalId>,
    /// Failures that the code was handed and may survive.
    handed: Vec<i32>,
    handled: HashSet<i32>,
    /// Children that are to be asked to end, as a group or a selection said.
    pub(in crate::workflow) to_cancel: Vec<i32>,
    pub(in crate::workflow) blocked: Option<Mismatch>,
    pub(in crate::workflow) may_run: MayRun,
    /// Whether what runs now is the code of a step, which is not run again with the workflow's.
    pub(in crate::workflow) in_step: bool,
    /// Whether any call that is given something else than in the history blocks, also one of another process.
    pub(in crate::workflow) strict: bool,
    /// Whether it was told that a call is given something else.
    has_told_difference: bool,
    /// Who waits for the steps.
    pub(in crate::workflow) waker: Option<Waker>,
    /// The waker that the code itself is polled with, while it is.
    code_waker: Option<Waker>,
    /// Other wakers that calls were polled with: those of a combinator that polls nothing else than
    /// what was woken.
    kept_wakers: Vec<Waker>,
    pub(in crate::workflow) handle: Option<tokio::runtime::Handle>,
    pub(in crate::workflow) step_timeout: Duration,
}

/// Whether steps may run: all that led to them is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::workflow) enum MayRun {
    No,
    /// Those that the code waits for.
    Steps,
    /// The one that the code waits for, and for nothing else.
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
        Runtime {
            last_call: first_of.keys().copied().max().unwrap_or(0),
            was_blocked_by: blocked_at_the_end(&history),
            identity,
            history: History::stored(history),
            first_of,
            calls: Vec::new(),
            waits: Vec::new(),
            compared_calls: 0,
            compared_units: 0,
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
        }
    }

    pub(in crate::workflow) fn call(&self, call: i32) -> &Call {
        &self.calls[index_of(call)]
    }

    /// Whether the code has made this call.
    pub(in crate::workflow) fn has_made(&self, call: Option<i32>) -> bool {
        call.is_some_and(|call| index_of(call) < self.calls.len())
    }

    pub(in crate::workflow) fn call_mut(&mut self, call: i32) -> &mut Call {
        &mut self.calls[index_of(call)]
    }

    /// Whether something has happened that is not written yet, and that steps may follow from. That a run has begun is no such
    /// thing, unless the code knows when.
    pub(in crate::workflow) fn is_dirty(&self) -> bool {
        let (written, len) = (self.history.written(), self.history.len());
        let only_begun = written == 0 && len == 1 && !self.was_asked_for_now;
        written < len && !only_begun || !self.unmarked.is_empty()
    }

    /// Whether a call made here is answered with the cancel.
    pub(in crate::workflow) fn is_cancelled_here(&self) -> bool {
        self.cancelled.is_some() && !self.uncancellable
    }

    pub(in crate::workflow) fn cancel_reason(&self) -> Option<&str> {
        self.cancelled.as_deref()
    }

    /// Whether what the code waits for has an answer.
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

    /// What a leaf that has ended came to. What is not a child's is given away: nobody can ask for it again. A failure that is
    /// handed out here may be survived.
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

    /// The moment of what follows from what has happened; none when that is written together with it.
    pub(in crate::workflow) fn moment(&self) -> Option<Timestamp> {
        (!self.history.is_ahead()).then_some(self.now)
    }

    /// The time, for the code to go by.
    pub(in crate::workflow) fn tell_now(&mut self) -> Timestamp {
        if !self.in_step {
            self.was_asked_for_now = true;
            self.needs_replay |= self.history.is_ahead();
        }
        self.now
    }

    pub(in crate::workflow) fn was_asked_for_now(&self) -> bool {
        self.was_asked_for_now
    }

    /// The next number of a sequence that is the same whenever this run is run.
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

    /// Which form of a change this run has. A history from before the change has its oldest form.
    pub(in crate::workflow) fn version(&mut self, change: &str, min: i32, max: i32) -> i32 {
        if let Err(invalid) = limits::check_name("change", change) {
            let after = self.last_call();
            let found = format!("after {after}, a change whose name cannot be: {invalid}");
            self.block("only changes that can be recorded".into(), found);
            return max;
        }
        let known = self.versions.get(change).copied();
        let version = known.unwrap_or_else(|| {
            // Whoever has made a later call came past here without asking.
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

    /// How many events the code knows of: the same whenever this run is run, however long the history is by then.
    pub(in crate::workflow) fn known_events(&self) -> usize {
        self.history.known()
    }

    pub(in crate::workflow) fn history_is_long(&self) -> bool {
        self.known_events() >= HISTORY_LONG
    }

    /// The children that the history knows, in the order of their calls.
    pub(in crate::workflow) fn children(&self) -> impl Iterator<Item = (i32, &Call)> {
        let calls = self.calls.iter().enumerate();
        calls
            .map(|(index, call)| (index as i32 + 1, call))
            .filter(|(_, call)| call.kind == CallKind::Child && call.is_recorded)
    }

    pub(in crate::workflow) fn block(&mut self, expected: String, found: String) {
        self.blocked.get_or_insert(Mismatch { expected, found });
    }

    /// Blocks code that cannot read what a call came to. Answers whether it does: not for what others have sent.
    pub(in crate::workflow) fn block_unread(&mut self, call: i32, error: &FlowError) -> bool {
        let it = self.call(call);
        let Some(end) = it.end.as_ref().filter(|_| it.kind != CallKind::Signal) else {
            return false;
        };
        let expected = describe(end.event as usize, end.kind, &it.name, Some(call));
        let found = format!("a type for it that does not fit what is there: {error}");
        self.block(expected, found);
        true
    }

    /// An event as people are told of it.
    pub(in crate::workflow) fn describe_event(&self, index: usize) -> String {
        match self.history.get(index) {
            Some(event) => describe(index, event.kind, &event.name, event.call),
            None => format!("event {}", index + 1),
        }
    }

    /// The last call that the code has made, as people are told of it.
    pub(in crate::workflow) fn last_call(&self) -> String {
        match self.calls.last() {
            Some(call) => describe_call(self.calls.len() as i32, call.kind, &call.name),
            None => "the start".into(),
        }
    }

    /// What becomes of a child when this workflow ends.
    pub(in crate::workflow) fn policy_of(&self, call: i32) -> ClosePolicy {
        let row = self.call(call).row();
        row.map_or(ClosePolicy::Abandon, |row| row.on_parent_close)
    }
}

fn index_of(call: i32) -> usize {
    usize::try_from(call - 1).unwrap_or(usize::MAX)
}

/// What a history ends with that its code was blocked by.
pub(in crate::workflow) fn blocked_at_the_end(history: &[NewEvent]) -> Option<Json> {
    let last = history.last()?;
    (last.kind == EventKind::ReplayBlocked).then(|| last.data.clone())
}

fn describe(index: usize, kind: EventKind, name: &str, call: Option<i32>) -> String {
    let name = match name {
        "" => String::new(),
        name => format!(" {name:?}"),
    };
    match call {
        Some(call) => format!("event {}: {kind}{name} of call {call}", index + 1),
        None => format!("event {}: {kind}{name}", index + 1),
    }
}

fn describe_call(call: i32, kind: CallKind, name: &str) -> String {
    match name {
        "" => format!("call {call}: {}", kind.as_str()),
        name => format!("call {call}: {} {name:?}", kind.as_str()),
    }
}
