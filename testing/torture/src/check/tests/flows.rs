//! Workflows with correct and incorrect histories.

use super::{History, claim, end};
use crate::audit::{Event, Instance, Op, Subject};
use crate::ledger::{Did, Entry, Ran};
use outlast::Status;
use outlast_core::{EventKind, Joined};
use serde_json::{Value, json};

impl History {
    /// Returns a workflow of two steps, an activity, a timer and another step, which finishes
    /// correctly.
    fn of_a_flow() -> History {
        let mut history = History::of_a_parked_flow();
        history.change(1, |row| {
            row.status = Status::Runnable;
            row.pending = 0;
            row.joined = Some(Joined::All);
        });
        history.change(1, |row| claim(row, 5));
        history.event(
            1,
            EventKind::ActivityCompleted,
            3,
            json!({"child": 2, "result": 200, "run": 1}),
        );
        history.event(1, EventKind::TimerScheduled, 4, json!({"after_us": 1_000}));
        history.write(|row| {
            row.status = Status::AwaitingSignal;
            row.locked_by = None;
            row.deadline = Some(1_000);
        });
        history.change(1, |row| {
            row.status = Status::Runnable;
            row.deadline = None;
        });
        history.change(1, |row| claim(row, 7));
        history.event(1, EventKind::TimerFired, 4, json!({}));
        history.write(|_| {});
        history.flow_step(3, 5, 103, &[101, 102, 200]);
        history.event(1, EventKind::RunCompleted, None, json!({}));
        history.write(|row| {
            end(row, Status::Done);
            row.result = Some("1".into());
        });
        history
    }

    /// Returns the same while it waits for its activity, which has finished.
    fn of_a_parked_flow() -> History {
        let mut history = History::of_a_begun_flow();
        history.flow_step(2, 2, 102, &[101]);
        history.event(
            1,
            EventKind::ActivityScheduled,
            3,
            json!({"round": 1, "position": 0}),
        );
        history.insert(2, "errand", |row| {
            row.step = "scheduled".into();
            row.parent = Some(1);
            row.parent_round = Some(1);
            row.position = Some(0);
        });
        history.write(|row| {
            row.status = Status::AwaitingChildren;
            row.locked_by = None;
            row.round = 1;
            row.started = 1;
            row.pending = 1;
            row.fails_fast = true;
        });
        history.change(2, |row| claim(row, 1));
        history.ran(Ran {
            id: 2,
            step: "scheduled".into(),
            nonce: Some(200),
            ..Ran::default()
        });
        history.change(2, |row| {
            row.revision = 2;
            end(row, Status::Done);
            row.result = Some("200".into());
        });
        history
    }

    /// Returns the same after its first step.
    pub(super) fn of_a_begun_flow() -> History {
        let mut history = History::default();
        history.insert(1, "journey", |row| row.step = "run".into());
        history.change(1, |row| claim(row, 1));
        history.event(1, EventKind::RunStarted, None, json!({"seed": 1}));
        history.flow_step(1, 1, 101, &[]);
        history
    }

    /// Runs a step of the workflow and records its result.
    fn flow_step(&mut self, number: u32, call: i32, nonce: u64, follows: &[u64]) {
        self.did(&format!("step {number}"), nonce, follows);
        self.event(1, EventKind::StepCompleted, call, json!({"result": nonce}));
        self.last_event().name = format!("step {number}");
        self.write(|_| {});
    }

    pub(super) fn did(&mut self, step: &str, nonce: u64, follows: &[u64]) {
        let at = self.tick();
        self.entries.push(Entry::Did(Did {
            id: 1,
            run: 1,
            step: step.into(),
            nonce,
            follows: follows.to_vec(),
            worker: "w".into(),
            at,
        }));
    }

    /// Adds an event to the history of a run.
    pub(super) fn event(
        &mut self,
        run: i32,
        kind: EventKind,
        call: impl Into<Option<i32>>,
        data: Value,
    ) {
        let seq = 1 + self.events_of(run);
        let at = self.now + 1_000;
        self.push(Subject::Event(Event {
            op: Op::Insert,
            instance: 1,
            run,
            seq,
            at,
            kind,
            call: call.into(),
            name: String::new(),
            data,
        }));
    }

    fn events_of(&self, run: i32) -> i32 {
        let events = self
            .changes
            .iter()
            .filter(|change| matches!(&change.subject, Subject::Event(event) if event.run == run));
        events.count() as i32
    }

