//! Correct and incorrect joins, windows and cancels.

use super::{History, claim, end};
use crate::audit::Instance;
use crate::ledger::{Entry, Ran};
use outlast::Status;
use outlast_core::{ClosePolicy, Joined};

impl History {
    /// Returns a parent that has fanned out to two children.
    pub(super) fn of_a_fan_out(how: impl FnOnce(&mut Instance)) -> History {
        let mut history = History::default();
        history.start(1, "tree");
        history.step(1, "grow", 0);
        history.spawn(2, |_| {});
        history.spawn(3, |_| {});
        history.park(how);
        history
    }

    fn spawn(&mut self, id: i64, how: impl FnOnce(&mut Instance)) {
        self.insert(id, "tree", |row| {
            row.parent = Some(1);
            row.parent_round = Some(1);
            row.position = Some(id as i32 - 2);
            how(row);
        });
    }

    fn park(&mut self, how: impl FnOnce(&mut Instance)) {
        self.change(1, |row| {
            row.status = Status::AwaitingChildren;
            row.revision = 2;
            row.visit = 2;
            row.step = "gather".into();
            row.round = 1;
            row.pending = 2;
            row.started = 2;
            row.locked_by = None;
            how(row);
        });
    }

    pub(super) fn end_child(&mut self, id: i64, status: Status) {
        self.step(id, "grow", 0);
        self.change(id, |row| {
            row.revision = 2;
            row.error = (status == Status::Failed).then(|| "a bad leaf".into());
            end(row, status);
        });
    }

    pub(super) fn join(&mut self, how: impl FnOnce(&mut Instance)) {
        self.change(1, |row| {
            row.status = Status::Runnable;
            row.deadline = None;
            how(row);
        });
    }

    /// Runs the step after the join with what it saw, and finishes the parent.
    pub(super) fn gather(&mut self, saw: impl FnOnce(&mut Ran)) {
        let row = self.last(1).clone();
        self.change(1, |row| claim(row, 3));
        let mut ran = Ran {
            id: 1,
            step: "gather".into(),
            visit: 2,
            children: Some(vec![2, 3]),
            joined: row.joined,
            first_failure: row.first_failure,
            ..Ran::default()
        };
        saw(&mut ran);
        self.ran(ran);
        self.change(1, |row| {
            row.revision = 4;
            end(row, Status::Done);
        });
    }

    /// Returns a parent that the first failure wakes, and a child that finishes later.
    fn of_a_failure() -> History {
        let mut history = History::of_a_fan_out(|row| row.fails_fast = true);
        history.end_child(2, Status::Failed);
        history.join(|row| {
            row.pending = 1;
            row.failed = 1;
            row.first_failure = Some(2);
            row.joined = Some(Joined::Failure);
        });
        history.gather(|_| {});
        history.end_child(3, Status::Done);
        history
    }

    /// Returns a parent whose deadline passes at this time.
    fn of_a_deadline(deadline: i64) -> History {
        let mut history = History::of_a_fan_out(|row| row.deadline = Some(deadline));
        history.join(|row| row.joined = Some(Joined::Deadline));
        history.gather(|_| {});
        for child in [2, 3] {
            history.end_child(child, Status::Done);
        }
        history
    }

    /// Returns two children in a window of one.
    fn of_a_window(second: Option<bool>) -> History {
        let mut history = History::default();
        history.start(1, "tree");
        history.step(1, "grow", 0);
        history.spawn(2, |row| row.held = Some(false));
        history.spawn(3, |row| row.held = second);
        history.park(|row| row.window = Some(1));
        history.end_child(2, Status::Done);
        history.change(3, |row| row.held = Some(false));
        history.end_child(3, Status::Done);
        history.join(|row| {
            row.pending = 0;
            row.joined = Some(Joined::All);
        });
        history.gather(|_| {});
        history
    }

    /// Returns an instance that is asked to cancel while its step runs; the outcome of the step is
    /// written.
    fn of_a_cancel() -> History {
        let mut history = History::default();
        history.start(1, "chain");
        history.step(1, "hop", 0);
        history.change(1, |row| row.cancelled = true);
        history.change(1, |row| {
            row.status = Status::Runnable;
            row.revision = 2;
            row.visit = 2;
            row.locked_by = None;
        });
        history.change(1, |row| claim(row, 3));
        history
    }

    /// Returns the same with the machine's answer.
    fn of_an_answer() -> History {
        let mut history = History::of_a_cancel();
        history.ran(Ran {
            id: 1,
            step: "hop".into(),
            visit: 2,
            cancelling: true,
            ..Ran::default()
        });
        history.change(1, |row| {
            row.revision = 4;
            row.answered = true;
            end(row, Status::Cancelled);
        });
        history
    }

