//! Where a run stands: the history so far, the calls the code has made, and what has come of them.
//!
//! It is shared by the code, through [`Flow`](super::Flow), and by the [`Session`](super::session::Session) that runs
//! the code. The code registers what it waits for; the session applies events one at a time, and runs the code on after each that
//! answers something.

use super::events::{
    CallKind, Completed, Consumed, Ended, Failed, Marked, Mismatch, Place, Reason, Resolved,
    Scheduled, Started, Told, Waiting, data, digest, event, failure_kind, fnv,
};
use super::{FlowError, FlowErrorKind};
use crate::machine::RetryPolicy;
use outlast_core::limits::HISTORY_LONG;
use outlast_core::{
    ClosePolicy, EventKind, InstanceId, Invalid, Json, NewEvent, NewInstance, SignalId, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
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
    pub(super) fn seed(&self) -> i64 {
        let trace = self.trace.as_deref().unwrap_or_default();
        let whole = format!("{trace}:{}:{}:{}", self.workflow, self.id, self.run);
        fnv(whole.as_bytes()) as i64
    }
}

pub(crate) struct Runtime {
    pub(crate) identity: Identity,
    /// Everything that has happened in this run, also what is not written yet.
    pub(super) history: Vec<NewEvent>,
    /// How many of them the code knows of.
    pub(super) applied: usize,
    /// How many of them are written.
    pub(super) committed: usize,
    pub(super) bytes: usize,
    /// The first event of each call.
    first_of: HashMap<i32, usize>,
    /// The last call that the stored history knows.
    last_call: i32,
    pub(super) calls: Vec<Call>,
    pub(super) units: Vec<Unit>,
    /// The units that the code waited for when it was last run, and has not dropped since.
    pub(super) polled: Vec<usize>,
    /// Why the run is to end, once it was told.
    cancelled: Option<String>,
    /// Whether the code that runs now is shielded from that.
    pub(super) shielded: bool,
    versions: HashMap<String, i32>,
    /// Changes that were answered from a history that does not know them.
    unmarked: Vec<(String, i32)>,
    now: Timestamp,
    was_asked_for_now: bool,
    /// Whether the code was told a time while the moment of something that it knows of was not known.
    pub(super) is_astray: bool,
    seed: i64,
    draws: u64,
    /// Steps that have run, and are to be written.
    pub(super) finished: Vec<(i32, Result<Json, Failed>)>,
    /// Signals whose consumption is to be written.
    pub(super) consumed: Vec<SignalId>,
    /// Failures that the code was handed and may survive.
    handed: Vec<i32>,
    handled: HashSet<i32>,
    /// Children that are to be asked to end, as a group or a selection said.
    pub(super) to_cancel: Vec<i32>,
    pub(super) blocked: Option<Mismatch>,
    /// Whether steps may run: all that led to them is written.
    pub(super) may_run: bool,
    /// Whether what runs now is the code of a step, which is not run again with the workflow's.
    pub(super) in_step: bool,
    /// Whether what calls are given is held against the history.
    pub(super) strict: bool,
    /// Who waits for the steps.
    pub(super) waker: Option<Waker>,
    pub(super) handle: Option<tokio::runtime::Handle>,
    pub(super) step_timeout: Duration,
}

/// A call that the code has made.
pub(super) struct Call {
    pub(super) kind: CallKind,
    pub(super) name: String,
    /// The units it is part of: more than one when a child that was started is waited for later.
    pub(super) units: Vec<usize>,
    pub(super) ask: Ask,
    pub(super) place: Option<Place>,
    /// Whether the history has it.
    pub(super) is_recorded: bool,
    pub(super) round: i32,
    pub(super) position: i32,
    pub(super) child: Option<InstanceId>,
    pub(super) child_run: i32,
    pub(super) machine: String,
    /// When a timer's time comes, once it is known.
    pub(super) due: Option<Timestamp>,
    pub(super) end: Option<End>,
}

/// How a call ended.
pub(super) struct End {
    /// The event that says so.
    pub(super) event: usize,
    pub(super) answer: Answered,
}

pub(super) enum Answered {
    /// With this.
    Well(Json),
    Step(Failed),
    Child(FlowErrorKind, Ended),
}

impl Answered {
    fn is_bad(&self) -> bool {
        !matches!(self, Answered::Well(_))
    }
}

