//! Recorded histories that a change of the code must still match: a test that protects running
//! instances.
//!
//! Three histories of a rental are stored beside the code, in `examples/histories`: one that was
//! returned, one that is still out, one that was cancelled. In your program the functions below
//! are `#[test]`s; here `main` runs them. With `record` it records the histories again, as
//! `outlast export` does from a database.
//!
//! ```sh
//! cargo run -p outlast-examples --bin workflow_histories
//! cargo run -p outlast-examples --bin workflow_histories -- record
//! ```

use anyhow::{Context as _, Result, ensure};
use outlast::prelude::*;
use outlast::testing::replay;

#[derive(Default)]
struct Rental;

#[derive(Serialize, Deserialize)]
struct Returned {
    clean: bool,
}

impl Signal for Returned {
    const NAME: &'static str = "returned";
}

impl Workflow for Rental {
    const NAME: &'static str = "rental";
    type Input = String;
    type Output = String;

    async fn run(&self, flow: Flow, bike: String) -> FlowResult<String> {
        flow.step("reserve", async || effect("reserve", &bike))
            .await?;
        match self.lend(&flow, &bike).await {
            Ok(returned) => {
                if !returned.clean {
                    flow.activity(Wash, bike.clone()).await?;
                }
                Ok(format!("{bike} is back"))
            }
            Err(error) => {
                let release = async || effect("release", &bike);
                flow.uncancellable(async { flow.step("release", release).await })
                    .await?;
                Err(error)
            }
        }
    }
}

impl Rental {
    async fn lend(&self, flow: &Flow, bike: &str) -> FlowResult<Returned> {
        let lights = flow.activity(Check, format!("lights of {bike}"));
        let brakes = flow.activity(Check, format!("brakes of {bike}"));
        flow.all((lights, brakes)).await?;
        let week = Duration::from_secs(7 * 24 * 3600);
        let returned = flow.signal::<Returned>().timeout(week).await?;
        returned.ok_or_else(|| flow.fail(format_args!("{bike} is lost")))
    }
}

/// Recorded from instances in a running system, and kept with the code.
const RECORDED: [(&str, &str); 3] = [
    ("returned", include_str!("../../histories/returned.json")),
    ("out", include_str!("../../histories/out.json")),
    ("cancelled", include_str!("../../histories/cancelled.json")),
];

fn every_recorded_history_still_fits() -> Result<()> {
    for (name, history) in RECORDED {
        replay::<Rental>(history).context(name)?;
    }
    Ok(())
}

/// Shows how the test above fails for a change that ignores running instances.
fn a_careless_change_is_found() -> Result<()> {
    #[derive(Default)]
    struct Careless;

    impl Workflow for Careless {
        const NAME: &'static str = Rental::NAME;
        type Input = String;
        type Output = String;

        async fn run(&self, flow: Flow, bike: String) -> FlowResult<String> {
            flow.activity(Check, format!("tyres of {bike}")).await?;
            Rental.run(flow, bike).await
        }
    }

    for (name, history) in RECORDED {
        let difference = replay::<Careless>(history);
        let difference = difference.err().context(name)?.to_string();
        println!("{name}: {difference}");
        ensure!(
            difference
                == "the history has event 2: step_completed \"reserve\" of call 1; \
                    the code has call 1: activity \"check_part\""
        );
    }
    Ok(())
}

struct Check;

impl Job for Check {
    const NAME: &'static str = "check_part";
    type Args = String;
    type Output = ();

    async fn perform(&self, part: String, _cx: &Context) -> Result<(), JobError> {
        Ok(effect("check", &part)?)
    }
}

struct Wash;

impl Job for Wash {
    const NAME: &'static str = "wash_bike";
    type Args = String;
    type Output = ();

    async fn perform(&self, bike: String, _cx: &Context) -> Result<(), JobError> {
        Ok(effect("wash", &bike)?)
    }
}

fn effect(what: &str, of: &str) -> std::io::Result<()> {
    println!("{what} {of}");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    if std::env::args().nth(1).as_deref() == Some("record") {
        return record().await;
    }
    every_recorded_history_still_fits()?;
    a_careless_change_is_found()?;
    println!("{} histories fit", RECORDED.len());
    Ok(())
}

async fn record() -> Result<()> {
    let engine = Engine::builder(Sqlite::in_memory()?)
        .workflow(Rental)
        .machine(Check)
        .machine(Wash)
        .queue("default", 10)
        .start()
        .await?;
    let patience = Duration::from_secs(10);
    for (name, _) in RECORDED {
        let rental = engine.insert(Run::<Rental>(format!("bike {name}"))).await?;
        let id = rental.id().context("it has no key")?.get();
        while engine.wait_settled(id, patience).await?.status != Status::AwaitingSignal {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        match name {
            "returned" => {
                engine.signal(id, Returned { clean: false }).await?;
                engine.wait(rental, patience).await?;
            }
            "cancelled" => {
                engine.cancel(id, Note::by("ada")).await?;
                let ended = engine.wait(rental, patience).await;
                ensure!(matches!(ended, Err(WaitError::Ended { .. })));
            }
            _ => {}
        }
        let history = engine
            .export(id, None)
            .await?
            .context("its history is stored")?;
        let file = format!("{}/histories/{name}.json", env!("CARGO_MANIFEST_DIR"));
        std::fs::write(file, serde_json::to_string_pretty(&history)? + "\n")?;
    }
    engine.shutdown().await;
    Ok(())
}
