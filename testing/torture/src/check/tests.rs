//! Correct histories, and the same with one error: a checker that has never failed proves nothing.

mod families;
mod flows;
mod timeouts;
mod updates;

use super::{Books, Checker, Figures, Records, Violation};
use crate::audit::{Change, Instance, Op, Signal, Subject};
use crate::ledger::{Entry, Inserted, Ran};
use outlast::Status;
use outlast_core::Joined;

/// Committed changes and ledger entries, one after the other, a millisecond apart.
#[derive(Default)]
struct History {
    changes: Vec<Change>,
    entries: Vec<Entry>,
    records: Records,
    now: i64,
}

impl History {
    /// Returns a chain of two steps that was acknowledged and finished correctly.
    fn of_a_chain() -> History {
        let mut history = History::default();
        history.start(1, "chain");
        history.acknowledge(1, Some("2"));
        history.step(1, "hop", 0);
        history.change(1, |row| {
            row.revision = 2;
            row.visit = 2;
        });
        history.run(1, "hop", 2, &[]);
        history.change(1, |row| {
            row.revision = 3;
            end(row, Status::Done);
            row.result = Some("2".into());
        });
        history
    }

    /// Returns a pack that waits, receives a signal, consumes it and finishes.
    fn of_a_wait() -> History {
        let mut history = History::default();
        history.start(1, "pack");
        history.step(1, "await", 0);
        history.change(1, |row| {
            row.status = Status::AwaitingSignal;
            row.revision = 2;
            row.visit = 2;
            row.step = "take".into();
            row.locked_by = None;
            row.deadline = Some(1_000_000);
        });
        history.signal(7, Op::Insert, false);
        history.delivered(7);
        history.change(1, |row| {
            row.status = Status::Runnable;
            row.deadline = None;
        });
        history.change(1, |row| claim(row, 3));
        history.run(1, "take", 2, &[7]);
        history.change(1, |row| {
            row.revision = 4;
            end(row, Status::Done);
            row.result = Some("[7]".into());
        });
        history.signal(7, Op::Update, true);
        history
    }

    /// Returns a parent with two children that finish, and a join that sees both.
    fn of_a_family() -> History {
        let mut history = History::of_a_fan_out(|_| {});
        for child in [2, 3] {
            history.end_child(child, Status::Done);
        }
        history.join(|row| {
            row.pending = 0;
            row.joined = Some(Joined::All);
        });
        history.gather(|_| {});
        history
    }

    fn start(&mut self, id: i64, machine: &str) {
        self.insert(id, machine, |_| {});
    }

    fn insert(&mut self, id: i64, machine: &str, change: impl FnOnce(&mut Instance)) {
        let token = id as u64;
        if machine != "tree" || id == 1 {
            let at = self.tick();
            self.entries.push(Entry::Asked { token, at });
        }
        let step = match machine {
            "chain" => "hop",
            "pack" => "await",
            _ => "grow",
        };
        let mut row = Instance {
            op: Op::Insert,
            id,
            machine: machine.into(),
            status: Status::Runnable,
            revision: 0,
            step: step.into(),
            visit: 0,
            attempt: 0,
            crashes: 0,
            round: 0,
            pending: 0,
            locked_by: None,
            eligible_at: 0,
            deadline: None,
            partition_key: None,
            guard: None,
            parent: None,
            parent_round: None,
            position: None,
            policy: None,
            held: None,
            needs: None,
            fails_fast: false,
            window: None,
            started: 0,
            failed: 0,
            first_failure: None,
            joined: None,
            cancelled: false,
            answered: false,
            result: None,
            error: None,
            run: 1,
            events: 0,
            timeout_at: None,
            run_timeout_at: None,
            state: Some(format!("{{\"token\":{token}}}")),
        };
        change(&mut row);
        self.push(Subject::Instance(Box::new(row)));
    }

