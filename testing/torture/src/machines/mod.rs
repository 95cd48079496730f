//! What is run: one machine for each way in which an instance can move.
//!
//! | machine | what it does |
//! |---|---|
//! | [`Chain`] | steps one after the other |
//! | [`Payment`] | waits for one signal, at most for a while |
//! | [`Pack`] | gathers signals until there are enough or no more come |
//! | [`Tree`] | fans out, three deep, twice from the root; some leaves fail |
//! | [`Line`] | shares a partition key with others |
//! | [`Keeper`] | is unique by its correlation key |
//! | [`Flaky`] | is tried again with pauses |
//! | [`Journey`], [`Errand`] | a workflow with everything that a workflow can call, and its activities |
//! | [`Family`] | joins in every way there is, runs children in windows, ends them by policies, undoes what it did |
//!
//! Every step writes its effect to the ledger before it returns, and so does what a machine has for a cancel. What poisons a worker is in [`poison`].

mod chain;
mod family;
mod flaky;
mod journey;
mod keeper;
mod line;
mod pack;
mod payment;
pub(crate) mod poison;
mod tree;

pub(crate) use chain::{Chain, Hops};
pub(crate) use family::{Family, Kin};
pub(crate) use flaky::{Flaky, Tries};
pub(crate) use journey::{Errand, Journey, Trip, Word};
pub(crate) use keeper::{Keep, Keeper, Kept};
pub(crate) use line::{Line, Turn};
pub(crate) use pack::{Gathering, Item, Pack};
pub(crate) use payment::{Paid, Payment, Sale};
pub(crate) use tree::{Growth, Tree, fruit};

use crate::ledger::{Did, Entry, Ledger, Ran, now_us};
use outlast::{Context, EngineBuilder, InstanceId, Machine, Outcome, StepResult};
use std::time::Duration;

/// What a step does to the world: an entry in the ledger, and some time.
#[derive(Clone)]
pub(crate) struct Effects {
    ledger: Ledger,
    worker: String,
    /// The longest a step works.
    work_max: Duration,
}

impl Effects {
    pub(crate) fn new(ledger: Ledger, worker: String, work_max: Duration) -> Effects {
        Effects {
            ledger,
            worker,
            work_max,
        }
    }

    /// Leaves the effect of this run of the step in the ledger, then takes its time.
    pub(crate) async fn of(&self, cx: &Context) {
        self.leave(cx, Ran::default()).await;
    }

    /// The same for the step after a join: with what it saw of it.
    async fn of_join(&self, cx: &Context) {
        self.leave(cx, seen(cx)).await;
    }

    /// The same for what a machine has for a cancel.
    async fn of_cancel(&self, cx: &Context) {
        let ran = Ran {
            cancelling: true,
            ..seen(cx)
        };
        self.leave(cx, ran).await;
    }

    /// What most machines have for a cancel: their end.
    async fn give_way<M: Machine>(&self, cx: &Context) -> StepResult<M> {
        self.of_cancel(cx).await;
        Ok(Outcome::cancelled("gave way"))
    }

    /// The same for an activity: the number it comes to.
    async fn of_errand(&self, cx: &Context) -> u64 {
        let nonce = new_nonce();
        let ran = Ran {
            nonce: Some(nonce),
            ..Ran::default()
        };
        self.leave(cx, ran).await;
        nonce
    }

    /// The same for a step of a workflow.
    async fn of_flow(&self, id: InstanceId, run: i32, step: &str, follows: Vec<u64>) -> u64 {
        let nonce = new_nonce();
        let did = Did {
            id: id.0,
            run,
            step: step.to_owned(),
            nonce,
            follows,
            worker: self.worker.clone(),
            at: now_us(),
        };
        self.ledger.write(&Entry::Did(did)).await;
        self.work().await;
        nonce
    }

    async fn leave(&self, cx: &Context, saw: Ran) {
        let ran = Ran {
            id: cx.id().0,
            step: cx.step().to_owned(),
            visit: visit(cx),
            attempt: cx.attempt(),
            worker: self.worker.clone(),
            at: now_us(),
            signals: cx.awaited().map(|signal| signal.id.0).collect(),
            ..saw
        };
        self.ledger.write(&Entry::Ran(ran)).await;
        self.work().await;
    }

    async fn work(&self) {
        tokio::time::sleep(self.work_max.mul_f64(fastrand::f64())).await;
    }
}

/// Unlike any other: never drawn from the seed, which another process may have too. JavaScript could hold it.
fn new_nonce() -> u64 {
    fastrand::Rng::new().u64(..1 << 53)
}

/// What a step can see of the last fan-out.
fn seen(cx: &Context) -> Ran {
    Ran {
        children: Some(cx.round().iter().map(|child| child.id.0).collect()),
        joined: cx.joined(),
        first_failure: cx.first_failure().map(|child| child.id.0),
        ..Ran::default()
    }
}

/// The revision that brought the instance to its step.
fn visit(cx: &Context) -> i64 {
    let key = cx.idempotency_key();
    let visit = key.strip_prefix(&format!("{}:{}:", cx.id(), cx.step()));
    let visit = visit.and_then(|visit| visit.split(':').next()?.parse().ok());
    visit.expect("the key has the visit after the step")
}

/// All machines but the poisonous one.
pub(crate) fn register(builder: EngineBuilder, effects: &Effects) -> EngineBuilder {
    builder
        .machine(Chain(effects.clone()))
        .machine(Payment(effects.clone()))
        .machine(Pack(effects.clone()))
        .machine(Tree(effects.clone()))
        .machine(Line(effects.clone()))
        .machine(Keeper(effects.clone()))
        .machine(Flaky(effects.clone()))
        .machine(Family(effects.clone()))
        .machine(Errand(effects.clone()))
        .workflow(Journey(effects.clone()))
}
