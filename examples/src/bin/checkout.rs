//! An order that waits for its payment, until a deadline.
//!
//! The state enum is the machine: each variant is a step, and its fields are the data of that
//! step. Order 42 is paid and shipped. Nobody pays for order 43, and its deadline passes.
//!
//! ```sh
//! cargo run -p outlast-examples --bin checkout
//! ```

use outlast::prelude::*;

/// Holds what the steps need: clients of other services, pools, settings.
struct Checkout;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
enum Order {
    Start { number: u64, pay_within: Duration },
    Ship { number: u64 },
}

#[derive(Serialize, Deserialize)]
struct PaymentConfirmed {
    amount: u64,
}

impl Signal for PaymentConfirmed {
    const NAME: &'static str = "payment_confirmed";
}

impl Machine for Checkout {
    const NAME: &'static str = "checkout";
    type State = Order;
    type Output = String;

    async fn step(&self, state: Order, cx: &Context) -> StepResult<Self> {
        Ok(match state {
            Order::Start { number, pay_within } => wait_for([PaymentConfirmed::NAME])
                .timeout(pay_within)
                .then(Order::Ship { number }),
            Order::Ship { number } => match cx.received::<PaymentConfirmed>()? {
                Some(paid) => {
                    Outcome::done(format!("order {number}, {} paid, shipped", paid.amount))
                }
                None => Outcome::fail(format_args!("order {number} was never paid")),
            },
        })
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let engine = outlast_examples::engine()
        .await?
        .machine(Checkout)
        .queue("default", 10)
        .start()
        .await?;

    let start = Order::Start {
        number: 42,
        pay_within: Duration::from_secs(3600),
    };
    let paid = engine
        .insert(New::<Checkout>(start).key("order:42"))
        .await?;
    let start = Order::Start {
        number: 43,
        pay_within: Duration::from_millis(300),
    };
    let unpaid = engine
        .insert(New::<Checkout>(start).key("order:43"))
        .await?;

    // The bank calls twice: the dedup key makes the second call harmless.
    for call in ["first", "second"] {
        let payment = PaymentConfirmed { amount: 100 };
        let delivery = engine
            .signal(Checkout::key("order:42"), payment)
            .dedup("payment-7")
            .await?;
        println!("the {call} call: {delivery:?}");
    }

    let receipt = engine.wait(paid, Duration::from_secs(10)).await?;
    println!("{receipt}");
    assert_eq!(receipt, "order 42, 100 paid, shipped");

    let error = engine
        .wait(unpaid, Duration::from_secs(10))
        .await
        .expect_err("nobody pays for order 43");
    println!("{error}");
    assert!(
        error
            .to_string()
            .ends_with("failed: order 43 was never paid")
    );

    engine.shutdown().await;
    Ok(())
}
