//! An order that packs its lines in parallel, and continues when all of them have finished.
//!
//! Each line is a separate instance: it waits, fails and is retried independently. The parent runs
//! again once, after the last line, and reads the result of each. One line is out of stock, and
//! the order is shipped without it.
//!
//! ```sh
//! cargo run -p outlast-examples --bin fan_out
//! ```

use outlast::prelude::*;

struct Fulfilment;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
enum Order {
    Pack { articles: Vec<String> },
    Ship,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Shipment {
    parcels: Vec<String>,
    missing: Vec<String>,
}

impl Machine for Fulfilment {
    const NAME: &'static str = "fulfilment";
    type State = Order;
    type Output = Shipment;

    async fn step(&self, state: Order, cx: &Context) -> StepResult<Self> {
        Ok(match state {
            Order::Pack { articles } => fan_out(
                articles
                    .into_iter()
                    .map(|article| New::<LineItem>(Line::Pack { article })),
            )
            .then(Order::Ship),
            Order::Ship => {
                let mut shipment = Shipment {
                    parcels: Vec::new(),
                    missing: Vec::new(),
                };
                // In the order of the fan-out, each with its own output type.
                for line in cx.children::<LineItem>()? {
                    match line.into_output() {
                        Ok(parcel) => shipment.parcels.push(parcel),
                        Err(error) => shipment.missing.push(error.to_string()),
                    }
                }
                Outcome::done(shipment)
            }
        })
    }
}

struct LineItem;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
enum Line {
    Pack { article: String },
}

impl Machine for LineItem {
    const NAME: &'static str = "line_item";
    type State = Line;
    type Output = String;

    async fn step(&self, state: Line, _cx: &Context) -> StepResult<Self> {
        let Line::Pack { article } = state;
        Ok(match article.as_str() {
            "lamp" => Outcome::fail("no lamp in stock"),
            _ => Outcome::done(format!("a {article} in a box")),
        })
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let engine = outlast_examples::engine()
        .await?
        .machine(Fulfilment)
        .machine(LineItem)
        .queue("default", 10)
        .start()
        .await?;

    let articles = ["chair", "lamp", "table"].map(String::from).to_vec();
    let order = engine
        .insert(New::<Fulfilment>(Order::Pack { articles }))
        .await?;
    let shipment = engine.wait(order, Duration::from_secs(10)).await?;

    println!("{shipment:#?}");
    assert_eq!(shipment.parcels, ["a chair in a box", "a table in a box"]);
    assert_eq!(shipment.missing.len(), 1);
    assert!(shipment.missing[0].ends_with("failed: no lamp in stock"));

    engine.shutdown().await;
    Ok(())
}
