//! An order: reserve, charge, wait for the payment, answer.
//!
//! The guide "Coming from elsewhere" has the same program in the words of other systems.
//!
//! ```sh
//! cargo run -p outlast-examples --bin order
//! ```

use outlast::prelude::*;

#[workflow]
async fn buy(flow: Flow, order: Order, warehouse: Data<Warehouse>) -> FlowResult<String> {
    let reserve = async || warehouse.reserve(order.number).await;
    let hold = flow.step("reserve", reserve).await?;

    if let Err(error) = flow.run(charge::with(order.amount)).await {
        let BankClosed { until } = error.downcast::<charge>()?;
        return flow.fail(format!("the bank opens on {until}"));
    }
    let Some(paid) = flow.signal::<Paid>().timeout(DAY).await? else {
        return flow.fail("the payment never came");
    };
    Ok(format!("{hold}, receipt {}", paid.receipt))
}

#[job(attempts = 3)]
async fn charge(amount: u64, bank: Data<Bank>, cx: &Context) -> Result<(), BankClosed> {
    bank.charge(amount, &cx.idempotency_key()).await
}

#[derive(Serialize, Deserialize)]
struct Order {
    number: u64,
    amount: u64,
}

#[derive(Signal, Serialize, Deserialize)]
struct Paid {
    receipt: String,
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[error("the bank is closed until {until}")]
struct BankClosed {
    until: String,
}

/// A fake of what the step calls.
struct Warehouse;

impl Warehouse {
    async fn reserve(&self, order: u64) -> std::io::Result<String> {
        Ok(format!("hold {order}"))
    }
}

/// A fake of what the job calls.
struct Bank;

impl Bank {
    async fn charge(&self, amount: u64, key: &str) -> Result<(), BankClosed> {
        println!("charge {amount} under {key}");
        match amount {
            // Small change has to wait for the weekend to end.
            ..10 => Err(BankClosed {
                until: "Monday".into(),
            }),
            _ => Ok(()),
        }
    }
}

#[tokio::main]
async fn main() -> outlast::Result<()> {
    let engine = outlast_examples::engine()
        .await?
        .register(buy)
        .register(charge)
        .provide(Warehouse)
        .provide(Bank)
        .start()
        .await?;

    let order = Order {
        number: 42,
        amount: 100,
    };
    let order = engine.start(buy::with(order).key("order:42")).await?;
    // The bank may call its webhook twice.
    let paid = Paid {
        receipt: "r-7".into(),
    };
    order.signal(paid).dedup("event-7").await?;
    let answer = order.output().timeout(MINUTE).await?;
    println!("{answer}");
    assert_eq!(answer, "hold 42, receipt r-7");

    let small = Order {
        number: 43,
        amount: 1,
    };
    let small = engine.start(buy::with(small)).await?;
    let error = small.output().timeout(MINUTE).await;
    let error = error.expect_err("the bank is closed").to_string();
    println!("{error}");
    assert!(error.ends_with("the bank opens on Monday"));
    engine.shutdown().await
}
