//! A web node and a worker node: two processes on one database.
//!
//! The web node runs no steps: it starts orders and waits for them. The worker runs them until
//! SIGTERM, as in a deploy. It then claims nothing new and lets running steps finish. A long step
//! can check for the shutdown and leave the rest for later. The program starts itself a second
//! time as the worker.
//!
//! ```sh
//! cargo run -p outlast-examples --bin nodes
//! ```

use outlast::prelude::*;
use outlast::{Roles, Status, WaitError};
use outlast_examples::{WorkerProcess, engine_on, shared_database};
use rustix::process::Signal as OsSignal;
use tokio::signal::unix::{SignalKind, signal};

struct Packing;

#[steps]
#[derive(Debug, PartialEq)]
enum Order {
    Pack { number: u64, boxes: u64 },
}

impl Machine for Packing {
    const NAME: &'static str = "box_packing";
    const QUEUE: &'static str = "boxes";
    type State = Order;
    type Output = String;

    async fn step(&self, state: Order, cx: &Context) -> StepResult<Self> {
        let Order::Pack { number, mut boxes } = state;
        println!("packing order {number}, {boxes} boxes");
        while boxes > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            boxes -= 1;
            if cx.is_stopping() {
                return next(Order::Pack { number, boxes });
            }
        }
        done(format!("order {number} is packed"))
    }
}

#[tokio::main]
async fn main() -> outlast::Result<()> {
    match WorkerProcess::database() {
        Some(database) => work(&database).await,
        None => serve().await,
    }
}

/// The worker: the `main` of a real one looks like this.
async fn work(database: &str) -> outlast::Result<()> {
    let mut stop = signal(SignalKind::terminate())?;
    let engine = engine_on(database)
        .await?
        .register(Packing)
        .queue("boxes", 1)
        .grace(Duration::from_secs(20))
        // Nodes on PostgreSQL are notified of new work. Processes on one SQLite file poll.
        .poll_interval(Duration::from_millis(100))
        .start()
        .await?;
    stop.recv().await;
    // An error when a step has not ended within the grace.
    engine.shutdown().await?;
    println!("stopped; all steps ended in time");
    Ok(())
}

/// The web node.
async fn serve() -> outlast::Result<()> {
    let folder = tempfile::tempdir()?;
    let database = shared_database(folder.path());
    let web = engine_on(&database)
        .await?
        .roles(Roles::WEB)
        .start()
        .await?;
    let order = |number, boxes| web.start(Packing::with(Order::Pack { number, boxes }));

    let mut worker = WorkerProcess::start(&database)?;
    for number in 1..=3 {
        let small = order(number, 1).await?;
        println!("{}", small.output().timeout(MINUTE).await?);
    }

    // A deploy: the worker is stopped in the middle of order 4, with order 5 behind it.
    let large = order(4, 200).await?;
    let behind = order(5, 1).await?;
    worker.wait_for_line("packing order 4").await?;
    worker.send(OsSignal::TERM)?;
    assert!(worker.ended().await?.success());
    let stopped = "stopped; all steps ended in time".to_owned();
    assert!(worker.output.contains(&stopped));

    // The remaining work waits in the queue, and order 4 continues in the middle.
    let unpacked = behind.output().timeout(Duration::ZERO).await;
    let unpacked = unpacked.expect_err("there is no worker to pack it");
    println!("{unpacked}");
    assert!(matches!(unpacked, WaitError::TimedOut { instance, .. }
        if instance.status == Status::Runnable && instance.attempt == 0));
    let mut worker = WorkerProcess::start(&database)?;
    for order in [large, behind] {
        println!("{}", order.output().timeout(MINUTE).await?);
    }
    worker.send(OsSignal::TERM)?;
    assert!(worker.ended().await?.success());
    assert!(
        !worker.output.contains(&"packing order 4, 200 boxes".into()),
        "it began again from the start"
    );

    web.shutdown().await
}
