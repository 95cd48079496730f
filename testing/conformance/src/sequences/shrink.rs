//! Makes a sequence from a seed, and shortens a failing sequence.

use super::coverage::Coverage;
use super::pair::Pair;
use super::steps::{Step, Theme, step};
use crate::Subject;
use outlast_core::ManualClock;
use proptest::strategy::{BoxedStrategy, Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::fmt;
use std::time::{Duration, Instant};

/// Bounds on the time and on the tries to find a shorter failing sequence.
const SHRINK_FOR: Duration = Duration::from_secs(60);
const TRIES: usize = 2_000;

/// A step that can produce simpler forms of itself.
type StepTree = <BoxedStrategy<Step> as Strategy>::Tree;

/// A sequence after which the store and the model differ.
#[derive(Debug)]
pub(super) struct Failure {
    seed: u64,
    verbs: usize,
    pub(super) found: Found,
}

/// The verbs that were sent, and how the two sides differ after them.
#[derive(Debug)]
pub(super) struct Found {
    /// The verbs. The two sides differ after the last one.
    pub(super) trail: Vec<String>,
    pub(super) differences: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the store differs from the model after these verbs:")?;
        for (n, sent) in self.found.trail.iter().enumerate() {
            writeln!(f, "{:>4}. {sent}", n + 1)?;
        }
        for difference in &self.found.differences {
            writeln!(f, "  * {difference}")?;
        }
        let (seed, verbs) = (self.seed, self.verbs);
        write!(
            f,
            "OUTLAST_SEED={seed} OUTLAST_SEQUENCE_VERBS={verbs} replays it"
        )
    }
}

/// Tries the sequence of one seed, and shrinks it if it fails.
pub(super) async fn try_seed(
    open: &impl AsyncFn(ManualClock) -> Subject,
    seed: u64,
    verbs: usize,
) -> Result<Coverage, Failure> {
    let trees = trees_of(seed, verbs);
    match try_steps(open, &current(&trees)).await {
        Ok(coverage) => Ok(coverage),
        Err(found) => Err(Failure {
            seed,
            verbs,
            found: Shrinker::new(open).shrink(trees, found).await,
        }),
    }
}

/// Tries the sequence of one seed without shrinking.
#[cfg(test)]
pub(super) async fn try_unshrunk(
    open: &impl AsyncFn(ManualClock) -> Subject,
    seed: u64,
    verbs: usize,
) -> Result<Coverage, Found> {
    try_steps(open, &current(&trees_of(seed, verbs))).await
}

/// Sends `steps` to a fresh pair, and then finishes every instance.
async fn try_steps(
    open: &impl AsyncFn(ManualClock) -> Subject,
    steps: &[Step],
) -> Result<Coverage, Found> {
    let clock = ManualClock::default();
    let mut pair = Pair::new(open(clock.clone()).await, clock);
    let tried = pair.follow(steps).await;
    let (coverage, trail) = pair.finish().await;
    match tried {
        Ok(()) => Ok(coverage),
        Err(differences) => Err(Found { trail, differences }),
    }
}

/// Removes and simplifies steps while the sequence still fails.
struct Shrinker<'a, Open> {
    open: &'a Open,
    started: Instant,
    tries_left: usize,
}

impl<'a, Open: AsyncFn(ManualClock) -> Subject> Shrinker<'a, Open> {
    fn new(open: &'a Open) -> Self {
        Shrinker {
            open,
            started: Instant::now(),
            tries_left: TRIES,
        }
    }

    async fn shrink(mut self, mut trees: Vec<StepTree>, mut found: Found) -> Found {
        let mut chunk = trees.len().div_ceil(2);
        while chunk > 0 {
            let removed = self.remove_chunks(&mut trees, chunk, &mut found).await;
            if chunk > 1 || !removed {
                chunk /= 2;
            }
        }
        for position in 0..trees.len() {
            self.simplify(&mut trees, position, &mut found).await;
        }
        // Simpler steps may make others unnecessary, some of them only together.
        for chunk in [3, 2, 1] {
            while self.remove_chunks(&mut trees, chunk, &mut found).await {}
        }
        found
    }

    /// Removes every run of `chunk` steps that the failure does not need.
    async fn remove_chunks(
        &mut self,
        trees: &mut Vec<StepTree>,
        chunk: usize,
        found: &mut Found,
    ) -> bool {
        let (mut removed, mut start) = (false, 0);
        while start < trees.len() {
            let end = trees.len().min(start + chunk);
            let mut steps = current(trees);
            steps.drain(start..end);
            if self.still_fails(&steps, found).await {
                trees.drain(start..end);
                removed = true;
            } else {
                start = end;
            }
        }
        removed
    }

    /// Reduces one step to its simplest form that still fails.
    async fn simplify(&mut self, trees: &mut [StepTree], position: usize, found: &mut Found) {
        let mut simpler = trees[position].simplify();
        while simpler {
            simpler = if self.still_fails(&current(trees), found).await {
                trees[position].simplify()
            } else {
                trees[position].complicate()
            };
        }
    }

    async fn still_fails(&mut self, steps: &[Step], found: &mut Found) -> bool {
        if self.tries_left == 0 || self.started.elapsed() > SHRINK_FOR {
            return false;
        }
        self.tries_left -= 1;
        match try_steps(self.open, steps).await {
            Ok(_) => false,
            Err(shorter) => {
                *found = shorter;
                true
            }
        }
    }
}

fn current(trees: &[StepTree]) -> Vec<Step> {
    trees.iter().map(ValueTree::current).collect()
}

/// Returns the steps of a seed: the same on every machine, with nothing stored on disk.
fn trees_of(seed: u64, verbs: usize) -> Vec<StepTree> {
    let config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let step = step(Theme::of(seed)).boxed();
    let tree = |_| step.new_tree(&mut runner);
    let trees: Result<_, _> = (0..verbs).map(tree).collect();
    trees.expect("the strategy filters nothing out")
}
