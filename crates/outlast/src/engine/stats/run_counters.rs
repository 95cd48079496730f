//! Counts runs in memory, for the stats flusher to take.
//!
//! Every step passes here, so a count takes one short lock and a key that owns nothing. The names
//! of machines and steps are static since their registration.

use crate::machine::Registered;
use crate::metrics;
use outlast_core::limits::{RUN_STATS_COUNT_MAX, RUN_STATS_MAX, RUN_STATS_MICROS_MAX};
use outlast_core::{DELAY_BINS, Delays, Outcome, Runs, Timestamp};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most different keys. Keys beyond what one flush takes are not counted.
const WAYS_MAX: usize = RUN_STATS_MAX;

/// The steps that have run since the last flush.
#[derive(Debug, Default)]
pub(crate) struct RunCounters {
    ways: Mutex<HashMap<StepPath, RunSums>>,
}

/// A step, its outcome, and the step that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct StepPath {
    machine: &'static str,
    version: i32,
    step: &'static str,
    outcome: &'static str,
    next: &'static str,
}

#[derive(Clone, Copy, Debug, Default)]
struct RunSums {
    count: u64,
    micros: u64,
}

impl RunCounters {
    /// Counts a step that has run.
    pub(crate) fn ran(
        &self,
        machine: &Registered,
        step: &'static str,
        outcome: &Outcome,
        took: Duration,
    ) {
        let way = StepPath {
            machine: machine.name,
            version: machine.version,
            step,
            outcome: metrics::outcome_word(outcome),
            next: following(machine, step, outcome),
        };
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let mut ways = self.ways();
        if ways.len() >= WAYS_MAX && !ways.contains_key(&way) {
            return;
        }
        let sums = ways.entry(way).or_default();
        sums.count += 1;
        sums.micros = sums.micros.saturating_add(micros);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ways().is_empty()
    }

    /// Takes the counts out, for this minute.
    pub(crate) fn take(&self, minute: Timestamp) -> Vec<Runs> {
        let taken = std::mem::take(&mut *self.ways());
        let runs = taken.into_iter().map(|(way, sums)| Runs {
            minute,
            machine: way.machine.to_owned(),
            version: way.version,
            step: way.step.to_owned(),
            outcome: way.outcome.to_owned(),
            next: way.next.to_owned(),
            count: sums.count.min(RUN_STATS_COUNT_MAX),
            micros: sums.micros.min(RUN_STATS_MICROS_MAX),
        });
        runs.collect()
    }

    fn ways(&self) -> MutexGuard<'_, HashMap<StepPath, RunSums>> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the step that follows; empty when none does.
fn following(machine: &Registered, step: &'static str, outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Next { step: next, .. }
        | Outcome::Wait { step: next, .. }
        | Outcome::FanOut { step: next, .. } => machine.step_name(next).unwrap_or_default(),
        Outcome::Retry { .. } | Outcome::Flow { .. } | Outcome::ContinueAsNew { .. } => step,
        Outcome::Done { .. } | Outcome::Fail { .. } | Outcome::Cancel { .. } => "",
    }
}

/// How long the steps of one queue had waited when they started.
#[derive(Debug, Default)]
pub(crate) struct StartDelays {
    bins: [AtomicU64; DELAY_BINS],
}

impl StartDelays {
    /// Counts a start.
    pub(crate) fn started_after(&self, delay: Duration) {
        let bin = usize::from(Delays::bin_of(delay));
        self.bins[bin].fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the counts out, for this minute.
    pub(crate) fn take(&self, queue: &str, minute: Timestamp) -> Vec<Delays> {
        let counts = self.bins.iter().map(|bin| bin.swap(0, Ordering::Relaxed));
        let counts = counts.enumerate().filter(|(_, count)| *count > 0);
        let delays = counts.map(|(bin, count)| Delays {
            minute,
            queue: queue.to_owned(),
            bin: bin as u8,
            count: count.min(RUN_STATS_COUNT_MAX),
        });
        delays.collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        let mut bins = self.bins.iter();
        bins.all(|bin| bin.load(Ordering::Relaxed) == 0)
    }
}
