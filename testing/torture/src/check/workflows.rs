//! I14: the history of a workflow is written once, without gaps, and matches what happened. No
//! effect follows from an event that is not committed yet.

use super::{Checker, Life};
use crate::audit::{Event, Instance, Op};
use crate::ledger::Did;
use outlast::Status;
use outlast_core::EventKind;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// The history of one run, as far as it has been seen.
#[derive(Default)]
pub(super) struct History {
    events: i32,
    pub(super) last: Option<EventKind>,
    /// The calls that have their answer.
    answered: HashSet<i32>,
    /// The numbers that the code may have received, and when each was committed.
    received: HashMap<u64, i64>,
    /// When timers fire.
    timers: HashMap<i32, i64>,
    /// Accepted updates whose handler has not ended.
    pub(super) handling: HashSet<i64>,
    /// The child of a call and its newest run, as the history has them.
    starts: HashMap<i32, (i64, i64)>,
}

/// Returns whether it is a workflow, whose single step runs repeatedly.
pub(super) fn is_flow(row: &Instance) -> bool {
    row.machine == "journey"
}

impl Checker {
    pub(super) fn see_event(&mut self, at: i64, row: &Event) {
        match row.op {
            Op::Insert => self.append(at, row),
            Op::Update => {
                let what = format!("had event {} of run {} rewritten", row.seq, row.run);
                self.violate("I14", row.instance, what);
            }
            Op::Delete => {
                let life = self.lives.get(&row.instance);
                let is_needed = life.is_some_and(|life| {
                    !life.last.status.is_terminal() && life.last.run == row.run
                });
                if is_needed {
                    let what = format!("lost event {} of the run {} it is in", row.seq, row.run);
                    self.violate("I14", row.instance, what);
                }
            }
        }
    }

    fn append(&mut self, at: i64, row: &Event) {
        self.check_place(row);
        let key = (row.instance, row.run);
        let history = self.histories.entry(key).or_default();
        history.events = row.seq;
        history.last = Some(row.kind);
        if let Some(call) = row.call
            && answers(row.kind)
            && !history.answered.insert(call)
        {
            let (kind, seq) = (row.kind, row.seq);
            let what = format!("has a second answer to call {call}: {kind} as event {seq}");
            self.violate("I14", row.instance, what);
        }
        match row.kind {
            // A failed signal or cancel to a child has no effect in the ledger.
            EventKind::StepFailed if !row.name.starts_with("step ") => {}
            EventKind::StepCompleted | EventKind::StepFailed => self.see_result(at, row),
            EventKind::ActivityCompleted
            | EventKind::ActivityFailed
            | EventKind::ActivityCancelled
            | EventKind::ChildCompleted
            | EventKind::ChildFailed
            | EventKind::ChildCancelled
            | EventKind::ChildTerminated => self.see_child_end(at, row),
            EventKind::ChildStarted => self.see_start(row),
            EventKind::TimerScheduled => {
                if let (Some(call), Some(after)) = (row.call, row.data["after_us"].as_i64()) {
                    let history = self.histories.entry(key).or_default();
                    history.timers.insert(call, row.at + after);
                }
            }
            EventKind::TimerFired => self.see_timer(at, row),
            EventKind::SignalConsumed => self.see_word(at, row),
            EventKind::UpdateAccepted => self.see_accepted(at, row),
            EventKind::UpdateCompleted => self.see_completed(row),
            EventKind::ReplayBlocked => {
                let what = format!("does not fit its history: {}", row.data);
                self.violate("I14", row.instance, what);
            }
            EventKind::GroupResolved => self.figures.groups += 1,
            EventKind::SelectionResolved => self.figures.selections += 1,
            EventKind::ChildMessaged => self.figures.told += 1,
            EventKind::VersionMarked => self.figures.versions += 1,
            EventKind::FailureHandled => self.figures.handled += 1,
            EventKind::RunCancelled => self.figures.flows_cancelled += 1,
            EventKind::RunStarted
            | EventKind::StepScheduled
            | EventKind::ActivityScheduled
            | EventKind::ChildScheduled
            | EventKind::GroupAwaited
            | EventKind::SelectionAwaited
            | EventKind::TimerCancelled
            | EventKind::SignalAwaited
            | EventKind::CancelRequested
            | EventKind::ContinuedAsNew
            | EventKind::RunCompleted
            | EventKind::RunFailed
            | EventKind::TimedOut
            | EventKind::Transitioned => {}
        }
    }

