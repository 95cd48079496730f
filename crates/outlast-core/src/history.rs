//! Histories. The history of a workflow holds the calls of its code and their results, in commit
//! order. A machine that records its history has one event for each outcome of a step.
//!
//! The commit that changes a row also writes its events; no verb edits them later. A workflow that
//! is claimed again replays its code from the start against its history. So the history must
//! contain every answer that the code was given. A machine never reads its history: it is for
//! people.

use crate::limits::{self, CHILDREN_MAX, EVENTS_MAX};
use crate::{InstanceId, Invalid, Json, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The prefix of the error of a workflow whose code does not fit its history. Such a workflow is
/// kept, and other builds try it again.
pub const BLOCKED: &str = "blocked: ";

/// The prefix of the error of an instance that commits again and again without progress
/// ([`COMMITS_WITHOUT_PROGRESS_MAX`](limits::COMMITS_WITHOUT_PROGRESS_MAX)). Such an instance is
/// kept, and tried again after a pause.
pub const NO_PROGRESS: &str = "blocked: goes in circles: ";

/// Defines the kinds of events with the word that SQL, JSON, the command line and the dashboard
/// use.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $word:literal,)*) => {
        /// The kind of an event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum EventKind {
            $($(#[$doc])* $kind,)*
        }

        impl EventKind {
            /// Every kind.
            pub const ALL: &'static [EventKind] = &[$(EventKind::$kind,)*];

            /// Returns the word used in SQL, JSON, the command line and the dashboard.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(EventKind::$kind => $word,)*
                }
            }
        }
    };
}

kinds! {
    /// A run began: the first event of each run.
    RunStarted = "run_started",
    /// A step in a group was scheduled to run in this worker.
    StepScheduled = "step_scheduled",
    /// A step returned its result.
    StepCompleted = "step_completed",
    /// A step failed.
    StepFailed = "step_failed",
    /// A job was started as a child.
    ActivityScheduled = "activity_scheduled",
    /// The job finished successfully.
    ActivityCompleted = "activity_completed",
    /// The job failed.
    ActivityFailed = "activity_failed",
    /// The job was cancelled.
    ActivityCancelled = "activity_cancelled",
    /// A workflow or a machine was started as a child.
    ChildScheduled = "child_scheduled",
    /// The child was seen running, in this run of it.
    ChildStarted = "child_started",
    /// The child finished successfully.
    ChildCompleted = "child_completed",
    /// The child failed.
    ChildFailed = "child_failed",
    /// The child was cancelled.
    ChildCancelled = "child_cancelled",
    /// The child was terminated.
    ChildTerminated = "child_terminated",
    /// A child was sent a signal or a cancel. Histories of older builds call it `child_told`.
    #[serde(alias = "child_told")]
    ChildMessaged = "child_messaged",
    /// The workflow waits for a group that contains earlier children, or signals and cancels to
    /// children. Any other group follows from the events of its calls.
    GroupAwaited = "group_awaited",
    /// A group is complete, or one of its members has failed.
    GroupResolved = "group_resolved",
    /// The workflow waits for a selection with such members.
    SelectionAwaited = "selection_awaited",
    /// A member of a selection finished first.
    SelectionResolved = "selection_resolved",
    /// A timer was started.
    TimerScheduled = "timer_scheduled",
    /// A timer fired.
    TimerFired = "timer_fired",
    /// A timer was cancelled because the workflow no longer waits for it.
    TimerCancelled = "timer_cancelled",
    /// The workflow waits for a signal.
    SignalAwaited = "signal_awaited",
    /// A signal was taken from the inbox.
    SignalConsumed = "signal_consumed",
    /// A handler of the workflow began to handle an update.
    UpdateAccepted = "update_accepted",
    /// The code has answered an update: with a value, a failure or a rejection.
    UpdateCompleted = "update_completed",
    /// The code asked which version of a change this run has.
    VersionMarked = "version_marked",
    /// The workflow received a cancel.
    CancelRequested = "cancel_requested",
    /// The code caught a failure and continued.
    FailureHandled = "failure_handled",
    /// The code did not fit the history.
    ReplayBlocked = "replay_blocked",
    /// The run ended and another one began.
    ContinuedAsNew = "continued_as_new",
    /// The run finished successfully.
    RunCompleted = "run_completed",
    /// The run failed.
    RunFailed = "run_failed",
    /// The run was cancelled.
    RunCancelled = "run_cancelled",
    /// A step of a machine produced an outcome. Histories of machines have only this kind, and
    /// perhaps [`TimedOut`](EventKind::TimedOut) as the last.
    Transitioned = "transitioned",
    /// The instance took too long and was ended by the store.
    TimedOut = "timed_out",
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for EventKind {
    type Err = Invalid;

    fn from_str(word: &str) -> Result<EventKind, Invalid> {
        // Histories of older builds have this word.
        if word == "child_told" {
            return Ok(EventKind::ChildMessaged);
        }
        let mut kinds = EventKind::ALL.iter().copied();
        kinds
            .find(|kind| kind.as_str() == word)
            .ok_or_else(|| Invalid::new("event", format!("{word:?} is no kind of one")))
    }
}

/// An event to append to the history of the current run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// The kind.
    pub kind: EventKind,
    /// The call of the workflow, counted from 1 in each run.
    pub call: Option<i32>,
    /// The name of the call: a step, job, workflow, signal or change; empty without one. For a
    /// transition, the step before it.
    pub name: String,
    /// Further data, by kind.
    pub data: Json,
    /// When it happened, if that was before the commit; otherwise the time of the commit.
    pub at: Option<Timestamp>,
}

