//! What must always be true, checked from what the database committed and what the ledger says happened.
//!
//! | | how it is checked |
//! |---|---|
//! | I1 | every acknowledged insert is in the audit; only ended instances are deleted |
//! | I2 | at the end, every instance has ended |
//! | I3 | revisions only grow; what leaves a claim has another revision |
//! | I4 | nothing leaves an end but by a retry that the database has a record of |
//! | I5 | every effect is of a visit that was committed before it; every outcome has an effect |
//! | I6 | one wake per round, when the counts of its row decide its join, its time is up or a cancel came; the counts are of ends that are in the audit; the step saw exactly the children, why it was woken and whose failure was first; never more of them have a place than there are in the window |
//! | I7 | every acknowledged signal is there once, and was received in one visit or dropped at the end |
//! | I8 | the executing instances of a partition key, change by change: never two, first claims in order |
//! | I9 | the holders of a correlation key, change by change: never two |
//! | I10 | no claim before its time, no timeout before its deadline |
//! | I11 | in `stage.rs`, after the stop: nothing executing, no worker, no connection left |
//! | I14 | event by event: each history without gaps, a run after the end of the one before, one answer to a call, of a step only what a run of it came to, of a child only how it ended, nothing rewritten, no timer early; the row counts it rightly whenever it is claimed; every step that ran follows from what was committed before; the end of the row is the end of its history |
//! | I13 | after a cancel only the claim that ran writes an outcome of the old course, and starts no children; every other right to run was used to answer; whoever waited to be told to end was told; in `stage.rs`, nobody is left to be told |
//!
//! The audit is read once, in order; nothing but the last row of each instance and its visits is kept.

mod books;
mod cancel;
mod family;
mod finish;
#[cfg(test)]
mod tests;
mod workflows;

pub(crate) use books::Books;
pub(crate) use finish::Records;

use crate::audit::{Change, Instance, Op, Signal, Subject};
use cancel::Told;
use family::Round;
use outlast::Status;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use workflows::{History, is_flow};

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Violation {
    pub(crate) rule: &'static str,
    /// Whose story it is.
    pub(crate) instance: Option<i64>,
    pub(crate) what: String,
}

/// What was seen on the way.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Figures {
    pub(crate) instances: u64,
    pub(crate) changes: u64,
    pub(crate) effects: u64,
    pub(crate) outcomes: u64,
    /// Runs of a step whose outcome was not written: killed, frozen or cut off before.
    pub(crate) duplicate_executions: u64,
    /// Runs of a step that began after another run of it was committed: the worker did not know that its claim was lost.
    pub(crate) late_starts: u64,
    pub(crate) signals: u64,
    pub(crate) joins: u64,
    /// Joins that were decided while children lived, and by their deadline.
    pub(crate) early_joins: u64,
    pub(crate) join_deadlines: u64,
    pub(crate) windows: u64,
    /// Instances that were asked to end, and children that ended before they had a place in their window.
    pub(crate) cancels: u64,
    pub(crate) never_started: u64,
    pub(crate) timeouts: u64,
    pub(crate) latest_timeout_ms: u64,
    /// Claims taken from workers that were dead, or thought to be.
    pub(crate) recoveries: u64,
    /// From the death of a worker to the next claim of what it held.
    pub(crate) slowest_recovery_ms: u64,
    pub(crate) kills: u64,
    pub(crate) deaths: u64,
    pub(crate) freezes: u64,
    /// Workers that went on after their claims had been taken from them.
    pub(crate) zombies: u64,
    /// Outcomes that were dropped, since their claim was lost.
    pub(crate) lost_outcomes: u64,
    pub(crate) operators_retries: u64,
    pub(crate) workflows: u64,
    pub(crate) continued_as_new: u64,
    /// Steps of workflows that ran, and how many results of them are in histories.
    pub(crate) flow_effects: u64,
    pub(crate) flow_results: u64,
    pub(crate) activities: u64,
    pub(crate) groups: u64,
    pub(crate) selections: u64,
    /// Signals and cancels of workflows to their children.
    pub(crate) told: u64,
    pub(crate) versions: u64,
    pub(crate) flow_timers: u64,
    pub(crate) flow_signals: u64,
    /// Failures that workflows went on from.
    pub(crate) handled: u64,
    /// Runs that answered a cancel with their end.
    pub(crate) flows_cancelled: u64,
    pub(crate) collected: u64,
    /// Acknowledged and gone: where that may be, since a standby that does not confirm was promoted.
    pub(crate) lost_inserts: u64,
    pub(crate) lost_signals: u64,
    /// Runs of steps whose coming was committed and is gone.
    pub(crate) lost_visits: u64,
}

