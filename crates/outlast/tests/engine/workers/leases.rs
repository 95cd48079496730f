//! A worker that was suspended past its lease starts no step. Other workers may have run it.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::through::{Break, Through};
use crate::support::{LONG, eventually, insert, on_both_stores};
use outlast::engine::EngineBuilder;
use outlast::prelude::*;
use outlast::store::{Inspect, Store};
use outlast::{Client, Durable, New, Workflow};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::Notify;

on_both_stores!(
    a_claim_answered_after_its_lease_has_expired_is_not_started,
    the_next_step_after_a_late_commit_is_not_started,
    the_next_step_of_a_workflow_after_a_late_commit_is_not_started,
);

const LEASE: Duration = Duration::from_secs(1);

/// Counts the starts of each of its steps.
#[derive(Clone, Default)]
struct Noted {
    first: Arc<AtomicU32>,
    second: Arc<AtomicU32>,
}

impl Noted {
    /// How often each step was started.
    fn started(&self) -> (u32, u32) {
        let (first, second) = (&self.first, &self.second);
        (first.load(Ordering::SeqCst), second.load(Ordering::SeqCst))
    }
}

#[steps]
enum Two {
    First,
    Second,
}

impl Machine for Noted {
    const NAME: &'static str = "noted";
    type State = Two;
    type Output = ();

    async fn step(&self, state: Two, _: &Context) -> StepResult<Self> {
        match state {
            Two::First => {
                self.first.fetch_add(1, Ordering::SeqCst);
                next(Two::Second)
            }
            Two::Second => {
                self.second.fetch_add(1, Ordering::SeqCst);
                done(())
            }
        }
    }
}

/// The same steps as a workflow.
#[derive(Clone, Default)]
struct NotedFlow(Noted);

impl Durable for NotedFlow {
    const NAME: &'static str = "noted_flow";
    type Input = ();
    type Output = ();
}

impl Workflow for NotedFlow {
    async fn run(&self, flow: Flow, (): ()) -> FlowResult<()> {
        let noted = &self.0;
        let (first, second) = (noted.first.clone(), noted.second.clone());
        flow.step("first", move || count(first)).await?;
        flow.step("second", move || count(second)).await?;
        Ok(())
    }
}

async fn count(started: Arc<AtomicU32>) -> Result<u32, String> {
    Ok(started.fetch_add(1, Ordering::SeqCst))
}

/// A connection to the store that freezes. Heartbeats stop before they are sent. The first call of
/// one verb stops before its answer is returned.
#[derive(Clone)]
struct Freeze {
    verb: &'static str,
    is_on: Arc<AtomicBool>,
    froze: Arc<Mutex<Option<Instant>>>,
    answer: Arc<Notify>,
    heartbeat: Arc<Notify>,
    /// The engine has read its claims from the store after the freeze.
    noticed: Arc<AtomicBool>,
}

impl Freeze {
    fn of(verb: &'static str) -> Freeze {
        Freeze {
            verb,
            is_on: Arc::new(AtomicBool::new(true)),
            froze: Arc::default(),
            answer: Arc::default(),
            heartbeat: Arc::default(),
            noticed: Arc::default(),
        }
    }

    fn delay(&self, verb: &'static str) -> Option<(Break, Arc<Notify>)> {
        if !self.is_on.load(Ordering::SeqCst) {
            return None;
        }
        if verb == "heartbeat" {
            return Some((Break::Before, self.heartbeat.clone()));
        }
        let mut froze = self.froze.lock().unwrap();
        match (verb == self.verb, *froze) {
            (true, None) => {
                *froze = Some(Instant::now());
                Some((Break::After, self.answer.clone()))
            }
            (_, Some(_)) if verb == "claims_of" => {
                self.noticed.store(true, Ordering::SeqCst);
                None
            }
            _ => None,
        }
    }

    /// Waits until the call has been made. Its answer is held back.
    async fn is_reached(&self) {
        let is_reached = async || self.froze.lock().unwrap().is_some();
        eventually("the call is made", is_reached).await;
    }

    /// Lets the answer through after the lease has expired. Then waits until the claim is dropped.
    async fn thaw_late(&self) {
        tokio::time::sleep(LEASE * 3 / 2).await;
        self.answer.notify_one();
        eventually("the claim is dropped", async || {
            self.noticed.load(Ordering::SeqCst)
        })
        .await;
    }

    /// Lets heartbeats through again.
    fn end(&self) {
        self.is_on.store(false, Ordering::SeqCst);
        self.heartbeat.notify_waiters();
        self.heartbeat.notify_one();
    }
}

/// Runs an instance whose worker freezes at its first call of `verb`. No step may start before the
/// lease is renewed.
async fn freeze_at<S, D>(
    store: S,
    verb: &'static str,
    noted: &Noted,
    new: New<D>,
    register: impl FnOnce(EngineBuilder) -> EngineBuilder,
) where
    S: Store + Inspect + Clone,
    D: Durable,
{
    let handle = insert(&Client::new(store.clone()), new).await;
    let freeze = Freeze::of(verb);
    let delays = freeze.clone();
    let frozen = Through::new(store).delaying(move |verb| delays.delay(verb));
    let engine = register(Engine::builder(frozen)).lease(LEASE);
    let engine = engine
        .queue("default", 2)
        .poll_interval(Duration::from_millis(50));
    let engine = engine.start().await.unwrap();
    freeze.is_reached().await;
    let before = noted.started();
    freeze.thaw_late().await;
    assert_eq!(noted.started(), before, "a step started past the lease");
    freeze.end();
    handle.output().timeout(LONG).await.unwrap();
    assert_eq!(noted.started(), (1, 1));
    engine.shutdown().await.unwrap();
}

async fn a_claim_answered_after_its_lease_has_expired_is_not_started<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let noted = Noted::default();
    let new = Noted::with(Two::First);
    let machine = noted.clone();
    freeze_at(store, "claim", &noted, new, |it| it.register(machine)).await;
}

async fn the_next_step_after_a_late_commit_is_not_started<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let noted = Noted::default();
    let new = Noted::with(Two::First);
    let machine = noted.clone();
    freeze_at(store, "commit", &noted, new, |it| it.register(machine)).await;
}

async fn the_next_step_of_a_workflow_after_a_late_commit_is_not_started<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let noted = Noted::default();
    let flow = NotedFlow(noted.clone());
    let new = NotedFlow::with(());
    freeze_at(store, "commit", &noted, new, |it| it.register(flow)).await;
}
