//! I13: a cancelled tree ends, and nothing in it starts afterwards except what its machines
//! decided.

use super::{Checker, Life};
use crate::audit::Instance;
use crate::ledger::Ran;
use outlast::Status;
use std::collections::HashMap;

/// How long a child may outlive the instance that must end it: a cascade takes time when workers
/// are killed.
pub(super) const OUTLIVES_MAX_US: i64 = 30_000_000;

/// The cancel of an instance, as far as it has been seen.
#[derive(Default)]
pub(super) struct CancelLife {
    /// When it was asked to cancel.
    pub(super) asked_at: Option<i64>,
    /// The claim that ran at that time. Its outcome may still ignore the cancel.
    running: Option<i64>,
    /// An outcome that is a violation unless a change at the same revision shows that it answers
    /// the cancel.
    wrong: Option<(i64, String)>,
    /// Every permission to run a step.
    grants: Vec<Grant>,
    pub(super) ended_at: Option<i64>,
}

/// A worker may run a step: by a claim, or by an outcome that keeps the claim.
struct Grant {
    visit: i64,
    worker: Option<i64>,
    /// Whether the worker must run `on_cancel` instead of the step.
    to_answer: bool,
}

impl CancelLife {
    /// Returns the state after the first row of an instance.
    pub(super) fn of(row: &Instance) -> CancelLife {
        let mut cancel = CancelLife::default();
        cancel.grant(row);
        cancel
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

/// Returns whether this change marks the outcome before it as the answer to a cancel. A store may
/// write that separately.
fn answers(was: &Instance, row: &Instance) -> bool {
    row.answered && !was.answered && row.revision == was.revision
}

impl Checker {
    /// Follows a cancel request, its answer or its removal, and the start or end of a step.
    pub(super) fn follow_cancel(&mut self, life: &mut Life, at: i64, row: &Instance) {
        let was = &life.last;
        if answers(was, row) {
            life.cancel.wrong = None;
            self.allow_round(row);
            self.figures.outcomes += u64::from(row.status == Status::Cancelled);
        }
        // A second change of the same outcome does not decide yet.
        if row.revision != was.revision {
            self.report_wrong_outcome(life);
        }
        let was = &life.last;
        if row.cancelled && !was.cancelled {
            self.figures.cancels += 1;
            life.cancel.asked_at.get_or_insert(at);
            let runs = was.status == Status::Executing;
            life.cancel.running = runs.then_some(was.revision);
        }
        if !row.cancelled {
            // An operator has retried it.
            life.cancel.running = None;
        }
        let goes_on = row.visit != was.visit || matches!(row.status, Status::Done | Status::Failed);
        let by_an_outcome = was.status == Status::Executing
            && row.crashes == was.crashes
            && goes_on
            && !row.has_timed_out();
        let unanswered = was.is_to_answer() && row.is_to_answer();
        if by_an_outcome && unanswered && life.cancel.running != Some(was.revision) {
            let (step, visit) = (&was.step, was.visit);
            let what = format!(
                "was asked to end, and then wrote an outcome of {step:?} (visit {visit}) as if it had not been"
            );
            life.cancel.wrong = Some((row.id, what));
        }
        if row.revision != was.revision {
            life.cancel.grant(row);
        } else if answers(was, row) {
            // The permission came with the outcome, and no longer has a cancel to answer.
            let last = life.cancel.grants.last_mut();
            last.into_iter().for_each(|grant| grant.to_answer = false);
        }
        if row.status.is_terminal() && !was.status.is_terminal() {
            life.cancel.ended_at = Some(at);
        }
    }

    /// Reports a suspected violation that no later change has explained.
    pub(super) fn report_wrong_outcome(&mut self, life: &mut Life) {
        if let Some((id, what)) = life.cancel.wrong.take() {
            self.violate("I13", id, what);
        }
    }

    /// Compares a run with its permission: a step that ran instead of `on_cancel`, or an answer
    /// without a cancel.
    pub(super) fn compare_grant(&self, life: &Life, ran: &Ran) -> Option<&'static str> {
        if ran.cancelling {
            let asked = life.cancel.asked_at;
            let asked = asked.is_some_and(|at| at <= ran.at + self.coarse_us);
            return (!asked).then_some("answered a cancel that nobody asked for");
        }
        let worker = |grant: &&Grant| {
            let name = grant.worker.and_then(|worker| self.workers.get(&worker));
            grant.visit == ran.visit && name == Some(&ran.worker)
        };
        let mut grants = life.cancel.grants.iter().filter(worker).peekable();
        let only_to_answer = grants.peek().is_some() && grants.all(|grant| grant.to_answer);
        only_to_answer.then_some("started after it was asked to end")
    }

    /// Reports an instance that waited for its end and was not ended.
    pub(super) fn check_survivors(&mut self, lives: &HashMap<i64, Life>) {
        if self.may_lose {
            return;
        }
        for life in lives.values() {
            let row = &life.last;
            let ended = life.cancel.ended_at.unwrap_or(i64::MAX);
            let gave_up = row.step == "outlive" && row.status == Status::Failed;
            let waited = gave_up || !row.status.is_terminal();
            if row.machine != "family" || !waited {
                continue;
            }
            let parent = row.parent.and_then(|parent| lives.get(&parent));
            let parent = parent.filter(|_| row.policy.is_some());
            let parent_ended = parent.and_then(|parent| parent.cancel.ended_at);
            if parent_ended.is_some_and(|parent| parent < ended.saturating_sub(OUTLIVES_MAX_US)) {
                self.violate("I13", row.id, "outlived its parent in spite of its policy");
            }
            let tree_ended = self.tree_ended(lives, life);
            if tree_ended.is_some_and(|tree| tree < ended.saturating_sub(OUTLIVES_MAX_US)) {
                self.violate("I13", row.id, "outlived the tree that it belongs to");
            }
        }
    }

    /// Returns when the end of a tree that contained the instance was acknowledged.
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
