//! The history of a workflow: what its code asked for and what came of it, in the order in which that was committed. Or that of
//! a machine, where it is recorded: the outcomes of its steps.
//!
//! It is written in the same commit as the row it explains and never edited. A workflow that is claimed again is run
//! from the start against it, so every answer that its code was given is in it. A machine never reads its own: that is for people.

use crate::limits::{self, CHILDREN_MAX, EVENTS_MAX};
use crate::{InstanceId, Invalid, Json, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How the error of a workflow begins whose code does not fit its history. It is kept, and tried again by other builds.
pub const BLOCKED: &str = "blocked: ";

/// How the error of an instance begins that has committed again and again without progress
/// ([`COMMITS_WITHOUT_PROGRESS_MAX`](limits::COMMITS_WITHOUT_PROGRESS_MAX)). It is kept, and tried again after a pause.
pub const CIRCLES: &str = "blocked: goes in circles: ";

/// Kinds of events, with the word that SQL, JSON, the command line and the dashboard use.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $word:literal,)*) => {
        /// What an event says.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum EventKind {
            $($(#[$doc])* $kind,)*
        }

        impl EventKind {
            /// Every kind.
            pub const ALL: &'static [EventKind] = &[$(EventKind::$kind,)*];

            /// The word used in SQL, JSON, the command line and the dashboard.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(EventKind::$kind => $word,)*
                }
            }
        }
    };
}

kinds! {
    /// A run began: the first event of each.
    RunStarted = "run_started",
    /// A step in a group is to be run here.
    StepScheduled = "step_scheduled",
    /// A step has its result.
    StepCompleted = "step_completed",
    /// A step has failed.
    StepFailed = "step_failed",
    /// A job was started as a child.
    ActivityScheduled = "activity_scheduled",
    /// The job is done.
    ActivityCompleted = "activity_completed",
    /// The job has failed.
    ActivityFailed = "activity_failed",
    /// The job was cancelled.
    ActivityCancelled = "activity_cancelled",
    /// A workflow or a machine was started as a child.
    ChildScheduled = "child_scheduled",
    /// The child was seen alive, in this run of it.
    ChildStarted = "child_started",
    /// The child is done.
    ChildCompleted = "child_completed",
    /// The child has failed.
    ChildFailed = "child_failed",
    /// The child was cancelled.
    ChildCancelled = "child_cancelled",
    /// The child was terminated.
    ChildTerminated = "child_terminated",
    /// A child was sent a signal, or was asked to end.
    ChildTold = "child_told",
    /// A group is waited for that has children which were started before it, or signals and cancels to children. The events
    /// of its other calls tell what any other group consists of.
    GroupAwaited = "group_awaited",
    /// A group is complete, or one of it has failed.
    GroupResolved = "group_resolved",
    /// The same, of a selection.
    SelectionAwaited = "selection_awaited",
    /// One of several was the first.
    SelectionResolved = "selection_resolved",
    /// A timer runs.
    TimerScheduled = "timer_scheduled",
    /// A timer's time has come.
    TimerFired = "timer_fired",
    /// Nobody waits for a timer any more.
    TimerCancelled = "timer_cancelled",
    /// A signal is waited for.
    SignalAwaited = "signal_awaited",
    /// A signal was taken out of the inbox.
    SignalConsumed = "signal_consumed",
    /// The code asked which form of a change this run has.
    VersionMarked = "version_marked",
    /// The workflow was told that it is to end.
    CancelRequested = "cancel_requested",
    /// A failure was caught, and the workflow went on.
    FailureHandled = "failure_handled",
    /// The code did not fit the history.
    ReplayBlocked = "replay_blocked",
    /// The run ended, and another one begins.
    ContinuedAsNew = "continued_as_new",
    /// The run ended well.
    RunCompleted = "run_completed",
    /// The run ended badly.
    RunFailed = "run_failed",
    /// The run ended because it was wished.
    RunCancelled = "run_cancelled",
    /// A step of a machine came to its outcome. Machines that record their history have these and no others.
    Transitioned = "transitioned",
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for EventKind {
    type Err = Invalid;

    fn from_str(word: &str) -> Result<EventKind, Invalid> {
        let mut kinds = EventKind::ALL.iter().copied();
        kinds
            .find(|kind| kind.as_str() == word)
            .ok_or_else(|| Invalid::new("event", format!("{word:?} is no kind of one")))
    }
}

/// An event to append to the history of the instance's present run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// What it says.
    pub kind: EventKind,
    /// The call of the workflow it belongs to, counted from 1 in each run.
    pub call: Option<i32>,
    /// What that call names: a step, a job, a workflow, a signal, a change; empty when nothing. Of a transition the step that
    /// it leads from.
    pub name: String,
    /// What else there is to say.
    pub data: Json,
    /// When it happened, if that was before it is written; else the moment of the commit.
    pub at: Option<Timestamp>,
}

