//! Correct and incorrect timeouts of instances and of runs.

use super::{History, claim, end};
use crate::audit::{Instance, Subject};
use crate::ledger::Ran;
use outlast::Status;
use outlast_core::ClosePolicy;

const SECOND: i64 = 1_000_000;

fn time_out(row: &mut Instance) {
    row.revision += 1;
    row.error = Some("timed out after 1 s".into());
    end(row, Status::Failed);
}

impl History {
    /// Returns a chain whose step runs when it times out; the outcome of the step is dropped.
    fn of_a_timeout(due: Option<i64>) -> History {
        let mut history = History::default();
        history.insert(1, "chain", |row| row.timeout_at = due);
        history.step(1, "hop", 0);
        history.now += SECOND;
        history.change(1, time_out);
        history
    }

    /// Returns a parent that times out, and a child with this close policy.
    fn of_a_hurried_parent(policy: Option<ClosePolicy>) -> History {
        let mut history = History::default();
        history.insert(1, "family", |row| row.run_timeout_at = Some(2_000));
        history.insert(2, "family", |row| {
            row.parent = Some(1);
            row.parent_round = Some(1);
            row.policy = policy;
        });
        history.change(1, time_out);
        history
    }

    /// Ends the child as done, long after its parent.
    fn after_a_minute(mut self) -> History {
        self.now += 60 * SECOND;
        self.step(2, "grow", 0);
        self.change(2, |row| {
            row.revision = 2;
            end(row, Status::Done);
        });
        self
    }
}

#[test]
fn a_correct_timeout_breaks_no_invariant() {
    let history = History::of_a_timeout(Some(SECOND));
    assert_eq!(history.judged().0.timed_out, 1);
    assert_eq!(History::of_a_timeout(Some(SECOND)).broken(), [""; 0]);
    let abandoned = History::of_a_hurried_parent(None).after_a_minute();
    assert_eq!(abandoned.broken(), [""; 0]);
    let mut cancelled = History::of_a_hurried_parent(Some(ClosePolicy::RequestCancel));
    cancelled.change(2, |row| row.cancelled = true);
    cancelled.change(2, |row| claim(row, 1));
    cancelled.ran(Ran {
        id: 2,
        step: "grow".into(),
        cancelling: true,
        ..Ran::default()
    });
    cancelled.now += 60 * SECOND;
    cancelled.change(2, |row| {
        row.revision = 2;
        row.answered = true;
        end(row, Status::Cancelled);
    });
    assert_eq!(cancelled.broken(), [""; 0]);
    let mut terminated = History::of_a_hurried_parent(Some(ClosePolicy::Terminate));
    terminated.change(2, |row| {
        row.revision = 1;
        end(row, Status::Cancelled);
    });
    assert_eq!(terminated.broken(), [""; 0]);
}

#[test]
fn an_early_or_missing_timeout_breaks_i10() {
    History::of_a_timeout(Some(5 * SECOND)).breaks("I10", "µs early");
    History::of_a_timeout(None).breaks("I10", "had no timeout");
}

#[test]
fn an_instance_that_outlasts_its_timeout_breaks_i2() {
    let mut history = History::of_a_chain();
    for change in &mut history.changes {
        if let Subject::Instance(row) = &mut change.subject {
            row.timeout_at = Some(-60 * SECOND);
        }
    }
    history.breaks("I2", "outlasted its timeout");
}

#[test]
fn an_outcome_after_the_timeout_breaks_i4() {
    let mut history = History::of_a_timeout(Some(SECOND));
    history.change(1, |row| {
        row.revision += 1;
        row.error = None;
        end(row, Status::Done);
    });
    history.breaks("I4", "went from failed to done");
}

#[test]
fn a_step_long_after_the_timeout_breaks_i5() {
    let mut history = History::of_a_timeout(Some(SECOND));
    history.now += 60 * SECOND;
    history.run(1, "hop", 0, &[]);
    history.breaks("I5", "ms after it had timed out");
}

#[test]
fn a_child_that_is_started_after_the_timeout_of_its_parent_breaks_i5() {
    let mut history = History::of_a_timeout(Some(SECOND));
    history.insert(2, "family", |row| {
        row.parent = Some(1);
        row.parent_round = Some(1);
    });
    history.breaks("I5", "was started by 1, which was failed");
}

#[test]
fn a_child_that_outlives_its_timed_out_parent_despite_its_policy_breaks_i13() {
    for policy in [ClosePolicy::RequestCancel, ClosePolicy::Terminate] {
        let history = History::of_a_hurried_parent(Some(policy)).after_a_minute();
        history.breaks("I13", "outlived 1, which timed out");
    }
}
