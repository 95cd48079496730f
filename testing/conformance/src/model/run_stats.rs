//! Run statistics: counts by the minute of the steps that engines have run.

use super::Tables;
use outlast_core::{Delays, Result, RunStats, Runs, Timestamp, limits, minute_of};

impl Tables {
    pub(super) fn add_run_stats(&mut self, stats: RunStats, now: Timestamp) -> Result<()> {
        stats.check().map_err(|invalid| invalid.during("record"))?;
        if stats.is_empty() {
            return Ok(());
        }
        self.stats.runs.extend(stats.runs);
        self.stats.delays.extend(stats.delays);
        self.stats = std::mem::take(&mut self.stats).in_order();
        let kept_from = now - limits::RUN_STATS_KEPT;
        self.stats.runs.retain(|it| it.minute >= kept_from);
        self.stats.delays.retain(|it| it.minute >= kept_from);
        Ok(())
    }

    pub(super) fn run_stats_since(&self, since: Timestamp) -> Result<RunStats> {
        limits::check_moment("since", since).map_err(|invalid| invalid.during("run_stats"))?;
        let since = minute_of(since);
        let runs = self.stats.runs.iter();
        let runs: Vec<&Runs> = runs.filter(|it| it.minute >= since).collect();
        let delays = self.stats.delays.iter();
        let delays: Vec<&Delays> = delays.filter(|it| it.minute >= since).collect();
        Ok(RunStats {
            runs: newest(&runs),
            delays: newest(&delays),
        })
    }
}

fn newest<T: Clone>(in_order: &[&T]) -> Vec<T> {
    let skipped = in_order.len().saturating_sub(limits::RUN_STATS_MAX);
    in_order[skipped..].iter().copied().cloned().collect()
}
