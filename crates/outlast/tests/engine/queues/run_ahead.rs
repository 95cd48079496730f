//! Run-ahead: a worker runs the next step on the same claim, within a budget.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::through::Through;
use crate::support::{LONG, insert, on_both_stores};
use outlast::prelude::*;
use outlast_core::{Inspect, Store};
use std::sync::{Arc, Mutex};

on_both_stores!(
    a_chain_of_steps_runs_on_one_claim,
    a_machine_can_go_through_the_queue_after_each_step,
    an_engine_can_go_through_the_queue_after_each_step,
    an_outcome_can_ask_to_go_through_the_queue,
    a_long_chain_lets_others_have_their_turn_when_its_budget_is_used_up,
    a_chain_alone_in_its_queue_is_claimed_again_after_its_budget,
);

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
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
        Ok(match state {
            Link::Down { from } => {
                log(from.to_string());
                down(from)
            }
            Link::Requeue { from } => match from {
                0 => Outcome::done(()),
                from => Outcome::requeue(Link::Requeue { from: from - 1 }),
            },
            Link::Urge { from } => {
                log(from.to_string());
                let newcomer = New::<Chain>(Link::Newcomer).priority(-1);
                cx.client().insert(newcomer).await?;
                down(from)
            }
            Link::Newcomer => {
                log("newcomer".into());
                Outcome::done(())
            }
        })
    }
}

fn down<M: Machine<State = Link, Output = ()>>(from: u32) -> Outcome<M> {
    match from {
        0 => Outcome::done(()),
        from => Outcome::next(Link::Down { from: from - 1 }),
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
        Ok(match state {
            Link::Down { from } | Link::Requeue { from } | Link::Urge { from } => down(from),
            Link::Newcomer => Outcome::done(()),
        })
    }
}

/// An engine with one slot. The instance in it keeps all others waiting.
async fn engine(store: impl Store + Inspect + Clone, chain: &Chain, run_ahead: u32) -> Engine {
    let store = Through::new(store);
    let builder = Engine::builder(store.clone()).machine(chain.clone());
    let builder = builder.machine(Slow).queue("default", 1);
    let engine = builder.run_ahead(run_ahead).start().await.unwrap();
    store.first_claims(1).await;
    engine
}

/// How often the instance was claimed. Its revision counts its claims and its commits.
async fn claims<M: Machine>(engine: &Engine, id: Id<M>, steps: i64) -> i64 {
    let ended = engine.wait_ended(id, LONG).await.unwrap();
    assert_eq!(ended.status, Status::Done);
    ended.revision.0 - steps
}

async fn a_chain_of_steps_runs_on_one_claim<S: Store + Inspect + Clone>(store: S) {
    let engine = Engine::builder(store).machine(Chain::default());
    let engine = engine.queue("default", 1).start().await.unwrap();
    let id = insert(&engine, New::<Chain>(Link::Down { from: 9 })).await;
    assert_eq!(claims(&engine, id, 10).await, 1);
    engine.shutdown().await;
}

async fn a_machine_can_go_through_the_queue_after_each_step<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let engine = engine(store, &Chain::default(), 100).await;
    let id = insert(&engine, New::<Slow>(Link::Down { from: 9 })).await;
    assert_eq!(claims(&engine, id, 10).await, 10);
    engine.shutdown().await;
}

async fn an_engine_can_go_through_the_queue_after_each_step<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let engine = engine(store, &Chain::default(), 0).await;
    let id = insert(&engine, New::<Chain>(Link::Down { from: 9 })).await;
    assert_eq!(claims(&engine, id, 10).await, 10);
    engine.shutdown().await;
}

async fn an_outcome_can_ask_to_go_through_the_queue<S: Store + Inspect + Clone>(store: S) {
    let engine = engine(store, &Chain::default(), 100).await;
    let id = insert(&engine, New::<Chain>(Link::Requeue { from: 9 })).await;
    assert_eq!(claims(&engine, id, 10).await, 10);
    engine.shutdown().await;
}

async fn a_long_chain_lets_others_have_their_turn_when_its_budget_is_used_up<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let chain = Chain::default();
    let engine = engine(store, &chain, 3).await;
    let id = insert(&engine, New::<Chain>(Link::Urge { from: 9 })).await;
    engine.wait(id, LONG).await.unwrap();

    // The first step and three that run ahead, then the newcomer, then four at a time.
    let expected = ["9", "8", "7", "6", "newcomer", "5", "4", "3", "2", "1", "0"];
    assert_eq!(chain.take(), expected);
    engine.shutdown().await;
}

async fn a_chain_alone_in_its_queue_is_claimed_again_after_its_budget<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = engine(store, &Chain::default(), 3).await;
    let id = insert(&engine, New::<Chain>(Link::Down { from: 9 })).await;
    // Four steps, four steps, two steps.
    assert_eq!(claims(&engine, id, 10).await, 3);
    engine.shutdown().await;
}
