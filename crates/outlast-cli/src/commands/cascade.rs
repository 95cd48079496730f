//! Telling those that descend from what was ended, as engines do: on a database that no engine runs on, they would live on.

use super::verb::Verb;
use crate::database::Database;
use crate::failure::Failure;
use crate::progress::bar;
use outlast_core::{CascadeRequest, Cascaded, Hints};
use std::time::Duration;
use tokio::time::Instant;

/// How many are told in one transaction.
const BATCH: usize = 500;
/// After this the rest is left to engines.
const LONGEST: Duration = Duration::from_secs(60);
/// How long after finding that engines are at all of it comes the next look.
const PAUSE: Duration = Duration::from_millis(50);

/// Who has been told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Everybody.
    All,
    /// Not everybody yet.
    Some,
}

/// Tells batch by batch, beside engines that may do the same.
pub(super) async fn tell_descendants(verb: Verb, database: &Database) -> Result<Told, Failure> {
    let begun = Instant::now();
    // One may be told more than once: by the policy of its parent, and because its tree is ended.
    let bar = bar(verb.gerund(), None);
    let told = loop {
        let request = CascadeRequest { max: BATCH };
        let cascaded = database.store.cascade(request).await?;
        let (more, changed) = (
            cascaded.more,
            cascaded.requested.len() + cascaded.ended.len(),
        );
        bar.inc(changed as u64);
        publish(cascaded, database).await;
        match more {
            false => break Told::All,
            true if begun.elapsed() >= LONGEST => break Told::Some,
            true if changed == 0 => tokio::time::sleep(PAUSE).await,
            true => {}
        }
    };
    bar.finish_and_clear();
    Ok(told)
}

/// Nothing is lost when a hint is: engines look by themselves too.
async fn publish(cascaded: Cascaded, database: &Database) {
    let mut hints = Hints::now(cascaded.woken);
    hints.ended = cascaded.ended;
    hints.told = cascaded.running;
    if !hints.is_empty() {
        let _ = database.store.notify(hints).await;
    }
}
