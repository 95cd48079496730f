//! Random sequences of verbs, sent to the model and to a store (I12).
//!
//! After each verb, both answers and both whole states are compared, and the invariants of
//! docs/protocol.md are checked. At the end, all instances of both sides are finished. A sequence
//! that shows a difference is shrunk and printed with a seed that replays it.
//!
//! | variable | effect |
//! |---|---|
//! | `OUTLAST_SEQUENCES=500` | runs 500 sequences, always the same ones. Default: 80. |
//! | `OUTLAST_SEQUENCE_VERBS=200` | sends 200 verbs per sequence. Default: 80. |
//! | `OUTLAST_SEED=42` | runs this one sequence, as a failure has printed it |
//! | `OUTLAST_SEQUENCE_MINUTES=120` | runs fresh sequences for 120 minutes, reports each minute |
//!
//! Everything is compared after every verb, with these exceptions. They are compared after every
//! eighth verb and at the end:
//!
//! - signals of instances that have none on either side;
//! - histories and updates of instances that the verb has not touched.

mod calls;
mod compare;
mod coverage;
mod ids;
mod invariants;
mod looks;
#[cfg(test)]
mod mutants;
mod pair;
mod resolve;
mod shrink;
mod state;
mod steps;

use crate::Subject;
use coverage::Coverage;
use futures_util::{StreamExt, TryStreamExt, stream};
use outlast_core::ManualClock;
use shrink::{Failure, try_seed};
use std::env;
use std::iter;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Compares the store that `open` opens with the model.
///
/// `open` gets the clock to use, and is called once per sequence tried.
///
/// # Panics
///
/// When they differ, with the shortest sequence found and the seed that replays it. Also when a
/// run of the default size has not seen every kind of answer.
pub async fn compare_with_model(open: impl AsyncFn(ManualClock) -> Subject) {
    let plan = Plan::from_environment();
    match plan.run(&open).await {
        Ok(coverage) => {
            eprintln!("{coverage}");
            let missing = coverage.missing();
            assert!(
                missing.is_empty() || !plan.is_of_usual_size(),
                "these answers never came, so the sequences prove nothing about them: {missing:?}"
            );
        }
        Err(failure) => panic!("{failure}"),
    }
}

/// The sequences to try.
#[derive(Clone, Copy, Debug)]
struct Plan {
    extent: Extent,
    verbs: usize,
}

#[derive(Clone, Copy, Debug)]
enum Extent {
    /// The sequence of this seed.
    One(u64),
    /// The sequences of the first seeds, this many.
    First(u64),
    /// Sequences of fresh seeds for this long.
    For(Duration),
}

const USUAL_SEQUENCES: u64 = 80;
const USUAL_VERBS: usize = 80;

/// Sequences that run concurrently: while one waits for the disk, another can run.
const AT_ONCE: usize = 4;

impl Plan {
    fn from_environment() -> Plan {
        let extent = match (
            number("OUTLAST_SEED"),
            number("OUTLAST_SEQUENCE_MINUTES"),
            number("OUTLAST_SEQUENCES"),
        ) {
            (Some(seed), _, _) => Extent::One(seed),
            (None, Some(minutes), _) => Extent::For(Duration::from_secs(minutes * 60)),
            (None, None, Some(sequences)) => Extent::First(sequences),
            (None, None, None) => Extent::First(USUAL_SEQUENCES),
        };
        let verbs = number("OUTLAST_SEQUENCE_VERBS").and_then(|it| it.try_into().ok());
        Plan {
            extent,
            verbs: verbs.unwrap_or(USUAL_VERBS),
        }
    }

    fn is_of_usual_size(&self) -> bool {
        let enough = match self.extent {
            Extent::First(sequences) => sequences >= USUAL_SEQUENCES,
            Extent::One(_) | Extent::For(_) => false,
        };
        enough && self.verbs >= USUAL_VERBS
    }

    async fn run(&self, open: &impl AsyncFn(ManualClock) -> Subject) -> Result<Coverage, Failure> {
        let sequences = stream::iter(self.seeds())
            .map(|seed| try_seed(open, seed, self.verbs))
            .buffered(AT_ONCE);
        let add = |mut coverage: Coverage, tried: Coverage| async move {
            coverage.add(tried);
            Ok(coverage)
        };
        sequences.try_fold(Coverage::default(), add).await
    }

    fn seeds(&self) -> Box<dyn Iterator<Item = u64>> {
        match self.extent {
            Extent::One(seed) => Box::new(iter::once(seed)),
            Extent::First(sequences) => Box::new(0..sequences),
            Extent::For(duration) => {
                let mut progress = Progress::start(duration);
                Box::new(iter::from_fn(move || progress.next_seed()))
            }
        }
    }
}

/// A run of a given duration that reports its progress.
struct Progress {
    started: Instant,
    duration: Duration,
    reported_at: Duration,
    first_seed: u64,
    tried: u64,
}

impl Progress {
    fn start(duration: Duration) -> Progress {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        Progress {
            started: Instant::now(),
            duration,
            reported_at: Duration::ZERO,
            first_seed: since_1970.map_or(0, |it| it.as_micros() as u64),
            tried: 0,
        }
    }

    fn next_seed(&mut self) -> Option<u64> {
        let elapsed = self.started.elapsed();
        if elapsed >= self.duration {
            return None;
        }
        if elapsed >= self.reported_at + Duration::from_secs(60) {
            self.reported_at = elapsed;
            let minutes = elapsed.as_secs() / 60;
            eprintln!("{minutes} min: {} sequences, no difference", self.tried);
        }
        self.tried += 1;
        Some(self.first_seed.wrapping_add(self.tried))
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    match text.parse() {
        Ok(number) => Some(number),
        Err(error) => panic!("{variable}={text} is not a number: {error}"),
    }
}
