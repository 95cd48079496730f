//! Timeouts of instances: the engine ends them and drops their running steps.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::{LONG, eventually, insert, on_both_stores, running};
use outlast::Status;
use outlast::prelude::*;
use outlast::store::{Inspect, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

on_both_stores!(
    a_running_step_is_dropped_when_its_instance_times_out,
    a_parked_instance_times_out_at_once_for_those_who_wait_for_it,
    an_instance_that_ends_in_time_does_not_time_out,
);

/// A machine whose step never ends.
#[derive(Clone, Default)]
struct Slow {
    here: Arc<Notify>,
    was_dropped: Arc<AtomicBool>,
}

#[steps]
enum Pace {
    /// Awaits for ever.
    Hang,
    /// Waits for a signal that nobody sends.
    Park,
    Parked,
    End,
}

/// Notes when the code that holds it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[derive(Signal, Serialize, Deserialize)]
struct Never;

impl Machine for Slow {
    const NAME: &'static str = "slow";
    type State = Pace;
    type Output = ();

    async fn step(&self, pace: Pace, _: &Context) -> StepResult<Self> {
        match pace {
            Pace::Hang => {
                let _held = Dropped(self.was_dropped.clone());
                self.here.notify_one();
                std::future::pending::<()>().await;
                done(())
            }
            Pace::Park => wait_for::<Never>().then(Pace::Parked),
            Pace::Parked | Pace::End => done(()),
        }
    }
}

async fn a_running_step_is_dropped_when_its_instance_times_out<S: Store + Inspect + Clone>(
    store: S,
) {
    let slow = Slow::default();
    let engine = running(store, slow.clone()).await;
    let new = Slow::with(Pace::Hang).timeout(Duration::from_millis(200));
    let handle = insert(engine.client(), new).await;
    slow.here.notified().await;
    let ended = handle.ended().timeout(LONG).await.unwrap();
    assert_eq!(ended.status, Status::Failed);
    assert_eq!(ended.last_error.as_deref(), Some("timed out after 200 ms"));
    // The lease is 30 s, and this comes long before a third of it.
    eventually("the step is dropped", async || {
        slow.was_dropped.load(Ordering::SeqCst)
    })
    .await;
    // Its slot is free again.
    let next = insert(engine.client(), Slow::with(Pace::End)).await;
    next.output().timeout(LONG).await.unwrap();
    engine.shutdown().await.unwrap();
    let row = handle.instance().await.unwrap();
    assert_eq!((row.status, row.result), (Status::Failed, None));
}

async fn a_parked_instance_times_out_at_once_for_those_who_wait_for_it<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store, Slow::default()).await;
    let new = Slow::with(Pace::Park).timeout(Duration::from_millis(300));
    let handle = insert(engine.client(), new).await;
    let error = handle.output().timeout(LONG).await.unwrap_err();
    assert!(
        error.to_string().contains("timed out after 300 ms"),
        "{error}"
    );
}

async fn an_instance_that_ends_in_time_does_not_time_out<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Slow::default()).await;
    let new = Slow::with(Pace::End).timeout(LONG);
    let handle = insert(engine.client(), new).await;
    handle.output().timeout(LONG).await.unwrap();
    let row = handle.instance().await.unwrap();
    assert_eq!(row.times_out_at(), None);
    assert!(row.timeout_at.is_some());
}