impl NewEvent {
    /// Checks whether it can be stored.
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

    /// Checks whether one commit can write these events.
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
    /// Its position in the history of that run, counted from 1 without gaps.
    pub seq: i32,
    /// When it happened.
    pub at: Timestamp,
    /// The kind.
    pub kind: EventKind,
    /// The call it belongs to.
    pub call: Option<i32>,
    /// The name of the call; empty without one. For a transition, the step before it.
    pub name: String,
    /// Further data, by kind.
    pub data: Json,
}

impl Event {
    /// Returns the size of its data in bytes.
    pub fn bytes(&self) -> usize {
        self.data.as_str().len()
    }
}

/// A request for events of one run, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryRequest {
    /// The instance.
    pub id: InstanceId,
    /// The run.
    pub run: i32,
    /// Events after this position; 0 starts at the beginning.
    pub after: i32,
    /// The largest number of events.
    pub max: usize,
}

impl HistoryRequest {
    /// Checks whether a store can answer it.
    pub fn check(&self) -> Result<(), Invalid> {
        limits::check_batch("history", self.max, limits::HISTORY_PAGE_MAX)
    }
}

/// A run whose history is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSummary {
    /// The run, counted from 1.
    pub run: i32,
    /// How many events it has.
    pub events: i32,
    /// When its first event happened.
    pub started_at: Timestamp,
    /// When its last event happened.
    pub last_at: Timestamp,
    /// The kind of its last event.
    pub last: EventKind,
}

/// What a workflow does after its events are appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flowing {
    /// It continues: in this worker on the same claim, or through its queue.
    Proceed(crate::Proceed),
    /// It waits.
    Park(Park),
}

/// The conditions that wake a workflow: the first of them, or [all of them](Park::needs_all).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Park {
    /// A signal of one of these names.
    pub names: Vec<String>,
    /// A deadline.
    pub deadline: Option<Due>,
    /// Finished children.
    pub join_sets: Option<JoinSets>,
    /// Whether the workflow is woken only when everything is there.
    ///
    /// That is a signal of every name, the deadline, and the count of its one join set. A failed
    /// or cancelled child and a cancel still wake it at once.
    ///
    /// Conditions that are met are removed from the row. A name leaves `awaits` when its signal is
    /// in the inbox. The deadline is cleared when it has passed. After the last child has
    /// finished, the status is [`AwaitingSignal`](crate::Status::AwaitingSignal).
    pub needs_all: bool,
}

impl Park {
    /// Checks whether a workflow can wait for it.
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
        if self.needs_all {
            self.check_all()?;
        }
        match &self.join_sets {
            Some(ends) => ends.check(),
            None if self.names.is_empty() && self.deadline.is_none() => Err(Invalid::new(
                "park",
                "names no signal, no moment and no children, so nothing could ever wake it",
            )),
            None => Ok(()),
        }
    }

    /// Checks a park that needs all: it may count each condition only once.
    fn check_all(&self) -> Result<(), Invalid> {
        if self
            .join_sets
            .as_ref()
            .is_some_and(|ends| ends.sets.len() > 1)
        {
            return Err(Invalid::new(
                "park",
                "needs all of several sets; it can need all of one",
            ));
        }
        let mut named = HashSet::with_capacity(self.names.len());
        if !self.names.iter().all(|name| named.insert(name)) {
            return Err(Invalid::new(
                "park",
                "needs two signals of one name; it can need one of each",
            ));
        }
        Ok(())
    }
}

/// A moment, relative to the commit or absolute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// This long after the commit.
    After(Duration),
    /// At this moment; a past moment wakes at once.
    At(Timestamp),
}

/// The finished children that wake a workflow: one failed child, or the count of one join set.
///
/// A workflow may wait for several things at a time, each with different children: a group beside
/// a single child, the members of a selection. Each has a join set with a separate count. Then
/// many finished children of one join set do not wake a workflow that needs a few of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinSets {
    /// The join sets. A child may be in several of them.
    pub sets: Vec<JoinSet>,
}

