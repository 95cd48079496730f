//! Checks the invariants against the committed changes (the audit) and the real effects (the
//! ledger).
//!
//! The checks:
//! - I1: every acknowledged insert is in the audit; only finished instances are deleted.
//! - I2: at the end, every instance has finished.
//! - I3: revisions only grow; a row that leaves a claim has another revision.
//! - I4: a finished instance changes only by a retry that the database has recorded.
//! - I5: every effect belongs to a visit that was committed before it; every outcome has an
//!   effect.
//! - I6: a round has one wake, caused by its counts, its deadline or a cancel. The counts include
//!   only ends that are in the audit. The step sees exactly the children, the cause of the wake
//!   and the first failure. The window never has more children than slots.
//! - I7: every acknowledged signal exists once, and was received in one visit or dropped at the
//!   end.
//!   An update has one reply, which every sender was told, or its instance ended first. Its code
//!   ran once, and a rejected update left no event.
//! - I8: a partition key never has two executing instances; first claims are in order.
//! - I9: a correlation key never has two holders.
//! - I10: no claim before its time, no timeout before its deadline. This holds for waits, joins,
//!   instances and runs.
//! - I11: in `stage.rs`, after the shutdown: nothing executing, no worker, no connection left.
//! - I14: each history has no gaps and is never rewritten. A run begins after the end of the
//!   previous one. A call has one answer: for a step, the result of one of its runs; for a child,
//!   its final status. No timer fires early. The row counts its events correctly at every claim.
//!   Every step that ran follows from committed events. The row and its history end alike.
//! - I13: after a cancel, only the running claim may write an outcome that ignores it, and that
//!   starts no children. Every other permission to run was used to answer. An instance that waited
//!   for its end was ended. In `stage.rs`, no cascade is left.
//!
//! The audit is read once, in order. The checker keeps only the last row of each instance, and its
//! visits.

mod books;
mod cancel;
mod family;
mod finish;
#[cfg(test)]
mod tests;
mod timeouts;
mod updates;
mod workflows;

pub(crate) use books::Books;
pub(crate) use finish::Records;

use crate::audit::{Change, Instance, Op, Signal, Subject};
use cancel::CancelLife;
use family::Round;
use outlast::Status;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use updates::{Reply, UpdateLife};
use workflows::{History, is_flow};

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Violation {
    pub(crate) rule: &'static str,
    /// The instance whose changes the report prints.
    pub(crate) instance: Option<i64>,
    pub(crate) what: String,
}

/// Counts of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Figures {
    pub(crate) instances: u64,
    pub(crate) changes: u64,
    pub(crate) effects: u64,
    pub(crate) outcomes: u64,
    /// Runs of a step whose outcome was not written: the worker was killed, frozen or cut off
    /// before.
    pub(crate) duplicate_executions: u64,
    /// Runs of a step that began after another run of it was committed: the worker did not know
    /// that its claim was lost.
    pub(crate) late_starts: u64,
    pub(crate) signals: u64,
    pub(crate) joins: u64,
    /// Joins that were decided while children were live, and by their deadline.
    pub(crate) early_joins: u64,
    pub(crate) join_deadlines: u64,
    pub(crate) windows: u64,
    /// Cancel requests, and children that ended before they had a slot in their window.
    pub(crate) cancels: u64,
    pub(crate) never_started: u64,
    pub(crate) timeouts: u64,
    pub(crate) latest_timeout_ms: u64,
    /// Instances and runs that took too long.
    pub(crate) timed_out: u64,
    pub(crate) latest_timed_out_ms: u64,
    /// Claims reaped from workers that were dead, or seemed to be.
    pub(crate) recoveries: u64,
    /// The longest time from the death of a worker to the next claim of its instances.
    pub(crate) slowest_recovery_ms: u64,
    pub(crate) kills: u64,
    pub(crate) deaths: u64,
    pub(crate) freezes: u64,
    /// Workers that continued after their claims had been reaped.
    pub(crate) zombies: u64,
    /// Outcomes that were dropped because their claim was lost.
    pub(crate) lost_outcomes: u64,
    pub(crate) operators_retries: u64,
    pub(crate) workflows: u64,
    pub(crate) continued_as_new: u64,
    /// Runs of workflow steps, and the number of their results in histories.
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
    /// Updates, by their id, and how often they were sent after the first time.
    pub(crate) updates: u64,
    pub(crate) updates_sent_again: u64,
    /// Updates with a reply of the code, rejected ones, and those whose instance ended first.
    pub(crate) updates_replied: u64,
    pub(crate) updates_rejected: u64,
    pub(crate) updates_ended: u64,
    /// Updates that handlers of workflows accepted.
    pub(crate) updates_handled: u64,
    /// Failures that workflows handled.
    pub(crate) handled: u64,
    /// Runs that ended as cancelled in answer to a cancel.
    pub(crate) flows_cancelled: u64,
    pub(crate) collected: u64,
    /// Acknowledged inserts that are lost; allowed after the promotion of an asynchronous standby.
    pub(crate) lost_inserts: u64,
    pub(crate) lost_signals: u64,
    /// Runs of steps whose committed visit is lost.
    pub(crate) lost_visits: u64,
}

