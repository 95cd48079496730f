//! The history of a machine: one event for each outcome, written in the commit of that outcome.
//!
//! The executor records it. A machine never reads it.

use crate::metrics::outcome_word;
use outlast_core::limits::{TRANSITIONS_MAX, clean_error, transition_state_bytes};
use outlast_core::{Claim, EventKind, Json, NewEvent, Outcome, micros};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::time::Duration;

/// What the history of a machine records. See [`Machine::HISTORY`](super::Machine::HISTORY).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum History {
    /// Nothing: only the current state of an instance is stored.
    #[default]
    Off,
    /// Every outcome, with its step and the step after it.
    Transitions,
    /// Every outcome with the state it led to: for stepping through the past.
    States,
}

/// One outcome of a step, as its history records it.
///
/// The name of the event is the step. Waits and errors are as they were committed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Transition {
    /// `next`, `retry`, `wait`, `fan_out`, `done`, `fail` or `cancel`.
    pub outcome: Cow<'static, str>,
    /// The next step; none at an end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The attempt, counted from 0, as in [`Context::attempt`](super::Context::attempt).
    #[serde(skip_serializing_if = "is_zero")]
    pub attempt: i32,
    /// How many earlier attempts ended with the death of the worker.
    #[serde(skip_serializing_if = "is_zero")]
    pub crashes: i32,
    /// What woke the step, where the claim says so. A step after a fan-out was woken by its join.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub woken_by: Option<WokenBy>,
    /// The names of the awaited signals that the step received; the first few.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<String>,
    /// The names of the signals that it waits for; the first few.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub awaits: Vec<String>,
    /// The longest duration of a wait, a join or the pause before the next attempt, from the event
    /// on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_us: Option<i64>,
    /// How many children a fan-out starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub children: Option<usize>,
    /// Why it is tried again, has failed or was cancelled; the beginning of a long text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// With [`History::States`], in the first event: the state of the step when recording began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub began: Option<Json>,
    /// With [`History::States`]: the state it leads to. An end leaves the state unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<Json>,
    /// The size of that state in bytes, when it is too large to be kept here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<usize>,
    /// Whether the history is full: later outcomes are not recorded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_last: bool,
}

/// What woke a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WokenBy {
    /// An awaited signal.
    Signal,
    /// The timeout of its wait.
    Timeout,
    /// A cancel: the code that ran is [`on_cancel`](super::Machine::on_cancel).
    Cancel,
}

impl WokenBy {
    /// Returns the word used in JSON, the command line and the dashboard.
    pub fn as_str(self) -> &'static str {
        match self {
            WokenBy::Signal => "signal",
            WokenBy::Timeout => "timeout",
            WokenBy::Cancel => "cancel",
        }
    }
}

/// The names in one transition, and the length of its error. The two bounds keep a history without
/// states bounded.
const NAMES_MAX: usize = 5;
const ERROR_BYTES_MAX: usize = 1024;

impl History {
    /// Creates the event of this outcome, if the machine records it.
    ///
    /// It never prevents the outcome from being written: parts that do not fit are left out.
    pub(crate) fn event(self, claim: &Claim, outcome: &Outcome) -> Option<NewEvent> {
        let has_states = match self {
            History::Off => return None,
            History::Transitions => false,
            History::States => true,
        };
        let place = usize::try_from(claim.events).ok()? + 1;
        if place > TRANSITIONS_MAX {
            return None;
        }
        let mut transition = Transition::of(claim, outcome);
        transition.is_last = place == TRANSITIONS_MAX;
        if has_states {
            transition.add_states(claim, outcome, place);
        }
        // A state can be too deep when it is nested in an event.
        let data = Json::of(&transition).or_else(|_| Json::of(&transition.without_states()));
        Some(NewEvent {
            kind: EventKind::Transitioned,
            call: None,
            name: claim.step.clone(),
            // If it cannot be written even then, its names cannot, and the store will refuse the
            // outcome.
            data: data.ok()?,
            at: None,
        })
    }
}

