//! Steps that block their thread, so that no time limit can drop them.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::{LONG, insert, on_both_stores};
use outlast::prelude::*;
use outlast::store::{Inspect, Store};
use outlast::{Error, Failure, Handle, Status};
use std::sync::{Arc, Condvar, Mutex};

on_both_stores!(
    a_step_that_blocks_its_thread_fails_its_instance_and_others_go_on,
    the_late_outcome_of_a_blocked_step_is_dropped,
    a_shutdown_does_not_wait_for_a_step_that_blocks_its_thread,
);

/// A door that stays open once it was opened. Waiting for it blocks the thread.
#[derive(Clone, Default)]
struct Door(Arc<(Mutex<bool>, Condvar)>);

impl Door {
    fn wait(&self) {
        let (open, opened) = &*self.0;
        drop(opened.wait_while(open.lock().unwrap(), |open| !*open));
    }

    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

/// Opens the door at the end of a test, also of a failed one. The runtime would wait for the
/// blocked thread.
struct OpenAtTheEnd(Door);

impl Drop for OpenAtTheEnd {
    fn drop(&mut self) {
        self.0.open();
    }
}

struct Blocker {
    door: Door,
    entered: tokio::sync::mpsc::UnboundedSender<()>,
    left: tokio::sync::mpsc::UnboundedSender<()>,
}

#[steps]
enum Thread {
    Block,
    Pass,
}

impl Machine for Blocker {
    const NAME: &'static str = "blocker";
    const STEP_TIMEOUT: Duration = Duration::from_millis(100);
    type State = Thread;
    type Output = String;

    async fn step(&self, state: Thread, _: &Context) -> StepResult<Self> {
        if let Thread::Block = state {
            self.entered.send(()).unwrap();
            self.door.wait();
            self.left.send(()).unwrap();
        }
        done("passed".into())
    }

    async fn on_failure(&self, _: Thread, _: Failure, _: &Context) -> StepResult<Self> {
        done("handled".into())
    }
}

struct Blocked {
    engine: Engine,
    door: OpenAtTheEnd,
    handle: Handle<Blocker>,
    left: tokio::sync::mpsc::UnboundedReceiver<()>,
}

/// An engine with an instance whose step blocks a thread.
async fn blocked(store: impl Store + Inspect) -> Blocked {
    let door = Door::default();
    let (entered, mut enters) = tokio::sync::mpsc::unbounded_channel();
    let (left, leaves) = tokio::sync::mpsc::unbounded_channel();
    let machine = Blocker {
        door: door.clone(),
        entered,
        left,
    };
    let door = OpenAtTheEnd(door);
    let builder = Engine::builder(store)
        .register(machine)
        .queue("default", 10);
    let engine = builder
        .grace(Duration::from_millis(50))
        .start()
        .await
        .unwrap();
    let handle = insert(engine.client(), Blocker::with(Thread::Block)).await;
    enters.recv().await.unwrap();
    Blocked {
        engine,
        door,
        handle,
        left: leaves,
    }
}

async fn a_step_that_blocks_its_thread_fails_its_instance_and_others_go_on(
    store: impl Store + Inspect,
) {
    let blocked = blocked(store).await;
    let engine = &blocked.engine;
    // Many, so that every part of the engine works on the remaining threads.
    for _ in 0..20 {
        let others = (0..100).map(|_| Blocker::with(Thread::Pass));
        for other in engine.client().start_many(others).await.unwrap() {
            assert_eq!(other.output().timeout(LONG).await.unwrap(), "passed");
        }
    }
    let ended = blocked.handle.ended().timeout(LONG).await.unwrap();
    assert_eq!(ended.status, Status::Failed);
    let error = ended.last_error.unwrap();
    assert!(error.contains("step block blocks its thread"), "{error}");
    blocked.door.0.open();
    engine.shutdown().await.unwrap();
}

async fn the_late_outcome_of_a_blocked_step_is_dropped(store: impl Store + Inspect) {
    let mut blocked = blocked(store).await;
    let engine = &blocked.engine;
    let ended = blocked.handle.ended().timeout(LONG).await.unwrap();
    blocked.door.0.open();
    blocked.left.recv().await.unwrap();
    engine.shutdown().await.unwrap();
    let after = blocked.handle.instance().await.unwrap();
    assert_eq!(
        (after.status, after.revision),
        (Status::Failed, ended.revision)
    );
}

async fn a_shutdown_does_not_wait_for_a_step_that_blocks_its_thread(store: impl Store + Inspect) {
    let blocked = blocked(store).await;
    let engine = &blocked.engine;
    let stopped = tokio::time::timeout(LONG, engine.shutdown()).await;
    let late = stopped.expect("the shutdown ends").unwrap_err();
    assert!(matches!(late, Error::Shutdown(_)), "{late:?}");
    blocked.door.0.open();
    // The worker counts as expired, so that maintenance on another node gives its claims back.
    let admin = engine.client().admin();
    let workers = admin.workers().await.unwrap();
    let now = admin.now().await.unwrap();
    assert!(
        workers.iter().all(|worker| worker.lease_expires_at <= now),
        "{workers:?}"
    );
}