    /// Events are consecutive. The first one begins the run, and none follows the end. Only a
    /// retried instance may time out before it begins the next run.
    fn check_place(&mut self, row: &Event) {
        let life = self.lives.get(&row.instance);
        let timed_out_again =
            row.kind == EventKind::TimedOut && life.is_some_and(|life| life.retries > 0);
        let (run, seq) = (row.run, row.seq);
        let history = self.histories.get(&(row.instance, run));
        let (before, last) = history.map_or((0, None), |it| (it.events, it.last));
        let mut wrong = Vec::new();
        if seq != before + 1 {
            wrong.push(format!("has event {seq} of run {run} after event {before}"));
        }
        if (seq == 1) != (row.kind == EventKind::RunStarted) {
            wrong.push(format!("has {} as event {seq} of run {run}", row.kind));
        }
        if let Some(last) = last.filter(|last| ends_run(*last) && !timed_out_again) {
            wrong.push(format!("has {} after the {last} of run {run}", row.kind));
        }
        if before == 0 && run > 1 {
            self.figures.continued_as_new += 1;
            let earlier = self.histories.get(&(row.instance, run - 1));
            if !earlier.and_then(|it| it.last).is_some_and(ends_run) {
                wrong.push(format!("begins run {run} before the one before has ended"));
            }
        }
        for what in wrong {
            self.violate("I14", row.instance, what);
        }
    }

    /// The recorded result of a step is the result of one of its runs.
    fn see_result(&mut self, at: i64, row: &Event) {
        self.figures.flow_results += 1;
        let (run, name) = (row.run, &row.name);
        let nonce = match row.kind == EventKind::StepCompleted {
            true => row.data["result"].as_u64(),
            false => nonce_of(row.data["error"].as_str().unwrap_or_default()),
        };
        let is_of_it = |did: &&Did| did.run == run && did.step == *name && Some(did.nonce) == nonce;
        let mut did = self.books.did_of(row.instance).iter().filter(is_of_it);
        if did.next().is_none() && !self.may_lose {
            let what = format!(
                "recorded a result of {name:?} (run {run}) that no run of it had: {}",
                row.data
            );
            self.violate("I14", row.instance, what);
        }
        if row.kind == EventKind::StepCompleted {
            self.see_handled_step(row, nonce);
            self.add_received(at, row, nonce);
        }
    }

    /// The recorded runs of a child are runs that it has begun, each once and in order, before its
    /// end.
    fn see_start(&mut self, row: &Event) {
        let told = (row.data["child"].as_i64(), row.data["run"].as_i64());
        let (Some(call), (Some(child), Some(run))) = (row.call, told) else {
            let what = format!("recorded a start without call, child or run: {}", row.data);
            self.violate("I14", row.instance, what);
            return;
        };
        let history = self.histories.entry((row.instance, row.run)).or_default();
        let is_answered = history.answered.contains(&call);
        let before = history.starts.insert(call, (child, run));
        let mut wrong = Vec::new();
        if is_answered {
            wrong.push(format!("recorded a start of call {call} after its answer"));
        }
        if let Some(before) = before.filter(|before| before.0 != child || before.1 >= run) {
            wrong.push(format!(
                "recorded run {run} of child {child} after run {} of child {} for call {call}",
                before.1, before.0
            ));
        }
        let life = self.lives.get(&child);
        let has_begun = life.is_some_and(|life| {
            i64::from(life.last.run) >= run && life.last.parent == Some(row.instance)
        });
        if !has_begun && !self.may_lose {
            wrong.push(format!(
                "recorded run {run} of child {child}, which it has not begun"
            ));
        }
        for what in wrong {
            self.violate("I14", row.instance, what);
        }
    }

    /// The history has the start of the run with which a child ended. It has no start of a job, and
    /// none of a child that was never there.
    fn check_start(&mut self, row: &Event) {
        let is_job = matches!(
            row.kind,
            EventKind::ActivityCompleted | EventKind::ActivityFailed | EventKind::ActivityCancelled
        );
        let ended = row.data["child"].as_i64().zip(row.data["run"].as_i64());
        let history = self.histories.get(&(row.instance, row.run));
        let started = history.and_then(|it| it.starts.get(&row.call?).copied());
        if !is_job && ended.is_some() && started != ended {
            let what = format!(
                "recorded {} of child and run {ended:?}, which began as {started:?}",
                row.kind
            );
            self.violate("I14", row.instance, what);
        }
    }

