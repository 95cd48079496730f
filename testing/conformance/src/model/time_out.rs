//! The time-out verb: fails instances that have taken too long.

use super::Tables;
use super::effects::Effects;
use outlast_core::limits::{self, BATCH_MAX};
use outlast_core::{Instance, InstanceId, PassedTimeout, Result, Status, TimedOut, Timestamp};
use std::time::Duration;

impl Tables {
    pub(super) fn time_out(&mut self, max: usize, now: Timestamp) -> Result<TimedOut> {
        limits::check_batch("time_out", max, BATCH_MAX)
            .map_err(|invalid| invalid.during("time_out"))?;
        let due: Vec<InstanceId> = self
            .timeouts_in_order()
            .into_iter()
            .filter(|(moment, _)| *moment <= now)
            .map(|(_, id)| id)
            .take(max)
            .collect();
        let mut effects = Effects::default();
        let mut timed_out = TimedOut::default();
        for id in due {
            let is_running = self.row(id).status == Status::Executing;
            self.time_out_one(id, now, &mut effects);
            timed_out.ended.push(id);
            timed_out.running.extend(is_running.then_some(id));
        }
        let settled = self.settle(effects, now);
        Ok(TimedOut {
            woken: settled.woken,
            cascades: settled.cascades,
            next_timeout_in: self.next_timeout_in(now),
            ..timed_out
        })
    }

    fn time_out_one(&mut self, id: InstanceId, now: Timestamp, effects: &mut Effects) {
        let passed = self.passed_timeout(id);
        if self.row(id).events > 0 {
            self.append(id, vec![passed.event()], now);
        }
        let row = self.row(id);
        row.revision = row.revision.next();
        row.crashes = 0;
        row.last_error = Some(passed.reason());
        self.end(id, Status::Failed, now, effects);
    }

    /// Returns the timeout that has passed first; of two at one moment, that of the instance.
    fn passed_timeout(&self, id: InstanceId) -> PassedTimeout {
        let (row, timeouts) = (&self.instances[&id], self.timeouts[&id]);
        let of_the_run = match (row.timeout_at, row.run_timeout_at) {
            (Some(whole), Some(run)) => run < whole,
            (None, Some(_)) => true,
            (Some(_) | None, None) => false,
        };
        match of_the_run {
            true => PassedTimeout::Run(row.run, timeouts.run.unwrap_or_default()),
            false => PassedTimeout::Instance(timeouts.whole.unwrap_or_default()),
        }
    }

    /// Counts both timeouts of an instance anew from now, as a retry does.
    pub(super) fn restart_timeouts(&mut self, id: InstanceId, now: Timestamp) {
        let whole = self.timeouts.get(&id).and_then(|it| it.whole);
        self.row(id).timeout_at = whole.map(|timeout| now + timeout);
        self.restart_run_timeout(id, now);
    }

    /// Counts the timeout of a run anew from now, as continue-as-new does.
    pub(super) fn restart_run_timeout(&mut self, id: InstanceId, now: Timestamp) {
        let run = self.timeouts.get(&id).and_then(|it| it.run);
        self.row(id).run_timeout_at = run.map(|timeout| now + timeout);
    }

    pub(super) fn next_timeout_in(&self, now: Timestamp) -> Option<Duration> {
        let timeouts = self.timeouts_in_order();
        timeouts.first().map(|(next, _)| next.since(now))
    }

    /// Returns when the live instances time out, earliest first.
    fn timeouts_in_order(&self) -> Vec<(Timestamp, InstanceId)> {
        let rows = self.instances.values();
        let mut timeouts: Vec<_> = rows
            .filter_map(|row: &Instance| Some((row.times_out_at()?, row.id)))
            .collect();
        timeouts.sort();
        timeouts
    }
}
