//! I6, change by change: what wakes a parent, what it counts, and which of its children run.

use super::workflows::is_flow;
use super::{Checker, Life};
use crate::audit::{Instance, Op};
use crate::ledger::Ran;
use outlast::Status;
use outlast_core::Joined;
use std::collections::{HashMap, HashSet};

/// The children of one fan-out.
#[derive(Default)]
pub(super) struct Round {
    /// By their position in the request.
    children: Vec<(i32, i64)>,
    /// The finished children, and whether each is done.
    ended: HashMap<i64, bool>,
    /// The children with a slot in the window, and the maximum at a time.
    places: HashSet<i64>,
    places_most: usize,
    window: Option<u32>,
    /// Whether an outcome that ignored a pending cancel started it.
    after_cancel: bool,
    woken: bool,
    /// Why it joined, and the first failed child, as committed.
    joined: Option<Joined>,
    first_failure: Option<i64>,
}

impl Checker {
    /// Adds a child.
    pub(super) fn spawn(&mut self, row: &Instance) {
        if let (Some(parent), Some(round)) = (row.parent, row.parent_round) {
            let round = self.rounds.entry((parent, round)).or_default();
            round
                .children
                .push((row.position.unwrap_or_default(), row.id));
            round.place(row, false);
        }
    }

    /// Follows a change of a child.
    pub(super) fn follow_child(&mut self, was: &Instance, row: &Instance, retried: bool) {
        let (Some(parent), Some(number)) = (row.parent, row.parent_round) else {
            return;
        };
        let round = self.rounds.entry((parent, number)).or_default();
        round.place(row, retried);
        match (was.status.is_terminal(), row.status.is_terminal()) {
            (false, true) => {
                let is_done = row.status == Status::Done;
                round.ended.insert(row.id, is_done);
            }
            (true, false) => {
                round.ended.remove(&row.id);
            }
            (false, false) | (true, true) => {}
        }
        if row.held == Some(true) && row.status == Status::Executing {
            self.violate("I6", row.id, "runs and waits for a place in a window");
        }
        if was.held == Some(true) && row.status.is_terminal() {
            self.figures.never_started += 1;
        }
    }

    /// Follows a fan-out or a wake of a parent.
    pub(super) fn follow_parent(&mut self, life: &Life, at: i64, row: &Instance) {
        let was = &life.last;
        if row.round > was.round {
            self.begin_round(was, row);
        } else if was.status == Status::AwaitingChildren && row.status == Status::Runnable {
            match is_flow(row) {
                // A workflow may wait for children of several rounds, repeatedly.
                true if row.is_to_answer() => {}
                true => self.wake_flow(was, at, row),
                false => self.wake_parent(was, at, row),
            }
        }
        let same = row.round == was.round && was.first_failure.is_some() && !is_flow(row);
        if same && row.first_failure != was.first_failure {
            let (from, to) = (was.first_failure, row.first_failure);
            let what = format!("changed its first failure from {from:?} to {to:?}");
            self.violate("I6", row.id, what);
        }
    }

    /// Begins a round. A join that is already decided does not wait.
    fn begin_round(&mut self, was: &Instance, row: &Instance) {
        let number = row.round;
        let after_cancel = was.is_to_answer() && !row.answered;
        let round = self.rounds.entry((row.id, number)).or_default();
        round.window = row.window;
        round.after_cancel = after_cancel;
        self.figures.windows += u64::from(row.window.is_some());
        if is_flow(row) {
            // The row of a parent that does not wait has no window.
            round.window = row
                .window
                .filter(|_| row.status == Status::AwaitingChildren);
            return;
        }
        if row.status != Status::Runnable {
            return;
        }
        round.woken = true;
        round.joined = row.joined;
        let decided = row.until().decided(row.started, row.started, 0);
        let decided = if after_cancel { None } else { decided };
        if row.joined != decided || (decided.is_none() && !after_cancel) {
            let what = format!(
                "joined round {number} at once: {:?} instead of {decided:?}",
                row.joined
            );
            self.violate("I6", row.id, what);
        }
    }

    /// The fan-out answered a cancel, so it may start children.
    pub(super) fn allow_round(&mut self, row: &Instance) {
        if let Some(round) = self.rounds.get_mut(&(row.id, row.round)) {
            round.after_cancel = false;
        }
    }

