//! A worker is killed during a step, and the instance continues where it was.
//!
//! The earlier steps are committed and do not run again. The interrupted step runs again on the
//! next worker, after the lease of the dead one has expired. This is why effects take an
//! idempotency key, which stays the same. The program starts itself as the worker, kills it with
//! SIGKILL, and starts it again.
//!
//! ```sh
//! cargo run -p outlast-examples --bin kill
//! ```

use outlast::prelude::*;
use outlast_examples::{WorkerProcess, engine_on, shared_database};
use rustix::process::Signal as OsSignal;

struct Purchase;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
enum Order {
    Reserve { number: u64 },
    Charge { number: u64 },
    Ship { number: u64 },
}

impl Machine for Purchase {
    const NAME: &'static str = "purchase";
    const QUEUE: &'static str = "purchases";
    type State = Order;
    type Output = String;

    async fn step(&self, state: Order, cx: &Context) -> StepResult<Self> {
        println!(
            "{} with key {}, crashes so far: {}",
            cx.step(),
            cx.idempotency_key(),
            cx.crashes()
        );
        Ok(match state {
            Order::Reserve { number } => Outcome::next(Order::Charge { number }),
            Order::Charge { number } => {
                if cx.crashes() == 0 {
                    // The bank is slow, and this worker is killed before it answers.
                    std::future::pending::<()>().await;
                }
                Outcome::next(Order::Ship { number })
            }
            Order::Ship { number } => Outcome::done(format!("order {number} shipped")),
        })
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match WorkerProcess::database() {
        Some(database) => work(&database).await,
        None => watch().await,
    }
}

async fn work(database: &str) -> anyhow::Result<()> {
    let _engine = engine_on(database)
        .await?
        .machine(Purchase)
        .queue("purchases", 10)
        // How long the steps of a dead worker wait. Short for the example. Default: 30 s.
        .lease(Duration::from_secs(1))
        .poll_interval(Duration::from_millis(100))
        .start()
        .await?;
    std::future::pending().await
}

async fn watch() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let database = shared_database(folder.path());
    let web = engine_on(&database)
        .await?
        .roles(Roles::WEB)
        .start()
        .await?;
    let order = web
        .insert(New::<Purchase>(Order::Reserve { number: 42 }))
        .await?;

    let mut first = WorkerProcess::start(&database)?;
    first.wait_for_line("charge").await?;
    first.send(OsSignal::KILL)?;
    let ended = first.ended().await?;
    println!("the first worker was killed: {ended}");
    assert!(!ended.success());

    let mut second = WorkerProcess::start(&database)?;
    let shipped = web.wait(order, Duration::from_secs(30)).await?;
    println!("{shipped}");
    assert_eq!(shipped, "order 42 shipped");
    second.send(OsSignal::KILL)?;
    second.ended().await?;

    // The reservation was not repeated; the charge was, with the same key.
    let id = order.id().expect("it is stored");
    assert_eq!(first.output.len(), 2);
    assert_eq!(second.output.len(), 2);
    assert!(first.output[0].starts_with("reserve"));
    let charge = format!("charge with key {id}:charge:");
    assert!(first.output[1].starts_with(&charge) && second.output[0].starts_with(&charge));
    let key = |line: &str| line.split(',').next().map(str::to_owned);
    assert_eq!(key(&first.output[1]), key(&second.output[0]));
    assert!(second.output[0].ends_with("crashes so far: 1"));
    assert!(second.output[1].starts_with("ship"));

    web.shutdown().await;
    Ok(())
}
