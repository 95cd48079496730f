//! Run-ahead: a worker runs the next step on the same claim, within a budget.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::through::Through;
use crate::support::{LONG, insert, on_both_stores};
use outlast::prelude::*;
use outlast::store::{Inspect, Store};
use outlast::{Handle, Outcome, Status};
use std::sync::{Arc, Mutex};

on_both_stores!(
    a_chain_of_steps_runs_on_one_claim,
    a_machine_can_go_through_the_queue_after_each_step,
    an_engine_can_go_through_the_queue_after_each_step,
    an_outcome_can_ask_to_go_through_the_queue,
    a_long_chain_lets_others_have_their_turn_when_its_budget_is_used_up,
    a_chain_alone_in_its_queue_is_claimed_again_after_its_budget,
);

#[steps]
enum Link {
    Down {
        from: u32,
    },
    Requeue {
        from: u32,
    },
    /// Inserts a more urgent instance, then goes on.
    Urge {
        from: u32,
    },
    Newcomer,
}

/// The steps, in the order in which they ran.
type Log = Arc<Mutex<Vec<String>>>;

#[derive(Clone, Default)]
struct Chain {
    log: Log,
}

impl Chain {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }
}

impl Machine for Chain {
    const NAME: &'static str = "chain";
    type State = Link;
    type Output = ();

    async fn step(&self, state: Link, cx: &Context) -> StepResult<Self> {
        let log = |entry: String| self.log.lock().unwrap().push(entry);
        match state {
            Link::Down { from } => {
                log(from.to_string());
                down(from)
            }
            Link::Requeue { from } => match from {
                0 => done(()),
                from => Ok(Outcome::requeue(Link::Requeue { from: from - 1 })),
            },
            Link::Urge { from } => {
                log(from.to_string());
                let newcomer = Chain::with(Link::Newcomer).priority(-1);
                cx.client().start(newcomer).await?;
                down(from)
            }
            Link::Newcomer => {
                log("newcomer".into());
                done(())
            }
        }
    }
}

fn down<M: Machine<State = Link, Output = ()>>(from: u32) -> StepResult<M> {
    match from {
        0 => done(()),
        from => next(Link::Down { from: from - 1 }),
    }
}

/// As `Chain`, but every step goes through the queue.
struct Slow;

impl Machine for Slow {
    const NAME: &'static str = "slow";
    const RUN_AHEAD: bool = false;
    type State = Link;
    type Output = ();

    async fn step(&self, state: Link, _: &Context) -> StepResult<Self> {
        match state {
            Link::Down { from } | Link::Requeue { from } | Link::Urge { from } => down(from),
            Link::Newcomer => done(()),
        }
    }
}

/// An engine with one slot. The instance in it keeps all others waiting.
async fn engine(store: impl Store + Inspect + Clone, chain: &Chain, run_ahead: u32) -> Engine {
    let store = Through::new(store);
    let builder = Engine::builder(store.clone()).register(chain.clone());
    let builder = builder.register(Slow).queue("default", 1);
    let engine = builder.run_ahead(run_ahead).start().await.unwrap();
    store.first_claims(1).await;
    engine
}

/// How often the instance was claimed. Its revision counts its claims and its commits.
async fn claims<M: Machine>(chain: &Handle<M>, steps: i64) -> i64 {
    let ended = chain.ended().timeout(LONG).await.unwrap();
    assert_eq!(ended.status, Status::Done);
    ended.revision.0 - steps
}

async fn a_chain_of_steps_runs_on_one_claim<S: Store + Inspect + Clone>(store: S) {
    let engine = Engine::builder(store).register(Chain::default());
    let engine = engine.queue("default", 1).start().await.unwrap();
    let handle = insert(engine.client(), Chain::with(Link::Down { from: 9 })).await;
    assert_eq!(claims(&handle, 10).await, 1);
    engine.shutdown().await.unwrap();
}

async fn a_machine_can_go_through_the_queue_after_each_step<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let engine = engine(store, &Chain::default(), 100).await;
    let handle = insert(engine.client(), Slow::with(Link::Down { from: 9 })).await;
    assert_eq!(claims(&handle, 10).await, 10);
    engine.shutdown().await.unwrap();
}

async fn an_engine_can_go_through_the_queue_after_each_step<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let engine = engine(store, &Chain::default(), 0).await;
    let handle = insert(engine.client(), Chain::with(Link::Down { from: 9 })).await;
    assert_eq!(claims(&handle, 10).await, 10);
    engine.shutdown().await.unwrap();
}

async fn an_outcome_can_ask_to_go_through_the_queue<S: Store + Inspect + Clone>(store: S) {
    let engine = engine(store, &Chain::default(), 100).await;
    let handle = insert(engine.client(), Chain::with(Link::Requeue { from: 9 })).await;
    assert_eq!(claims(&handle, 10).await, 10);
    engine.shutdown().await.unwrap();
}

async fn a_long_chain_lets_others_have_their_turn_when_its_budget_is_used_up<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let chain = Chain::default();
    let engine = engine(store, &chain, 3).await;
    let handle = insert(engine.client(), Chain::with(Link::Urge { from: 9 })).await;
    handle.output().timeout(LONG).await.unwrap();

    // The first step and three that run ahead, then the newcomer, then four at a time.
    let expected = ["9", "8", "7", "6", "newcomer", "5", "4", "3", "2", "1", "0"];
    assert_eq!(chain.take(), expected);
    engine.shutdown().await.unwrap();
}

async fn a_chain_alone_in_its_queue_is_claimed_again_after_its_budget<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = engine(store, &Chain::default(), 3).await;
    let handle = insert(engine.client(), Chain::with(Link::Down { from: 9 })).await;
    // Four steps, four steps, two steps.
    assert_eq!(claims(&handle, 10).await, 3);
    engine.shutdown().await.unwrap();
}