    fn wake_parent(&mut self, was: &Instance, at: i64, row: &Instance) {
        self.figures.joins += 1;
        let number = row.round;
        let round = self.rounds.entry((row.id, number)).or_default();
        let twice = std::mem::replace(&mut round.woken, true);
        round.joined = row.joined;
        round.first_failure = row.first_failure;
        let (ended, of) = (round.ended.len(), round.children.len());
        let miscounts = round.miscounts(row);
        let stranger = round.first_failure_is_strange(row);
        self.figures.early_joins += u64::from(row.joined.is_some() && row.pending > 0);
        if twice {
            self.violate("I6", row.id, format!("joined round {number} twice"));
        }
        let counted = row.until().decided(row.started, row.pending, row.failed);
        match row.joined {
            Some(Joined::Deadline) => self.check_deadline(was, at),
            None if row.is_to_answer() => {}
            joined if joined.is_some() && joined == counted => {}
            joined => {
                let why = joined.map_or("nothing", Joined::as_str);
                let what =
                    format!("joined round {number} for {why} with {ended} of {of} children ended");
                self.violate("I6", row.id, what);
            }
        }
        if miscounts {
            let (started, pending, failed) = (row.started, row.pending, row.failed);
            let what = format!(
                "counts {started} started, {pending} pending, {failed} failed in round {number} with {ended} of {of} \
                 children ended"
            );
            self.violate("I6", row.id, what);
        }
        if stranger {
            let first = row.first_failure;
            let what = format!("has {first:?} as the first failure of round {number}");
            self.violate("I6", row.id, what);
        }
    }

    /// I10.
    pub(super) fn check_deadline(&mut self, was: &Instance, at: i64) {
        self.figures.join_deadlines += 1;
        let early = was.deadline.map(|deadline| deadline - at - self.coarse_us);
        match early {
            Some(early) if early > 0 => {
                let what = format!("was woken by the deadline of its join {early} µs early");
                self.violate("I10", was.id, what);
            }
            Some(_) => {}
            None => self.violate("I10", was.id, "was woken by a deadline that it had not"),
        }
    }

    /// At the end: checks the windows, and children that must not exist.
    pub(super) fn check_rounds(&mut self) {
        let mut wrong = Vec::new();
        for ((parent, number), round) in &self.rounds {
            let (most, window) = (round.places_most, round.window);
            if window.is_some_and(|window| most > window as usize) {
                let window = window.unwrap_or_default();
                let what =
                    format!("ran {most} of round {number} at a time in a window of {window}");
                wrong.push(("I6", *parent, what));
            }
            let spawned = round.children.len();
            if round.after_cancel && spawned > 0 {
                let what =
                    format!("was asked to end and started {spawned} children in round {number}");
                wrong.push(("I13", *parent, what));
            }
        }
        for (rule, id, what) in wrong {
            self.violate(rule, id, what);
        }
    }

    /// Compares the children that a step saw with the audit.
    pub(super) fn compare_join(&self, id: i64, number: i32, ran: &Ran) -> Option<String> {
        let saw = ran.children.clone()?;
        let round = self.rounds.get(&(id, number))?;
        let mut spawned = round.children.clone();
        spawned.sort_unstable();
        let spawned: Vec<i64> = spawned.into_iter().map(|(_, id)| id).collect();
        if saw != spawned {
            return Some(format!("saw children {saw:?} of {spawned:?}"));
        }
        if ran.joined != round.joined {
            let (saw, why) = (ran.joined, round.joined);
            return Some(format!("was told {saw:?} of a join for {why:?}"));
        }
        if ran.first_failure != round.first_failure {
            let (saw, first) = (ran.first_failure, round.first_failure);
            return Some(format!(
                "saw {saw:?} as the first failure, which is {first:?}"
            ));
        }
        None
    }
}

impl Round {
    /// A retried child runs outside the window.
    fn place(&mut self, row: &Instance, retried: bool) {
        let has_one = row.held == Some(false)
            && !row.status.is_terminal()
            && row.op != Op::Delete
            && !retried;
        match has_one {
            true => self.places.insert(row.id),
            false => self.places.remove(&row.id),
        };
        self.places_most = self.places_most.max(self.places.len());
    }

    /// Returns whether a parent counts a child whose end is not committed. It may lag behind:
    /// other ends may be committed whose transactions wait for this row.
    fn miscounts(&self, parent: &Instance) -> bool {
        let done = self.ended.values().filter(|is_done| **is_done).count() as i32;
        let failed = self.ended.len() as i32 - done;
        let counted_done = parent.started - parent.pending - parent.failed;
        parent.started != self.children.len() as i32
            || parent.pending < 0
            || counted_done > done
            || parent.failed > failed
    }

    fn first_failure_is_strange(&self, parent: &Instance) -> bool {
        match parent.first_failure {
            Some(first) => self.ended.get(&first) != Some(&false) || parent.failed == 0,
            None => parent.failed > 0,
        }
    }
}