impl NewEvent {
    /// Whether it can be stored.
    pub fn check(&self) -> Result<(), Invalid> {
        if !self.name.is_empty() {
            limits::check_name("event", &self.name)?;
        }
        if self.call.is_some_and(|call| call < 1) {
            return Err(Invalid::new("event", "belongs to a call below 1"));
        }
        match self.at {
            Some(at) => limits::check_moment("event", at),
            None => Ok(()),
        }
    }

    /// Whether one commit can write these.
    pub fn check_all(events: &[NewEvent]) -> Result<(), Invalid> {
        limits::check_batch("events", events.len(), EVENTS_MAX)?;
        for (position, event) in events.iter().enumerate() {
            event
                .check()
                .map_err(|invalid| invalid.within(format_args!("event {position}")))?;
        }
        Ok(())
    }
}

/// An event of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The run it belongs to.
    pub run: i32,
    /// Its place in the history of that run, counted from 1 without gaps.
    pub seq: i32,
    /// When it happened.
    pub at: Timestamp,
    /// What it says.
    pub kind: EventKind,
    /// The call it belongs to.
    pub call: Option<i32>,
    /// What that call names; empty when nothing. Of a transition the step that it leads from.
    pub name: String,
    /// What else there is to say.
    pub data: Json,
}

impl Event {
    /// How many bytes its data has.
    pub fn bytes(&self) -> usize {
        self.data.as_str().len()
    }
}

/// Which events to read: of one run, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryRequest {
    /// Whose.
    pub id: InstanceId,
    /// Of which run.
    pub run: i32,
    /// Those after this one; 0 starts at the beginning.
    pub after: i32,
    /// How many at most.
    pub max: usize,
}

impl HistoryRequest {
    /// Whether it can be answered.
    pub fn check(&self) -> Result<(), Invalid> {
        limits::check_batch("history", self.max, limits::HISTORY_PAGE_MAX)
    }
}

/// A run whose history is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSummary {
    /// Which run, counted from 1.
    pub run: i32,
    /// How many events it has.
    pub events: i32,
    /// When its first event happened.
    pub started_at: Timestamp,
    /// When its last one did.
    pub last_at: Timestamp,
    /// What its last one says.
    pub last: EventKind,
}

/// What a workflow does after its history has grown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flowing {
    /// It goes on: here on the same claim, or through its queue.
    Proceed(crate::Proceed),
    /// It waits.
    Park(Park),
}

/// What wakes a workflow that waits: whatever comes first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Park {
    /// A signal of one of these names.
    pub names: Vec<String>,
    /// A moment.
    pub deadline: Option<Due>,
    /// JoinSets of children.
    pub ends: Option<JoinSets>,
}

impl Park {
    /// Whether it can be waited for.
    pub fn check(&self) -> Result<(), Invalid> {
        limits::check_batch("wait", self.names.len(), limits::AWAITED_NAMES_MAX)?;
        for name in &self.names {
            limits::check_name("awaited signal", name)?;
        }
        match self.deadline {
            Some(Due::After(delay)) => limits::check_delay("timer", delay)?,
            Some(Due::At(at)) => limits::check_moment("timer", at)?,
            None => {}
        }
        match &self.ends {
            Some(ends) => ends.check(),
            None if self.names.is_empty() && self.deadline.is_none() => Err(Invalid::new(
                "park",
                "names no signal, no moment and no children, so nothing could ever wake it",
            )),
            None => Ok(()),
        }
    }
}

/// A moment, told by how long it is until then or by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// So long after the commit.
    After(Duration),
    /// Then; what has passed wakes at once.
    At(Timestamp),
}

/// JoinSets of children that wake a workflow: one bad one, or as many of one part as that waits for.
///
/// What a workflow waits for at a time may be several things, each with children of its own: a group beside a lone child, the
/// members of a selection. Each is a part and has its own count, so that the many ends of one do not wake whoever waits for
/// the few of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinSets {
    /// The parts. A child may be awaited by several of them.
    pub parts: Vec<JoinSet>,
}

/// Children that are waited for together.
///
/// An end that is counted is one of a child in these spans. It wakes no later than the awaited ones say, and perhaps
/// earlier, when children of these spans end that are not awaited: the workflow looks and waits again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinSet {
    /// Where the awaited children stand, ascending and apart from each other; some are of the round that this commit starts
    /// when its children are awaited.
    pub spans: Vec<ChildRange>,
    /// The awaited children of earlier commits that had not ended when the workflow last looked, each once. Those that
    /// have ended meanwhile count at once: well, as one less to wait for; badly, or no longer stored, as a bad end. They
    /// are looked at as they were before the batch that parks: what ends in that same batch is counted after it.
    pub children: Vec<InstanceId>,
    /// How many ends wake it. At most as many as there are awaited children, those that this commit starts included.
    pub count: i32,
}

