//! Timeouts of instances and of runs: they come in time, never early, and nothing follows them.

use super::cancel::OUTLIVES_MAX_US;
use super::{Checker, Life};
use crate::audit::Instance;
use outlast_core::ClosePolicy;
use std::collections::HashMap;

/// How long an instance may outlast its timeout: the timers of killed workers are late.
const OUTLASTS_MAX_US: i64 = 30_000_000;
/// How long after the timeout a worker may start a step that it had claimed before. The fence drops
/// its outcome. A frozen worker learns of the timeout when it goes on.
const STARTS_LATE_MAX_US: i64 = 30_000_000;

impl Checker {
    /// I10.
    pub(super) fn follow_timeout(&mut self, was: &Instance, at: i64, row: &Instance) {
        if was.status.is_terminal() || !row.has_timed_out() {
            return;
        }
        self.figures.timed_out += 1;
        let Some(due) = row.times_out_at() else {
            self.violate("I10", row.id, "timed out and had no timeout");
            return;
        };
        if at + self.coarse_us < due {
            let early = due - at;
            self.violate(
                "I10",
                row.id,
                format!("timed out as a whole {early} µs early"),
            );
        }
        let late = u64::try_from(at - due).unwrap_or(0) / 1_000;
        let latest = &mut self.figures.latest_timed_out_ms;
        *latest = late.max(*latest);
    }

    /// I5: the fence drops a fan-out of a parent that has ended.
    pub(super) fn check_parent_lives(&mut self, row: &Instance) {
        let parent = row.parent.and_then(|parent| self.lives.get(&parent));
        let ended = parent.filter(|parent| parent.last.status.is_terminal());
        if let Some(parent) = ended {
            let (parent, status) = (parent.last.id, parent.last.status);
            let what = format!("was started by {parent}, which was {status}");
            self.violate("I5", row.id, what);
        }
    }

    /// At the end: instances that outlasted their timeout, steps after it, and children that
    /// outlived their parent.
    pub(super) fn check_timed_out(&mut self, lives: &HashMap<i64, Life>) {
        if self.may_lose {
            return;
        }
        // A retry sets the timeout anew.
        let never_retried = lives.values().filter(|life| life.retries == 0);
        for life in never_retried {
            let (id, due) = (life.last.id, life.last.times_out_at());
            let ended = life.cancel.ended_at.unwrap_or(i64::MAX);
            if due.is_some_and(|due| ended > due.saturating_add(OUTLASTS_MAX_US)) {
                self.violate("I2", id, "outlasted its timeout");
            }
            if life.last.has_timed_out() {
                self.check_late_starts(id, ended);
            }
            let parent = life.last.parent.and_then(|parent| lives.get(&parent));
            let parent = parent.filter(|parent| parent.retries == 0);
            if let Some(parent) = parent.filter(|parent| parent.last.has_timed_out()) {
                self.check_close_policy(life, parent);
            }
        }
    }

    /// I5.
    fn check_late_starts(&mut self, id: i64, ended: i64) {
        let limit = ended.saturating_add(STARTS_LATE_MAX_US);
        let ran = self.books.effects_of(id).iter();
        let ran = ran.map(|ran| (ran.at, &ran.step));
        let did = self.books.did_of(id).iter().map(|did| (did.at, &did.step));
        let late = ran.chain(did).find(|(at, _)| *at > limit);
        if let Some((at, step)) = late {
            let what = format!(
                "ran {step:?} {} ms after it had timed out",
                (at - ended) / 1_000
            );
            self.violate("I5", id, what);
        }
    }

    /// I13.
    fn check_close_policy(&mut self, child: &Life, parent: &Life) {
        let closed = parent.cancel.ended_at.unwrap_or(i64::MAX);
        let in_time =
            |at: Option<i64>| at.is_some_and(|at| at <= closed.saturating_add(OUTLIVES_MAX_US));
        let (asked, ended) = (child.cancel.asked_at, child.cancel.ended_at);
        let is_closed = match child.last.policy {
            None | Some(ClosePolicy::Abandon) => true,
            Some(ClosePolicy::RequestCancel) => in_time(asked) || in_time(ended),
            Some(ClosePolicy::Terminate) => in_time(ended),
        };
        if !is_closed {
            let parent = parent.last.id;
            let what = format!("outlived {parent}, which timed out, in spite of its policy");
            self.violate("I13", child.last.id, what);
        }
    }
}
