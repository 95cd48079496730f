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
//!
//! Every step writes its effect to the ledger before it returns. What poisons a worker is in [`poison`].

mod chain;
mod flaky;
mod keeper;
mod line;
mod pack;
mod payment;
pub(crate) mod poison;
mod tree;

pub(crate) use chain::{Chain, Hops};
pub(crate) use flaky::{Flaky, Tries};
pub(crate) use keeper::{Keep, Keeper, Kept};
pub(crate) use line::{Line, Turn};
pub(crate) use pack::{Gathering, Item, Pack};
pub(crate) use payment::{Paid, Payment, Sale};
pub(crate) use tree::{Growth, Tree, fruit};

use crate::ledger::{Entry, Ledger, Ran, now_us};
use outlast::{Context, EngineBuilder};
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
        self.leave(cx, None).await;
    }

    /// The same for the step after a join: with the children it saw.
    async fn of_join(&self, cx: &Context) {
        let children = cx.round().iter().map(|child| child.id.0).collect();
        self.leave(cx, Some(children)).await;
    }

    async fn leave(&self, cx: &Context, children: Option<Vec<i64>>) {
        let key = cx.idempotency_key();
        let visit = key.rsplit(':').next().and_then(|visit| visit.parse().ok());
        let ran = Ran {
            id: cx.id().0,
            step: cx.step().to_owned(),
            visit: visit.expect("the key ends with the visit"),
            attempt: cx.attempt(),
            worker: self.worker.clone(),
            at: now_us(),
            signals: cx.awaited().map(|signal| signal.id.0).collect(),
            children,
        };
        self.ledger.write(&Entry::Ran(ran)).await;
        tokio::time::sleep(self.work_max.mul_f64(fastrand::f64())).await;
    }
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
}
