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

use anyhow::{Context as _, Result};
use outlast::prelude::*;
use outlast::testing::Replay;
use outlast::{Note, Status, WaitError};

#[derive(Signal, Serialize, Deserialize)]
struct Returned {
    clean: bool,
}

#[workflow]
async fn rental(flow: Flow, bike: String) -> FlowResult<String> {
    flow.step("reserve", async || effect("reserve", &bike))
        .await?;
    match lend(&flow, &bike).await {
        Ok(returned) => {
            if !returned.clean {
                flow.run(wash_bike::with(bike.clone())).await?;
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

async fn lend(flow: &Flow, bike: &str) -> FlowResult<Returned> {
    let lights = flow.run(check_part::with(format!("lights of {bike}")));
    let brakes = flow.run(check_part::with(format!("brakes of {bike}")));
    flow.all((lights, brakes)).await?;
    match flow.signal::<Returned>().timeout(7 * DAY).await? {
        Some(returned) => Ok(returned),
        None => flow.fail(format!("{bike} is lost")),
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
        Replay::of(rental).check(history).context(name)?;
    }
    Ok(())
}

/// Shows how the test above fails for a change that ignores running instances.
fn a_careless_change_is_found() -> Result<()> {
    #[workflow(name = "rental")]
    async fn careless(flow: Flow, bike: String) -> FlowResult<String> {
        let tyres = format!("tyres of {bike}");
        flow.run(check_part::with(tyres)).await?;
        rental.run(flow, bike).await
    }

    for (name, history) in RECORDED {
        let difference = Replay::of(careless).check(history);
        let difference = difference.err().context(name)?.to_string();
        println!("{name}: {difference}");
        assert_eq!(
            difference,
            "the history has event 2: step_completed \"reserve\" of call 1; \
             the code has call 1: activity \"check_part\""
        );
    }
    Ok(())
}

#[job]
async fn check_part(part: String) -> std::io::Result<()> {
    effect("check", &part)
}

#[job]
async fn wash_bike(bike: String) -> std::io::Result<()> {
    effect("wash", &bike)
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
    let engine = Engine::sqlite_in_memory()?
        .register(rental)
        .register(check_part)
        .register(wash_bike)
        .start()
        .await?;
    for (name, _) in RECORDED {
        let bike = engine.start(rental::with(format!("bike {name}"))).await?;
        // It parks for the checks first.
        while bike.settled().timeout(MINUTE).await?.status != Status::AwaitingSignal {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        match name {
            "returned" => {
                bike.signal(Returned { clean: false }).await?;
                bike.output().timeout(MINUTE).await?;
            }
            "cancelled" => {
                bike.cancel(Note::by("ada")).await?;
                let ended = bike.output().timeout(MINUTE).await;
                assert!(matches!(ended, Err(WaitError::Ended { .. })));
            }
            _ => {}
        }
        let history = engine.client().admin().export(bike.id(), None).await?;
        let history = history.context("its history is stored")?;
        let file = format!("{}/histories/{name}.json", env!("CARGO_MANIFEST_DIR"));
        std::fs::write(file, serde_json::to_string_pretty(&history)? + "\n")?;
    }
    engine.shutdown().await?;
    Ok(())
}
