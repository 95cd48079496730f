//! Records the transitions of an instance, and steps through its past states.
//!
//! By default a machine stores only its current state. With `HISTORY` every outcome becomes an
//! event, written in the commit of that outcome. `outlast history ID` and the dashboard show the
//! same.
//!
//! ```sh
//! cargo run -p outlast-examples --bin history
//! ```

use anyhow::{Context as _, ensure};
use outlast::machine::Transition;
use outlast::prelude::*;
use outlast::workflow::EventDetail;

struct Haulage;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
enum Crate {
    Weigh { number: u64 },
    Load { number: u64, kilos: u32 },
    Ship { number: u64, kilos: u32 },
}

#[derive(Serialize, Deserialize)]
struct Cleared {}

impl Signal for Cleared {
    const NAME: &'static str = "cleared";
}

impl Machine for Haulage {
    const NAME: &'static str = "haulage";
    const HISTORY: History = History::States;
    type State = Crate;
    type Output = String;

    async fn step(&self, state: Crate, cx: &Context) -> StepResult<Self> {
        Ok(match state {
            Crate::Weigh { number } => Outcome::next(Crate::Load { number, kilos: 40 }),
            Crate::Load { .. } if cx.attempt() == 0 => {
                Outcome::retry(Duration::from_millis(20), "the crane is taken")
            }
            Crate::Load { number, kilos } => wait_for([Cleared::NAME])
                .timeout(Duration::from_secs(3600))
                .then(Crate::Ship { number, kilos }),
            Crate::Ship { number, kilos } => {
                Outcome::done(format!("crate {number}, {kilos} kg, is at sea"))
            }
        })
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let engine = outlast_examples::engine()
        .await?
        .machine(Haulage)
        .queue("default", 10)
        .start()
        .await?;
    let id = engine
        .insert(New::<Haulage>(Crate::Weigh { number: 7 }))
        .await?
        .id()
        .context("the instance has no id")?;
    engine.signal(id, Cleared {}).await?;
    engine.wait(id, Duration::from_secs(10)).await?;

    let mut way = Vec::new();
    for event in engine.events_of(id.get(), 1).await? {
        let detail = EventDetail::of(&event);
        let passage = detail.transition.context("a machine has no others")?;
        let to = passage.to.as_deref().unwrap_or("the end");
        println!("{}: {} to {to}", event.name, passage.outcome);
        if let Some(state) = &passage.state {
            println!("    {}", state.as_str());
        }
        way.push((event.name, passage));
    }
    check(&way)?;

    engine.shutdown().await;
    Ok(())
}

fn check(way: &[(String, Transition)]) -> anyhow::Result<()> {
    let outcomes: Vec<_> = way.iter().map(|(_, it)| &*it.outcome).collect();
    ensure!(outcomes == ["next", "retry", "wait", "done"], "{way:?}");
    let began = way[0].1.began.as_ref().context("the first has it")?;
    ensure!(began.as_str() == r#"{"number":7}"#, "{began:?}");
    let state = way[2].1.state.as_ref().context("states are recorded")?;
    ensure!(state.as_str() == r#"{"number":7,"kilos":40}"#, "{state:?}");
    Ok(())
}