    /// The recorded end of a child is its actual end.
    fn see_child_end(&mut self, at: i64, row: &Event) {
        self.check_start(row);
        self.figures.activities += u64::from(row.kind == EventKind::ActivityCompleted);
        let result = &row.data["result"];
        if row.kind == EventKind::ActivityCompleted {
            self.add_received(at, row, result.as_u64());
        }
        let child = row.data["child"].as_i64();
        let life = child.and_then(|child| self.lives.get(&child));
        let is_right = life.is_some_and(|life| {
            let has = life
                .last
                .result
                .as_deref()
                .map(serde_json::from_str::<Value>);
            let is = |kinds: [EventKind; 2]| kinds.contains(&row.kind);
            let fits = if is([EventKind::ActivityCompleted, EventKind::ChildCompleted]) {
                let same = has.and_then(Result::ok).as_ref() == Some(result);
                life.last.status == Status::Done && same
            } else if is([EventKind::ActivityFailed, EventKind::ChildFailed]) {
                life.last.status == Status::Failed
            } else {
                life.last.status == Status::Cancelled
            };
            fits && life.last.parent == Some(row.instance)
        });
        if !is_right && !self.may_lose {
            let is = life.map_or("not there".to_owned(), |life| {
                format!("{} with {:?}", life.last.status, life.last.result)
            });
            let what = format!(
                "recorded {} of child {child:?}, which is {is}: {}",
                row.kind, row.data
            );
            self.violate("I14", row.instance, what);
        }
    }

    /// I10 for timers.
    fn see_timer(&mut self, at: i64, row: &Event) {
        self.figures.flow_timers += 1;
        let history = self.histories.get(&(row.instance, row.run));
        let due = history.and_then(|it| it.timers.get(&row.call?).copied());
        match due {
            Some(due) if at + self.coarse_us < due => {
                let what = format!("recorded a timer {} µs before it was due", due - at);
                self.violate("I10", row.instance, what);
            }
            Some(_) => {}
            None => self.violate("I14", row.instance, "recorded a timer that had not begun"),
        }
    }

    fn see_word(&mut self, at: i64, row: &Event) {
        self.figures.flow_signals += 1;
        if let Some(signal) = row.data["signal"].as_i64() {
            let places = self.consumed.entry(signal).or_default();
            places.insert((row.run, row.seq));
        }
        self.add_received(at, row, row.data["payload"]["number"].as_u64());
    }

    pub(super) fn add_received(&mut self, at: i64, row: &Event, number: Option<u64>) {
        if let Some(number) = number {
            let history = self.histories.entry((row.instance, row.run)).or_default();
            history.received.entry(number).or_insert(at);
        }
    }

    /// The row counts its events, and a worker relies on that count after a claim.
    pub(super) fn check_count(&mut self, row: &Instance) {
        let history = self.histories.get(&(row.id, row.run));
        let (has, counts) = (history.map_or(0, |it| it.events), row.events);
        if has != counts {
            let what = format!("counts {counts} events in run {} and has {has}", row.run);
            self.violate("I14", row.id, what);
        }
    }

    /// A parent that is a workflow was woken by the end of a child, or by its deadline.
    pub(super) fn wake_flow(&mut self, was: &Instance, at: i64, row: &Instance) {
        use outlast_core::Joined;
        match row.joined {
            Some(Joined::Deadline) => self.check_deadline(was, at),
            Some(joined) => {
                self.figures.joins += 1;
                let (started, pending, failed) = (row.started, row.pending, row.failed);
                let counted = row.until().decided(started, pending, failed);
                if counted != Some(joined) {
                    let what = format!(
                        "was woken for {} with {started} awaited, {pending} pending, {failed} failed",
                        joined.as_str()
                    );
                    self.violate("I6", row.id, what);
                }
            }
            None => *self.woken_otherwise.entry(row.id).or_default() += 1,
        }
    }