/// Children that are awaited together.
///
/// A finished child counts when it is in these ranges. The ranges may contain children that are
/// not awaited, so the workflow may wake early. It then checks and parks again. It never wakes
/// late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinSet {
    /// The ranges of the awaited children, ascending and disjoint. They may include children that
    /// this commit starts.
    pub ranges: Vec<ChildRange>,
    /// The awaited children of earlier commits that were live at the workflow's last check, each
    /// once.
    ///
    /// A child that has finished meanwhile counts at once. A failed, cancelled or deleted child
    /// counts as a failure. The store reads them as they were before the batch that parks;
    /// children that finish in the same batch are counted after it.
    pub children: Vec<InstanceId>,
    /// How many finished children wake the workflow. At most the number of awaited children,
    /// including those that this commit starts.
    pub count: i32,
}

/// Consecutive children of one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChildRange {
    /// The round.
    pub round: i32,
    /// The position of the first child, counted from 0.
    pub first: i32,
    /// The position of the last child.
    pub last: i32,
}

impl ChildRange {
    /// Returns the range of all children of a round.
    pub fn whole(round: i32) -> ChildRange {
        ChildRange {
            round,
            first: 0,
            last: i32::MAX,
        }
    }

    /// Whether a child is in the range.
    pub fn has(&self, round: i32, position: i32) -> bool {
        self.round == round && (self.first..=self.last).contains(&position)
    }
}

impl JoinSets {
    /// Creates a set of one join set.
    pub fn one(part: JoinSet) -> JoinSets {
        JoinSets { sets: vec![part] }
    }

    /// Whether it awaits children of this round.
    pub fn awaits_round(&self, round: i32) -> bool {
        let mut ranges = self.sets.iter().flat_map(|part| &part.ranges);
        ranges.any(|span| span.round == round)
    }

    /// Returns every awaited child of earlier commits once, also when several join sets await it.
    pub fn children(&self) -> Vec<InstanceId> {
        let children = self.sets.iter().flat_map(|part| &part.children);
        let mut children: Vec<InstanceId> = children.copied().collect();
        children.sort_unstable();
        children.dedup();
        children
    }

    /// Returns the smallest count of all join sets.
    pub fn least(&self) -> i32 {
        let counts = self.sets.iter().map(|part| part.count);
        counts.min().unwrap_or_default()
    }

    /// Returns the ranges as stored: join set (counted from 1), round, first and last.
    pub fn stored_spans(&self) -> impl Iterator<Item = [i32; 4]> {
        (1..).zip(&self.sets).flat_map(|(part, awaited)| {
            let ranges = awaited.ranges.iter();
            ranges.map(move |span| [part, span.round, span.first, span.last])
        })
    }

    fn check(&self) -> Result<(), Invalid> {
        let sets = self.sets.len();
        limits::check_batch("awaited sets", sets, limits::JOIN_SETS_MAX)?;
        let ranges = self.sets.iter().map(|part| part.ranges.len()).sum();
        limits::check_batch("awaited ranges", ranges, CHILDREN_MAX)?;
        let children = self.sets.iter().map(|part| part.children.len()).sum();
        limits::check_batch("awaited children", children, CHILDREN_MAX)?;
        if self.sets.is_empty() {
            return Err(nobody_awaited());
        }
        self.sets.iter().try_for_each(JoinSet::check)
    }
}

