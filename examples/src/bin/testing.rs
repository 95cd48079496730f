//! Tests of machines: no engine runs, no time passes, and workers crash where the test says.
//!
//! In your program the functions below are `#[tokio::test]`s; here `main` runs them.
//!
//! ```sh
//! cargo run -p outlast-examples --bin testing
//! ```

use outlast::prelude::*;
use outlast::testing::{Harness, Point};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

struct Checkout {
    bank: Arc<Bank>,
}

#[steps]
enum Order {
    Start { number: u64 },
    Charge { number: u64 },
    Ship { number: u64 },
}

#[derive(Signal, Serialize, Deserialize)]
struct PaymentConfirmed {
    amount: u64,
}

impl Machine for Checkout {
    const NAME: &'static str = "checkout";
    type State = Order;
    type Output = String;

    async fn step(&self, state: Order, cx: &Context) -> StepResult<Self> {
        match state {
            Order::Start { number } => wait_for::<PaymentConfirmed>()
                .timeout(HOUR)
                .then(Order::Charge { number }),
            Order::Charge { number } => {
                let Some(paid) = cx.received::<PaymentConfirmed>()? else {
                    return fail("payment never came");
                };
                self.bank.charge(paid.amount);
                next(Order::Ship { number })
            }
            Order::Ship { number } => done(format!("order {number} shipped")),
        }
    }
}

/// A fake of what the steps call, which a test can inspect.
#[derive(Default)]
struct Bank {
    calls: AtomicU32,
}

impl Bank {
    fn charge(&self, _amount: u64) {
        self.calls.fetch_add(1, Ordering::SeqCst);
    }
}

async fn a_paid_order_is_shipped() -> outlast::Result<()> {
    let bank = Arc::new(Bank::default());
    let machine = Checkout { bank: bank.clone() };
    let mut harness = Harness::builder().register(machine).build().await?;

    let order = harness
        .start(Checkout::with(Order::Start { number: 1 }))
        .await?;
    harness.run().await;
    harness
        .expect(&order)
        .await
        .awaits(["payment_confirmed"])
        .at_step("charge");

    order.signal(PaymentConfirmed { amount: 100 }).await?;
    let report = harness.run().await;
    assert_eq!((report.steps, report.done), (2, 1));
    harness
        .expect(&order)
        .await
        .is_done_with(&"order 1 shipped".to_owned());
    Ok(())
}

async fn an_hour_without_payment_ends_the_order() -> outlast::Result<()> {
    let bank = Arc::new(Bank::default());
    let machine = Checkout { bank: bank.clone() };
    let mut harness = Harness::builder().register(machine).build().await?;

    let order = harness
        .start(Checkout::with(Order::Start { number: 2 }))
        .await?;
    harness.run().await;
    // Skips the hour.
    harness.advance(HOUR).await;
    harness.run().await;
    harness
        .expect(&order)
        .await
        .is_failed_with("payment never came");
    assert_eq!(bank.calls.load(Ordering::SeqCst), 0);
    Ok(())
}

async fn a_worker_that_dies_before_the_commit_charges_twice() -> outlast::Result<()> {
    let bank = Arc::new(Bank::default());
    let machine = Checkout { bank: bank.clone() };
    let mut harness = Harness::builder().register(machine).build().await?;

    let order = harness
        .start(Checkout::with(Order::Start { number: 3 }))
        .await?;
    harness.run().await;
    order.signal(PaymentConfirmed { amount: 100 }).await?;

    harness.crash::<Checkout>("charge", Point::BeforeCommit);
    let report = harness.run().await;
    assert_eq!(report.crashes, 1);
    harness.expect(&order).await.is_done();
    // The step ran twice. This is why a real bank gets `cx.idempotency_key()`.
    assert_eq!(bank.calls.load(Ordering::SeqCst), 2);
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> outlast::Result<()> {
    a_paid_order_is_shipped().await?;
    an_hour_without_payment_ends_the_order().await?;
    a_worker_that_dies_before_the_commit_charges_twice().await?;
    println!("3 tests passed");
    Ok(())
}
