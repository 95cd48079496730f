//! The release verb: returns claims without an outcome, for example at shutdown.
//!
//! The rows are locked by id before they are written: the update alone would lock them in the
//! caller's order (docs/protocol.md, defect 7). By the fence, a reap and a release of one claim
//! never both count.

use crate::decode::claim_before;
use crate::error::Failure;
use crate::session::Session;
use crate::session::statement::{self, Call, ids_of, references, value};
use crate::session::tx_settings::TxKind;
use crate::verbs::effects::{add_all, add_if, letting_through};
use outlast_core::limits::{self, BATCH_MAX};
use outlast_core::{ClaimRef, QueueNames, Release, ReleaseAnswer, Released, Result, micros};
use std::collections::HashSet;

/// Returns claims to their queues, with the same `attempt` and `crashes`.
pub(crate) async fn release(session: &Session, releases: &[Release]) -> Result<Released> {
    limits::check_batch("release", releases.len(), BATCH_MAX)
        .map_err(|invalid| invalid.during("release"))?;
    if releases.is_empty() {
        return Ok(Released::default());
    }
    session
        .retry("release", || Box::pin(release_once(session, releases)))
        .await
}

async fn release_once(session: &Session, releases: &[Release]) -> Result<Released, Failure> {
    let claims: Vec<ClaimRef> = releases.iter().map(|release| release.claim).collect();
    let pauses: Vec<i64> = releases
        .iter()
        .map(|release| micros(release.pause))
        .collect();
    let mut calls = vec![statement::COMMIT_LOCK.with([value(ids_of(&claims))])];
    calls.extend(back_to_queue(&claims, pauses));
    let answers = session.transact(TxKind::Write, &calls).await?;
    let (mut released, mut woken) = (HashSet::new(), QueueNames::new());
    for row in &answers[1] {
        released.insert(claim_before(row)?);
        add_if(&mut woken, row, "eligible")?;
    }
    add_all(&mut woken, &answers[2])?;
    let answers = claims
        .iter()
        // A claim that is named twice is released once: the first mention answers.
        .map(|claim| match released.remove(claim) {
            true => ReleaseAnswer::Released,
            false => ReleaseAnswer::Lost,
        })
        .collect();
    Ok(Released { answers, woken })
}

/// Returns the calls that release the claims, then unblock the next rows of their partition keys.
fn back_to_queue(claims: &[ClaimRef], pauses: Vec<i64>) -> [Call<'static>; 2] {
    let [ids, revisions] = references(claims);
    [
        statement::COMMIT_RELEASE.with([ids, revisions, value(pauses)]),
        letting_through(claims),
    ]
}