/// Sees every change, then says what was wrong.
pub(crate) struct Checker {
    books: Books,
    /// How coarse the audit's clock is, in microseconds.
    coarse_us: i64,
    /// Whether an acknowledged write may be lost: a standby that does not confirm was promoted.
    may_lose: bool,
    lives: HashMap<i64, Life>,
    signals: HashMap<i64, SignalLife>,
    dedups: HashSet<(i64, String)>,
    rounds: HashMap<(i64, i32), Round>,
    executing: HashMap<String, i64>,
    holders: HashMap<(String, String), i64>,
    workers: HashMap<i64, String>,
    reaps: HashMap<String, Vec<i64>>,
    /// By workflow and run.
    histories: HashMap<(i64, i32), History>,
    /// Signals that workflows have consumed, and where their histories say so.
    consumed: HashMap<i64, HashSet<(i32, i32)>>,
    /// How often a workflow that waited for children was woken by none of them.
    woken_otherwise: HashMap<i64, u64>,
    figures: Figures,
    violations: Vec<Violation>,
}

/// An instance, as far as it has been seen.
struct Life {
    last: Instance,
    token: Option<u64>,
    visits: Vec<Visit>,
    /// The first claim, by its place in the audit.
    first_claim: Option<i64>,
    /// The last change that did not end it, by its place in the audit.
    last_alive: i64,
    /// When it ended, if it has.
    ended_at: Option<i64>,
    retries: u64,
    timed_out: Vec<Wake>,
    /// When the worker was struck that held it, until it is claimed again.
    struck: Option<i64>,
    deleted: bool,
    told: Told,
}

/// An instance came to a step.
struct Visit {
    visit: i64,
    step: String,
    round: i32,
    at: i64,
}

/// A wait was over.
struct Wake {
    visit: i64,
    at: i64,
    deadline: i64,
}

struct SignalLife {
    target: i64,
    /// Where in the audit it was consumed or dropped.
    gone: Option<i64>,
}

impl Checker {
    pub(crate) fn new(books: Books, coarse_us: i64, may_lose: bool) -> Checker {
        Checker {
            books,
            coarse_us,
            may_lose,
            lives: HashMap::new(),
            signals: HashMap::new(),
            dedups: HashSet::new(),
            rounds: HashMap::new(),
            executing: HashMap::new(),
            holders: HashMap::new(),
            workers: HashMap::new(),
            reaps: HashMap::new(),
            histories: HashMap::new(),
            consumed: HashMap::new(),
            woken_otherwise: HashMap::new(),
            figures: Figures::default(),
            violations: Vec::new(),
        }
    }

    /// The next change.
    pub(crate) fn see(&mut self, change: Change) {
        self.figures.changes += 1;
        match change.subject {
            Subject::Instance(row) => self.see_instance(change.seq, change.at, *row),
            Subject::Event(row) => self.see_event(change.at, &row),
            Subject::Signal(row) => self.see_signal(change.seq, &row),
            Subject::Worker(row) => {
                self.workers.insert(row.id, row.name);
            }
        }
    }

    fn see_instance(&mut self, seq: i64, at: i64, row: Instance) {
        self.replay_keys(&row);
        match (row.op, self.lives.remove(&row.id)) {
            (Op::Insert, None) => self.begin(seq, at, row),
            (Op::Insert, Some(life)) => {
                self.violate("I1", row.id, "was inserted when it was there already");
                self.lives.insert(row.id, life);
            }
            (Op::Update, Some(life)) => self.go_on(life, seq, at, row),
            (Op::Delete, Some(life)) => self.end(life),
            (Op::Update | Op::Delete, None) => {
                self.violate("I1", row.id, "changed without having been inserted");
            }
        }
    }

    fn begin(&mut self, seq: i64, at: i64, row: Instance) {
        self.figures.instances += 1;
        self.figures.workflows += u64::from(is_flow(&row));
        let visit = Visit {
            visit: row.visit,
            step: row.step.clone(),
            round: row.round,
            at,
        };
        self.spawn(&row);
        let life = Life {
            token: row.state.as_deref().and_then(token),
            visits: vec![visit],
            first_claim: (row.status == Status::Executing).then_some(seq),
            last_alive: seq,
            ended_at: None,
            retries: 0,
            timed_out: Vec::new(),
            struck: None,
            deleted: false,
            told: Told::of(&row),
            last: row,
        };
        self.lives.insert(life.last.id, life);
    }

