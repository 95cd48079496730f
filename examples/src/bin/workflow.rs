//! An order from reservation to receipt, written as one function that reads from top to bottom.
//!
//! Order 42 is reserved, packed and labelled in parallel, approved, and sent. Nobody approves
//! order 43. Order 44 has an article that cannot be packed, and is sent without it.
//!
//! ```sh
//! cargo run -p outlast-examples --bin workflow
//! ```

use anyhow::{Context as _, Result, ensure};
use outlast::prelude::*;
use outlast::{EventKind, FlowErrorKind, HistoryRequest};

/// Holds what the code needs, as with machines: clients of other services, pools, settings.
struct Fulfil {
    warehouse: Warehouse,
}

#[derive(Clone, Serialize, Deserialize)]
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

#[derive(Serialize, Deserialize)]
struct Approved {
    by: String,
}

impl Signal for Approved {
    const NAME: &'static str = "approved";
}

impl Workflow for Fulfil {
    const NAME: &'static str = "fulfil";
    type Input = Order;
    type Output = Receipt;

    async fn run(&self, flow: Flow, order: Order) -> FlowResult<Receipt> {
        // Runs in this worker. Its result is committed before the next line, and is never
        // computed again.
        let key = flow.uuid();
        let hold = flow
            .step("reserve", async || {
                self.warehouse.reserve(&order, &key).await
            })
            .await?;

        // One commit starts all of these. They run on any worker with a free slot.
        let packing = order.articles.iter();
        let packing: Vec<_> = packing
            .map(|article| flow.activity(Pack, article.clone()))
            .collect();
        let label = flow.child::<PrintLabel>(order.number);
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
            return Err(flow.fail(format_args!("nobody approved order {}", order.number)));
        };
        flow.sleep(Duration::from_millis(50)).await?;
        Ok(Receipt {
            hold,
            label,
            parcels,
            approved_by: approved.by,
        })
    }
}

/// A job: retried with backoff, on any worker with a free slot.
struct Pack;

impl Job for Pack {
    const NAME: &'static str = "pack_article";
    const MAX_ATTEMPTS: u32 = 2;
    type Args = String;
    type Output = String;

    fn backoff(&self, _attempt: u32) -> Duration {
        Duration::from_millis(20)
    }

    async fn perform(&self, article: String, _cx: &Context) -> Result<String, JobError> {
        match article.as_str() {
            "piano" => Err(JobError::retry("no box is large enough")),
            article => Ok(format!("parcel with a {article}")),
        }
    }
}

/// Another workflow, which this one starts.
struct PrintLabel;

impl Workflow for PrintLabel {
    const NAME: &'static str = "print_label";
    type Input = u64;
    type Output = String;

    async fn run(&self, flow: Flow, order: u64) -> FlowResult<String> {
        let print = async || Ok::<_, std::io::Error>(format!("label for {order}"));
        flow.step("print", print).await
    }
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
async fn main() -> Result<()> {
    let engine = outlast_examples::engine()
        .await?
        .workflow(Fulfil {
            warehouse: Warehouse,
        })
        .workflow(PrintLabel)
        .machine(Pack)
        .queue("default", 10)
        .start()
        .await?;

    let order = |number, articles: &[&str], approve_within| Order {
        number,
        articles: articles.iter().map(|&article| article.into()).collect(),
        approve_within,
    };
    let day = Duration::from_secs(24 * 3600);
    let approved = engine
        .insert(Run::<Fulfil>(order(42, &["lamp", "chair"], day)).key("fulfil:42"))
        .await?;
    let ignored = order(43, &["table"], Duration::from_millis(300));
    let ignored = engine.insert(Run::<Fulfil>(ignored)).await?;
    let heavy = engine
        .insert(Run::<Fulfil>(order(44, &["lamp", "piano"], day)).key("fulfil:44"))
        .await?;

    for order in ["fulfil:42", "fulfil:44"] {
        let approval = Approved { by: "Ada".into() };
        engine.signal(Fulfil::key(order), approval).await?;
    }
    let patience = Duration::from_secs(10);
    let receipt = engine.wait(approved, patience).await?;
    println!("{receipt:?}");
    ensure!(
        receipt
            == Receipt {
                hold: "hold 42".into(),
                label: "label for 42".into(),
                parcels: vec!["parcel with a lamp".into(), "parcel with a chair".into()],
                approved_by: "Ada".into(),
            }
    );

    let error = engine.wait(ignored, patience).await;
    let error = error.err().context("order 43 was approved")?.to_string();
    println!("{error}");
    ensure!(error.ends_with("nobody approved order 43"));

    ensure!(engine.wait(heavy, patience).await?.parcels.is_empty());
    let heavy = heavy.id().context("another instance holds the key")?;
    // The calls of the code and their results, in order. After a crash the code is replayed
    // against them.
    let history = engine
        .history(HistoryRequest {
            id: heavy.get(),
            run: 1,
            after: 0,
            max: 100,
        })
        .await?;
    for event in &history {
        println!("{:>3} {} {}", event.seq, event.kind, event.name);
    }
    ensure!(
        history
            .iter()
            .any(|event| event.kind == EventKind::FailureHandled)
    );
    engine.shutdown().await;
    Ok(())
}