/// What a call asks for.
pub(super) enum Ask {
    /// To run something here.
    Work,
    Child {
        row: Box<NewInstance>,
        policy: Option<RetryPolicy>,
    },
    Timer(Duration),
    Signal,
    /// A group: what it is for are its members.
    Nothing,
}

/// Something the code waits for as one.
pub(super) struct Unit {
    pub(super) kind: UnitKind,
    /// The call of a group or a selection.
    pub(super) call: Option<i32>,
    /// The leaves of each member; a group is one member.
    pub(super) members: Vec<Vec<i32>>,
    pub(super) window: Option<u32>,
    pub(super) cancel_rest: bool,
    /// Leaves that have not ended.
    pub(super) open: usize,
    /// The leaf whose bad end came first.
    pub(super) first_bad: Option<i32>,
    pub(super) resolved: Option<Resolved>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnitKind {
    Single,
    Group,
    Selection,
    /// A child that is started and not waited for.
    Launch,
}

/// What a unit consists of.
pub(super) enum Leaf {
    /// A call on its way to be registered.
    New(NewCall),
    /// A child that was started before.
    Again(i32),
}

/// A call on its way to be registered.
pub(super) struct NewCall {
    pub(super) kind: CallKind,
    pub(super) name: String,
    pub(super) ask: Ask,
    /// The groups it is in, by the order in which they were met: 0 is the outermost.
    pub(super) groups: Vec<usize>,
}

impl Runtime {
    pub(super) fn new(identity: Identity, history: Vec<NewEvent>) -> Runtime {
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
            bytes: history.iter().map(size_of_event).sum(),
            committed: history.len(),
            identity,
            history,
            applied: 0,
            first_of,
            calls: Vec::new(),
            units: Vec::new(),
            polled: Vec::new(),
            cancelled: None,
            shielded: false,
            versions,
            unmarked: Vec::new(),
            now: Timestamp(0),
            was_asked_for_now: false,
            is_astray: false,
            seed: 0,
            draws: 0,
            finished: Vec::new(),
            consumed: Vec::new(),
            handed: Vec::new(),
            handled,
            to_cancel: Vec::new(),
            blocked: None,
            may_run: false,
            in_step: false,
            strict: false,
            waker: None,
            handle: None,
            step_timeout: Duration::MAX,
        }
    }

    pub(super) fn call(&self, call: i32) -> &Call {
        &self.calls[index_of(call)]
    }

    pub(super) fn call_mut(&mut self, call: i32) -> &mut Call {
        &mut self.calls[index_of(call)]
    }

    /// Whether something has happened that is not written yet, and that steps may follow from. That a run has begun is no such
    /// thing, unless the code knows when.
    pub(super) fn is_dirty(&self) -> bool {
        let only_begun = self.committed == 0 && self.history.len() == 1 && !self.was_asked_for_now;
        self.committed < self.history.len() && !only_begun || !self.unmarked.is_empty()
    }

    /// Whether the code knows of something that is not written yet and whose moment nobody knows before it is.
    pub(super) fn is_ahead(&self) -> bool {
        let mut known = self.history.iter().take(self.applied).skip(self.committed);
        known.any(|event| event.at.is_none())
    }

    // What the code asks.

    /// Registers what the code waits for from now on. `None` when the run is to end and this is not shielded from that.
    pub(super) fn register(&mut self, kind: UnitKind, request: Request) -> Option<usize> {
        let unit = self.units.len();
        if self.is_cancelled_here() {
            return None;
        }
        let groups: Vec<i32> = match kind {
            UnitKind::Single | UnitKind::Launch => Vec::new(),
            UnitKind::Group => self.register_groups(unit, CallKind::Group, request.groups),
            UnitKind::Selection => self.register_groups(unit, CallKind::Selection, request.groups),
        };
        let size = request.members.iter().map(Vec::len).sum();
        let mut index = 0;
        let mut members = Vec::new();
        for leaves in request.members {
            let mut calls = Vec::new();
            for leaf in leaves {
                calls.push(match leaf {
                    Leaf::New(call) => {
                        let path = call.groups.iter().map(|&group| groups[group]).collect();
                        let place = (!groups.is_empty()).then_some(Place {
                            path,
                            size,
                            index,
                            select: kind == UnitKind::Selection,
                        });
                        self.register_call(unit, call, place)
                    }
                    Leaf::Again(call) => {
                        self.call_mut(call).units.push(unit);
                        call
                    }
                });
                index += 1;
            }
            members.push(calls);
        }
        let leaves = members.iter().flatten();
        let ended = leaves.filter_map(|call| {
            let end = self.call(*call).end.as_ref()?;
            Some((end.event, *call, end.answer.is_bad()))
        });
        let ended: Vec<_> = ended.collect();
        let bad = ended.iter().filter(|(.., is_bad)| *is_bad).min();
        self.units.push(Unit {
            kind,
            call: groups.first().copied(),
            first_bad: bad.map(|(_, call, _)| *call),
            open: size - ended.len(),
            members,
            window: request.window,
            cancel_rest: request.cancel_rest,
            resolved: None,
        });
        Some(unit)
    }

