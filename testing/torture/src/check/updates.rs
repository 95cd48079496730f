//! I7 for updates: one reply, which every sender is told, and one run of the code that gives it.

use super::workflows::is_flow;
use super::{Checker, Life, SignalLife};
use crate::audit::{Event, Instance, Signal};
use crate::ledger::{Answer, Told};
use crate::machines::{Way, of_update_id, step_of};
use outlast::Status;
use outlast_core::EventKind;
use serde_json::Value;
use std::collections::HashMap;

/// An update, as far as it has been seen.
pub(super) struct UpdateLife {
    id: String,
    /// When it was delivered.
    at: i64,
    reply: Option<Reply>,
}

/// The reply in the row of an update, or in a history.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reply {
    kind: Answer,
    data: Value,
}

impl SignalLife {
    /// Returns the reply, if it is an update that has one.
    pub(super) fn reply(&self) -> Option<&Reply> {
        self.update.as_ref()?.reply.as_ref()
    }
}

impl Checker {
    pub(super) fn begin_update(&mut self, seq: i64, at: i64, row: &Signal) -> Option<UpdateLife> {
        let id = row.dedup.clone().filter(|_| row.wants_reply)?;
        if row.name == "ask" {
            let unhandled = self.unhandled.entry(row.target).or_default();
            unhandled.insert(row.id, seq);
        }
        let reply = None;
        Some(UpdateLife { id, at, reply })
    }

    /// A reply is written once. Returns whether this change wrote one.
    pub(super) fn see_reply(&mut self, row: &Signal) -> bool {
        let now = row.reply_kind.map(|kind| Reply {
            kind,
            data: row.reply.clone().unwrap_or_default(),
        });
        let Some(life) = self.signals.get_mut(&row.id) else {
            return false;
        };
        let Some(update) = &mut life.update else {
            if now.is_some() {
                let what = format!("replied to signal {}, which is no update", row.id);
                self.violate("I7", row.target, what);
            }
            return false;
        };
        if update.reply == now {
            return false;
        }
        let before = std::mem::replace(&mut update.reply, now.clone());
        let id = update.id.clone();
        if before.is_some() {
            let what = format!("changed its reply to update {id} from {before:?} to {now:?}");
            self.violate("I7", row.target, what);
        } else if !row.consumed {
            let what = format!("replied to update {id} and left it in the inbox");
            self.violate("I7", row.target, what);
        }
        true
    }

    pub(super) fn see_accepted(&mut self, at: i64, row: &Event) {
        self.figures.updates_handled += 1;
        if let Some(signal) = row.data["signal"].as_i64() {
            let places = self.consumed.entry(signal).or_default();
            places.insert((row.run, row.seq));
            let history = self.histories.entry((row.instance, row.run)).or_default();
            history.handling.insert(signal);
        }
        self.add_received(at, row, row.data["payload"]["number"].as_u64());
    }

    /// A history records one reply, to an update that it has taken.
    pub(super) fn see_completed(&mut self, row: &Event) {
        let kind = serde_json::from_value(row.data["kind"].clone());
        let (Some(signal), Ok(kind)) = (row.data["signal"].as_i64(), kind) else {
            let what = format!("recorded a reply that cannot be read: {}", row.data);
            self.violate("I14", row.instance, what);
            return;
        };
        let history = self.histories.entry((row.instance, row.run)).or_default();
        history.handling.remove(&signal);
        if !self.consumed.contains_key(&signal) {
            let what = format!("recorded a reply to signal {signal}, which it had not taken");
            self.violate("I14", row.instance, what);
        }
        let reply = Reply {
            kind,
            data: row.data["reply"].clone(),
        };
        if self.completed.insert(signal, reply).is_some() {
            let what = format!("recorded a second reply to signal {signal}");
            self.violate("I14", row.instance, what);
        }
    }

    /// Notes the result of a step that the code made for an update.
    pub(super) fn see_handled_step(&mut self, row: &Event, nonce: Option<u64>) {
        if row.name.starts_with("ask ") {
            let place = (row.instance, row.name.clone());
            self.handled_steps.entry(place).or_default().extend(nonce);
        }
    }

    /// A workflow does not begin a wait with an update in its inbox that a handler takes. After the
    /// end of its code it waits for its handlers only.
    pub(super) fn check_unhandled(&mut self, life: &Life, row: &Instance) {
        let was = &life.last;
        let waited = matches!(
            was.status,
            Status::AwaitingSignal | Status::AwaitingChildren
        );
        if !waited || row.status == was.status || !is_flow(row) || self.may_lose {
            return;
        }
        let history = self.histories.get(&(row.id, was.run));
        if history.is_some_and(|it| !it.handling.is_empty()) {
            return;
        }
        let unhandled = self.unhandled.get(&row.id).into_iter().flatten();
        let overlooked = unhandled.filter(|(_, since)| **since < life.parked);
        let overlooked: Vec<i64> = overlooked.map(|(signal, _)| *signal).collect();
        for signal in overlooked {
            let what = format!("waited while update {signal} was in its inbox");
            self.violate("I7", row.id, what);
        }
    }

