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

use outlast::Roles;
use outlast::prelude::*;
use outlast_examples::{WorkerProcess, engine_on, shared_database};
use rustix::process::Signal as OsSignal;

struct Purchase;

#[steps]
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
        match state {
            Order::Reserve { number } => next(Order::Charge { number }),
            Order::Charge { number } => {
                if cx.crashes() == 0 {
                    // The bank is slow, and this worker is killed before it answers.
                    std::future::pending::<()>().await;
                }
                next(Order::Ship { number })
            }
            Order::Ship { number } => done(format!("order {number} shipped")),
        }
    }
}

#[tokio::main]
async fn main() -> outlast::Result<()> {
    match WorkerProcess::database() {
        Some(database) => work(&database).await,
        None => watch().await,
    }
}

async fn work(database: &str) -> outlast::Result<()> {
    let _engine = engine_on(database)
        .await?
        .register(Purchase)
        // How long the steps of a dead worker wait. Short for the example. Default: 30 s.
        .lease(Duration::from_secs(1))
        .poll_interval(Duration::from_millis(100))
        .start()
        .await?;
    std::future::pending().await
}

async fn watch() -> outlast::Result<()> {
    let folder = tempfile::tempdir()?;
    let database = shared_database(folder.path());
    let web = engine_on(&database)
        .await?
        .roles(Roles::WEB)
        .start()
        .await?;
    let order = Purchase::with(Order::Reserve { number: 42 });
    let order = web.start(order).await?;

    let mut first = WorkerProcess::start(&database)?;
    first.wait_for_line("charge").await?;
    first.send(OsSignal::KILL)?;
    let ended = first.ended().await?;
    println!("the first worker was killed: {ended}");
    assert!(!ended.success());

    let mut second = WorkerProcess::start(&database)?;
    let shipped = order.output().timeout(MINUTE).await?;
    println!("{shipped}");
    assert_eq!(shipped, "order 42 shipped");
    second.send(OsSignal::KILL)?;
    second.ended().await?;

    // The reservation was not repeated; the charge was, with the same key.
    assert_eq!(first.output.len(), 2);
    assert_eq!(second.output.len(), 2);
    assert!(first.output[0].starts_with("reserve"));
    let charge = format!("charge with key {}:charge:", order.id());
    assert!(first.output[1].starts_with(&charge) && second.output[0].starts_with(&charge));
    let key = |line: &str| line.split(',').next().map(str::to_owned);
    assert_eq!(key(&first.output[1]), key(&second.output[0]));
    assert!(second.output[0].ends_with("crashes so far: 1"));
    assert!(second.output[1].starts_with("ship"));

    web.shutdown().await
}