    fn go_on(&mut self, mut life: Life, seq: i64, at: i64, row: Instance) {
        let (id, was, is) = (row.id, life.last.status, row.status);
        self.follow_cancel(&mut life, at, &row);
        if is_same_claim(&life.last, &row) {
            life.last_alive = seq;
            life.last = row;
            self.lives.insert(id, life);
            return;
        }
        self.check_revision(&life.last, &row);
        self.follow_parent(&life, at, &row);
        if row.pending < 0 {
            self.violate("I6", id, "waits for fewer than no children");
        }
        if was.is_terminal() && !is.is_terminal() {
            life.retries += 1;
        }
        if was != is && !was.may_become(is) {
            self.violate("I4", id, format!("went from {was} to {is}"));
        }
        if was == Status::Executing {
            self.leave_claim(&mut life, at, &row);
        }
        if is == Status::Executing && was != Status::Executing {
            self.check_claim(&mut life, seq, at);
        }
        if was == Status::AwaitingSignal && !is.is_terminal() && !row.is_to_answer() {
            self.wake(&mut life, at);
        }
        self.follow_child(&life.last, &row, life.retries > 0);
        if row.visit != life.last.visit {
            life.visits.push(Visit {
                visit: row.visit,
                step: row.step.clone(),
                round: row.round,
                at,
            });
        }
        life.ended_at = is.is_terminal().then_some(at);
        if !is.is_terminal() {
            life.last_alive = seq;
        }
        life.last = row;
        self.lives.insert(id, life);
    }

    /// I3.
    fn check_revision(&mut self, was: &Instance, is: &Instance) {
        let grown = is.revision > was.revision;
        if is.revision < was.revision || (was.status == Status::Executing && !grown) {
            let (from, to) = (was.revision, is.revision);
            self.violate("I3", is.id, format!("went from revision {from} to {to}"));
        }
    }

    /// A claim came to its end: by an outcome, by a reap, given back, or by an operator.
    fn leave_claim(&mut self, life: &mut Life, at: i64, row: &Instance) {
        let was = &life.last;
        if row.crashes > was.crashes {
            self.figures.recoveries += 1;
            let worker = was.locked_by.and_then(|worker| self.workers.get(&worker));
            if let Some(worker) = worker.cloned() {
                life.struck = self.books.struck(&worker, at);
                self.reaps.entry(worker).or_default().push(at);
            }
            return;
        }
        // What a workflow has run is checked against its history.
        if is_outcome(was, row) && !is_flow(row) {
            self.figures.outcomes += 1;
            // A job has nothing of its own to say to a cancel.
            if row.machine == "errand" && row.status == Status::Cancelled {
                return;
            }
            // I5: what is written was run.
            let ran = self.books.effects_of(was.id);
            let ran = ran
                .iter()
                .any(|ran| ran.visit == was.visit && ran.step == was.step);
            if !ran {
                let (step, visit) = (&was.step, was.visit);
                let what = format!("has an outcome of {step:?} (visit {visit}) that never ran");
                self.violate("I5", was.id, what);
            }
        }
    }

    /// I10, and the first claim of each.
    fn check_claim(&mut self, life: &mut Life, seq: i64, at: i64) {
        let due = life.last.eligible_at;
        if life.last.status == Status::Runnable && at + self.coarse_us < due {
            let early = due - at;
            self.violate("I10", life.last.id, format!("was claimed {early} µs early"));
        }
        if let Some(struck) = life.struck.take() {
            let took = u64::try_from(at - struck).unwrap_or(0) / 1_000;
            let slowest = &mut self.figures.slowest_recovery_ms;
            *slowest = took.max(*slowest);
        }
        if is_flow(&life.last) {
            self.check_count(&life.last);
        }
        life.first_claim.get_or_insert(seq);
    }

    /// Whether a signal or the time woke it is known from what the step received.
    fn wake(&mut self, life: &mut Life, at: i64) {
        if let Some(deadline) = life.last.deadline {
            let visit = life.last.visit;
            life.timed_out.push(Wake {
                visit,
                at,
                deadline,
            });
        }
    }

