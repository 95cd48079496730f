//! What a step can decide, and what becomes of it.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod support;

use outlast::prelude::*;
use outlast_core::{Inspect, Store};
use support::{LONG, on_both_stores};

on_both_stores!(next_leads_through_the_steps_to_done);

struct Countdown;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
enum Count {
    Down { from: u32 },
    Lift,
}

impl Machine for Countdown {
    const NAME: &'static str = "countdown";
    type State = Count;
    type Output = String;

    async fn step(&self, state: Count, _cx: &Context) -> StepResult<Self> {
        Ok(match state {
            Count::Down { from: 0 } => Outcome::next(Count::Lift),
            Count::Down { from } => Outcome::next(Count::Down { from: from - 1 }),
            Count::Lift => Outcome::done("up".to_owned()),
        })
    }
}

async fn next_leads_through_the_steps_to_done<S: Store + Inspect + Clone>(store: S) {
    let engine = Engine::builder(store)
        .machine(Countdown)
        .queue("default", 10)
        .start()
        .await
        .unwrap();
    let id = engine
        .insert(New::<Countdown>(Count::Down { from: 3 }))
        .await
        .unwrap();
    assert_eq!(engine.wait(id, LONG).await.unwrap(), "up");
    engine.shutdown().await;
}