    fn acknowledge(&mut self, id: i64, result: Option<&str>) {
        let at = self.tick();
        self.entries.push(Entry::Inserted(Inserted {
            token: id as u64,
            id,
            at,
            result: result.map(str::to_owned),
            fails_with: Vec::new(),
            asked_at: at - 1,
        }));
    }

    /// Claims the instance and runs its step.
    fn step(&mut self, id: i64, step: &str, visit: i64) {
        self.change(id, |row| claim(row, visit + 1));
        self.run(id, step, visit, &[]);
    }

    fn run(&mut self, id: i64, step: &str, visit: i64, signals: &[i64]) {
        self.ran(Ran {
            id,
            step: step.into(),
            visit,
            signals: signals.to_vec(),
            ..Ran::default()
        });
    }

    fn ran(&mut self, ran: Ran) {
        let at = self.tick();
        self.entries.push(Entry::Ran(Ran {
            worker: "w".into(),
            at,
            ..ran
        }));
    }

    /// Adds a change to the last row of this instance.
    fn change(&mut self, id: i64, change: impl FnOnce(&mut Instance)) {
        let rows = self
            .changes
            .iter()
            .rev()
            .filter_map(|change| match &change.subject {
                Subject::Instance(row) => Some(&**row),
                Subject::Event(_) | Subject::Signal(_) | Subject::Worker(_) => None,
            });
        let mut row = rows
            .into_iter()
            .find(|row| row.id == id)
            .expect("the instance was inserted")
            .clone();
        row.op = Op::Update;
        row.state = None;
        change(&mut row);
        self.push(Subject::Instance(Box::new(row)));
    }

    fn signal(&mut self, id: i64, op: Op, consumed: bool) {
        self.push(Subject::Signal(Signal {
            op,
            id,
            target: 1,
            name: "item".into(),
            dedup: Some(format!("item:{id}")),
            consumed,
            wants_reply: false,
            reply_kind: None,
            reply: None,
        }));
    }

    fn delivered(&mut self, signal: i64) {
        let at = self.tick();
        self.entries.push(Entry::Delivered {
            instance: 1,
            dedup: format!("item:{signal}"),
            at,
        });
    }

    fn push(&mut self, subject: Subject) {
        let at = self.tick();
        let seq = self.changes.len() as i64 + 1;
        self.changes.push(Change { seq, at, subject });
    }

    fn tick(&mut self) -> i64 {
        self.now += 1_000;
        self.now
    }

    /// Returns the last run of a step of this instance.
    fn last_of(&mut self, id: i64) -> &mut Ran {
        for entry in self.entries.iter_mut().rev() {
            if let Entry::Ran(ran) = entry
                && ran.id == id
            {
                return ran;
            }
        }
        panic!("instance {id} ran no step");
    }

    /// Returns the last change of this instance.
    fn last(&mut self, id: i64) -> &mut Instance {
        let rows = self
            .changes
            .iter_mut()
            .rev()
            .filter_map(|change| match &mut change.subject {
                Subject::Instance(row) => Some(&mut **row),
                Subject::Event(_) | Subject::Signal(_) | Subject::Worker(_) => None,
            });
        rows.into_iter()
            .find(|row| row.id == id)
            .expect("the instance was inserted")
    }

    /// Returns the violated invariants.
    fn broken(self) -> Vec<String> {
        let (_, violations) = self.judged();
        let violations = violations.iter();
        let lines = violations.map(|it| format!("{} {}", it.rule, it.what));
        lines.collect()
    }

    fn judged(self) -> (Figures, Vec<Violation>) {
        let mut checker = Checker::new(Books::of(self.entries), 0, false);
        let worker = crate::audit::Worker {
            id: 1,
            name: "w".into(),
        };
        checker.see(Change {
            seq: 0,
            at: 0,
            subject: Subject::Worker(worker),
        });
        self.changes
            .into_iter()
            .for_each(|change| checker.see(change));
        checker.finish(&self.records)
    }

