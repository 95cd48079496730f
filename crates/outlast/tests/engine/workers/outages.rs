//! After an outage of the database or of a node, live workers need time to renew their leases. No
//! worker may be reaped before that (docs/protocol.md, defect 16). On the model, with paused time.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::through::{Break, Through};
use outlast::Roles;
use outlast::prelude::*;
use outlast::store::ManualClock;
use outlast_conformance::Model;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::Instant;

const LEASE: Duration = Duration::from_secs(10);

/// Starts a maintenance node. Returns it with the times of its reaps, of which the first `broken`
/// fail.
async fn maintenance_node(broken: u32) -> (Engine, UnboundedReceiver<Instant>) {
    let (sender, reaps) = unbounded_channel();
    let seen = AtomicU32::new(0);
    let store = Through::new(Model::new(ManualClock::default())).breaking(move |verb| {
        if verb != "reap" {
            return None;
        }
        // The receiver is dropped when the test is over.
        let _ = sender.send(Instant::now());
        let is_broken = seen.fetch_add(1, Ordering::Relaxed) < broken;
        is_broken.then_some(Break::Before)
    });
    let builder = Engine::builder(store).roles(Roles::MAINTENANCE);
    (builder.lease(LEASE).start().await.unwrap(), reaps)
}

#[tokio::test(start_paused = true)]
async fn a_starting_node_reaps_no_worker_before_one_lease_has_passed() {
    let begun = Instant::now();
    let (engine, mut reaps) = maintenance_node(0).await;
    let first = reaps.recv().await.unwrap();
    assert!(first - begun >= LEASE, "after {:?}", first - begun);
    let second = reaps.recv().await.unwrap();
    assert!(second - first < LEASE, "the node reaps often from then on");
    engine.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_worker_is_reaped_before_one_lease_after_an_outage_of_the_database() {
    let (engine, mut reaps) = maintenance_node(3).await;
    let mut broken = reaps.recv().await.unwrap();
    for _ in 0..3 {
        let next = reaps.recv().await.unwrap();
        assert!(next - broken >= LEASE, "after {:?}", next - broken);
        broken = next;
    }
    engine.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_suspended_reaps_no_worker_before_one_lease_has_passed() {
    let (engine, mut reaps) = maintenance_node(0).await;
    reaps.recv().await.unwrap();
    reaps.recv().await.unwrap();
    // No task of this node runs meanwhile.
    tokio::time::advance(LEASE * 3).await;
    let back = Instant::now();
    let next = reaps.recv().await.unwrap();
    assert!(next - back >= LEASE, "after {:?}", next - back);
    engine.shutdown().await.unwrap();
}