    fn register_groups(&mut self, unit: usize, outermost: CallKind, groups: usize) -> Vec<i32> {
        let kinds = std::iter::once(outermost).chain(std::iter::repeat(CallKind::Group));
        let mut calls = Vec::new();
        for kind in kinds.take(groups.max(1)) {
            let group = NewCall {
                kind,
                name: String::new(),
                ask: Ask::Nothing,
                groups: Vec::new(),
            };
            calls.push(self.register_call(unit, group, None));
        }
        calls
    }

    fn register_call(&mut self, unit: usize, leaf: NewCall, place: Option<Place>) -> i32 {
        let call = i32::try_from(self.calls.len() + 1).unwrap_or(i32::MAX);
        self.hold_against_history(call, &leaf);
        let machine = match &leaf.ask {
            Ask::Child { row, .. } => row.machine.clone(),
            Ask::Work | Ask::Timer(_) | Ask::Signal | Ask::Nothing => String::new(),
        };
        self.calls.push(Call {
            kind: leaf.kind,
            name: leaf.name,
            units: vec![unit],
            ask: leaf.ask,
            place,
            is_recorded: false,
            round: 0,
            position: 0,
            child: None,
            child_run: 0,
            machine,
            due: None,
            end: None,
        });
        call
    }

    /// Whether the code asks for what it asked for when the history was made.
    fn hold_against_history(&mut self, call: i32, leaf: &NewCall) {
        // A group has no event before it is resolved, and what the code went on without may have none at all.
        let Some(&first) = self.first_of.get(&call) else {
            return;
        };
        let found = describe_call(call, leaf.kind, &leaf.name);
        let event = &self.history[first];
        let fits = CallKind::of(event.kind) == Some(leaf.kind)
            && (event.name == leaf.name || leaf.kind == CallKind::Group);
        if !fits {
            let expected = self.describe_event(first);
            self.block(expected, found);
        } else if self.strict {
            self.hold_input_against_history(first, call, leaf);
        }
    }

    /// In tests what a call is given is compared too: a difference means that the code goes by something that is not in the
    /// history.
    fn hold_input_against_history(&mut self, first: usize, call: i32, leaf: &NewCall) {
        let event = &self.history[first];
        let differs = match &leaf.ask {
            Ask::Child { row, .. } => {
                let recorded: Result<Scheduled, _> = data(event);
                recorded.is_ok_and(|recorded| recorded.input != digest(&row.state))
            }
            Ask::Timer(after) => {
                let recorded: Result<Waiting, _> = data(event);
                recorded.is_ok_and(|recorded| {
                    recorded
                        .after_us
                        .is_some_and(|us| us != outlast_core::micros(*after))
                })
            }
            Ask::Work | Ask::Signal | Ask::Nothing => false,
        };
        if differs {
            let expected = format!("{} as it was given then", self.describe_event(first));
            let found = format!(
                "{} given something else; does the code before it read a clock, chance or the world? use flow.now(), \
                 flow.random(), flow.uuid() or flow.step",
                describe_call(call, leaf.kind, &leaf.name)
            );
            self.block(expected, found);
        }
    }

    /// Whether a call made here is answered with the cancel.
    pub(super) fn is_cancelled_here(&self) -> bool {
        self.cancelled.is_some() && !self.shielded
    }

    pub(super) fn cancel_reason(&self) -> Option<&str> {
        self.cancelled.as_deref()
    }

    /// Whether what the code waits for has an answer.
    pub(super) fn is_ready(&self, unit: usize) -> bool {
        let it = &self.units[unit];
        match it.kind {
            UnitKind::Single => it.open == 0,
            UnitKind::Group | UnitKind::Selection => it.resolved.is_some(),
            UnitKind::Launch => it.members[0].iter().all(|call| {
                let call = self.call(*call);
                call.child.is_some() || call.end.is_some()
            }),
        }
    }