    #[track_caller]
    fn breaks(self, rule: &str, what: &str) {
        let broken = self.broken();
        let found = broken
            .iter()
            .any(|line| line.starts_with(rule) && line.contains(what));
        assert!(found, "{rule} {what} is not among {broken:#?}");
    }
}

fn claim(row: &mut Instance, revision: i64) {
    row.status = Status::Executing;
    row.revision = revision;
    row.locked_by = Some(1);
}

fn end(row: &mut Instance, status: Status) {
    row.status = status;
    row.locked_by = None;
}

#[test]
fn correct_histories_break_no_invariant() {
    assert_eq!(History::of_a_chain().broken(), [""; 0]);
    assert_eq!(History::of_a_wait().broken(), [""; 0]);
    assert_eq!(History::of_a_family().broken(), [""; 0]);
}

#[test]
fn an_acknowledged_insert_that_is_gone_breaks_i1() {
    let mut history = History::of_a_chain();
    history.acknowledge(9, None);
    history.breaks("I1", "was acknowledged and is not there");
}

#[test]
fn an_insert_that_is_stored_twice_or_was_never_requested_breaks_i1() {
    let mut history = History::of_a_chain();
    history.insert(2, "chain", |row| row.state = Some("{\"token\":1}".into()));
    history.change(2, |row| end(row, Status::Cancelled));
    history.breaks("I1", "is the same insert as");
    let mut history = History::of_a_chain();
    history
        .entries
        .retain(|entry| !matches!(entry, Entry::Asked { .. }));
    history.breaks("I1", "was never asked for");
}

#[test]
fn a_delete_of_a_live_instance_breaks_i1() {
    let mut history = History::default();
    history.start(1, "chain");
    history.change(1, |row| row.op = Op::Delete);
    history.breaks("I1", "was deleted while it was runnable");
}

#[test]
fn an_instance_that_does_not_finish_breaks_i2() {
    let mut history = History::default();
    history.start(1, "chain");
    history.breaks("I2", "runnable");
}

#[test]
fn an_outcome_without_a_new_revision_breaks_i3() {
    let mut history = History::of_a_chain();
    history.last(1).revision = 2;
    history.breaks("I3", "from revision 2 to 2");
    let mut history = History::default();
    history.start(1, "chain");
    history.change(1, |row| claim(row, 1));
    history.change(1, |row| row.locked_by = Some(2));
    history.breaks("I3", "from revision 1 to 1");
}

#[test]
fn a_finished_instance_that_restarts_without_a_recorded_retry_breaks_i4() {
    let resurrected = || {
        let mut history = History::of_a_chain();
        history.last(1).status = Status::Failed;
        history.change(1, |row| row.status = Status::Runnable);
        history.change(1, |row| end(row, Status::Cancelled));
        history
    };
    resurrected().breaks("I4", "0 of them recorded");
    let mut history = resurrected();
    history.records.retries.insert(1, 1);
    assert!(!history.broken().iter().any(|line| line.starts_with("I4")));
    let mut history = History::of_a_chain();
    history.change(1, |row| row.status = Status::Runnable);
    history.breaks("I4", "from done to runnable");
}

#[test]
fn a_step_that_ran_before_it_was_committed_breaks_i5() {
    let mut history = History::of_a_chain();
    history.run(1, "hop", 9, &[]);
    history.breaks("I5", "was never committed");
    let mut history = History::of_a_chain();
    for entry in &mut history.entries {
        if let Entry::Ran(ran) = entry {
            ran.at = 1;
        }
    }
    history.breaks("I5", "before it was committed");
}

#[test]
fn an_outcome_of_a_step_that_never_ran_breaks_i5() {
    let mut history = History::of_a_chain();
    history
        .entries
        .retain(|entry| !matches!(entry, Entry::Ran(_)));
    history.breaks("I5", "that never ran");
}

#[test]
fn an_unexpected_result_or_failure_breaks_i5() {
    let mut history = History::of_a_chain();
    history.last(1).result = Some("3".into());
    history.breaks("I5", "instead of 2");
    let mut history = History::of_a_chain();
    history.last(1).status = Status::Failed;
    history.breaks("I5", "failed");
}

