//! A deploy with live workflows: code that matches their histories continues, and a mismatch is
//! detected and blocks.
//!
//! ```sh
//! cargo run -p outlast-examples --bin workflow_versions
//! ```

use outlast::Handle;
use outlast::prelude::*;
use outlast::workflow::BLOCKED;
use outlast_examples::{engine_on, shared_database};

#[derive(Signal, Serialize, Deserialize)]
struct Paid;

/// The code before the deploy.
mod before {
    use super::*;

    #[workflow(queue = "deliveries")]
    pub async fn delivery(flow: Flow, article: String) -> FlowResult<String> {
        let parcel = flow.step("pack", async || pack(&article)).await?;
        flow.signal::<Paid>().await?;
        flow.step("send", async || send(&parcel)).await
    }
}

/// The wrong way: a parcel that is already packed would have to be wrapped first.
mod careless {
    use super::*;

    #[workflow(queue = "deliveries")]
    pub async fn delivery(flow: Flow, article: String) -> FlowResult<String> {
        let wrapped = flow.step("wrap", async || wrap(&article)).await?;
        let parcel = flow.step("pack", async || pack(&wrapped)).await?;
        flow.signal::<Paid>().await?;
        flow.step("send", async || send(&parcel)).await
    }
}

/// The right way: a workflow that has already passed this line continues as before.
mod after {
    use super::*;

    #[workflow(queue = "deliveries")]
    pub async fn delivery(flow: Flow, article: String) -> FlowResult<String> {
        let mut parcel = flow.step("pack", async || pack(&article)).await?;
        if flow.version("wrap the box", 0, 1) >= 1 {
            parcel = flow.step("wrap", async || wrap(&parcel)).await?;
        }
        flow.signal::<Paid>().await?;
        flow.step("send", async || send(&parcel)).await
    }
}

fn wrap(article: &str) -> std::io::Result<String> {
    Ok(format!("{article}, wrapped,"))
}

fn pack(article: &str) -> std::io::Result<String> {
    Ok(format!("{article} in a box"))
}

fn send(parcel: &str) -> std::io::Result<String> {
    Ok(format!("{parcel} is on its way"))
}

#[tokio::main]
async fn main() -> outlast::Result<()> {
    let folder = tempfile::tempdir()?;
    let database = shared_database(folder.path());

    // Before the deploy: a lamp is packed and waits for its payment.
    let old = engine_on(&database)
        .await?
        .register(before::delivery)
        .start()
        .await?;
    let lamp = old.start(before::delivery::with("lamp".into())).await?;
    lamp.settled().timeout(MINUTE).await?;
    let lamp = lamp.id().get();
    old.shutdown().await?;

    // This build does not match the history. It blocks the order of the lamp and changes nothing.
    let careless = engine_on(&database)
        .await?
        .register(careless::delivery)
        .start()
        .await?;
    let delivery = careless.handle::<careless::delivery>(lamp).await?;
    delivery.signal(Paid).await?;
    let blocked = blocked(&delivery).await?;
    println!("{blocked}");
    assert_eq!(
        blocked,
        "blocked: the history has event 2: step_completed \"pack\" of call 1; \
         the code has call 1: step \"wrap\""
    );
    careless.shutdown().await?;

    // A build that matches continues with the order by itself.
    let new = engine_on(&database)
        .await?
        .register(after::delivery)
        .start()
        .await?;
    let lamp = new.handle::<after::delivery>(lamp).await?;
    let sent = lamp.output().timeout(MINUTE).await?;
    println!("{sent}");
    assert_eq!(sent, "lamp in a box is on its way");

    // A workflow that starts now is wrapped.
    let vase = new.start(after::delivery::with("vase".into())).await?;
    vase.signal(Paid).await?;
    let sent = vase.output().timeout(MINUTE).await?;
    println!("{sent}");
    assert_eq!(sent, "vase in a box, wrapped, is on its way");
    new.shutdown().await
}

/// Returns the reason of a blocked workflow.
async fn blocked(delivery: &Handle<careless::delivery>) -> outlast::Result<String> {
    for _ in 0..500 {
        match delivery.instance().await?.last_error {
            Some(error) if error.starts_with(BLOCKED) => return Ok(error),
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    panic!("it was not blocked")
}
