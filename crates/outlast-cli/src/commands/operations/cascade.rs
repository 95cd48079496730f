//! Runs the cascade to the descendants of an ended instance, as engines do. Without it, they would
//! live on in a database that no engine runs on.

use super::verb::Verb;
use crate::database::Database;
use crate::failure::Failure;
use crate::progress::bar;
use outlast_core::{CascadeRequest, Cascaded, Hints};
use std::time::Duration;
use tokio::time::Instant;

/// Instances per transaction.
const BATCH: usize = 500;
/// After this long, the rest is left to engines.
const LONGEST: Duration = Duration::from_secs(60);
/// The pause after finding all cascade rows locked by engines.
const PAUSE: Duration = Duration::from_millis(50);

/// How far the cascade has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CascadeProgress {
    /// Every descendant is cancelled or terminated.
    Complete,
    /// Some descendants are left.
    Partial,
}

/// Works in batches, concurrently with engines that may do the same.
pub(super) async fn cascade_to_descendants(
    verb: Verb,
    database: &Database,
) -> Result<CascadeProgress, Failure> {
    let begun = Instant::now();
    // A descendant may count more than once: for its parent's policy, and for the end of its tree.
    let bar = bar(verb.gerund(), None);
    let progress = loop {
        let request = CascadeRequest { max: BATCH };
        let cascaded = database.store.cascade(request).await?;
        let (more, changed) = (
            cascaded.more,
            cascaded.requested.len() + cascaded.ended.len(),
        );
        bar.inc(changed as u64);
        publish(cascaded, database).await;
        match more {
            false => break CascadeProgress::Complete,
            true if begun.elapsed() >= LONGEST => break CascadeProgress::Partial,
            true if changed == 0 => tokio::time::sleep(PAUSE).await,
            true => {}
        }
    };
    bar.finish_and_clear();
    Ok(progress)
}

/// A lost hint does no harm: engines also poll.
async fn publish(cascaded: Cascaded, database: &Database) {
    let mut hints = Hints::now(cascaded.woken);
    hints.ended = cascaded.ended;
    hints.cancelled = cascaded.running;
    if !hints.is_empty() {
        let _ = database.store.notify(hints).await;
    }
}