    /// What a leaf that has ended came to. A failure that is handed out here may be survived.
    pub(super) fn answer(&mut self, call: i32) -> Result<Json, FlowError> {
        let it = self.call(call);
        let name = it.name.clone();
        let error = match it.end.as_ref().map(|end| &end.answer) {
            Some(Answered::Well(result)) => return Ok(result.clone()),
            Some(Answered::Step(failed)) => FlowError::of_step(call, &name, failed.clone()),
            Some(Answered::Child(kind, ended)) => FlowError::of_child(*kind, call, &name, ended),
            None => FlowError::new(format!("call {call} has not ended")),
        };
        if !self.handled.contains(&call) {
            self.handed.push(call);
        }
        Err(error)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// The moment of what follows from what has happened; none when that is written together with it.
    pub(super) fn moment(&self) -> Option<Timestamp> {
        (!self.is_ahead()).then_some(self.now)
    }

    /// The time, for the code to go by.
    pub(super) fn tell_now(&mut self) -> Timestamp {
        if !self.in_step {
            self.was_asked_for_now = true;
            self.is_astray |= self.is_ahead();
        }
        self.now
    }

    pub(super) fn was_asked_for_now(&self) -> bool {
        self.was_asked_for_now
    }

    /// The next number of a sequence that is the same whenever this run is run.
    pub(super) fn draw(&mut self) -> u64 {
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
    pub(super) fn version(&mut self, change: &str, min: i32, max: i32) -> i32 {
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
    pub(super) fn known_events(&self) -> usize {
        self.applied
    }

    pub(super) fn history_is_long(&self) -> bool {
        self.known_events() >= HISTORY_LONG
    }

    /// The children that the history knows, in the order of their calls.
    pub(super) fn children(&self) -> impl Iterator<Item = (i32, &Call)> {
        let calls = self.calls.iter().enumerate();
        calls
            .map(|(index, call)| (index as i32 + 1, call))
            .filter(|(_, call)| call.kind == CallKind::Child && call.is_recorded)
    }

    // What the session tells.

    /// Adds an event that the code may know of at once.
    pub(super) fn push(&mut self, event: NewEvent) {
        self.bytes += size_of_event(&event);
        self.history.push(event);
    }

    /// Tells the code of the next event. Answers whether that answers something it waits for.
    pub(super) fn apply_next(&mut self) -> bool {
        let index = self.applied;
        self.applied += 1;
        let event = self.history[index].clone();
        if let Some(at) = event.at {
            self.now = self.now.max(at);
        }
        match self.apply(index, &event) {
            Ok(answers) => answers,
            Err(invalid) => {
                let expected = self.describe_event(index);
                self.block(expected, format!("one that cannot be read: {invalid}"));
                false
            }
        }
    }

    fn apply(&mut self, index: usize, event: &NewEvent) -> Result<bool, Invalid> {
        if event.kind == EventKind::RunStarted {
            self.seed = data::<Started>(event)?.seed;
            return Ok(false);
        }
        if event.kind == EventKind::CancelRequested {
            self.cancelled = Some(data::<Reason>(event)?.reason);
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
        match event.kind {
            EventKind::ActivityScheduled | EventKind::ChildScheduled => {
                let scheduled: Scheduled = data(event)?;
                let it = self.call_mut(call);
                it.is_recorded = true;
                it.round = scheduled.round;
                it.position = scheduled.position;
                Ok(false)
            }
            EventKind::StepScheduled | EventKind::SignalAwaited | EventKind::TimerScheduled => {
                let waiting: Waiting = data(event)?;
                let due = waiting.after_us.zip(event.at);
                let it = self.call_mut(call);
                it.is_recorded = true;
                it.due = due.map(|(us, at)| Timestamp(at.0.saturating_add(us)));
                Ok(false)
            }
            EventKind::ChildStarted => {
                let started: Ended = data(event)?;
                let it = self.call_mut(call);
                it.child = started.child;
                it.child_run = started.run;
                let first = it.units[0];
                Ok(self.units[first].kind == UnitKind::Launch)
            }
            EventKind::StepCompleted => {
                let Completed { result } = data(event)?;
                Ok(self.end(index, call, Answered::Well(result)))
            }
            EventKind::StepFailed => {
                let failed: Failed = data(event)?;
                Ok(self.end(index, call, Answered::Step(failed)))
            }
            EventKind::ChildTold if self.call(call).kind == CallKind::Tell => {
                let told: Told = data(event)?;
                let answer = Json::of(&told.answer)?;
                Ok(self.end(index, call, Answered::Well(answer)))
            }
            EventKind::ChildTold => {
                self.to_cancel.retain(|waiting| *waiting != call);
                Ok(false)
            }
            EventKind::ActivityCompleted | EventKind::ChildCompleted => {
                let ended: Ended = data(event)?;
                self.note_child(call, &ended);
                let result = ended.result.unwrap_or_else(Json::null);
                Ok(self.end(index, call, Answered::Well(result)))
            }
            EventKind::ActivityFailed
            | EventKind::ActivityCancelled
            | EventKind::ChildFailed
            | EventKind::ChildCancelled
            | EventKind::ChildTerminated => {
                let ended: Ended = data(event)?;
                self.note_child(call, &ended);
                let kind = match ended.child {
                    Some(_) => failure_kind(event.kind),
                    None => FlowErrorKind::ChildGone,
                };
                Ok(self.end(index, call, Answered::Child(kind, ended)))
            }
            EventKind::TimerFired => Ok(self.end(index, call, Answered::Well(Json::null()))),
            EventKind::SignalConsumed => {
                let Consumed { payload, .. } = data(event)?;
                Ok(self.end(index, call, Answered::Well(payload)))
            }
            EventKind::GroupResolved | EventKind::SelectionResolved => {
                let resolved: Resolved = data(event)?;
                Ok(self.resolve(call, resolved))
            }
            // Nobody waits for it any more; it may never come.
            EventKind::TimerCancelled => Ok(false),
            EventKind::RunStarted
            | EventKind::CancelRequested
            | EventKind::VersionMarked
            | EventKind::FailureHandled
            | EventKind::ReplayBlocked
            | EventKind::ContinuedAsNew
            | EventKind::RunCompleted
            | EventKind::RunFailed
            | EventKind::RunCancelled
            | EventKind::Transitioned => Ok(false),
        }
    }

    fn note_child(&mut self, call: i32, ended: &Ended) {
        let it = self.call_mut(call);
        it.child = ended.child.or(it.child);
        it.child_run = ended.run;
    }

    /// Notes how a call ended. Answers whether somebody waits for it alone.
    fn end(&mut self, event: usize, call: i32, answer: Answered) -> bool {
        let is_bad = answer.is_bad();
        let it = self.call_mut(call);
        it.is_recorded = true;
        if it.end.is_some() {
            return false;
        }
        it.end = Some(End { event, answer });
        let mut answers = false;
        for index in self.calls[index_of(call)].units.clone() {
            let unit = &mut self.units[index];
            unit.open -= 1;
            if is_bad && unit.first_bad.is_none() {
                unit.first_bad = Some(call);
            }
            answers |= matches!(unit.kind, UnitKind::Single | UnitKind::Launch);
        }
        answers
    }

    fn resolve(&mut self, group: i32, resolved: Resolved) -> bool {
        let unit = self.call(group).units[0];
        self.call_mut(group).is_recorded = true;
        if self.units[unit].cancel_rest {
            let leaves = self.units[unit].members.iter().flatten().copied();
            let open = leaves.filter(|leaf| {
                let it = self.call(*leaf);
                it.kind.is_child() && it.end.is_none() && it.is_recorded
            });
            let open: Vec<i32> = open.collect();
            self.to_cancel.extend(open);
        }
        self.units[unit].resolved = Some(resolved);
        true
    }

    /// Whether a unit that the code waits for is decided by what has ended: the event that says so.
    pub(super) fn decide(&self, unit: usize) -> Option<NewEvent> {
        let it = &self.units[unit];
        let group = it.call.filter(|_| it.resolved.is_none())?;
        match it.kind {
            UnitKind::Single | UnitKind::Launch => None,
            UnitKind::Group => {
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
            UnitKind::Selection => {
                let decided = it.members.iter().enumerate();
                let decided = decided.filter_map(|(index, leaves)| {
                    self.decided_at(leaves)
                        .map(|(event, bad)| (event, index, bad))
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

    /// The event by which a member was decided, and its bad leaf.
    fn decided_at(&self, leaves: &[i32]) -> Option<(usize, Option<i32>)> {
        let ends = leaves
            .iter()
            .map(|leaf| (*leaf, self.call(*leaf).end.as_ref()));
        let bad = ends.clone().filter_map(|(leaf, end)| {
            let end = end.filter(|end| end.answer.is_bad())?;
            Some((end.event, Some(leaf)))
        });
        let all: Option<Vec<usize>> = ends.map(|(_, end)| end.map(|end| end.event)).collect();
        let well = all.map(|events| (events.into_iter().max().unwrap_or(0), None));
        bad.min().or(well)
    }

    /// What is to be written of what the code waits for and the history does not have yet: all but children, who are
    /// started.
    pub(super) fn record_waiting(&mut self, is_over: impl Fn(i32) -> bool) {
        let units = self.waiting_units().into_iter();
        let leaves = units.flat_map(|unit| self.units[unit].members.iter().flatten().copied());
        let leaves: BTreeSet<i32> = leaves.collect();
        for number in leaves {
            let call = self.call(number);
            if call.is_recorded || call.end.is_some() || is_over(number) {
                continue;
            }
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
                Ask::Work | Ask::Child { .. } | Ask::Nothing => continue,
            };
            let waiting = Waiting {
                after_us,
                group: call.place.clone(),
            };
            let event = event(kind, Some(number), &call.name, &waiting, None);
            self.push(event);
        }
    }

    /// Takes the children of a unit that are still to be started, and notes that they are, as the given round.
    pub(super) fn schedule(&mut self, unit: usize, round: i32) -> Vec<NewInstance> {
        let leaves: Vec<i32> = self.units[unit].members.iter().flatten().copied().collect();
        let mut rows = Vec::new();
        for call in leaves {
            let it = self.call(call);
            if it.is_recorded || it.end.is_some() {
                continue;
            }
            let Ask::Child { row, policy } = &it.ask else {
                continue;
            };
            let kind = match it.kind == CallKind::Activity {
                true => EventKind::ActivityScheduled,
                false => EventKind::ChildScheduled,
            };
            let scheduled = Scheduled {
                round,
                position: rows.len() as i32,
                machine: row.machine.clone(),
                version: row.version,
                on_parent_close: row.on_parent_close,
                input: digest(&row.state),
                policy: *policy,
                group: it.place.clone(),
            };
            let mut row = (**row).clone();
            if let Some(policy) = policy {
                (row.step, row.state) = fixed(*policy, &row.state);
            }
            row.trace = row.trace.or_else(|| self.identity.trace.clone());
            let event = event(kind, Some(call), &it.name, &scheduled, None);
            rows.push(row);
            self.push(event);
        }
        rows
    }

    /// How many children that the code waits for are still to be started.
    pub(super) fn calls_to_start(&self) -> usize {
        let waiting = self.waiting_units().into_iter();
        let leaves = waiting.flat_map(|unit| self.open_leaves(unit));
        leaves
            .filter(|(_, it)| it.kind.is_child() && !it.is_recorded)
            .count()
    }

    /// Whether children of this unit are still to be started.
    pub(super) fn is_to_start(&self, unit: usize) -> bool {
        self.units[unit].members.iter().flatten().any(|call| {
            let it = self.call(*call);
            it.kind.is_child() && !it.is_recorded && it.end.is_none()
        })
    }

    /// The leaves of a unit that have not ended.
    pub(super) fn open_leaves(&self, unit: usize) -> impl Iterator<Item = (i32, &Call)> {
        let leaves = self.units[unit].members.iter().flatten();
        leaves
            .map(|call| (*call, self.call(*call)))
            .filter(|(_, it)| it.end.is_none())
    }

    /// Where each call stands that the code waits for, in the order of the units and of their leaves.
    pub(super) fn places(&self) -> HashMap<i32, usize> {
        let mut places = HashMap::new();
        for unit in self.waiting_units() {
            for leaf in self.units[unit].members.iter().flatten() {
                let place = places.len();
                places.entry(*leaf).or_insert(place);
            }
        }
        places
    }

    /// The units that the code waits for and that have no answer yet.
    pub(super) fn waiting_units(&self) -> Vec<usize> {
        let open = self
            .polled
            .iter()
            .copied()
            .filter(|unit| !self.is_ready(*unit));
        let mut open: Vec<usize> = open.collect();
        open.sort_unstable();
        open.dedup();
        open
    }

    /// Failures that the code was handed and went on from, and forms of changes that are to be remembered: both are known
    /// once it has come to something that is written.
    pub(super) fn record_notes(&mut self, has_survived: bool) {
        for (change, version) in std::mem::take(&mut self.unmarked) {
            let marked = Marked { version };
            self.push(event(
                EventKind::VersionMarked,
                None,
                &change,
                &marked,
                None,
            ));
            self.applied += 1;
        }
        let handed = std::mem::take(&mut self.handed);
        if !has_survived {
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
                Some(Answered::Well(_)) | None => String::new(),
            };
            let note = Reason { reason };
            let name = it.name.clone();
            self.push(event(
                EventKind::FailureHandled,
                Some(call),
                &name,
                &note,
                None,
            ));
            self.applied += 1;
        }
    }

    /// Everything up to here is written, at this moment.
    pub(super) fn committed(&mut self, at: Timestamp) {
        for event in &mut self.history[self.committed..] {
            event.at.get_or_insert(at);
        }
        // Notes have no moment of their own when they are made, and time goes on with them.
        // Who is blocked, or begins anew, has not heard of all that is written.
        let known = self.history.iter().take(self.applied);
        self.now = known
            .skip(self.committed)
            .filter_map(|event| event.at)
            .fold(self.now, Timestamp::max);
        self.committed = self.history.len();
        self.consumed.clear();
    }

    /// What was to be written and was not: the code has not heard of it either.
    pub(super) fn take_back(&mut self) {
        let kept = self.applied.max(self.committed);
        let lost = self.history.drain(kept..);
        self.bytes -= lost.map(|event| size_of_event(&event)).sum::<usize>();
    }

    pub(super) fn block(&mut self, expected: String, found: String) {
        self.blocked.get_or_insert(Mismatch { expected, found });
    }

    /// Blocks code that cannot read what a call came to. Answers whether it does: not for what others have sent.
    pub(super) fn block_unread(&mut self, call: i32, error: &FlowError) -> bool {
        let it = self.call(call);
        let end = it.end.as_ref().filter(|_| it.kind != CallKind::Signal);
        let Some(event) = end.map(|end| end.event) else {
            return false;
        };
        let expected = self.describe_event(event);
        let found = format!("a type for it that does not fit what is there: {error}");
        self.block(expected, found);
        true
    }

    /// An event as people are told of it.
    pub(super) fn describe_event(&self, index: usize) -> String {
        let event = &self.history[index];
        describe(index, event)
    }

    /// The last call that the code has made, as people are told of it.
    pub(super) fn last_call(&self) -> String {
        match self.calls.last() {
            Some(call) => describe_call(self.calls.len() as i32, call.kind, &call.name),
            None => "the start".into(),
        }
    }

    /// The open children of the given calls, by round.
    pub(super) fn by_round(&self, calls: &[i32]) -> BTreeMap<i32, Vec<i32>> {
        let mut rounds: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for &call in calls {
            let round = self.call(call).round;
            rounds.entry(round).or_default().push(call);
        }
        rounds
    }

    /// What becomes of a child when this workflow ends.
    pub(super) fn policy_of(&self, call: i32) -> ClosePolicy {
        match &self.call(call).ask {
            Ask::Child { row, .. } => row.on_parent_close,
            Ask::Work | Ask::Timer(_) | Ask::Signal | Ask::Nothing => ClosePolicy::Abandon,
        }
    }
}

/// What the code asks for as one.
pub(super) struct Request {
    pub(super) members: Vec<Vec<Leaf>>,
    /// How many groups there are, the outermost included.
    pub(super) groups: usize,
    pub(super) window: Option<u32>,
    pub(super) cancel_rest: bool,
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

fn index_of(call: i32) -> usize {
    usize::try_from(call - 1).unwrap_or(usize::MAX)
}

fn size_of_event(event: &NewEvent) -> usize {
    event.name.len() + event.data.as_str().len()
}

fn describe(index: usize, event: &NewEvent) -> String {
    let name = match event.name.as_str() {
        "" => String::new(),
        name => format!(" {name:?}"),
    };
    match event.call {
        Some(call) => format!("event {}: {}{name} of call {call}", index + 1, event.kind),
        None => format!("event {}: {}{name}", index + 1, event.kind),
    }
}

fn describe_call(call: i32, kind: CallKind, name: &str) -> String {
    match name {
        "" => format!("call {call}: {}", kind.as_str()),
        name => format!("call {call}: {} {name:?}", kind.as_str()),
    }
}
