//! The machines of the load: one for each way in which an instance can move.
//!
//! | machine | what it does |
//! |---|---|
//! | [`Chain`] | runs steps in sequence |
//! | [`Payment`] | waits for one signal, with a deadline |
//! | [`Pack`] | collects signals until there are enough or no more arrive |
//! | [`Desk`] | answers updates until there were enough or no more arrive |
//! | [`Tree`] | fans out, three deep, twice from the root; some leaves fail |
//! | [`Line`] | shares a partition key with others |
//! | [`Keeper`] | is unique by its correlation key |
//! | [`Flaky`] | is retried with pauses |
//! | [`Journey`], [`Errand`] | a workflow that uses every call, and its activities |
//! | [`Family`] | joins in every way, uses windows and close policies, undoes its work |
//!
//! Every step and every `on_cancel` writes its effect to the ledger before it returns. The machine
//! that crashes its worker is in [`poison`].

mod chain;
mod desk;
mod family;
mod flaky;
mod journey;
mod keeper;
mod line;
mod pack;
mod payment;
pub(crate) mod poison;
mod tree;
mod updates;

pub(crate) use chain::{Chain, Hops};
pub(crate) use desk::{Desk, Shift};
pub(crate) use family::{Family, Kin};
pub(crate) use flaky::{Flaky, Tries};
pub(crate) use journey::{Errand, Journey, Trip, Word};
pub(crate) use keeper::{Keep, Keeper, Kept};
pub(crate) use line::{Line, Turn};
pub(crate) use pack::{Gathering, Item, Pack};
pub(crate) use payment::{Paid, Payment, Sale};
pub(crate) use tree::{Growth, Tree, fruit};
pub(crate) use updates::{Ask, Plea, Query, Way, of_update_id, step_of, update_id};

use crate::ledger::{Did, Entry, Ledger, Ran, now_us};
use outlast::engine::EngineBuilder;
use outlast::{Context, InstanceId, Machine, Outcome, StepResult};
use std::time::Duration;

/// The effect of a step: an entry in the ledger, and some time.
#[derive(Clone)]
pub(crate) struct Effects {
    ledger: Ledger,
    worker: String,
    /// The longest duration of a step.
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

    /// Writes the effect of this run of the step to the ledger, then sleeps.
    pub(crate) async fn of(&self, cx: &Context) {
        self.leave(cx, Ran::default()).await;
    }

    /// The same for the step after a join, with what it saw of the join.
    async fn of_join(&self, cx: &Context) {
        self.leave(cx, seen(cx)).await;
    }

    /// The same for `on_cancel`.
    async fn of_cancel(&self, cx: &Context) {
        let ran = Ran {
            cancelling: true,
            ..seen(cx)
        };
        self.leave(cx, ran).await;
    }

    /// The `on_cancel` of most machines: ends the instance.
    async fn give_way<M: Machine>(&self, cx: &Context) -> StepResult<M> {
        self.of_cancel(cx).await;
        Ok(Outcome::cancelled("gave way"))
    }

    /// The same for an activity. Returns the number that is its result.
    async fn of_errand(&self, cx: &Context) -> u64 {
        let nonce = new_nonce();
        let ran = Ran {
            nonce: Some(nonce),
            ..Ran::default()
        };
        self.leave(cx, ran).await;
        nonce
    }

    /// The same for a workflow step.
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

/// Returns a unique number. It does not depend on the seed, which another process may share. It
/// fits into a JavaScript number.
fn new_nonce() -> u64 {
    fastrand::Rng::new().u64(..1 << 53)
}

/// Returns what a step sees of the last fan-out.
fn seen(cx: &Context) -> Ran {
    Ran {
        children: Some(cx.round().iter().map(|child| child.id.0).collect()),
        joined: cx.joined(),
        first_failure: cx.first_failure().map(|child| child.id.0),
        ..Ran::default()
    }
}

/// Returns the revision with which the instance arrived at its step.
fn visit(cx: &Context) -> i64 {
    let key = cx.idempotency_key();
    let visit = key.strip_prefix(&format!("{}:{}:", cx.id(), cx.step()));
    let visit = visit.and_then(|visit| visit.split(':').next()?.parse().ok());
    visit.expect("the key has the visit after the step")
}

/// Registers all machines except the poisonous one.
pub(crate) fn register(builder: EngineBuilder, effects: &Effects) -> EngineBuilder {
    builder
        .register(Chain(effects.clone()))
        .register(Payment(effects.clone()))
        .register(Pack(effects.clone()))
        .register(Desk(effects.clone()))
        .register(Tree(effects.clone()))
        .register(Line(effects.clone()))
        .register(Keeper(effects.clone()))
        .register(Flaky(effects.clone()))
        .register(Family(effects.clone()))
        .register(Errand(effects.clone()))
        .register(Journey(effects.clone()))
}