    /// I8 and I9: who holds a key, change by change.
    fn replay_keys(&mut self, row: &Instance) {
        let gone = row.op == Op::Delete;
        if let Some(key) = &row.partition_key {
            let runs = row.status == Status::Executing && !gone;
            let other = hold(&mut self.executing, key.clone(), row.id, runs);
            if let Some(other) = other {
                let what = format!("executes beside {other} with partition key {key:?}");
                self.violate("I8", row.id, what);
            }
        }
        let before = self
            .lives
            .get(&row.id)
            .and_then(|life| life.last.guard.clone());
        if let Some(key) = row.guard.clone().or(before) {
            let holds = row.guard.is_some() && !gone;
            let place = (row.machine.clone(), key.clone());
            let other = hold(&mut self.holders, place, row.id, holds);
            if let Some(other) = other {
                let what = format!("holds the correlation key {key:?} beside {other}");
                self.violate("I9", row.id, what);
            }
        }
    }

    fn end(&mut self, mut life: Life) {
        self.figures.collected += 1;
        let status = life.last.status;
        if !status.is_terminal() {
            self.violate(
                "I1",
                life.last.id,
                format!("was deleted while it was {status}"),
            );
        }
        life.deleted = true;
        self.lives.insert(life.last.id, life);
    }

    /// I7.
    fn see_signal(&mut self, seq: i64, row: &Signal) {
        match row.op {
            Op::Insert => self.deliver(row),
            Op::Update if row.consumed => self.consume(seq, row),
            Op::Update => {}
            // A tombstone that goes with its instance has been consumed before.
            Op::Delete if row.consumed => {}
            Op::Delete => self.consume(seq, row),
        }
    }

    fn deliver(&mut self, row: &Signal) {
        self.figures.signals += 1;
        let life = SignalLife {
            target: row.target,
            gone: None,
        };
        self.signals.insert(row.id, life);
        if let Some(dedup) = &row.dedup {
            let first = self.dedups.insert((row.target, dedup.clone()));
            if !first {
                let what = format!("was sent a signal twice with dedup key {dedup:?}");
                self.violate("I7", row.target, what);
            }
        }
        let ended = self.lives.get(&row.target);
        if ended.is_some_and(|life| life.last.status.is_terminal()) {
            let (id, name) = (row.id, &row.name);
            let what = format!("was sent signal {id} ({name}) after it had ended");
            self.violate("I7", row.target, what);
        }
    }

    fn consume(&mut self, seq: i64, row: &Signal) {
        let gone = self
            .signals
            .get_mut(&row.id)
            .map(|life| life.gone.replace(seq));
        match gone {
            Some(None) => {}
            Some(Some(_)) => {
                self.violate(
                    "I7",
                    row.target,
                    format!("consumed signal {} twice", row.id),
                );
            }
            None => {
                let what = format!("consumed signal {} that was never sent", row.id);
                self.violate("I7", row.target, what);
            }
        }
    }

    fn violate(&mut self, rule: &'static str, instance: i64, what: impl Into<String>) {
        self.violations.push(Violation {
            rule,
            instance: Some(instance),
            what: what.into(),
        });
    }
}

/// Whether the claim goes on as it was: its instance was asked to end, or something is noted before its outcome.
fn is_same_claim(was: &Instance, is: &Instance) -> bool {
    let claim = |row: &Instance| {
        let runs = row.status == Status::Executing;
        runs.then_some((row.revision, row.visit, row.attempt, row.locked_by))
    };
    claim(was).is_some() && claim(was) == claim(is) && was.step == is.step
}

/// Whether the step of a claim was brought to its end by an outcome.
fn is_outcome(was: &Instance, is: &Instance) -> bool {
    let retried = is.status == Status::Runnable && is.attempt > was.attempt;
    let stopped = matches!(is.status, Status::Done | Status::Failed);
    let answered = is.answered && !was.answered;
    is.visit != was.visit || stopped || retried || answered
}

/// Notes who holds a key now. Answers who else does.
fn hold<K: std::hash::Hash + Eq>(
    holders: &mut HashMap<K, i64>,
    key: K,
    id: i64,
    holds: bool,
) -> Option<i64> {
    if holds {
        let other = holders.insert(key, id);
        return other.filter(|other| *other != id);
    }
    if holders.get(&key) == Some(&id) {
        holders.remove(&key);
    }
    None
}

/// The load's number of an instance, from its first state.
fn token(state: &str) -> Option<u64> {
    let state: serde_json::Value = serde_json::from_str(state).ok()?;
    state.get("token")?.as_u64()
}
