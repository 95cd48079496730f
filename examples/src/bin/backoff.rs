//! Retries a step with growing pauses, until it succeeds or the attempts are used up.
//!
//! Any error returned by `?` is a failure of the step; so is a panic or a timeout. `on_failure`
//! decides what happens next, and `cx.attempt()` counts the earlier tries. The pauses are in the
//! database, so they survive the end of the process.
//!
//! ```sh
//! cargo run -p outlast-examples --bin backoff
//! ```

use outlast::prelude::*;
use outlast::{Failure, Status};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

const ATTEMPTS: u32 = 4;

struct Booking {
    bank: Bank,
}

#[steps]
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
        done(receipt)
    }

    async fn on_failure(&self, _: Invoice, failure: Failure, cx: &Context) -> StepResult<Self> {
        let tried = cx.attempt() + 1;
        println!("attempt {tried} of instance {}: {failure}", cx.id());
        if tried == ATTEMPTS {
            return fail(format_args!("gave up after {tried} attempts: {failure}"));
        }
        let delay = Duration::from_millis(50) * 2u32.pow(cx.attempt());
        retry(delay, failure)
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
async fn main() -> outlast::Result<()> {
    let bank = Bank::default();
    let engine = outlast_examples::engine()
        .await?
        .register(Booking { bank })
        .start()
        .await?;

    let started = Instant::now();
    let account = "ada's".into();
    let invoice = engine
        .start(Booking::with(Invoice::Charge { account }))
        .await?;
    let receipt = invoice.output().timeout(MINUTE).await?;
    let elapsed = started.elapsed();
    println!("{receipt} at the third attempt, after {elapsed:?}");
    assert_eq!(receipt, "charged ada's");
    let pauses = Duration::from_millis(50 + 100);
    assert!(elapsed >= pauses, "the pauses were not kept");

    let account = "nobody's".into();
    let invoice = engine
        .start(Booking::with(Invoice::Charge { account }))
        .await?;
    let ended = invoice.ended().timeout(MINUTE).await?;
    assert_eq!((ended.status, ended.attempt), (Status::Failed, 3));
    let error = ended.last_error.as_deref();
    println!("{error:?}");
    assert_eq!(error, Some("gave up after 4 attempts: no such account"));

    engine.shutdown().await
}