    /// At the end: checks every update against what its senders were told and what the code did.
    pub(super) fn check_updates(&mut self, lives: &HashMap<i64, Life>) {
        self.count_updates();
        if self.may_lose {
            return;
        }
        let mut wrong = Vec::new();
        let updates = self.signals.iter();
        let updates = updates.filter_map(|(id, it)| Some((*id, it, it.update.as_ref()?)));
        let mut places: HashMap<(i64, &str), &UpdateLife> = HashMap::new();
        let payments = payments(lives);
        let mut served: HashMap<i64, u64> = HashMap::new();
        for (signal, life, update) in updates {
            places.insert((life.target, &update.id), update);
            let Some(target) = lives.get(&life.target) else {
                continue;
            };
            let is_done = update.reply.as_ref().map(|it| it.kind) == Some(Answer::Done);
            *served.entry(life.target).or_default() += u64::from(is_done);
            let what = wrong_kind(update, target);
            wrong.extend(what.map(|what| (life.target, what)));
            let what = match is_flow(&target.last) {
                true => self.wrong_history(signal, update).or_else(|| {
                    let children = |number| payments.get(&(life.target, number));
                    self.wrong_effect(life, update, children)
                }),
                false => self.wrong_source(target, update),
            };
            wrong.extend(what.map(|what| (life.target, what)));
        }
        for told in &self.books.told {
            let update = places.get(&(told.instance, told.update.as_str()));
            let what = self.wrong_answer(told, update.copied(), lives.get(&told.instance));
            wrong.extend(what.map(|what| (told.instance, what)));
        }
        for ((instance, run), history) in &self.histories {
            let last = history.last;
            if last.is_some_and(waits_for_handlers) && !history.handling.is_empty() {
                let open = &history.handling;
                let what = format!("ended run {run} before its handlers of {open:?}");
                wrong.push((*instance, what));
            }
        }
        for life in lives.values().filter(|it| it.last.machine == "desk") {
            let count = served.get(&life.last.id).copied().unwrap_or(0).to_string();
            if life.last.status == Status::Done && life.last.result.as_ref() != Some(&count) {
                let result = &life.last.result;
                let what = format!("counted {result:?} replies, and {count} are there");
                wrong.push((life.last.id, what));
            }
        }
        for (id, what) in wrong {
            self.violate("I7", id, what);
        }
    }

    fn count_updates(&mut self) {
        let figures = &mut self.figures;
        figures.updates = self.books.sent.len() as u64;
        figures.updates_sent_again = self.books.sent.values().map(|sent| sent - 1).sum();
        for update in self.signals.values().filter_map(|it| it.update.as_ref()) {
            let count = match update.reply.as_ref().map(|it| it.kind) {
                Some(Answer::Done | Answer::Failed) => &mut figures.updates_replied,
                Some(Answer::Rejected) => &mut figures.updates_rejected,
                // I2 reports an instance that has not ended.
                Some(Answer::Ended | Answer::Pending | Answer::Missing) | None => {
                    &mut figures.updates_ended
                }
            };
            *count += 1;
        }
    }

    /// What a sender was told is what the row has.
    fn wrong_answer(
        &self,
        told: &Told,
        update: Option<&UpdateLife>,
        target: Option<&Life>,
    ) -> Option<String> {
        let (id, answer) = (&told.update, told.answer);
        let had_ended = target.is_some_and(|it| {
            it.retries > 0 || it.ended_at.is_some_and(|at| at <= told.at + self.coarse_us)
        });
        if answer == Answer::Ended && !had_ended {
            return Some(format!(
                "told a sender of {id} that it had ended, before it did"
            ));
        }
        let Some(update) = update else {
            // An instance that has ended takes no update.
            return (answer != Answer::Ended)
                .then(|| format!("was acknowledged update {id}, which is not there"));
        };
        let is_right = match answer {
            Answer::Done | Answer::Failed | Answer::Rejected => {
                let told = Reply {
                    kind: answer,
                    data: told.reply.clone().unwrap_or_default(),
                };
                update.reply.as_ref() == Some(&told)
            }
            // A retried instance takes an update that came to its end again, as a new one.
            Answer::Ended => {
                let is_reply = update.reply.as_ref().is_some_and(|it| it.kind.is_reply());
                !is_reply || told.asked_at <= update.at + self.coarse_us
            }
            Answer::Pending => true,
            Answer::Missing => false,
        };
        let has = &update.reply;
        let reply = &told.reply;
        (!is_right).then(|| format!("told a sender of {id} {answer:?} {reply:?}, and has {has:?}"))
    }

