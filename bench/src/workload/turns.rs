//! Alternates one operation with bare commits: both depend on the current speed of the disk.

use super::Run;
use crate::bare::Bare;
use crate::bed::Bed;
use crate::cpu::Usage;
use crate::figure::Times;
use anyhow::Result;
use std::time::Duration;

/// How often the two alternate.
const TURNS: usize = 10;

/// The first operations open connections and prepare statements, which a running engine has done
/// before.
const WARM_UP: usize = 20;
/// An idle engine has run for a while, and knows whether there are other nodes to notify.
const UP_FOR: Duration = Duration::from_secs(2);

/// The samples of both sides.
pub(super) struct Both {
    pub(super) ours: Times,
    pub(super) commits: Times,
}

/// Runs an operation that returns its milliseconds `run.n` times, and as many bare commits.
pub(super) async fn in_turns(
    run: &Run<'_>,
    bed: &Bed,
    doing: &'static str,
    mut once: impl AsyncFnMut(u64) -> Result<f64>,
) -> Result<Both> {
    let bare = Bare::new(bed).await?;
    for number in 0..WARM_UP.min(run.n) {
        once(number as u64).await?;
        bare.commit().await?;
    }
    tokio::time::sleep(UP_FOR).await;
    bed.settle().await?;
    let bar = run.bar(run.n, doing);
    let (mut ours, mut commits) = (Turns::default(), Turns::default());
    let length = run.n.div_ceil(TURNS);
    for first in (0..run.n).step_by(length) {
        let turn = first..run.n.min(first + length);
        commits
            .take(run, turn.len(), async |_| bare.commit().await)
            .await?;
        ours.take(run, turn.len(), async |nth| {
            once((first + nth) as u64).await
        })
        .await?;
        bar.inc(turn.len() as u64);
    }
    bar.finish_and_clear();
    Ok(Both {
        ours: ours.times(),
        commits: commits.times(),
    })
}

/// The samples of one side.
#[derive(Default)]
struct Turns {
    milliseconds: Vec<f64>,
    stretches: Vec<Usage>,
}

impl Turns {
    async fn take(
        &mut self,
        run: &Run<'_>,
        times: usize,
        mut once: impl AsyncFnMut(usize) -> Result<f64>,
    ) -> Result<()> {
        let meter = run.meter()?;
        for nth in 0..times {
            self.milliseconds.push(once(nth).await?);
        }
        self.stretches.push(meter.stop()?);
        Ok(())
    }

    fn times(self) -> Times {
        Times::new(self.milliseconds, Usage::over(&self.stretches))
    }
}
