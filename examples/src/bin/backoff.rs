//! Retries a step with growing pauses, until it succeeds or the attempts are used up.
//!
//! Any error returned by `?` is a failure of the step; so is a panic or a timeout. `on_failure`
//! decides what happens next, and `cx.attempt()` counts the earlier tries. The pauses are in the
//! database, so they survive the end of the process.
//!
//! ```sh
//! cargo run -p outlast-examples --bin backoff
//! ```

use anyhow::Context as _;
use outlast::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

const ATTEMPTS: u32 = 4;

struct Booking {
    bank: Bank,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
enum Invoice {
    Charge { account: String },
}

impl Machine for Booking {
    const NAME: &'static str = "booking";
    type State = Invoice;
    type Output = String;

    async fn step(&self, state: Invoice, cx: &Context) -> StepResult<Self> {
        let Invoice::Charge { account } = state;
        // Every attempt of this step has the same key, so the bank charges once.
        let receipt = self.bank.charge(&account, &cx.idempotency_key())?;
        Ok(Outcome::done(receipt))
    }

    async fn on_failure(&self, _: Invoice, failure: Failure, cx: &Context) -> StepResult<Self> {
        let tried = cx.attempt() + 1;
        println!("attempt {tried} of instance {}: {failure}", cx.id());
        if tried == ATTEMPTS {
            return Ok(Outcome::fail(format_args!(
                "gave up after {tried} attempts: {failure}"
            )));
        }
        let delay = Duration::from_millis(50) * 2u32.pow(cx.attempt());
        Ok(Outcome::retry(delay, failure))
    }
}

/// A bank that is unavailable for the first two calls, and that does not know every account.
#[derive(Default)]
struct Bank {
    calls: AtomicU32,
}

impl Bank {
    fn charge(&self, account: &str, _idempotency_key: &str) -> Result<String, std::io::Error> {
        if account == "nobody's" {
            return Err(std::io::Error::other("no such account"));
        }
        match self.calls.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => Err(std::io::Error::other("the bank does not answer")),
            _ => Ok(format!("charged {account}")),
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let bank = Bank::default();
    let engine = outlast_examples::engine()
        .await?
        .machine(Booking { bank })
        .queue("default", 10)
        .start()
        .await?;

    let started = Instant::now();
    let invoice = engine
        .insert(New::<Booking>(Invoice::Charge {
            account: "ada's".into(),
        }))
        .await?;
    let receipt = engine.wait(invoice, Duration::from_secs(10)).await?;
    println!(
        "{receipt} at the third attempt, after {:?}",
        started.elapsed()
    );
    assert_eq!(receipt, "charged ada's");
    assert!(
        started.elapsed() >= Duration::from_millis(50 + 100),
        "the pauses were not kept"
    );

    let invoice = engine
        .insert(New::<Booking>(Invoice::Charge {
            account: "nobody's".into(),
        }))
        .await?;
    let id = invoice.id().context("the instance has no id")?;
    let error = engine
        .wait(id, Duration::from_secs(10))
        .await
        .expect_err("there is no such account");
    println!("{error}");
    assert!(
        error
            .to_string()
            .ends_with("gave up after 4 attempts: no such account")
    );
    let row = engine.get(id).await?.context("it is kept for a week")?;
    assert_eq!((row.status, row.attempt), (Status::Failed, 3));

    engine.shutdown().await;
    Ok(())
}