    /// A history and the rows have the same replies. A rejected update leaves no event.
    fn wrong_history(&self, signal: i64, update: &UpdateLife) -> Option<String> {
        let id = &update.id;
        let is_recorded = self.consumed.contains_key(&signal);
        let completed = self.completed.get(&signal);
        let is_rejected = update.reply.as_ref().map(|it| it.kind) == Some(Answer::Rejected);
        if is_rejected && id.starts_with("ask:") && (is_recorded || completed.is_some()) {
            return Some(format!("rejected update {id} and recorded it"));
        }
        match (&update.reply, completed) {
            (Some(Reply { kind, .. }), _) if *kind == Answer::Ended => None,
            (Some(_), None) if is_rejected && !id.starts_with("plea:") => None,
            (has, recorded) if has.as_ref() == recorded => None,
            (has, recorded) => Some(format!(
                "has the reply {has:?} to update {id}, and recorded {recorded:?}"
            )),
        }
    }

    /// The code of an accepted update had its effect once.
    fn wrong_effect<'a>(
        &self,
        life: &SignalLife,
        update: &UpdateLife,
        children: impl FnOnce(u64) -> Option<&'a Vec<i64>>,
    ) -> Option<String> {
        let (name, way, number) = of_update_id(&update.id)?;
        let id = &update.id;
        let reply = update.reply.as_ref();
        let is_done = reply.is_some_and(|it| it.kind == Answer::Done);
        if way == Way::Step {
            let results = self.handled_steps.get(&(life.target, step_of(number)));
            let results = results.map_or(&[][..], Vec::as_slice);
            let replied = reply.and_then(|it| it.data.as_u64()).filter(|_| is_done);
            let is_right = match results {
                [] => replied.is_none(),
                [result] => replied.is_none_or(|replied| replied == *result),
                _ => false,
            };
            return (!is_right)
                .then(|| format!("replied {reply:?} to update {id}, whose steps had {results:?}"));
        }
        if way == Way::Child && name == "ask" {
            let children = children(number).map_or(&[][..], Vec::as_slice);
            let is_right = children.len() == 1 || (children.is_empty() && !is_done);
            let signals = self.signals.values();
            let signals = signals.filter(|it| it.name == "paid" && children.contains(&it.target));
            let signals = if children.is_empty() {
                0
            } else {
                signals.count()
            };
            return (!is_right || signals > 1).then(|| {
                format!("started {children:?} for update {id}, with {signals} signals to them")
            });
        }
        None
    }

    /// The reply of a machine is of a run of its step.
    fn wrong_source(&self, target: &Life, update: &UpdateLife) -> Option<String> {
        let reply = update.reply.as_ref()?;
        let effects = self.books.effects_of(target.last.id);
        let is_of_one = effects
            .iter()
            .any(|ran| ran.nonce.is_some() && ran.nonce == reply.data.as_u64());
        (reply.kind == Answer::Done && !is_of_one).then(|| {
            let (id, data) = (&update.id, &reply.data);
            format!("replied {data} to update {id}, which no run of a step gave")
        })
    }
}

/// Returns what is wrong if the way of the update does not lead to a reply of this kind.
fn wrong_kind(update: &UpdateLife, target: &Life) -> Option<String> {
    let Reply { kind, data } = update.reply.as_ref()?;
    let (name, way, number) = of_update_id(&update.id)?;
    // The `on_cancel` of a machine replies to nothing, and consumes what the step has awaited. A
    // cancelled workflow makes no further call.
    let was_cancelled = name == "query" && target.last.status == Status::Cancelled;
    let is_right = match (way, kind) {
        (_, Answer::Ended) | (Way::Refused, Answer::Rejected) | (Way::Bad, Answer::Failed) => true,
        (Way::Step, Answer::Done) => true,
        (Way::Plain | Way::Child, Answer::Done) => name == "query" || data.as_u64() == Some(number),
        (Way::Step | Way::Child, Answer::Failed) => name != "query" || was_cancelled,
        (Way::Plain | Way::Refused, Answer::Failed) => was_cancelled,
        _ => false,
    };
    (!is_right).then(|| format!("replied to update {} with {kind:?} {data}", update.id))
}

/// Returns the payments that workflows have started, by parent and token.
fn payments(lives: &HashMap<i64, Life>) -> HashMap<(i64, u64), Vec<i64>> {
    let mut payments: HashMap<(i64, u64), Vec<i64>> = HashMap::new();
    for life in lives.values().filter(|it| it.last.machine == "payment") {
        if let (Some(parent), Some(token)) = (life.last.parent, life.token) {
            payments
                .entry((parent, token))
                .or_default()
                .push(life.last.id);
        }
    }
    payments
}

/// Returns whether a run ends like this only when its handlers have ended.
fn waits_for_handlers(end: EventKind) -> bool {
    matches!(
        end,
        EventKind::ContinuedAsNew
            | EventKind::RunCompleted
            | EventKind::RunFailed
            | EventKind::RunCancelled
    )
}
