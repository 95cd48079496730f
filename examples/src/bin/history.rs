//! Records the transitions of an instance, and steps through its past states.
//!
//! By default a machine stores only its current state. With `HISTORY` every outcome becomes an
//! event, written in the commit of that outcome. `outlast history ID` and the dashboard show the
//! same.
//!
//! ```sh
//! cargo run -p outlast-examples --bin history
//! ```

use outlast::History;
use outlast::machine::Transition;
use outlast::prelude::*;
use outlast::workflow::EventDetail;

struct Haulage;

#[steps]
enum Crate {
    Weigh { number: u64 },
    Load { number: u64, kilos: u32 },
    Ship { number: u64, kilos: u32 },
}

#[derive(Signal, Serialize, Deserialize)]
struct Cleared {}

impl Machine for Haulage {
    const NAME: &'static str = "haulage";
    const HISTORY: History = History::States;
    type State = Crate;
    type Output = String;

    async fn step(&self, state: Crate, cx: &Context) -> StepResult<Self> {
        match state {
            Crate::Weigh { number } => next(Crate::Load { number, kilos: 40 }),
            Crate::Load { .. } if cx.attempt() == 0 => {
                retry(Duration::from_millis(20), "the crane is taken")
            }
            Crate::Load { number, kilos } => wait_for::<Cleared>()
                .timeout(HOUR)
                .then(Crate::Ship { number, kilos }),
            Crate::Ship { number, kilos } => done(format!("crate {number}, {kilos} kg, is at sea")),
        }
    }
}

#[tokio::main]
async fn main() -> outlast::Result<()> {
    let engine = outlast_examples::engine()
        .await?
        .register(Haulage)
        .start()
        .await?;
    let haul = engine
        .start(Haulage::with(Crate::Weigh { number: 7 }))
        .await?;
    haul.signal(Cleared {}).await?;
    haul.output().timeout(MINUTE).await?;

    let mut way = Vec::new();
    for event in haul.history().await? {
        let detail = EventDetail::of(&event);
        let passage = detail.transition.expect("a machine has no others");
        let to = passage.to.as_deref().unwrap_or("the end");
        println!("{}: {} to {to}", event.name, passage.outcome);
        if let Some(state) = &passage.state {
            println!("    {}", state.as_str());
        }
        way.push(passage);
    }
    check(&way);

    engine.shutdown().await
}

fn check(way: &[Transition]) {
    let outcomes: Vec<_> = way.iter().map(|it| &*it.outcome).collect();
    assert_eq!(outcomes, ["next", "retry", "wait", "done"], "{way:?}");
    let began = way[0].began.as_ref().map(|it| it.as_str());
    assert_eq!(began, Some(r#"{"number":7}"#));
    let state = way[2].state.as_ref().map(|it| it.as_str());
    assert_eq!(state, Some(r#"{"number":7,"kilos":40}"#));
}