    /// Returns a child that waits for its end, for longer than its parent lives.
    fn of_a_patient_child(policy: Option<ClosePolicy>) -> History {
        let mut history = History::default();
        history.insert(1, "family", |_| {});
        history.insert(2, "family", |row| {
            row.parent = Some(1);
            row.parent_round = Some(1);
            row.policy = policy;
        });
        history.change(1, |row| end(row, Status::Cancelled));
        history.now += 60_000_000;
        history.change(2, |row| {
            row.step = "outlive".into();
            row.error = Some("nobody told it to end".into());
            end(row, Status::Failed);
        });
        history
    }
}

#[test]
fn correct_families_break_no_invariant() {
    assert_eq!(History::of_a_failure().broken(), [""; 0]);
    assert_eq!(History::of_a_deadline(7_000).broken(), [""; 0]);
    assert_eq!(History::of_a_window(Some(true)).broken(), [""; 0]);
    assert_eq!(History::of_an_answer().broken(), [""; 0]);
}

#[test]
fn a_join_that_is_early_breaks_i6() {
    let mut history = History::of_a_fan_out(|_| {});
    history.join(|row| row.joined = Some(Joined::All));
    history.breaks("I6", "for all with 0 of 2 children ended");
    let mut history = History::of_a_fan_out(|row| row.needs = Some(2));
    history.end_child(2, Status::Done);
    history.join(|row| {
        row.pending = 1;
        row.joined = Some(Joined::Quorum);
    });
    history.breaks("I6", "for quorum with 1 of 2 children ended");
}

#[test]
fn a_join_with_a_wrong_or_missing_reason_breaks_i6() {
    let mut history = History::of_a_fan_out(|row| row.needs = Some(1));
    history.end_child(2, Status::Done);
    history.join(|row| {
        row.pending = 1;
        row.joined = Some(Joined::All);
    });
    history.breaks("I6", "for all with 1 of 2");
    let mut history = History::of_a_fan_out(|_| {});
    history.join(|_| {});
    history.breaks("I6", "for nothing");
}

#[test]
fn a_wake_without_a_join_reason_breaks_i6_unless_a_cancel_is_pending() {
    let mut history = History::of_a_fan_out(|_| {});
    history.join(|row| row.cancelled = true);
    assert!(!history.broken().iter().any(|line| line.starts_with("I6")));
    let mut history = History::of_a_fan_out(|row| {
        row.cancelled = true;
        row.answered = true;
    });
    history.join(|_| {});
    history.breaks("I6", "for nothing");
}

#[test]
fn a_join_that_miscounts_its_children_breaks_i6() {
    let mut history = History::of_a_fan_out(|row| row.needs = Some(1));
    history.end_child(2, Status::Failed);
    history.join(|row| {
        row.pending = 1;
        row.joined = Some(Joined::Quorum);
    });
    history.breaks("I6", "counts 2 started, 1 pending, 0 failed");
    let history = History::of_a_fan_out(|row| row.started = 3);
    history.breaks_at_the_join("counts 3 started");
}

impl History {
    #[track_caller]
    fn breaks_at_the_join(mut self, what: &str) {
        for child in [2, 3] {
            self.end_child(child, Status::Done);
        }
        self.join(|row| {
            row.pending = 0;
            row.joined = Some(Joined::All);
        });
        self.breaks("I6", what);
    }
}

#[test]
fn a_join_that_happens_twice_breaks_i6() {
    let mut history = History::of_a_family();
    history.last(1).status = Status::AwaitingChildren;
    history.join(|_| {});
    history.breaks("I6", "joined round 1 twice");
}

#[test]
fn an_immediate_join_that_is_not_decided_breaks_i6() {
    let mut history = History::of_a_fan_out(|row| {
        row.status = Status::Runnable;
        row.joined = Some(Joined::All);
    });
    history.end_child(2, Status::Done);
    history.breaks("I6", "at once: Some(All) instead of None");
    let undecided = History::of_a_fan_out(|row| row.status = Status::Runnable);
    undecided.breaks("I6", "at once: None instead of None");
    let impossible = History::of_a_fan_out(|row| {
        row.status = Status::Runnable;
        row.needs = Some(3);
        row.joined = Some(Joined::Impossible);
    });
    let broken = impossible.broken();
    assert!(
        !broken.iter().any(|line| line.starts_with("I6")),
        "{broken:?}"
    );
}

#[test]
fn a_wrong_or_changed_first_failure_breaks_i6() {
    let mut history = History::of_a_failure();
    history.change(1, |row| row.first_failure = Some(3));
    history.breaks("I6", "changed its first failure");
    let mut history = History::of_a_fan_out(|row| row.fails_fast = true);
    history.end_child(2, Status::Failed);
    history.join(|row| {
        row.pending = 1;
        row.failed = 1;
        row.first_failure = Some(3);
        row.joined = Some(Joined::Failure);
    });
    history.breaks("I6", "has Some(3) as the first failure");
}

