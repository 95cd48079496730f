//! Collects signals into a pack, and continues with what has arrived when no more come.
//!
//! A step that waits again consumes nothing: it receives all signals again, and only a new one or
//! the deadline wakes it. So a step collects a pack by waiting until there are enough. The
//! transition to the next step consumes the collected signals.
//!
//! ```sh
//! cargo run -p outlast-examples --bin pack
//! ```

use anyhow::Context as _;
use outlast::prelude::*;

struct Packing;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
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

#[derive(Serialize, Deserialize)]
struct Picked {
    article: String,
}

impl Signal for Picked {
    const NAME: &'static str = "picked";
}

impl Machine for Packing {
    const NAME: &'static str = "packing";
    type State = Pack;
    type Output = String;

    async fn step(&self, state: Pack, cx: &Context) -> StepResult<Self> {
        Ok(match state {
            Pack::Open { order } => wait_for_more(order, 0),
            Pack::Gather { order, seen } => {
                let picked = cx.received_all::<Picked>()?;
                let is_full = picked.len() >= order.articles;
                let time_is_up = picked.len() == seen;
                if is_full || time_is_up {
                    let articles = picked.into_iter().map(|picked| picked.article).collect();
                    Outcome::next(Pack::Close { articles })
                } else {
                    wait_for_more(order, picked.len())
                }
            }
            Pack::Close { articles } => Outcome::done(articles.join(", ")),
        })
    }
}

fn wait_for_more(order: Order, seen: usize) -> Outcome<Packing> {
    wait_for([Picked::NAME])
        .timeout(order.patience)
        .then(Pack::Gather { order, seen })
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let engine = outlast_examples::engine()
        .await?
        .machine(Packing)
        .queue("default", 10)
        .start()
        .await?;

    // The first article of a pack starts its instance.
    let picked = async |pack: &str, article: &str, patience: Duration| {
        let open = Pack::Open {
            order: Order {
                articles: 3,
                patience,
            },
        };
        let signal = Picked {
            article: article.into(),
        };
        let answer = engine
            .signal_or_insert(New::<Packing>(open).key(pack), signal)
            .await?;
        answer.id().context("the pack is open")
    };
    let patience = Duration::from_millis(300);
    let short = picked("pack:2", "mirror", patience).await?;
    let patience = Duration::from_secs(3600);
    let full = picked("pack:1", "chair", patience).await?;
    picked("pack:1", "lamp", patience).await?;
    picked("pack:1", "table", patience).await?;

    let full = engine.wait(full, Duration::from_secs(10)).await?;
    println!("everything: {full}");
    assert_eq!(full, "chair, lamp, table");

    let short = engine.wait(short, Duration::from_secs(10)).await?;
    println!("what came in time: {short}");
    assert_eq!(short, "mirror");

    engine.shutdown().await;
    Ok(())
}
