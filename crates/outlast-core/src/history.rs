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
    /// A group is complete, or one of it has failed.
    GroupResolved = "group_resolved",
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
    /// Ends of children.
    pub ends: Option<Ends>,
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

/// Ends of children that wake a workflow: one bad one, or so many.
///
/// An end that is counted is one of a child in these rounds. It wakes no later than the awaited ones say, and perhaps
/// earlier, when children of these rounds end that are not awaited: the workflow looks and waits again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The rounds of the awaited children, ascending; the one that this commit starts is among them when its
    /// children are awaited.
    pub rounds: Vec<i32>,
    /// The awaited children of earlier commits that had not ended when the workflow last looked, each once. Those that
    /// have ended meanwhile count at once: well, as one less to wait for; badly, or no longer stored, as a bad end. They
    /// are looked at as they were before the batch that parks: what ends in that same batch is counted after it.
    pub children: Vec<InstanceId>,
    /// How many ends wake it. At most as many as there are awaited children, those that this commit starts included.
    pub count: i32,
}

impl Ends {
    fn check(&self) -> Result<(), Invalid> {
        limits::check_batch("awaited children", self.children.len(), CHILDREN_MAX)?;
        limits::check_batch("awaited rounds", self.rounds.len(), CHILDREN_MAX)?;
        if self.count < 1 || self.rounds.is_empty() {
            return Err(Invalid::new(
                "awaited children",
                "are none, so that no end could ever wake it",
            ));
        }
        let mut named = HashSet::with_capacity(self.children.len());
        if !self.children.iter().all(|id| named.insert(id)) {
            return Err(Invalid::new(
                "awaited children",
                "are not told apart: one of them is named twice",
            ));
        }
        if self.rounds.iter().any(|round| *round < 1) || !self.rounds.is_sorted_by(|a, b| a < b) {
            return Err(Invalid::new(
                "awaited rounds",
                "are not counted from 1 in ascending order",
            ));
        }
        Ok(())
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
        let ends = |rounds: &[i32], count| Park {
            ends: Some(Ends {
                rounds: rounds.to_vec(),
                children: Vec::new(),
                count,
            }),
            ..Park::default()
        };
        assert!(ends(&[1, 3], 1).check().is_ok());
        for (rounds, count) in [
            (&[][..], 1),
            (&[1], 0),
            (&[0], 1),
            (&[3, 1], 1),
            (&[2, 2], 1),
        ] {
            assert!(ends(rounds, count).check().is_err(), "{rounds:?} {count}");
        }
        let twice = Ends {
            rounds: vec![1],
            children: vec![InstanceId(7), InstanceId(7)],
            count: 1,
        };
        let twice = Park {
            ends: Some(twice),
            ..Park::default()
        };
        assert!(twice.check().is_err());
        let late = Park {
            deadline: Some(Due::After(Duration::MAX)),
            ..Park::default()
        };
        assert!(late.check().is_err());
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