#[test]
fn a_join_by_an_early_or_missing_deadline_breaks_i10() {
    History::of_a_deadline(1_000_000_000).breaks("I10", "by the deadline of its join");
    let mut history = History::of_a_fan_out(|_| {});
    history.join(|row| row.joined = Some(Joined::Deadline));
    history.breaks("I10", "a deadline that it had not");
}

#[test]
fn a_step_that_saw_other_children_or_another_join_breaks_i6() {
    let mut history = History::of_a_failure();
    history.last_of(1).children = Some(vec![2]);
    history.breaks("I6", "saw children [2] of [2, 3]");
    let mut history = History::of_a_failure();
    history.last_of(1).children = Some(vec![3, 2]);
    history.breaks("I6", "saw children [3, 2] of [2, 3]");
    let mut history = History::of_a_failure();
    history.last_of(1).joined = Some(Joined::All);
    history.breaks("I6", "was told Some(All) of a join for Some(Failure)");
    let mut history = History::of_a_failure();
    history.last_of(1).first_failure = Some(3);
    history.breaks("I6", "saw Some(3) as the first failure, which is Some(2)");
}

#[test]
fn more_running_children_than_the_window_allows_break_i6() {
    History::of_a_window(Some(false)).breaks("I6", "ran 2 of round 1 at a time in a window of 1");
    let mut history = History::default();
    history.start(1, "tree");
    history.spawn(2, |row| row.held = Some(true));
    history.change(2, |row| claim(row, 1));
    history.breaks("I6", "waits for a place in a window");
}

#[test]
fn a_step_that_runs_instead_of_on_cancel_breaks_i13() {
    let mut history = History::of_a_cancel();
    history.run(1, "hop", 2, &[]);
    history.change(1, |row| {
        row.revision = 4;
        end(row, Status::Done);
    });
    let broken = history.broken();
    let violates = |what: &str| {
        broken
            .iter()
            .any(|line| line.starts_with("I13") && line.contains(what))
    };
    assert!(violates("as if it had not been"), "{broken:#?}");
    assert!(violates("started after it was asked to end"), "{broken:#?}");
}

#[test]
fn an_outcome_of_a_claim_after_the_cancel_that_ignores_it_breaks_i13() {
    let mut history = History::default();
    history.start(1, "chain");
    history.change(1, |row| row.cancelled = true);
    history.step(1, "hop", 0);
    history.change(1, |row| {
        row.revision = 2;
        end(row, Status::Done);
    });
    history.breaks("I13", "as if it had not been");
}

#[test]
fn an_answer_without_a_cancel_breaks_i13() {
    let mut history = History::of_an_answer();
    for change in &mut history.changes {
        if let crate::audit::Subject::Instance(row) = &mut change.subject {
            row.cancelled = false;
            row.answered = false;
        }
    }
    history.breaks("I13", "answered a cancel that nobody asked for");
}

#[test]
fn a_fan_out_that_ignores_a_pending_cancel_breaks_i13() {
    let fanned_out = |answered: bool| {
        let mut history = History::default();
        history.start(1, "tree");
        history.step(1, "grow", 0);
        history.change(1, |row| row.cancelled = true);
        history.spawn(2, |_| {});
        history.spawn(3, |_| {});
        history.park(|row| row.answered = answered);
        history.broken()
    };
    let is_reported = |broken: &[String]| {
        let mut broken = broken.iter();
        broken.any(|line| line.starts_with("I13") && line.contains("started 2 children"))
    };
    let (ignoring, answer) = (fanned_out(false), fanned_out(true));
    assert!(is_reported(&ignoring), "{ignoring:?}");
    assert!(!is_reported(&answer), "{answer:?}");
}

#[test]
fn a_child_that_outlives_its_parent_despite_its_close_policy_breaks_i13() {
    let with_policy = History::of_a_patient_child(Some(ClosePolicy::RequestCancel));
    with_policy.breaks("I13", "outlived its parent");
    let abandoned = History::of_a_patient_child(None).broken();
    assert!(
        !abandoned.iter().any(|line| line.starts_with("I13")),
        "{abandoned:?}"
    );
}

#[test]
fn a_descendant_that_outlives_its_cancelled_tree_breaks_i13() {
    let ended = |verb: &str| {
        let mut history = History::of_a_patient_child(None);
        history.entries.push(Entry::Operated {
            verb: verb.into(),
            instance: 1,
            at: 10_000,
        });
        history
    };
    ended("cancel_tree").breaks("I13", "outlived the tree");
    let one = ended("cancel").broken();
    assert!(!one.iter().any(|line| line.starts_with("I13")), "{one:?}");
}
