//! A subscription that lives for years with a short history: each month is a separate run.
//!
//! `continue_as_new` ends a run and begins the next one of the same instance, with an empty
//! history. Its id, its key, its pending signals and its waiting callers stay.
//!
//! ```sh
//! cargo run -p outlast-examples --bin subscription
//! ```

use anyhow::{Context as _, Result, ensure};
use outlast::prelude::*;
use outlast::{EventKind, HistoryRequest};

struct Subscription;

#[derive(Serialize, Deserialize)]
struct Terms {
    customer: String,
    price: u64,
    paid: u64,
}

#[derive(Serialize, Deserialize)]
struct NewPrice(u64);

impl Signal for NewPrice {
    const NAME: &'static str = "new_price";
}

#[derive(Serialize, Deserialize)]
struct Unsubscribed;

impl Signal for Unsubscribed {
    const NAME: &'static str = "unsubscribed";
}

/// Short for the example.
const MONTH: Duration = Duration::from_millis(150);

impl Workflow for Subscription {
    const NAME: &'static str = "monthly";
    type Input = Terms;
    type Output = String;

    async fn run(&self, flow: Flow, mut terms: Terms) -> FlowResult<String> {
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
}

fn charge(terms: &Terms, key: &str) -> std::io::Result<u64> {
    println!("{} pays {} under {key}", terms.customer, terms.price);
    Ok(terms.price)
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = outlast_examples::engine()
        .await?
        .workflow(Subscription)
        .queue("default", 10)
        .start()
        .await?;

    let terms = Terms {
        customer: "ada".into(),
        price: 10,
        paid: 0,
    };
    let ada = Subscription::key("subscription:ada");
    let subscription = engine
        .insert(Run::<Subscription>(terms).key("subscription:ada"))
        .await?;
    let id = subscription
        .id()
        .context("another instance holds the key")?;

    engine.signal(ada.clone(), NewPrice(12)).await?;
    let third = run_of(&engine, id, 3).await?;
    println!("month {} of {}", third.run, third.id);
    ensure!(third.correlation_key.as_deref() == Some("subscription:ada"));
    engine.signal(ada, Unsubscribed).await?;
    let paid = engine.wait(subscription, Duration::from_secs(10)).await?;
    println!("{paid}");
    ensure!(paid.starts_with("ada has paid ") && paid != "ada has paid 10");

    // The last ten runs are stored.
    let second = HistoryRequest {
        id: id.get(),
        run: 2,
        after: 0,
        max: 100,
    };
    let second = engine.history(second).await?;
    ensure!(second.last().map(|event| event.kind) == Some(EventKind::ContinuedAsNew));
    engine.shutdown().await;
    Ok(())
}

async fn run_of(
    client: &Client,
    id: Id<outlast::workflow::Running<Subscription>>,
    run: i32,
) -> Result<outlast::Instance> {
    for _ in 0..500 {
        let seen = client.get(id).await?.context("it is stored")?;
        if seen.run >= run {
            return Ok(seen);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    anyhow::bail!("it has not come to its run {run}")
}
