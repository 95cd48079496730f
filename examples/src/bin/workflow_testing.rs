//! Tests of workflows: no engine runs, no time passes, and workers crash where the test says.
//!
//! In your program the functions below are `#[tokio::test]`s; here `main` runs them.
//!
//! ```sh
//! cargo run -p outlast-examples --bin workflow_testing
//! ```

use outlast::prelude::*;
use outlast::testing::{Harness, Point};
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Signal, Serialize, Deserialize)]
struct Delivered {
    to: String,
}

#[workflow]
async fn tested_purchase(flow: Flow, amount: u64, bank: Data<Bank>) -> FlowResult<String> {
    let key = flow.uuid();
    flow.step("charge", async || bank.charge(amount, &key))
        .await?;
    match flow.signal::<Delivered>().timeout(HOUR).await? {
        Some(delivered) => Ok(format!("delivered to {}", delivered.to)),
        None => flow.fail("it never arrived"),
    }
}

/// A fake of what the steps call, which a test can inspect.
#[derive(Clone, Default)]
struct Bank {
    keys: Arc<Mutex<Vec<String>>>,
}

impl Bank {
    fn charge(&self, _amount: u64, key: &str) -> std::io::Result<()> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.push(key.to_owned());
        Ok(())
    }

    fn keys(&self) -> Vec<String> {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.clone()
    }
}

async fn what_never_arrives_fails_after_an_hour() -> outlast::Result<()> {
    let bank = Bank::default();
    let harness = Harness::builder()
        .register(tested_purchase)
        .provide(bank.clone());
    let mut harness = harness.build().await?;

    let purchase = harness.start(tested_purchase::with(100)).await?;
    harness.run().await;
    harness.expect(&purchase).await.awaits(["delivered"]);
    // Skips the hour.
    harness.advance(HOUR).await;
    harness.run().await;
    let purchase = harness.expect(&purchase).await;
    purchase.is_failed_with("it never arrived");
    // The function ran again from the start. Its history answered the charge.
    assert_eq!(bank.keys().len(), 1);
    Ok(())
}

async fn a_worker_that_dies_with_a_charge_charges_again_under_the_same_key() -> outlast::Result<()>
{
    let bank = Bank::default();
    let harness = Harness::builder()
        .register(tested_purchase)
        .provide(bank.clone());
    let mut harness = harness.build().await?;

    let purchase = harness.start(tested_purchase::with(100)).await?;
    // The engine runs a workflow as one step, `run`, with several commits. The first one is
    // the charge.
    harness.crash::<tested_purchase>("run", Point::BeforeCommit);
    let report = harness.run().await;
    assert_eq!(report.crashes, 1);
    let keys = bank.keys();
    assert!(keys.len() == 2 && keys[0] == keys[1]);

    purchase.signal(Delivered { to: "Ada".into() }).await?;
    harness.run().await;
    let purchase = harness.expect(&purchase).await;
    purchase.is_done_with(&"delivered to Ada".to_owned());
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> outlast::Result<()> {
    what_never_arrives_fails_after_an_hour().await?;
    a_worker_that_dies_with_a_charge_charges_again_under_the_same_key().await?;
    println!("2 tests passed");
    Ok(())
}
