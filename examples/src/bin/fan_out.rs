//! An order that packs its lines in parallel, and continues when all of them have finished.
//!
//! Each line is a separate instance: it waits, fails and is retried independently. The parent runs
//! again once, after the last line, and reads the result or the error of each. One line is out of
//! stock, and the order is shipped without it.
//!
//! ```sh
//! cargo run -p outlast-examples --bin fan_out
//! ```

use outlast::Fails;
use outlast::machine::fail_with;
use outlast::prelude::*;

struct Fulfilment;

#[steps]
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
        match state {
            Order::Pack { articles } => fan_out(
                articles
                    .into_iter()
                    .map(|article| LineItem::with(Line::Pack { article })),
            )
            .then(Order::Ship),
            Order::Ship => {
                let mut shipment = Shipment {
                    parcels: Vec::new(),
                    missing: Vec::new(),
                };
                // In the order of the fan-out, each with its own output and error type.
                for line in cx.children::<LineItem>()? {
                    match line.downcast()? {
                        Some(LineError::OutOfStock { article }) => shipment.missing.push(article),
                        None => shipment.parcels.push(line.into_output()?),
                    }
                }
                done(shipment)
            }
        }
    }
}

struct LineItem;

#[steps]
enum Line {
    Pack { article: String },
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
enum LineError {
    #[error("no {article} in stock")]
    OutOfStock { article: String },
}

impl Fails for LineItem {
    type Error = LineError;
}

impl Machine for LineItem {
    const NAME: &'static str = "line_item";
    type State = Line;
    type Output = String;

    async fn step(&self, state: Line, _cx: &Context) -> StepResult<Self> {
        let Line::Pack { article } = state;
        match article.as_str() {
            "lamp" => fail_with(LineError::OutOfStock { article }),
            _ => done(format!("a {article} in a box")),
        }
    }
}

#[tokio::main]
async fn main() -> outlast::Result<()> {
    let engine = outlast_examples::engine()
        .await?
        .register(Fulfilment)
        .register(LineItem)
        .start()
        .await?;

    let articles = ["chair", "lamp", "table"].map(String::from).to_vec();
    let order = engine
        .start(Fulfilment::with(Order::Pack { articles }))
        .await?;
    let shipment = order.output().timeout(MINUTE).await?;

    println!("{shipment:#?}");
    assert_eq!(shipment.parcels, ["a chair in a box", "a table in a box"]);
    assert_eq!(shipment.missing, ["lamp"]);
    // For people there is the text.
    let error = order.children().await?[1].last_error.clone();
    assert_eq!(error.as_deref(), Some("no lamp in stock"));

    engine.shutdown().await
}
