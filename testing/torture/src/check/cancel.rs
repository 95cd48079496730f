//! I13: a cancelled tree ends, and nothing in it starts afterwards except what its machines asked for.

use super::{Checker, Life};
use crate::audit::Instance;
use crate::ledger::Ran;
use outlast::Status;
use std::collections::HashMap;

/// How much longer than whoever was to end it somebody may live: a cascade takes its time when workers are killed.
const OUTLIVES_MAX_US: i64 = 30_000_000;

/// What an instance was told about its end.
#[derive(Default)]
pub(super) struct Told {
    /// It is asked to end, and when.
    asked_at: Option<i64>,
    /// The claim that ran at that time: its outcome is still of the old course.
    running: Option<i64>,
    /// An outcome that is wrong unless a change at the same revision says that it answers the cancel.
    wrong: Option<(i64, String)>,
    /// Every right to run a step that was given.
    grants: Vec<Grant>,
    ended_at: Option<i64>,
}

/// A worker may run a step: by a claim, or by an outcome that keeps it.
struct Grant {
    visit: i64,
    worker: Option<i64>,
    /// Whether it is to run what the machine has for a cancel instead.
    to_answer: bool,
}

impl Told {
    /// The first row of an instance.
    pub(super) fn of(row: &Instance) -> Told {
        let mut told = Told::default();
        told.grant(row);
        told
    }

    fn grant(&mut self, row: &Instance) {
        if row.status == Status::Executing {
            self.grants.push(Grant {
                visit: row.visit,
                worker: row.locked_by,
                to_answer: row.is_to_answer(),
            });
        }
    }
}

/// Whether this is the rest of an outcome: that it answers a cancel, which a store may write after it.
fn answers(was: &Instance, row: &Instance) -> bool {
    row.answered && !was.answered && row.revision == was.revision
}

impl Checker {
    /// A cancel came, was answered or forgotten; a step was begun or ended.
    pub(super) fn follow_cancel(&mut self, life: &mut Life, at: i64, row: &Instance) {
        let was = &life.last;
        if answers(was, row) {
            life.told.wrong = None;
            self.allow_round(row);
            self.figures.outcomes += u64::from(row.status == Status::Cancelled);
        }
        // What else is written of the same outcome does not yet tell.
        if row.revision != was.revision {
            self.tell_wrong(life);
        }
        let was = &life.last;
        if row.cancelled && !was.cancelled {
            self.figures.cancels += 1;
            life.told.asked_at.get_or_insert(at);
            let runs = was.status == Status::Executing;
            life.told.running = runs.then_some(was.revision);
        }
        if !row.cancelled {
            // An operator has retried it.
            life.told.running = None;
        }
        let goes_on = row.visit != was.visit || matches!(row.status, Status::Done | Status::Failed);
        let by_an_outcome =
            was.status == Status::Executing && row.crashes == was.crashes && goes_on;
        let unanswered = was.is_to_answer() && row.is_to_answer();
        if by_an_outcome && unanswered && life.told.running != Some(was.revision) {
            let (step, visit) = (&was.step, was.visit);
            let what = format!(
                "was asked to end, and then wrote an outcome of {step:?} (visit {visit}) as if it had not been"
            );
            life.told.wrong = Some((row.id, what));
        }
        if row.revision != was.revision {
            life.told.grant(row);
        } else if answers(was, row) {
            // It was given with the outcome, and is no longer to answer anything.
            let last = life.told.grants.last_mut();
            last.into_iter().for_each(|grant| grant.to_answer = false);
        }
        if row.status.is_terminal() && !was.status.is_terminal() {
            life.told.ended_at = Some(at);
        }
    }

    /// What was wrong, since nothing has made it right.
    pub(super) fn tell_wrong(&mut self, life: &mut Life) {
        if let Some((id, what)) = life.told.wrong.take() {
            self.violate("I13", id, what);
        }
    }

    /// A step that runs by a right that was only to answer a cancel; an answer to nothing.
    pub(super) fn compare_grant(&self, life: &Life, ran: &Ran) -> Option<&'static str> {
        if ran.cancelling {
            let asked = life.told.asked_at;
            let asked = asked.is_some_and(|at| at <= ran.at + self.coarse_us);
            return (!asked).then_some("answered a cancel that nobody asked for");
        }
        let worker = |grant: &&Grant| {
            let name = grant.worker.and_then(|worker| self.workers.get(&worker));
            grant.visit == ran.visit && name == Some(&ran.worker)
        };
        let mut grants = life.told.grants.iter().filter(worker).peekable();
        let only_to_answer = grants.peek().is_some() && grants.all(|grant| grant.to_answer);
        only_to_answer.then_some("started after it was asked to end")
    }

    /// Whoever waited to be told to end, and was not.
    pub(super) fn check_told(&mut self, lives: &HashMap<i64, Life>) {
        if self.may_lose {
            return;
        }
        for life in lives.values() {
            let row = &life.last;
            let ended = life.told.ended_at.unwrap_or(i64::MAX);
            let gave_up = row.step == "outlive" && row.status == Status::Failed;
            let waited = gave_up || !row.status.is_terminal();
            if row.machine != "family" || !waited {
                continue;
            }
            let parent = row.parent.and_then(|parent| lives.get(&parent));
            let parent = parent.filter(|_| row.policy.is_some());
            let parent_ended = parent.and_then(|parent| parent.told.ended_at);
            if parent_ended.is_some_and(|parent| parent < ended.saturating_sub(OUTLIVES_MAX_US)) {
                self.violate("I13", row.id, "outlived its parent in spite of its policy");
            }
            let tree_ended = self.tree_ended(lives, life);
            if tree_ended.is_some_and(|tree| tree < ended.saturating_sub(OUTLIVES_MAX_US)) {
                self.violate("I13", row.id, "outlived the tree that it belongs to");
            }
        }
    }

    /// When somebody was acknowledged the end of the whole tree that it was in by then.
    fn tree_ended(&self, lives: &HashMap<i64, Life>, life: &Life) -> Option<i64> {
        let born = life.visits.first().map_or(0, |visit| visit.at);
        let mut member = Some(life);
        let mut first: Option<i64> = None;
        while let Some(one) = member {
            let ended = self.books.trees_ended.get(&one.last.id).copied();
            let ended = ended.filter(|at| *at > born);
            first = first.into_iter().chain(ended).min();
            member = one.last.parent.and_then(|parent| lives.get(&parent));
        }
        first
    }
}
