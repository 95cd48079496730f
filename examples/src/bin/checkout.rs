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

#[steps]
enum Order {
    Start { number: u64, pay_within: Duration },
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
            Order::Start { number, pay_within } => wait_for::<PaymentConfirmed>()
                .timeout(pay_within)
                .then(Order::Ship { number }),
            Order::Ship { number } => match cx.received::<PaymentConfirmed>()? {
                Some(paid) => done(format!("order {number}, {} paid, shipped", paid.amount)),
                None => fail(format_args!("order {number} was never paid")),
            },
        }
    }
}

#[tokio::main]
async fn main() -> outlast::Result<()> {
    let engine = outlast_examples::engine()
        .await?
        .register(Checkout)
        .start()
        .await?;

    let order = Order::Start {
        number: 42,
        pay_within: HOUR,
    };
    let paid = engine.start(Checkout::with(order).key("order:42")).await?;
    let order = Order::Start {
        number: 43,
        pay_within: Duration::from_millis(300),
    };
    let unpaid = engine.start(Checkout::with(order).key("order:43")).await?;

    // The bank calls twice: the dedup key makes the second call harmless.
    for is_new in [true, false] {
        let payment = PaymentConfirmed { amount: 100 };
        let sent = paid.signal(payment).dedup("payment-7").await?;
        println!("{sent:?}");
        assert_eq!(sent.is_new, is_new);
    }

    let receipt = paid.output().timeout(MINUTE).await?;
    println!("{receipt}");
    assert_eq!(receipt, "order 42, 100 paid, shipped");

    let unpaid = unpaid.output().timeout(MINUTE).await;
    let error = unpaid.expect_err("nobody pays for order 43").to_string();
    println!("{error}");
    assert!(error.ends_with("failed: order 43 was never paid"));

    engine.shutdown().await
}