#[test]
fn a_signal_that_is_received_twice_breaks_i7() {
    let mut history = History::of_a_wait();
    history.run(1, "take", 5, &[7]);
    history.breaks("I7", "in 2 visits");
    let mut history = History::of_a_wait();
    history.signal(7, Op::Update, true);
    history.breaks("I7", "consumed signal 7 twice");
    let mut history = History::of_a_wait();
    history.last(1).result = Some("[7,7]".into());
    history.breaks("I7", "gathered twice");
}

#[test]
fn a_signal_that_is_lost_breaks_i7() {
    let mut history = History::of_a_wait();
    history.delivered(8);
    history.breaks("I7", "signal item:8, which is not there");
    let mut history = History::default();
    history.start(1, "pack");
    history.signal(7, Op::Insert, false);
    history.signal(7, Op::Delete, false);
    history.change(1, |row| claim(row, 1));
    history.change(1, |row| end(row, Status::Cancelled));
    history.breaks("I7", "lost signal 7");
}

#[test]
fn a_signal_to_a_finished_instance_breaks_i7() {
    let mut history = History::of_a_wait();
    history.signal(8, Op::Insert, false);
    let broken = history.broken();
    assert!(
        broken
            .iter()
            .any(|line| line.contains("after it had ended")),
        "{broken:?}"
    );
    assert!(
        broken
            .iter()
            .any(|line| line.contains("left signal 8 behind")),
        "{broken:?}"
    );
}

#[test]
fn a_dedup_key_that_is_accepted_twice_breaks_i7() {
    let mut history = History::default();
    history.start(1, "pack");
    history.signal(7, Op::Insert, false);
    history.signal(7, Op::Insert, false);
    history.breaks("I7", "twice with dedup key");
}

#[test]
fn two_executing_instances_with_one_partition_key_break_i8() {
    let mut history = History::default();
    for id in [1, 2] {
        history.insert(id, "chain", |row| row.partition_key = Some("key".into()));
        history.change(id, |row| claim(row, 1));
    }
    history.breaks("I8", "executes beside 1");
}

#[test]
fn an_instance_that_overtakes_another_of_its_partition_key_breaks_i8() {
    let mut history = History::default();
    for id in [1, 2] {
        history.insert(id, "chain", |row| row.partition_key = Some("key".into()));
        history.acknowledge(id, None);
    }
    for id in [2, 1] {
        history.change(id, |row| claim(row, 1));
        history.change(id, |row| end(row, Status::Cancelled));
    }
    history.breaks("I8", "started before 1");
}

#[test]
fn two_holders_of_one_correlation_key_break_i9() {
    let mut history = History::default();
    for id in [1, 2] {
        history.insert(id, "chain", |row| row.guard = Some("key".into()));
    }
    history.breaks("I9", "beside 1");
}

#[test]
fn an_early_claim_or_timeout_breaks_i10() {
    let mut history = History::default();
    history.insert(1, "chain", |row| row.eligible_at = 1_000_000);
    history.change(1, |row| claim(row, 1));
    history.breaks("I10", "early");
    let mut history = History::of_a_wait();
    for entry in &mut history.entries {
        if let Entry::Ran(ran) = entry {
            ran.signals.clear();
        }
    }
    history.breaks("I10", "timed out");
}

#[test]
fn a_step_that_runs_after_its_commit_is_counted_as_a_late_start() {
    let late_starts = |history: History| history.judged().0.late_starts;
    assert_eq!(late_starts(History::of_a_chain()), 0);
    let mut after_the_next = History::of_a_chain();
    after_the_next.run(1, "hop", 0, &[]);
    assert_eq!(late_starts(after_the_next), 1);
    let mut after_the_end = History::of_a_chain();
    after_the_end.run(1, "hop", 2, &[]);
    assert_eq!(late_starts(after_the_end), 1);
}
