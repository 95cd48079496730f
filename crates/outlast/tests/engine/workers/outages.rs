//! When the database or a node was away, those who live have had no chance to say so: nobody may be taken for dead
//! before they have (docs/protocol.md, defect 16). On the model, at a time that passes when everybody waits.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::through::{Break, Through};
use outlast::prelude::*;
use outlast_conformance::Model;
use outlast_core::ManualClock;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::Instant;

const LEASE: Duration = Duration::from_secs(10);

/// A maintenance node, and the moments at which it looks for the dead. The first `broken` looks fail.
async fn keeper(broken: u32) -> (Engine, UnboundedReceiver<Instant>) {
    let (sender, looks) = unbounded_channel();
    let seen = AtomicU32::new(0);
    let store = Through::new(Model::new(ManualClock::default())).breaking(move |verb| {
        if verb != "reap" {
            return None;
        }
        // Nobody listens any more when the test is over.
        let _ = sender.send(Instant::now());
        let is_broken = seen.fetch_add(1, Ordering::Relaxed) < broken;
        is_broken.then_some(Break::Before)
    });
    let builder = Engine::builder(store).roles(Roles::MAINTENANCE);
    (builder.lease(LEASE).start().await.unwrap(), looks)
}

#[tokio::test(start_paused = true)]
async fn a_node_that_starts_takes_nobody_for_dead_before_one_lease() {
    let begun = Instant::now();
    let (engine, mut looks) = keeper(0).await;
    let first = looks.recv().await.unwrap();
    assert!(first - begun >= LEASE, "after {:?}", first - begun);
    let second = looks.recv().await.unwrap();
    assert!(second - first < LEASE, "it looks often from then on");
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_of_the_database_nobody_is_taken_for_dead_before_one_lease() {
    let (engine, mut looks) = keeper(3).await;
    let mut broken = looks.recv().await.unwrap();
    for _ in 0..3 {
        let next = looks.recv().await.unwrap();
        assert!(next - broken >= LEASE, "after {:?}", next - broken);
        broken = next;
    }
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_away_takes_nobody_for_dead_before_one_lease() {
    let (engine, mut looks) = keeper(0).await;
    looks.recv().await.unwrap();
    looks.recv().await.unwrap();
    // Nothing of this node runs meanwhile.
    tokio::time::advance(LEASE * 3).await;
    let back = Instant::now();
    let next = looks.recv().await.unwrap();
    assert!(next - back >= LEASE, "after {:?}", next - back);
    engine.shutdown().await;
}
