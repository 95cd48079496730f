//! Quarantine: instances of dead workers run in ever smaller groups, until a crash shows which of
//! them caused it (docs/protocol.md, defect 14).

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::{LONG, insert, on_both_stores};
use outlast::Client;
use outlast::prelude::*;
use outlast::store::{ClaimRequest, Inspect, MachineVersion, NewWorker, ReapRequest, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::Semaphore;

on_both_stores!(
    after_two_crashes_all_instances_run_together,
    each_further_crash_halves_the_quarantined_instances_that_run_together,
);

#[derive(Clone)]
struct Watched {
    running: Arc<AtomicU32>,
    most: Arc<AtomicU32>,
    /// Closed when the other instances have ended. Steps in quarantine wait for it.
    begin: Arc<Semaphore>,
    /// How many steps in quarantine must run at once before any goes on.
    together: Arc<tokio::sync::Barrier>,
}

impl Watched {
    fn new(together: usize) -> Watched {
        Watched {
            running: Arc::default(),
            most: Arc::default(),
            begin: Arc::new(Semaphore::new(0)),
            together: Arc::new(tokio::sync::Barrier::new(together)),
        }
    }
}

#[steps]
enum Suspicion {
    Suspected,
    Innocent,
}

impl Machine for Watched {
    const NAME: &'static str = "watched";
    type State = Suspicion;
    type Output = ();

    async fn step(&self, state: Suspicion, _: &Context) -> StepResult<Self> {
        if let Suspicion::Suspected = state {
            let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(running, Ordering::SeqCst);
            self.together.wait().await;
            let _closed = self.begin.acquire().await;
            self.running.fetch_sub(1, Ordering::SeqCst);
        }
        done(())
    }
}

/// Claims all instances for a worker and reaps it, this many times.
async fn crash(store: &impl Store, times: u32, instances: usize) {
    for _ in 0..times {
        let worker = NewWorker {
            name: "victim".into(),
            host: "host".into(),
            version: "1".into(),
            machines: Vec::new(),
            queues: vec!["default".into()],
            lease: LONG,
        };
        let worker = store.register(worker).await.unwrap();
        let claimed = ClaimRequest {
            worker,
            queue: "default".into(),
            machines: [MachineVersion::new("watched", 1)].into(),
            max: instances,
        };
        let claimed = store.claim(claimed).await.unwrap();
        assert_eq!(claimed.claims.len(), instances);
        store.deregister(worker).await.unwrap();
        let reap = ReapRequest {
            max: instances,
            crashes_max: 10,
        };
        assert_eq!(store.reap(reap).await.unwrap().returned.len(), instances);
    }
}

/// Two lost workers in a row are ordinary. Their instances run again without a limit.
async fn after_two_crashes_all_instances_run_together<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let client = Client::new(store.clone());
    let mut all = Vec::new();
    for _ in 0..10 {
        all.push(insert(&client, Watched::with(Suspicion::Suspected)).await);
    }
    crash(&store, 2, 10).await;
    // No step goes on before all ten run.
    let watched = Watched::new(10);
    watched.begin.close();
    let engine = crate::support::running(store, watched.clone()).await;
    for handle in all {
        handle.output().timeout(LONG).await.unwrap();
    }
    assert_eq!(watched.most.load(Ordering::SeqCst), 10);
    engine.shutdown().await.unwrap();
}

/// With ten slots, two run together after four crashes in a row.
async fn each_further_crash_halves_the_quarantined_instances_that_run_together<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let client = Client::new(store.clone());
    let mut quarantined = Vec::new();
    for _ in 0..6 {
        quarantined.push(insert(&client, Watched::with(Suspicion::Suspected)).await);
    }
    crash(&store, 4, 6).await;
    let watched = Watched::new(2);
    let engine = crate::support::running(store, watched.clone()).await;
    // Meanwhile two instances in quarantine run and wait.
    for _ in 0..5 {
        let innocent = insert(engine.client(), Watched::with(Suspicion::Innocent)).await;
        innocent.output().timeout(LONG).await.unwrap();
    }
    watched.begin.close();
    for handle in quarantined {
        handle.output().timeout(LONG).await.unwrap();
    }
    assert_eq!(watched.most.load(Ordering::SeqCst), 2);
    engine.shutdown().await.unwrap();
}