/// Children of one round that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChildRange {
    /// The round.
    pub round: i32,
    /// The position of the first, counted from 0.
    pub first: i32,
    /// The position of the last.
    pub last: i32,
}

impl ChildRange {
    /// All children of a round.
    pub fn whole(round: i32) -> ChildRange {
        ChildRange {
            round,
            first: 0,
            last: i32::MAX,
        }
    }

    /// Whether a child is among them.
    pub fn has(&self, round: i32, position: i32) -> bool {
        self.round == round && (self.first..=self.last).contains(&position)
    }
}

impl JoinSets {
    /// One thing that is waited for, and nothing beside it.
    pub fn one(part: JoinSet) -> JoinSets {
        JoinSets { parts: vec![part] }
    }

    /// Whether children of this round are awaited.
    pub fn awaits_round(&self, round: i32) -> bool {
        let mut spans = self.parts.iter().flat_map(|part| &part.spans);
        spans.any(|span| span.round == round)
    }

    /// Every awaited child of earlier commits once, however many parts wait for it.
    pub fn children(&self) -> Vec<InstanceId> {
        let children = self.parts.iter().flat_map(|part| &part.children);
        let mut children: Vec<InstanceId> = children.copied().collect();
        children.sort_unstable();
        children.dedup();
        children
    }

    /// How many ends the part waits for that waits for the fewest.
    pub fn least(&self) -> i32 {
        let counts = self.parts.iter().map(|part| part.count);
        counts.min().unwrap_or_default()
    }

    /// The spans as they are stored: part (counted from 1), round, first and last.
    pub fn stored_spans(&self) -> impl Iterator<Item = [i32; 4]> {
        (1..).zip(&self.parts).flat_map(|(part, awaited)| {
            let spans = awaited.spans.iter();
            spans.map(move |span| [part, span.round, span.first, span.last])
        })
    }

    fn check(&self) -> Result<(), Invalid> {
        let parts = self.parts.len();
        limits::check_batch("awaited parts", parts, limits::AWAITED_PARTS_MAX)?;
        let spans = self.parts.iter().map(|part| part.spans.len()).sum();
        limits::check_batch("awaited spans", spans, CHILDREN_MAX)?;
        let children = self.parts.iter().map(|part| part.children.len()).sum();
        limits::check_batch("awaited children", children, CHILDREN_MAX)?;
        if self.parts.is_empty() {
            return Err(nobody_awaited());
        }
        self.parts.iter().try_for_each(JoinSet::check)
    }
}

impl JoinSet {
    fn check(&self) -> Result<(), Invalid> {
        if self.count < 1 || self.spans.is_empty() {
            return Err(nobody_awaited());
        }
        let mut named = HashSet::with_capacity(self.children.len());
        if !self.children.iter().all(|id| named.insert(id)) {
            return Err(Invalid::new(
                "awaited children",
                "are not told apart: one of them is named twice",
            ));
        }
        let is_span = |it: &ChildRange| it.round >= 1 && it.first >= 0 && it.last >= it.first;
        if !self.spans.iter().all(is_span) {
            return Err(Invalid::new(
                "awaited spans",
                "do not lead, in a round counted from 1, from a position counted from 0 to the same or a later one",
            ));
        }
        let are_apart = |a: &ChildRange, b: &ChildRange| (a.round, a.last) < (b.round, b.first);
        if !self.spans.is_sorted_by(are_apart) {
            return Err(Invalid::new(
                "awaited spans",
                "are not in ascending order and apart from each other",
            ));
        }
        Ok(())
    }
}

fn nobody_awaited() -> Invalid {
    Invalid::new(
        "awaited children",
        "are none, so that no end could ever wake it",
    )
}

/// How a part stands that a workflow waits for, or has last waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinProgress {
    /// Where its children stand.
    pub spans: Vec<ChildRange>,
    /// How many ends are still to come.
    pub left: i32,
}

impl JoinProgress {
    /// Whether the end of a child is counted.
    pub fn has(&self, round: i32, position: i32) -> bool {
        self.spans.iter().any(|span| span.has(round, position))
    }

