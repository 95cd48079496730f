//! An order from reservation to receipt, written as one function that reads from top to bottom.
//!
//! Order 42 is reserved, packed and labelled in parallel, approved, and sent. Nobody approves
//! order 43. Order 44 has an article that cannot be packed, and is sent without it.
//!
//! ```sh
//! cargo run -p outlast-examples --bin workflow
//! ```

use outlast::prelude::*;
use outlast::store::EventKind;
use outlast::workflow::FlowErrorKind;

#[derive(Serialize, Deserialize)]
struct Order {
    number: u64,
    articles: Vec<String>,
    approve_within: Duration,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Receipt {
    hold: String,
    label: String,
    parcels: Vec<String>,
    approved_by: String,
}

#[derive(Signal, Serialize, Deserialize)]
struct Approved {
    by: String,
}

#[workflow]
async fn fulfil(flow: Flow, order: Order, warehouse: Data<Warehouse>) -> FlowResult<Receipt> {
    // Runs in this worker. Its result is committed before the next line, and is never
    // computed again.
    let key = flow.uuid();
    let reserve = async || warehouse.reserve(&order, &key).await;
    let hold = flow.step("reserve", reserve).await?;

    // One commit starts all of these. They run on any worker with a free slot.
    let label = flow.run(print_label::with(order.number));
    let packing = order.articles.iter().cloned();
    let packing: Vec<_> = packing
        .map(|article| flow.run(pack_article::with(article)))
        .collect();
    let (label, parcels) = match flow.all((label, packing)).await {
        Ok(both) => both,
        // The error names the call and the reason. The history records that it was handled.
        Err(error) if error.kind() == FlowErrorKind::ActivityFailed => {
            println!("order {}: {error}", order.number);
            (format!("label for {}", order.number), Vec::new())
        }
        Err(error) => return Err(error),
    };

    // May take a day or a year. Nothing runs in the meantime.
    let approved = flow.signal::<Approved>().timeout(order.approve_within);
    let Some(approved) = approved.await? else {
        return flow.fail(format!("nobody approved order {}", order.number));
    };
    flow.sleep(Duration::from_millis(50)).await?;
    Ok(Receipt {
        hold,
        label,
        parcels,
        approved_by: approved.by,
    })
}

/// Retried with growing pauses, on any worker with a free slot.
#[job(attempts = 2)]
async fn pack_article(article: String) -> Result<String, String> {
    match article.as_str() {
        "piano" => Err("no box is large enough".into()),
        article => Ok(format!("parcel with a {article}")),
    }
}

/// Another workflow, which the first one runs.
#[workflow]
async fn print_label(flow: Flow, order: u64) -> FlowResult<String> {
    let print = async || std::io::Result::Ok(format!("label for {order}"));
    flow.step("print", print).await
}

/// A fake of what your steps call.
struct Warehouse;

impl Warehouse {
    /// A step may run twice when a worker dies. The same key identifies the same reservation.
    async fn reserve(&self, order: &Order, key: &str) -> std::io::Result<String> {
        println!("order {} is reserved under {key}", order.number);
        Ok(format!("hold {}", order.number))
    }
}

#[tokio::main]
async fn main() -> outlast::Result<()> {
    let engine = outlast_examples::engine()
        .await?
        .register(fulfil)
        .register(print_label)
        .register(pack_article)
        .provide(Warehouse)
        .start()
        .await?;

    let order = |number, articles: &[&str], approve_within| Order {
        number,
        articles: articles.iter().map(|&article| article.into()).collect(),
        approve_within,
    };
    let approved = order(42, &["lamp", "chair"], DAY);
    let approved = engine
        .start(fulfil::with(approved).key("fulfil:42"))
        .await?;
    let ignored = order(43, &["table"], Duration::from_millis(300));
    let ignored = engine.start(fulfil::with(ignored)).await?;
    let heavy = order(44, &["lamp", "piano"], DAY);
    let heavy = engine.start(fulfil::with(heavy)).await?;

    for order in [&approved, &heavy] {
        order.signal(Approved { by: "Ada".into() }).await?;
    }
    let receipt = approved.output().timeout(MINUTE).await?;
    println!("{receipt:?}");
    assert_eq!(
        receipt,
        Receipt {
            hold: "hold 42".into(),
            label: "label for 42".into(),
            parcels: vec!["parcel with a lamp".into(), "parcel with a chair".into()],
            approved_by: "Ada".into(),
        }
    );

    let error = ignored.output().timeout(MINUTE).await;
    let error = error.expect_err("nobody approved order 43").to_string();
    println!("{error}");
    assert!(error.ends_with("nobody approved order 43"));

    assert!(heavy.output().timeout(MINUTE).await?.parcels.is_empty());
    // The calls of the code and their results, in order. After a crash the code is replayed
    // against them.
    let history = heavy.history().await?;
    for event in &history {
        println!("{:>3} {} {}", event.seq, event.kind, event.name);
    }
    let kinds: Vec<_> = history.iter().map(|event| event.kind).collect();
    assert!(kinds.contains(&EventKind::FailureHandled));
    engine.shutdown().await
}
