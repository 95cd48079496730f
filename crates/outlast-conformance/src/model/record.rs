//! What engines have run, by the minute.

use super::Tables;
use outlast_core::{Delays, Result, Runs, Timestamp, Traffic, limits, minute_of};

impl Tables {
    pub(super) fn add_traffic(&mut self, traffic: Traffic, now: Timestamp) -> Result<()> {
        traffic
            .check()
            .map_err(|invalid| invalid.during("record"))?;
        if traffic.is_empty() {
            return Ok(());
        }
        self.traffic.runs.extend(traffic.runs);
        self.traffic.delays.extend(traffic.delays);
        self.traffic = std::mem::take(&mut self.traffic).in_order();
        let kept_from = now - limits::TRAFFIC_KEPT;
        self.traffic.runs.retain(|it| it.minute >= kept_from);
        self.traffic.delays.retain(|it| it.minute >= kept_from);
        Ok(())
    }

    pub(super) fn traffic_since(&self, since: Timestamp) -> Result<Traffic> {
        limits::check_moment("since", since).map_err(|invalid| invalid.during("traffic"))?;
        let since = minute_of(since);
        let runs = self.traffic.runs.iter();
        let runs: Vec<&Runs> = runs.filter(|it| it.minute >= since).collect();
        let delays = self.traffic.delays.iter();
        let delays: Vec<&Delays> = delays.filter(|it| it.minute >= since).collect();
        Ok(Traffic {
            runs: newest(&runs),
            delays: newest(&delays),
        })
    }
}

fn newest<T: Clone>(in_order: &[&T]) -> Vec<T> {
    let skipped = in_order.len().saturating_sub(limits::TRAFFIC_MAX);
    in_order[skipped..].iter().copied().cloned().collect()
}
