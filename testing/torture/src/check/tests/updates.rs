//! Updates with correct and incorrect replies.

use super::{History, claim, end};
use crate::audit::{Op, Signal, Subject};
use crate::ledger::{Answer, Entry, Ran, Told};
use outlast::Status;
use outlast_core::EventKind;
use serde_json::{Value, json};

/// The update of all these histories.
const UPDATE: i64 = 7;
const STEP: &str = "ask:step:300";

impl History {
    /// Returns a workflow whose handler makes a step for an update and replies with its result.
    fn of_an_update() -> History {
        let mut history = History::of_an_accepted_update(STEP);
        history.did("ask 300", 104, &[300]);
        history.event(1, EventKind::StepCompleted, 2, json!({"result": 104}));
        history.last_event().name = "ask 300".into();
        history.reply("done", json!(104));
        history.told(STEP, Answer::Done, Some(json!(104)));
        history.finish();
        history
    }

    /// Returns a workflow that is sent an update and accepts it.
    fn of_an_accepted_update(id: &str) -> History {
        let mut history = History::of_a_sent_update(id);
        let accepted = json!({"signal": UPDATE, "update": id, "payload": {"number": 300}});
        history.event(1, EventKind::UpdateAccepted, None, accepted);
        history.update(id, Op::Update, true, None);
        history.write(|_| {});
        history
    }

    fn of_a_sent_update(id: &str) -> History {
        let mut history = History::of_a_begun_flow();
        history.sent(id);
        history.update(id, Op::Insert, false, None);
        history.told(id, Answer::Pending, None);
        history
    }

    /// Returns a desk that replies to an update with the number of its run.
    fn of_a_desk() -> History {
        let mut history = History::default();
        history.start(1, "desk");
        history.sent("query:plain:300");
        history.update("query:plain:300", Op::Insert, false, None);
        history.change(1, |row| claim(row, 1));
        history.ran(Ran {
            id: 1,
            step: "grow".into(),
            nonce: Some(104),
            ..Ran::default()
        });
        let reply = Some((Answer::Done, json!(104)));
        history.update("query:plain:300", Op::Update, true, reply);
        history.change(1, |row| {
            row.revision = 2;
            end(row, Status::Done);
            row.result = Some("1".into());
        });
        history
    }

    /// Writes the reply into the history and the row.
    fn reply(&mut self, kind: &str, reply: Value) {
        let answer = serde_json::from_value(json!(kind)).expect("a kind of reply");
        let recorded = json!({"signal": UPDATE, "kind": kind, "reply": reply});
        self.event(1, EventKind::UpdateCompleted, None, recorded);
        let id = self.update_id();
        self.update(&id, Op::Update, true, Some((answer, reply)));
    }

    fn finish(&mut self) {
        self.event(1, EventKind::RunCompleted, None, json!({}));
        self.write(|row| end(row, Status::Done));
    }

    fn update(&mut self, id: &str, op: Op, consumed: bool, reply: Option<(Answer, Value)>) {
        let (reply_kind, reply) = reply.unzip();
        let name = id.split(':').next().expect("the name comes first");
        self.push(Subject::Signal(Signal {
            op,
            id: UPDATE,
            target: 1,
            name: name.into(),
            dedup: Some(id.into()),
            consumed,
            wants_reply: true,
            reply_kind,
            reply,
        }));
    }

    fn sent(&mut self, id: &str) {
        let at = self.tick();
        self.entries.push(Entry::Sent {
            instance: 1,
            update: id.into(),
            at,
        });
    }

    fn told(&mut self, id: &str, answer: Answer, reply: Option<Value>) {
        let at = self.tick();
        self.entries.push(Entry::Told(Told {
            instance: 1,
            update: id.into(),
            answer,
            reply,
            asked_at: at,
            at,
        }));
    }

    fn updates(&mut self) -> impl DoubleEndedIterator<Item = &mut Signal> {
        let subjects = self.changes.iter_mut().map(|change| &mut change.subject);
        subjects.filter_map(|subject| match subject {
            Subject::Signal(signal) => Some(signal),
            Subject::Instance(_) | Subject::Event(_) | Subject::Worker(_) => None,
        })
    }

    fn update_id(&mut self) -> String {
        let update = self.updates().next().expect("an update was sent");
        update.dedup.clone().expect("an update has an id")
    }
}

