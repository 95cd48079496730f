//! A subscription that lives for years with a short history: each month is a separate run.
//!
//! `continue_as_new` ends a run and begins the next one of the same instance, with an empty
//! history. Its id, its key, its pending signals and its waiting callers stay.
//!
//! ```sh
//! cargo run -p outlast-examples --bin subscription
//! ```

use outlast::Handle;
use outlast::prelude::*;
use outlast::store::{EventKind, Instance};

#[derive(Serialize, Deserialize)]
struct Terms {
    customer: String,
    price: u64,
    paid: u64,
}

#[derive(Signal, Serialize, Deserialize)]
struct NewPrice(u64);

#[derive(Signal, Serialize, Deserialize)]
struct Unsubscribed;

/// Short for the example.
const MONTH: Duration = Duration::from_millis(150);

#[workflow]
async fn monthly(flow: Flow, mut terms: Terms) -> FlowResult<String> {
    // Drawn outside the step: inside its closure, every attempt would draw another key.
    let key = flow.uuid();
    let charged = flow.step("charge", async || charge(&terms, &key));
    terms.paid += charged.await?;
    let unsubscribed = flow.signal::<Unsubscribed>().timeout(MONTH);
    if unsubscribed.await?.is_some() {
        return Ok(format!("{} has paid {}", terms.customer, terms.paid));
    }
    // A new price applies from the next month.
    let soon = Duration::ZERO;
    while let Some(new) = flow.signal::<NewPrice>().timeout(soon).await? {
        terms.price = new.0;
    }
    flow.continue_as_new(terms)
}

fn charge(terms: &Terms, key: &str) -> std::io::Result<u64> {
    println!("{} pays {} under {key}", terms.customer, terms.price);
    Ok(terms.price)
}

#[tokio::main]
async fn main() -> outlast::Result<()> {
    let engine = outlast_examples::engine()
        .await?
        .register(monthly)
        .start()
        .await?;

    let terms = Terms {
        customer: "ada".into(),
        price: 10,
        paid: 0,
    };
    let subscription = engine
        .start(monthly::with(terms).key("subscription:ada"))
        .await?;

    // The key addresses every run.
    let ada = monthly::key("subscription:ada");
    engine.client().signal(ada, NewPrice(12)).await?;
    let third = run_of(&subscription, 3).await?;
    println!("month {} of {}", third.run, third.id);
    assert_eq!(third.correlation_key.as_deref(), Some("subscription:ada"));

    // So does the handle.
    subscription.signal(Unsubscribed).await?;
    let paid = subscription.output().timeout(MINUTE).await?;
    println!("{paid}");
    assert!(paid.starts_with("ada has paid ") && paid != "ada has paid 10");

    // The last ten runs are stored.
    let second = subscription.history().run(2).await?;
    let end = second.last().map(|event| event.kind);
    assert_eq!(end, Some(EventKind::ContinuedAsNew));
    engine.shutdown().await
}

/// Waits until the subscription has come to this run.
async fn run_of(subscription: &Handle<monthly>, run: i32) -> outlast::Result<Instance> {
    for _ in 0..500 {
        let seen = subscription.instance().await?;
        if seen.run >= run {
            return Ok(seen);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it has not come to its run {run}")
}
