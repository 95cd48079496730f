//! Collects signals into a pack, and continues with what has arrived when no more come.
//!
//! A step that waits again consumes nothing: it receives all signals again, and only a new one or
//! the deadline wakes it. So a step collects a pack by waiting until there are enough. The
//! transition to the next step consumes the collected signals.
//!
//! ```sh
//! cargo run -p outlast-examples --bin pack
//! ```

use outlast::prelude::*;

struct Packing;

#[steps]
enum Pack {
    Open { order: Order },
    Gather { order: Order, seen: usize },
    Close { articles: Vec<String> },
}

#[derive(Serialize, Deserialize)]
struct Order {
    articles: usize,
    /// How long to wait for the next article.
    patience: Duration,
}

#[derive(Signal, Serialize, Deserialize)]
struct Picked {
    article: String,
}

impl Machine for Packing {
    const NAME: &'static str = "packing";
    type State = Pack;
    type Output = String;

    async fn step(&self, state: Pack, cx: &Context) -> StepResult<Self> {
        match state {
            Pack::Open { order } => wait_for_more(order, 0),
            Pack::Gather { order, seen } => {
                let picked = cx.received_all::<Picked>()?;
                let is_full = picked.len() >= order.articles;
                let time_is_up = picked.len() == seen;
                if is_full || time_is_up {
                    let articles = picked.into_iter().map(|picked| picked.article).collect();
                    next(Pack::Close { articles })
                } else {
                    wait_for_more(order, picked.len())
                }
            }
            Pack::Close { articles } => done(articles.join(", ")),
        }
    }
}

fn wait_for_more(order: Order, seen: usize) -> StepResult<Packing> {
    wait_for::<Picked>()
        .timeout(order.patience)
        .then(Pack::Gather { order, seen })
}

#[tokio::main]
async fn main() -> outlast::Result<()> {
    let engine = outlast_examples::engine()
        .await?
        .register(Packing)
        .start()
        .await?;

    // The first article of a pack starts its instance.
    let picked = async |pack: &str, article: &str, patience: Duration| {
        let order = Order {
            articles: 3,
            patience,
        };
        let article = Picked {
            article: article.into(),
        };
        let new = Packing::with(Pack::Open { order }).key(pack);
        engine.client().signal_or_start(new, article).await
    };
    let short = picked("pack:2", "mirror", Duration::from_millis(300)).await?;
    let full = picked("pack:1", "chair", HOUR).await?;
    picked("pack:1", "lamp", HOUR).await?;
    picked("pack:1", "table", HOUR).await?;

    let full = full.output().timeout(MINUTE).await?;
    println!("everything: {full}");
    assert_eq!(full, "chair, lamp, table");

    let short = short.output().timeout(MINUTE).await?;
    println!("what came in time: {short}");
    assert_eq!(short, "mirror");

    engine.shutdown().await
}