#[test]
fn updates_with_one_reply_break_no_invariant() {
    let (figures, violations) = History::of_an_update().judged();
    assert_eq!(violations, []);
    assert_eq!((figures.updates, figures.updates_replied), (1, 1));
    assert_eq!(History::of_a_desk().broken(), [""; 0]);
    let mut ended = History::of_a_sent_update("ask:plain:300");
    ended.finish();
    ended.update("ask:plain:300", Op::Update, true, None);
    ended.told("ask:plain:300", Answer::Ended, None);
    assert_eq!(ended.broken(), [""; 0]);
    let mut rejected = History::of_a_sent_update("ask:refused:300");
    let reply = Some((Answer::Rejected, json!("no")));
    rejected.update("ask:refused:300", Op::Update, true, reply);
    rejected.told("ask:refused:300", Answer::Rejected, Some(json!("no")));
    rejected.write(|_| {});
    rejected.finish();
    assert_eq!(rejected.broken(), [""; 0]);
}

#[test]
fn a_sender_that_was_told_another_reply_breaks_i7() {
    let mut history = History::of_an_update();
    history.told(STEP, Answer::Done, Some(json!(105)));
    history.breaks("I7", "told a sender of ask:step:300 Done Some(Number(105))");
    let mut history = History::of_an_update();
    history.told(STEP, Answer::Failed, Some(json!("bad luck")));
    history.breaks("I7", "told a sender of ask:step:300 Failed");
    let mut history = History::of_an_update();
    history.told(STEP, Answer::Ended, None);
    history.breaks("I7", "told a sender of ask:step:300 Ended");
}

#[test]
fn a_sender_that_is_told_of_an_end_too_early_breaks_i7() {
    let told = |id: &str, early: bool| {
        let mut history = History::of_a_sent_update("ask:plain:300");
        if early {
            history.told(id, Answer::Ended, None);
        }
        history.finish();
        history.update("ask:plain:300", Op::Update, true, None);
        if !early {
            history.told(id, Answer::Ended, None);
        }
        history
    };
    assert_eq!(told("ask:plain:301", false).broken(), [""; 0]);
    told("ask:plain:300", true).breaks("I7", "that it had ended, before it did");
    told("ask:plain:301", true).breaks("I7", "that it had ended, before it did");
}

#[test]
fn a_reply_that_changes_breaks_i7() {
    let changed = |reply| {
        let mut history = History::of_an_update();
        history.update(STEP, Op::Update, true, reply);
        history
    };
    changed(Some((Answer::Done, json!(105)))).breaks("I7", "changed its reply to update");
    changed(Some((Answer::Failed, json!(104)))).breaks("I7", "changed its reply to update");
    changed(None).breaks("I7", "changed its reply to update");
}

#[test]
fn an_acknowledged_update_that_is_lost_breaks_i7() {
    let mut history = History::of_an_update();
    history.told("ask:plain:301", Answer::Pending, None);
    history.breaks(
        "I7",
        "acknowledged update ask:plain:301, which is not there",
    );
    let mut history = History::of_an_update();
    history.told(STEP, Answer::Missing, None);
    history.breaks("I7", "told a sender of ask:step:300 Missing");
}

#[test]
fn a_reply_to_a_plain_signal_or_without_consumption_breaks_i7() {
    let mut history = History::of_an_update();
    history.updates().for_each(|it| it.wants_reply = false);
    history.breaks("I7", "which is no update");
    let mut history = History::of_an_update();
    history.updates().for_each(|it| it.consumed = false);
    history.breaks("I7", "left it in the inbox");
}

#[test]
fn an_update_that_is_accepted_or_completed_twice_breaks_a_rule() {
    let again = |kind| {
        let mut history = History::of_an_update();
        let event = history.event_of(kind).clone();
        history.last_event().kind = kind;
        history.last_event().data = event.data;
        history
    };
    again(EventKind::UpdateAccepted).breaks("I7", "consumed signal 7 in 2 visits");
    again(EventKind::UpdateCompleted).breaks("I14", "recorded a second reply to signal 7");
    let mut history = History::of_an_update();
    history.event_of(EventKind::UpdateAccepted).kind = EventKind::SignalAwaited;
    history.breaks(
        "I14",
        "recorded a reply to signal 7, which it had not taken",
    );
}