    /// At the end: checks the end of the history, and the effects.
    pub(super) fn check_flow(&mut self, life: &Life) {
        let row = &life.last;
        self.check_count(row);
        let history = self.histories.get(&(row.id, row.run));
        let last = history.and_then(|it| it.last);
        let error = row.error.as_deref().unwrap_or_default();
        let fits = match row.status {
            Status::Done => last == Some(EventKind::RunCompleted),
            // A run that never began has no history.
            Status::Failed if row.has_timed_out() => {
                matches!(last, None | Some(EventKind::TimedOut))
            }
            Status::Failed => last == Some(EventKind::RunFailed),
            // A terminated run records nothing, and a run that never began has no history.
            Status::Cancelled => {
                last == Some(EventKind::RunCancelled)
                    || error.starts_with("terminated by ")
                    || last.is_none()
            }
            // I2 reports it.
            Status::Runnable
            | Status::Executing
            | Status::AwaitingSignal
            | Status::Sleeping
            | Status::AwaitingChildren => true,
        };
        if !fits {
            let last = last.map_or("nothing", EventKind::as_str);
            let what = format!("is {} with {last} at the end of its history", row.status);
            self.violate("I14", row.id, what);
        }
        self.check_done(life);
    }

    /// Every effect follows from events that were committed before it.
    fn check_done(&mut self, life: &Life) {
        if self.may_lose {
            return;
        }
        let mut wrong = Vec::new();
        for did in self.books.did_of(life.last.id) {
            let name = format!("{:?} (run {})", did.step, did.run);
            let history = self.histories.get(&(did.id, did.run));
            if did.run > life.last.run {
                wrong.push(format!("ran {name} of a run that was never begun"));
            }
            for number in &did.follows {
                let at = history.and_then(|it| it.received.get(number));
                match at {
                    None => wrong.push(format!(
                        "ran {name} after it was told {number}, which is in no history"
                    )),
                    Some(at) if *at > did.at + self.coarse_us => {
                        let early = at - did.at;
                        wrong.push(format!(
                            "ran {name} {early} µs before {number}, which it follows from, was committed"
                        ));
                    }
                    Some(_) => {}
                }
            }
        }
        for what in wrong {
            self.violate("I14", life.last.id, what);
        }
    }

    /// A workflow that neither a child nor the deadline woke has received a signal or a cancel.
    pub(super) fn check_wakes(&mut self) {
        let mut sent: HashMap<i64, u64> = HashMap::new();
        for signal in self.signals.values() {
            *sent.entry(signal.target).or_default() += 1;
        }
        let woken: Vec<(i64, u64)> = self.woken_otherwise.drain().collect();
        for (id, woken) in woken {
            let sent = sent.get(&id).copied().unwrap_or(0);
            if woken > sent {
                let what =
                    format!("was woken {woken} times for nothing, and was sent {sent} signals");
                self.violate("I6", id, what);
            }
        }
    }
}

/// Returns whether the event is the answer to a call, of which there is one.
fn answers(kind: EventKind) -> bool {
    match kind {
        EventKind::StepCompleted
        | EventKind::StepFailed
        | EventKind::ActivityCompleted
        | EventKind::ActivityFailed
        | EventKind::ActivityCancelled
        | EventKind::ChildCompleted
        | EventKind::ChildFailed
        | EventKind::ChildCancelled
        | EventKind::ChildTerminated
        | EventKind::GroupResolved
        | EventKind::SelectionResolved
        | EventKind::TimerFired
        | EventKind::TimerCancelled
        | EventKind::SignalConsumed => true,
        EventKind::RunStarted
        | EventKind::GroupAwaited
        | EventKind::SelectionAwaited
        | EventKind::StepScheduled
        | EventKind::ActivityScheduled
        | EventKind::ChildScheduled
        | EventKind::ChildStarted
        | EventKind::ChildMessaged
        | EventKind::TimerScheduled
        | EventKind::SignalAwaited
        | EventKind::UpdateAccepted
        | EventKind::UpdateCompleted
        | EventKind::VersionMarked
        | EventKind::CancelRequested
        | EventKind::FailureHandled
        | EventKind::ReplayBlocked
        | EventKind::ContinuedAsNew
        | EventKind::RunCompleted
        | EventKind::RunFailed
        | EventKind::RunCancelled
        | EventKind::TimedOut
        | EventKind::Transitioned => false,
    }
}

fn ends_run(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::ContinuedAsNew
            | EventKind::RunCompleted
            | EventKind::RunFailed
            | EventKind::RunCancelled
            | EventKind::TimedOut
    )
}

/// Returns which run of a step failed, from its error text.
fn nonce_of(error: &str) -> Option<u64> {
    error.rsplit(' ').next()?.parse().ok()
}