impl Transition {
    fn of(claim: &Claim, outcome: &Outcome) -> Transition {
        let common = Transition {
            outcome: outcome_word(outcome).into(),
            attempt: claim.attempt,
            crashes: claim.crashes,
            woken_by: woken_by(claim),
            signals: names(claim.awaited().map(|signal| &signal.name)),
            ..Transition::default()
        };
        let us = |time: Duration| Some(micros(time));
        match outcome {
            Outcome::Next { step, .. } => Transition {
                to: Some(step.clone()),
                ..common
            },
            Outcome::Retry { delay, error, .. } => Transition {
                to: Some(claim.step.clone()),
                after_us: us(*delay),
                error: error.as_deref().map(beginning),
                ..common
            },
            Outcome::Wait {
                names: awaited,
                step,
                timeout,
                ..
            } => Transition {
                to: Some(step.clone()),
                awaits: names(awaited.iter()),
                after_us: timeout.and_then(us),
                ..common
            },
            Outcome::FanOut {
                children,
                join,
                step,
                ..
            } => Transition {
                to: Some(step.clone()),
                children: Some(children.len()),
                after_us: join.deadline.and_then(us),
                ..common
            },
            Outcome::Fail { reason, .. } | Outcome::Cancel { reason } => Transition {
                error: Some(beginning(reason)),
                ..common
            },
            Outcome::Done { .. } => common,
            // Outcomes of workflows, whose events the replay writes.
            Outcome::Flow { .. } | Outcome::ContinueAsNew { .. } => common,
        }
    }

    /// Adds the states that fit. An undecoded state is not shown.
    fn add_states(&mut self, claim: &Claim, outcome: &Outcome, place: usize) {
        let room = transition_state_bytes(place);
        let fits = |state: &&Json| state.as_str().len() <= room && state.as_encoded().is_none();
        if claim.events == 0 {
            self.began = Some(&claim.state).filter(fits).cloned();
        }
        if let Some(state) = outcome.state() {
            self.state = Some(state).filter(fits).cloned();
            self.left_out = self.state.is_none().then_some(state.as_str().len());
        }
    }

    fn without_states(&self) -> Transition {
        let bytes = self.state.as_ref().map(|state| state.as_str().len());
        Transition {
            began: None,
            state: None,
            left_out: bytes.or(self.left_out),
            ..self.clone()
        }
    }
}

fn woken_by(claim: &Claim) -> Option<WokenBy> {
    if claim.is_to_answer_cancel() {
        return Some(WokenBy::Cancel);
    }
    let is_from_wait = !claim.awaits.is_empty();
    is_from_wait.then(|| match claim.awaited().next() {
        Some(_) => WokenBy::Signal,
        None => WokenBy::Timeout,
    })
}

/// Returns the first few distinct names.
fn names<'a>(all: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    for name in all {
        if distinct.len() == NAMES_MAX {
            break;
        }
        if !distinct.contains(name) {
            distinct.push(name.clone());
        }
    }
    distinct
}

fn beginning(error: &str) -> String {
    let mut text = clean_error(error);
    if text.len() > ERROR_BYTES_MAX {
        text.truncate(text.floor_char_boundary(ERROR_BYTES_MAX));
        text.push('…');
    }
    text
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands its fields over by reference"
)]
fn is_zero(count: &i32) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_and_the_error_of_an_event_are_bounded() {
        let many: Vec<String> = (0..100).map(|n| format!("signal {}", n % 50)).collect();
        let distinct = names(many.iter());
        assert_eq!(distinct.len(), NAMES_MAX);
        assert_eq!(distinct[..2], ["signal 0", "signal 1"]);
        let twice = ["paid".to_owned(), "paid".to_owned()];
        assert_eq!(names(twice.iter()), ["paid"]);
        let long = beginning(&"é".repeat(5_000));
        assert!(long.len() <= ERROR_BYTES_MAX + '…'.len_utf8());
        assert!(long.ends_with("é…"));
        assert_eq!(beginning("a\0b"), "a\u{fffd}b");
    }

    #[test]
    fn woken_by_has_the_same_words_as_its_json() {
        for by in [WokenBy::Signal, WokenBy::Timeout, WokenBy::Cancel] {
            let json = serde_json::to_string(&by).expect("it serializes");
            assert_eq!(json, format!("{:?}", by.as_str()));
        }
    }
}