#[test]
fn a_reply_that_the_history_does_not_have_breaks_i7() {
    let mut history = History::of_an_update();
    history.event_of(EventKind::UpdateCompleted).data["reply"] = json!(105);
    history.breaks("I7", "has the reply");
    let mut history = History::of_an_update();
    history.event_of(EventKind::UpdateCompleted).kind = EventKind::VersionMarked;
    history.breaks("I7", "and recorded None");
    let mut history = History::of_an_update();
    let last = history.updates().next_back().expect("it has a reply");
    (last.reply_kind, last.reply) = (None, None);
    history.breaks("I7", "has the reply None to update ask:step:300");
}

#[test]
fn an_effect_that_a_handler_had_twice_or_never_breaks_i7() {
    let mut history = History::of_an_update();
    history.event_of(EventKind::StepCompleted).name = "ask 300".into();
    history.breaks("I7", "whose steps had [101, 104]");
    let mut history = History::of_an_update();
    let steps = history.events();
    let step = steps.rev().find(|it| it.kind == EventKind::StepCompleted);
    step.expect("the handler made a step").kind = EventKind::VersionMarked;
    history.breaks("I7", "whose steps had []");
    let children = |count: i64, signals: i64| {
        let mut history = History::of_an_accepted_update("ask:child:300");
        for child in 2..2 + count {
            history.insert(child, "payment", |row| {
                row.parent = Some(1);
                row.state = Some("{\"token\":300}".into());
            });
        }
        for signal in 8..8 + signals {
            history.update("paid:x:0", Op::Insert, false, None);
            let last = history.updates().next_back().expect("it was just sent");
            (last.id, last.target, last.wants_reply) = (signal, 2, false);
            last.dedup = Some(signal.to_string());
        }
        history.reply("done", json!(300));
        history.finish();
        let broken = history.broken();
        broken
            .iter()
            .any(|it| it.contains("for update ask:child:300"))
    };
    assert!(!children(1, 1));
    assert!(children(0, 0));
    assert!(children(2, 1));
    assert!(children(1, 2));
}

#[test]
fn a_reply_of_the_wrong_kind_breaks_i7() {
    let replied = |id: &str, kind: &str, reply: Value| {
        let mut history = History::of_an_accepted_update(id);
        history.reply(kind, reply);
        history.finish();
        history
    };
    let right = replied("ask:plain:300", "done", json!(300));
    assert_eq!(right.broken(), [""; 0]);
    replied("ask:plain:300", "done", json!(301)).breaks("I7", "replied to update ask:plain:300");
    replied("ask:bad:300", "done", json!(300)).breaks("I7", "replied to update ask:bad:300");
    replied("ask:refused:300", "rejected", json!("no")).breaks("I7", "and recorded it");
}

#[test]
fn only_a_cancelled_machine_may_fail_an_update_that_it_serves() {
    let failed = |status| {
        let mut history = History::of_a_desk();
        let last = history.updates().next_back().expect("it has a reply");
        last.reply_kind = Some(Answer::Failed);
        history.last(1).status = status;
        history.last(1).result = Some("0".into());
        history
    };
    failed(Status::Done).breaks("I7", "replied to update query:plain:300 with Failed");
    let broken = failed(Status::Cancelled).broken();
    assert!(!broken.iter().any(|it| it.contains("query")), "{broken:?}");
}

#[test]
fn a_handler_that_does_not_end_with_its_run_breaks_i7() {
    let mut history = History::of_an_accepted_update("ask:plain:300");
    history.finish();
    history.breaks("I7", "ended run 1 before its handlers of {7}");
}

#[test]
fn a_wait_with_an_unhandled_update_in_the_inbox_breaks_i7() {
    let waited = |sent_before: bool| {
        let mut history = History::of_a_begun_flow();
        let park = |history: &mut History| {
            history.write(|row| {
                row.status = Status::AwaitingSignal;
                row.locked_by = None;
                row.deadline = Some(1_000);
            });
        };
        if !sent_before {
            park(&mut history);
        }
        history.update("ask:plain:300", Op::Insert, false, None);
        if sent_before {
            park(&mut history);
        }
        history.change(1, |row| row.status = Status::Runnable);
        history.broken()
    };
    let overlooked = |broken: Vec<String>| broken.iter().any(|it| it.contains("waited while"));
    assert!(overlooked(waited(true)));
    assert!(!overlooked(waited(false)));
}

#[test]
fn a_reply_that_no_run_of_a_machine_gave_or_counted_breaks_i7() {
    let mut history = History::of_a_desk();
    history.last_of(1).nonce = Some(105);
    history.breaks("I7", "which no run of a step gave");
    let mut history = History::of_a_desk();
    history.last(1).result = Some("2".into());
    history.breaks("I7", "and 1 are there");
}