    /// The parts of a row, from what is stored of them: spans as part (counted from 1), round, first and last, and what is
    /// left of each part.
    pub fn stored(spans: &[[i32; 4]], left: &[i32]) -> Vec<JoinProgress> {
        let parts = (1..).zip(left);
        let parts = parts.map(|(part, &left)| JoinProgress {
            spans: spans
                .iter()
                .filter(|[of, ..]| *of == part)
                .map(|&[_, round, first, last]| ChildRange { round, first, last })
                .collect(),
            left,
        });
        parts.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_reads_back_and_is_the_one_of_json() {
        for kind in EventKind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(*kind));
            let json = serde_json::to_string(kind).expect("a word");
            assert_eq!(json, format!("{:?}", kind.as_str()));
        }
        assert!("RunStarted".parse::<EventKind>().is_err());
    }

    #[test]
    fn a_park_that_nothing_could_end_is_refused() {
        assert!(Park::default().check().is_err());
        let part = |rounds: &[i32], count| JoinSet {
            spans: rounds.iter().copied().map(ChildRange::whole).collect(),
            children: Vec::new(),
            count,
        };
        let parts = |parts: Vec<JoinSet>| Park {
            ends: Some(JoinSets { parts }),
            ..Park::default()
        };
        let ends = |rounds: &[i32], count| parts(vec![part(rounds, count)]);
        assert!(ends(&[1, 3], 1).check().is_ok());
        assert!(parts(vec![part(&[1], 1), part(&[1], 2)]).check().is_ok());
        assert!(parts(Vec::new()).check().is_err());
        assert!(parts(vec![part(&[1], 1), part(&[], 1)]).check().is_err());
        let many = limits::AWAITED_PARTS_MAX;
        assert!(parts(vec![part(&[1], 1); many]).check().is_ok());
        assert!(parts(vec![part(&[1], 1); many + 1]).check().is_err());
        let spans = |spans: &[(i32, i32, i32)]| JoinSet {
            spans: spans
                .iter()
                .map(|&(round, first, last)| ChildRange { round, first, last })
                .collect(),
            ..part(&[1], 1)
        };
        let fit = spans(&[(1, 0, 3), (1, 5, 5), (2, 0, 0)]);
        assert!(parts(vec![fit]).check().is_ok());
        for bad in [
            &[(1, -1, 0)][..],
            &[(1, 2, 1)],
            &[(1, 0, 3), (1, 3, 4)],
            &[(1, 4, 4), (1, 0, 3)],
        ] {
            assert!(parts(vec![spans(bad)]).check().is_err(), "{bad:?}");
        }
        for (rounds, count) in [
            (&[][..], 1),
            (&[1], 0),
            (&[0], 1),
            (&[3, 1], 1),
            (&[2, 2], 1),
        ] {
            assert!(ends(rounds, count).check().is_err(), "{rounds:?} {count}");
        }
        let twice = JoinSet {
            children: vec![InstanceId(7), InstanceId(7)],
            ..part(&[1], 1)
        };
        assert!(parts(vec![twice]).check().is_err());
        let late = Park {
            deadline: Some(Due::After(Duration::MAX)),
            ..Park::default()
        };
        assert!(late.check().is_err());
    }

    #[test]
    fn parts_come_back_as_they_were_stored() {
        let part = |spans: &[(i32, i32, i32)], count| JoinSet {
            spans: spans
                .iter()
                .map(|&(round, first, last)| ChildRange { round, first, last })
                .collect(),
            children: Vec::new(),
            count,
        };
        let ends = JoinSets {
            parts: vec![part(&[(1, 0, 9), (3, 4, 4)], 7), part(&[(1, 5, 12)], 1)],
        };
        let spans: Vec<[i32; 4]> = ends.stored_spans().collect();
        assert_eq!(spans, [[1, 1, 0, 9], [1, 3, 4, 4], [2, 1, 5, 12]]);
        let joining = JoinProgress::stored(&spans, &[7, 1]);
        for (joining, awaited) in joining.iter().zip(&ends.parts) {
            assert_eq!(joining.spans, awaited.spans);
            assert_eq!(joining.left, awaited.count);
        }
        assert!(joining[0].has(1, 9) && !joining[0].has(1, 10) && !joining[0].has(2, 4));
        assert!(joining[1].has(1, 9) && !joining[1].has(3, 4));
        assert_eq!(ends.least(), 1);
        assert!(ends.awaits_round(3) && !ends.awaits_round(2));
    }

    #[test]
    fn an_event_belongs_to_a_call_that_can_be_and_has_a_name_that_can_be_stored() {
        let event = NewEvent {
            kind: EventKind::StepCompleted,
            call: Some(1),
            name: "reserve".into(),
            data: Json::null(),
            at: None,
        };
        assert!(event.check().is_ok());
        let nameless = NewEvent {
            name: String::new(),
            ..event.clone()
        };
        assert!(nameless.check().is_ok());
        let broken = NewEvent {
            name: "a\0b".into(),
            ..event.clone()
        };
        assert!(broken.check().is_err());
        let call = Some(0);
        assert!(NewEvent { call, ..event }.check().is_err());
    }
}