    /// Writes the outcome of the events.
    pub(super) fn write(&mut self, change: impl FnOnce(&mut Instance)) {
        let events = self.events_of(1);
        self.change(1, |row| {
            row.revision += 1;
            row.events = events;
            change(row);
        });
    }

    pub(super) fn events(&mut self) -> impl DoubleEndedIterator<Item = &mut Event> {
        let subjects = self.changes.iter_mut().map(|change| &mut change.subject);
        subjects.filter_map(|subject| match subject {
            Subject::Event(event) => Some(event),
            Subject::Instance(_) | Subject::Signal(_) | Subject::Worker(_) => None,
        })
    }

    pub(super) fn last_event(&mut self) -> &mut Event {
        self.events().next_back().expect("the history has events")
    }

    /// Returns the first event of this kind.
    pub(super) fn event_of(&mut self, kind: EventKind) -> &mut Event {
        let mut events = self.events();
        events
            .find(|event| event.kind == kind)
            .expect("the history has such an event")
    }

    /// Returns the last effect of a workflow step.
    fn last_did(&mut self) -> &mut Did {
        for entry in self.entries.iter_mut().rev() {
            if let Entry::Did(did) = entry {
                return did;
            }
        }
        panic!("no workflow step ran");
    }
}

#[test]
fn a_correct_workflow_breaks_no_invariant() {
    assert_eq!(History::of_a_flow().broken(), [""; 0]);
}

#[test]
fn a_gap_in_a_history_breaks_i14() {
    let mut history = History::of_a_flow();
    history.event_of(EventKind::TimerFired).seq += 1;
    history.breaks("I14", "has event 8 of run 1 after event 6");
    let mut history = History::of_a_flow();
    history.event_of(EventKind::TimerFired).seq -= 1;
    history.breaks("I14", "has event 6 of run 1 after event 6");
}

#[test]
fn a_history_that_does_not_begin_with_run_started_breaks_i14() {
    let mut history = History::of_a_flow();
    history.event_of(EventKind::RunStarted).kind = EventKind::SignalAwaited;
    history.breaks("I14", "has signal_awaited as event 1");
}

#[test]
fn an_event_after_the_end_of_a_run_breaks_i14() {
    let mut history = History::of_a_flow();
    history.event(1, EventKind::ChildMessaged, 3, json!({}));
    history.breaks("I14", "has child_messaged after the run_completed of run 1");
}

#[test]
fn a_run_that_begins_before_the_previous_run_has_ended_breaks_i14() {
    let continued = |last| {
        let mut history = History::of_a_flow();
        history.last_event().kind = last;
        history.event(2, EventKind::RunStarted, None, json!({"seed": 1}));
        history
    };
    continued(EventKind::ChildMessaged).breaks("I14", "begins run 2 before");
    let broken = continued(EventKind::ContinuedAsNew).broken();
    assert!(
        !broken.iter().any(|line| line.contains("begins run 2")),
        "{broken:?}"
    );
}

#[test]
fn a_second_answer_to_a_call_breaks_i14() {
    let mut history = History::of_a_flow();
    for event in history
        .events()
        .filter(|event| event.kind == EventKind::StepCompleted)
    {
        event.call = Some(1);
    }
    history.breaks("I14", "a second answer to call 1: step_completed");
    let mut history = History::of_a_flow();
    history.event_of(EventKind::ActivityCompleted).call = Some(2);
    history.breaks("I14", "a second answer to call 2: activity_completed");
}

#[test]
fn a_recorded_result_that_no_run_of_the_step_returned_breaks_i14() {
    let mut history = History::of_a_flow();
    history.last_did().nonce = 104;
    history.breaks("I14", "recorded a result of \"step 3\" (run 1)");
    let mut history = History::of_a_flow();
    history.last_did().step = "step 4".into();
    history.breaks("I14", "recorded a result of \"step 3\" (run 1)");
    let mut history = History::of_a_flow();
    history.last_did().run = 2;
    history.breaks("I14", "recorded a result of \"step 3\" (run 1)");
}

#[test]
fn a_recorded_failure_that_no_run_of_the_step_returned_breaks_i14() {
    let failed = |nonce: u64| {
        let mut history = History::of_a_flow();
        let step = history
            .events()
            .rfind(|it| it.kind == EventKind::StepCompleted);
        let step = step.expect("the history has a completed step");
        step.kind = EventKind::StepFailed;
        step.data = json!({"kind": "error", "error": format!("bad luck {nonce}")});
        history
    };
    assert_eq!(failed(103).broken(), [""; 0]);
    failed(104).breaks("I14", "recorded a result of \"step 3\" (run 1)");
}