impl JoinSet {
    fn check(&self) -> Result<(), Invalid> {
        if self.count < 1 || self.ranges.is_empty() {
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
        if !self.ranges.iter().all(is_span) {
            return Err(Invalid::new(
                "awaited ranges",
                "do not lead, in a round counted from 1, from a position counted from 0 to the same or a later one",
            ));
        }
        let are_apart = |a: &ChildRange, b: &ChildRange| (a.round, a.last) < (b.round, b.first);
        if !self.ranges.is_sorted_by(are_apart) {
            return Err(Invalid::new(
                "awaited ranges",
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

/// The progress of a join set of the current or last wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinProgress {
    /// The ranges of its children.
    pub ranges: Vec<ChildRange>,
    /// How many finished children are still missing.
    pub left: i32,
}

impl JoinProgress {
    /// Whether it counts a child.
    pub fn has(&self, round: i32, position: i32) -> bool {
        self.ranges.iter().any(|span| span.has(round, position))
    }

    /// Reads the join sets of a row from its columns.
    ///
    /// `spans` holds join set (counted from 1), round, first and last; `left` holds the remaining
    /// count of each join set.
    pub fn stored(ranges: &[[i32; 4]], left: &[i32]) -> Vec<JoinProgress> {
        let sets = (1..).zip(left);
        let sets = sets.map(|(part, &left)| JoinProgress {
            ranges: ranges
                .iter()
                .filter(|[of, ..]| *of == part)
                .map(|&[_, round, first, last]| ChildRange { round, first, last })
                .collect(),
            left,
        });
        sets.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_kind_parses_from_its_name_and_has_that_name_in_json() {
        for kind in EventKind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(*kind));
            let json = serde_json::to_string(kind).expect("it is encoded");
            assert_eq!(json, format!("{:?}", kind.as_str()));
        }
        assert!("RunStarted".parse::<EventKind>().is_err());
    }

    #[test]
    fn a_kind_is_read_by_its_former_name_too() {
        let messaged = Ok(EventKind::ChildMessaged);
        assert_eq!("child_told".parse(), messaged);
        assert_eq!(serde_json::from_str("\"child_told\"").ok(), messaged.ok());
    }

    #[test]
    fn a_park_that_nothing_could_end_is_refused() {
        assert!(Park::default().check().is_err());
        let set = |rounds: &[i32], count| JoinSet {
            ranges: rounds.iter().copied().map(ChildRange::whole).collect(),
            children: Vec::new(),
            count,
        };
        let sets = |sets: Vec<JoinSet>| Park {
            join_sets: Some(JoinSets { sets }),
            ..Park::default()
        };
        let ends = |rounds: &[i32], count| sets(vec![set(rounds, count)]);
        assert!(ends(&[1, 3], 1).check().is_ok());
        assert!(sets(vec![set(&[1], 1), set(&[1], 2)]).check().is_ok());
        assert!(sets(Vec::new()).check().is_err());
        assert!(sets(vec![set(&[1], 1), set(&[], 1)]).check().is_err());
        let many = limits::JOIN_SETS_MAX;
        assert!(sets(vec![set(&[1], 1); many]).check().is_ok());
        assert!(sets(vec![set(&[1], 1); many + 1]).check().is_err());
        let ranges = |ranges: &[(i32, i32, i32)]| JoinSet {
            ranges: ranges
                .iter()
                .map(|&(round, first, last)| ChildRange { round, first, last })
                .collect(),
            ..set(&[1], 1)
        };
        let fit = ranges(&[(1, 0, 3), (1, 5, 5), (2, 0, 0)]);
        assert!(sets(vec![fit]).check().is_ok());
        for bad in [
            &[(1, -1, 0)][..],
            &[(1, 2, 1)],
            &[(1, 0, 3), (1, 3, 4)],
            &[(1, 4, 4), (1, 0, 3)],
        ] {
            assert!(sets(vec![ranges(bad)]).check().is_err(), "{bad:?}");
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
            ..set(&[1], 1)
        };
        assert!(sets(vec![twice]).check().is_err());
        let late = Park {
            deadline: Some(Due::After(Duration::MAX)),
            ..Park::default()
        };
        assert!(late.check().is_err());
        let all = |park: Park| Park {
            needs_all: true,
            ..park
        };
        let names = |names: &[&str]| Park {
            names: names.iter().copied().map(String::from).collect(),
            ..Park::default()
        };
        assert!(all(names(&["go", "halt"])).check().is_ok());
        assert!(names(&["go", "go"]).check().is_ok());
        assert!(all(names(&["go", "go"])).check().is_err());
        assert!(all(ends(&[1, 3], 2)).check().is_ok());
        let several = sets(vec![set(&[1], 1), set(&[2], 1)]);
        assert!(all(several).check().is_err());
        assert!(all(Park::default()).check().is_err());
    }

    #[test]
    fn join_sets_are_read_back_as_they_were_stored() {
        let set = |ranges: &[(i32, i32, i32)], count| JoinSet {
            ranges: ranges
                .iter()
                .map(|&(round, first, last)| ChildRange { round, first, last })
                .collect(),
            children: Vec::new(),
            count,
        };
        let ends = JoinSets {
            sets: vec![set(&[(1, 0, 9), (3, 4, 4)], 7), set(&[(1, 5, 12)], 1)],
        };
        let ranges: Vec<[i32; 4]> = ends.stored_spans().collect();
        assert_eq!(ranges, [[1, 1, 0, 9], [1, 3, 4, 4], [2, 1, 5, 12]]);
        let joining = JoinProgress::stored(&ranges, &[7, 1]);
        for (joining, awaited) in joining.iter().zip(&ends.sets) {
            assert_eq!(joining.ranges, awaited.ranges);
            assert_eq!(joining.left, awaited.count);
        }
        assert!(joining[0].has(1, 9) && !joining[0].has(1, 10) && !joining[0].has(2, 4));
        assert!(joining[1].has(1, 9) && !joining[1].has(3, 4));
        assert_eq!(ends.least(), 1);
        assert!(ends.awaits_round(3) && !ends.awaits_round(2));
    }

    #[test]
    fn an_event_of_call_zero_or_with_an_invalid_name_is_refused() {
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