/// Sees every change, then reports the violations.
pub(crate) struct Checker {
    books: Books,
    /// The resolution of the audit's clock, in microseconds.
    coarse_us: i64,
    /// Whether an acknowledged write may be lost: an asynchronous standby was promoted.
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
    /// Signals that workflows consumed, and the events that record it.
    consumed: HashMap<i64, HashSet<(i32, i32)>>,
    /// The replies that histories record, by signal.
    completed: HashMap<i64, Reply>,
    /// Steps that handlers of updates made: the recorded results, by workflow and name.
    handled_steps: HashMap<(i64, String), Vec<u64>>,
    /// Unconsumed updates that the handler of a workflow takes, and their places in the audit.
    unhandled: HashMap<i64, HashMap<i64, i64>>,
    /// How often a workflow that waited for children was woken for another reason.
    woken_otherwise: HashMap<i64, u64>,
    figures: Figures,
    violations: Vec<Violation>,
}

/// An instance, as far as it has been seen.
struct Life {
    last: Instance,
    token: Option<u64>,
    visits: Vec<Visit>,
    /// The first claim, by its position in the audit.
    first_claim: Option<i64>,
    /// The last change before its end, by its position in the audit.
    last_alive: i64,
    /// When it began its wait, by its position in the audit.
    parked: i64,
    /// When it finished, if it has.
    ended_at: Option<i64>,
    retries: u64,
    timed_out: Vec<Wake>,
    /// When the worker that held it was killed or frozen, until the next claim.
    struck: Option<i64>,
    deleted: bool,
    cancel: CancelLife,
}

/// The arrival of an instance at a step.
struct Visit {
    visit: i64,
    step: String,
    round: i32,
    at: i64,
}

/// The end of a wait.
struct Wake {
    visit: i64,
    at: i64,
    deadline: i64,
}

struct SignalLife {
    target: i64,
    name: String,
    /// For an update: its id, and its reply.
    update: Option<UpdateLife>,
    /// Its position in the audit when it was consumed or dropped.
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
            completed: HashMap::new(),
            handled_steps: HashMap::new(),
            unhandled: HashMap::new(),
            woken_otherwise: HashMap::new(),
            figures: Figures::default(),
            violations: Vec::new(),
        }
    }

    /// Processes the next change.
    pub(crate) fn see(&mut self, change: Change) {
        self.figures.changes += 1;
        match change.subject {
            Subject::Instance(row) => self.see_instance(change.seq, change.at, *row),
            Subject::Event(row) => self.see_event(change.at, &row),
            Subject::Signal(row) => self.see_signal(change.seq, change.at, &row),
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
        self.check_parent_lives(&row);
        self.spawn(&row);
        let life = Life {
            token: row.state.as_deref().and_then(token),
            visits: vec![visit],
            first_claim: (row.status == Status::Executing).then_some(seq),
            last_alive: seq,
            parked: seq,
            ended_at: None,
            retries: 0,
            timed_out: Vec::new(),
            struck: None,
            deleted: false,
            cancel: CancelLife::of(&row),
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
        self.check_unhandled(&life, &row);
        self.follow_parent(&life, at, &row);
        self.follow_timeout(&life.last, at, &row);
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
        if was != is {
            life.parked = seq;
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

    /// Processes the end of a claim: by an outcome, a reap, a release or an operator.
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
        // A timeout is no outcome. The steps of a workflow are checked against its history.
        if is_outcome(was, row) && !is_flow(row) && !row.has_timed_out() {
            self.figures.outcomes += 1;
            // A job does not answer a cancel itself.
            if row.machine == "errand" && row.status == Status::Cancelled {
                return;
            }
            // I5: every written outcome has a run.
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

    /// I10, and the first claim of each instance.
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

    /// The step's signals show later whether a signal or the deadline woke it.
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

    /// I8 and I9: tracks the holder of each key, change by change.
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
    fn see_signal(&mut self, seq: i64, at: i64, row: &Signal) {
        let has_new_reply = row.op == Op::Update && self.see_reply(row);
        match row.op {
            Op::Insert => self.deliver(seq, at, row),
            // A reply that comes after the consumption goes into the tombstone.
            Op::Update if has_new_reply && self.is_gone(row.id) => {}
            Op::Update if row.consumed => self.consume(seq, row),
            Op::Update => {}
            // A tombstone that is deleted with its instance was consumed before.
            Op::Delete if row.consumed => {}
            Op::Delete => self.consume(seq, row),
        }
    }

    fn deliver(&mut self, seq: i64, at: i64, row: &Signal) {
        self.figures.signals += 1;
        let life = SignalLife {
            target: row.target,
            name: row.name.clone(),
            update: self.begin_update(seq, at, row),
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

    fn is_gone(&self, signal: i64) -> bool {
        let life = self.signals.get(&signal);
        life.is_some_and(|life| life.gone.is_some())
    }

    fn consume(&mut self, seq: i64, row: &Signal) {
        if let Some(unhandled) = self.unhandled.get_mut(&row.target) {
            unhandled.remove(&row.id);
        }
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

/// Returns whether the claim continues: its instance was asked to cancel, or a note was written
/// before the outcome.
fn is_same_claim(was: &Instance, is: &Instance) -> bool {
    let claim = |row: &Instance| {
        let runs = row.status == Status::Executing;
        runs.then_some((row.revision, row.visit, row.attempt, row.locked_by))
    };
    claim(was).is_some() && claim(was) == claim(is) && was.step == is.step
}

/// Returns whether an outcome ended the step of a claim.
fn is_outcome(was: &Instance, is: &Instance) -> bool {
    let retried = is.status == Status::Runnable && is.attempt > was.attempt;
    let stopped = matches!(is.status, Status::Done | Status::Failed);
    let answered = is.answered && !was.answered;
    is.visit != was.visit || stopped || retried || answered
}

/// Records the holder of a key. Returns another current holder.
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

/// Returns the load's number of an instance, from its first state.
fn token(state: &str) -> Option<u64> {
    let state: serde_json::Value = serde_json::from_str(state).ok()?;
    state.get("token")?.as_u64()
}