#[test]
fn a_recorded_end_of_a_child_that_did_not_happen_breaks_i14() {
    let recorded = |change: fn(&mut Event)| {
        let mut history = History::of_a_flow();
        change(history.event_of(EventKind::ActivityCompleted));
        history
    };
    recorded(|event| event.data["result"] = json!(201)).breaks("I14", "which is done with");
    recorded(|event| event.data["child"] = json!(9)).breaks("I14", "which is not there");
    recorded(|event| event.data["child"] = json!(1)).breaks("I14", "recorded activity_completed");
    recorded(|event| event.kind = EventKind::ActivityFailed).breaks("I14", "which is done with");
    recorded(|event| event.kind = EventKind::ActivityCancelled).breaks("I14", "which is done with");
    let mut history = History::of_a_flow();
    for change in &mut history.changes {
        if let Subject::Instance(row) = &mut change.subject
            && row.id == 2
        {
            row.parent = Some(7);
        }
    }
    history.breaks("I14", "recorded activity_completed of child Some(2)");
}

#[test]
fn a_recorded_start_of_a_child_that_did_not_happen_breaks_i14() {
    let recorded = |starts: &[(i64, i64)], kind: EventKind| {
        let mut history = History::of_a_parked_flow();
        history.change(1, |row| {
            row.status = Status::Runnable;
            row.pending = 0;
            row.joined = Some(Joined::All);
        });
        history.change(1, |row| claim(row, 5));
        for (child, run) in starts {
            let begun = json!({"child": child, "run": run});
            history.event(1, EventKind::ChildStarted, 3, begun);
        }
        let ended = json!({"child": 2, "result": 200, "run": 1});
        history.event(1, kind, 3, ended);
        history.event(1, EventKind::RunCompleted, None, json!({}));
        history.write(|row| {
            end(row, Status::Done);
            row.result = Some("1".into());
        });
        history
    };
    let child = |starts| recorded(starts, EventKind::ChildCompleted);
    assert_eq!(child(&[(2, 1)]).broken(), [""; 0]);
    assert_eq!(
        recorded(&[], EventKind::ActivityCompleted).broken(),
        [""; 0]
    );
    child(&[]).breaks("I14", "which began as None");
    child(&[(2, 1), (2, 1)]).breaks("I14", "recorded run 1 of child 2 after run 1 of child 2");
    child(&[(2, 1), (2, 2)]).breaks("I14", "recorded run 2 of child 2, which it has not begun");
    child(&[(9, 1)]).breaks("I14", "recorded run 1 of child 9, which it has not begun");
    let mut late = History::of_a_flow();
    let begun = json!({"child": 2, "run": 1});
    late.event_of(EventKind::TimerScheduled).kind = EventKind::ChildStarted;
    let start = late.event_of(EventKind::ChildStarted);
    (start.call, start.data) = (Some(3), begun);
    late.breaks("I14", "recorded a start of call 3 after its answer");
}

#[test]
fn a_history_that_is_rewritten_or_lost_breaks_i14() {
    let changed = |op| {
        let mut history = History::of_a_parked_flow();
        let mut event = history.event_of(EventKind::StepCompleted).clone();
        event.op = op;
        history.push(Subject::Event(event));
        history
    };
    changed(Op::Update).breaks("I14", "had event 2 of run 1 rewritten");
    changed(Op::Delete).breaks("I14", "lost event 2 of the run 1 it is in");
    let mut history = History::of_a_flow();
    let mut event = history.event_of(EventKind::StepCompleted).clone();
    event.op = Op::Delete;
    history.push(Subject::Event(event));
    assert_eq!(history.broken(), [""; 0]);
}

#[test]
fn an_early_timer_breaks_i10_and_a_timer_that_never_began_breaks_i14() {
    let mut history = History::of_a_flow();
    history.event_of(EventKind::TimerScheduled).data = json!({"after_us": 1_000_000});
    history.breaks("I10", "before it was due");
    let mut history = History::of_a_flow();
    history.event_of(EventKind::TimerScheduled).kind = EventKind::SignalAwaited;
    history.breaks("I14", "a timer that had not begun");
}

