//! Tests of workflows: no engine runs, no time passes, and workers crash where the test says.
//!
//! In your program the functions below are `#[tokio::test]`s; here `main` runs them.
//!
//! ```sh
//! cargo run -p outlast-examples --bin workflow_testing
//! ```

use anyhow::{Context as _, Result, ensure};
use outlast::prelude::*;
use outlast::testing::{Harness, Point};
use outlast::workflow::Running;
use std::sync::{Arc, Mutex};

struct Purchase {
    bank: Arc<Bank>,
}

#[derive(Serialize, Deserialize)]
struct Delivered {
    to: String,
}

impl Signal for Delivered {
    const NAME: &'static str = "delivered";
}

impl Workflow for Purchase {
    const NAME: &'static str = "tested_purchase";
    type Input = u64;
    type Output = String;

    async fn run(&self, flow: Flow, amount: u64) -> FlowResult<String> {
        let key = flow.uuid();
        flow.step("charge", async || self.bank.charge(amount, &key))
            .await?;
        let hour = Duration::from_secs(3600);
        match flow.signal::<Delivered>().timeout(hour).await? {
            Some(delivered) => Ok(format!("delivered to {}", delivered.to)),
            None => Err(flow.fail("it never arrived")),
        }
    }
}

/// A fake of what the steps call, which a test can inspect.
#[derive(Default)]
struct Bank {
    keys: Mutex<Vec<String>>,
}

impl Bank {
    fn charge(&self, _amount: u64, key: &str) -> Result<(), String> {
        let mut keys = self.keys.lock().map_err(|error| error.to_string())?;
        keys.push(key.to_owned());
        Ok(())
    }

    fn keys(&self) -> Vec<String> {
        self.keys.lock().map(|it| it.clone()).unwrap_or_default()
    }
}

async fn what_never_arrives_fails_after_an_hour() -> Result<()> {
    let bank = Arc::new(Bank::default());
    let workflow = Purchase { bank: bank.clone() };
    let mut harness = Harness::builder().workflow(workflow).build().await?;

    let purchase = harness.insert(Run::<Purchase>(100)).await?;
    harness.run().await;
    harness.expect(purchase).await.awaits(["delivered"]);
    // Skips the hour.
    harness.advance(Duration::from_secs(3600)).await;
    harness.run().await;
    harness
        .expect(purchase)
        .await
        .is_failed_with("it never arrived");
    // The function ran again from the start. Its history answered the charge.
    ensure!(bank.keys().len() == 1);
    Ok(())
}

async fn a_worker_that_dies_with_a_charge_charges_again_under_the_same_key() -> Result<()> {
    let bank = Arc::new(Bank::default());
    let workflow = Purchase { bank: bank.clone() };
    let mut harness = Harness::builder().workflow(workflow).build().await?;

    let purchase = harness.insert(Run::<Purchase>(100)).await?;
    // The engine runs a workflow as one step, `run`, with several commits. The first one is
    // the charge.
    harness.crash::<Running<Purchase>>("run", Point::BeforeCommit);
    let tally = harness.run().await;
    ensure!(tally.crashes == 1);
    let keys = bank.keys();
    ensure!(keys.len() == 2 && keys[0] == keys[1]);

    let id = purchase.id().context("it has no key")?;
    harness.signal(id, Delivered { to: "Ada".into() }).await?;
    harness.run().await;
    harness
        .expect(purchase)
        .await
        .is_done_with(&"delivered to Ada".to_owned());
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    what_never_arrives_fails_after_an_hour().await?;
    a_worker_that_dies_with_a_charge_charges_again_under_the_same_key().await?;
    println!("2 tests passed");
    Ok(())
}