#[test]
fn a_row_that_miscounts_its_history_breaks_i14() {
    let mut history = History::of_a_flow();
    history.last(1).events = 8;
    history.breaks("I14", "counts 8 events in run 1 and has 9");
    let mut history = History::of_a_parked_flow();
    history.change(1, |row| {
        row.status = Status::Runnable;
        row.pending = 0;
        row.joined = Some(Joined::All);
        row.events = 3;
    });
    history.change(1, |row| claim(row, 5));
    history.write(|row| end(row, Status::Cancelled));
    history.breaks("I14", "counts 3 events in run 1 and has 4");
}

#[test]
fn a_final_status_that_does_not_fit_the_history_breaks_i14() {
    let mut history = History::of_a_flow();
    history.last_event().kind = EventKind::RunCancelled;
    history.breaks("I14", "is done with run_cancelled at the end");
    let ended = |error: Option<&str>| {
        let mut history = History::of_a_flow();
        history.last_event().kind = EventKind::ChildMessaged;
        history.last(1).status = Status::Cancelled;
        history.last(1).error = error.map(str::to_owned);
        history
    };
    ended(None).breaks("I14", "is cancelled with child_messaged at the end");
    assert_eq!(ended(Some("terminated by torture")).broken(), [""; 0]);
}

#[test]
fn an_effect_that_follows_from_no_committed_event_breaks_i14() {
    let mut history = History::of_a_flow();
    history.last_did().at = 1;
    history.breaks("I14", "before 101, which it follows from, was committed");
    let mut history = History::of_a_flow();
    history.last_did().follows.push(999);
    history.breaks("I14", "told 999, which is in no history");
    let mut history = History::of_a_flow();
    history.did("step 9", 109, &[]);
    history.last_did().run = 2;
    history.breaks("I14", "of a run that was never begun");
}

#[test]
fn a_workflow_effect_of_an_unknown_instance_breaks_i5() {
    let mut history = History::of_a_flow();
    history.did("step 1", 109, &[]);
    history.last_did().id = 9;
    history.breaks("I5", "ran and is nowhere");
}

#[test]
fn a_workflow_that_does_not_fit_its_history_breaks_i14() {
    let mut history = History::of_a_begun_flow();
    history.event(
        1,
        EventKind::ReplayBlocked,
        None,
        json!({"expected": "a", "found": "b"}),
    );
    history.breaks("I14", "does not fit its history");
}

#[test]
fn a_workflow_that_does_not_finish_breaks_i2() {
    History::of_a_parked_flow().breaks("I2", "awaiting_children");
}

#[test]
fn a_workflow_that_is_woken_without_a_reason_breaks_i6() {
    let woken = |joined| {
        let mut history = History::of_a_parked_flow();
        history.change(1, |row| {
            row.status = Status::Runnable;
            row.joined = joined;
        });
        history.change(1, |row| claim(row, 5));
        history.write(|row| end(row, Status::Cancelled));
        history
    };
    woken(Some(Joined::All)).breaks(
        "I6",
        "was woken for all with 1 awaited, 1 pending, 0 failed",
    );
    woken(Some(Joined::Failure)).breaks("I6", "was woken for failure");
    woken(None).breaks("I6", "woken 1 times for nothing, and was sent 0 signals");
    woken(Some(Joined::Deadline)).breaks("I10", "a deadline that it had not");
    let mut history = woken(None);
    history.signal(7, Op::Insert, false);
    assert!(!history.broken().iter().any(|line| line.starts_with("I6")));
}

#[test]
fn a_signal_that_a_history_records_twice_or_never_breaks_i7() {
    let sent = |times: i32| {
        let mut history = History::of_a_begun_flow();
        history.signal(7, Op::Insert, false);
        for call in 0..times {
            let word = json!({"signal": 7, "payload": {"number": 300}});
            history.event(1, EventKind::SignalConsumed, 20 + call, word);
        }
        history.write(|_| {});
        history.signal(7, Op::Update, true);
        // The instance stays live, so a signal that was not received is lost.
        history.flow_step(2, 2, 102, &[101]);
        history.event(1, EventKind::RunCompleted, None, json!({}));
        history.write(|row| end(row, Status::Done));
        history
    };
    assert_eq!(sent(1).broken(), [""; 0]);
    sent(2).breaks("I7", "consumed signal 7 in 2 visits");
    sent(0).breaks("I7", "lost signal 7");
}
