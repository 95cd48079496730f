//! A deploy with live workflows: code that matches their histories continues, and a mismatch is
//! detected and blocks.
//!
//! ```sh
//! cargo run -p outlast-examples --bin workflow_versions
//! ```

use anyhow::{Context as _, Result, ensure};
use outlast::prelude::*;
use outlast::workflow::{BLOCKED, Running};
use outlast_examples::{engine_on, shared_database};

#[derive(Serialize, Deserialize)]
struct Paid;

impl Signal for Paid {
    const NAME: &'static str = "paid";
}

/// The code before the deploy.
mod before {
    use super::*;

    pub struct Delivery;

    impl Workflow for Delivery {
        const NAME: &'static str = "delivery";
        type Input = String;
        type Output = String;

        async fn run(&self, flow: Flow, article: String) -> FlowResult<String> {
            let parcel = flow.step("pack", async || pack(&article)).await?;
            flow.signal::<Paid>().await?;
            flow.step("send", async || send(&parcel)).await
        }
    }
}

/// The wrong way: a parcel that is already packed would have to be wrapped first.
mod careless {
    use super::*;

    pub struct Delivery;

    impl Workflow for Delivery {
        const NAME: &'static str = "delivery";
        type Input = String;
        type Output = String;

        async fn run(&self, flow: Flow, article: String) -> FlowResult<String> {
            let wrapped = flow.step("wrap", async || wrap(&article)).await?;
            let parcel = flow.step("pack", async || pack(&wrapped)).await?;
            flow.signal::<Paid>().await?;
            flow.step("send", async || send(&parcel)).await
        }
    }
}

/// The right way: a workflow that has already passed this line continues as before.
mod after {
    use super::*;

    pub struct Delivery;

    impl Workflow for Delivery {
        const NAME: &'static str = "delivery";
        type Input = String;
        type Output = String;

        async fn run(&self, flow: Flow, article: String) -> FlowResult<String> {
            let mut parcel = flow.step("pack", async || pack(&article)).await?;
            if flow.version("wrap the box", 0, 1) >= 1 {
                parcel = flow.step("wrap", async || wrap(&parcel)).await?;
            }
            flow.signal::<Paid>().await?;
            flow.step("send", async || send(&parcel)).await
        }
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
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let database = shared_database(folder.path());
    let patience = Duration::from_secs(10);

    // Before the deploy: a lamp is packed and waits for its payment.
    let old = engine_on(&database)
        .await?
        .workflow(before::Delivery)
        .queue("deliveries", 10)
        .start()
        .await?;
    let lamp = Run::<before::Delivery>("lamp".into()).queue("deliveries");
    let lamp = old.insert(lamp).await?.id().context("it has no key")?.get();
    old.wait_settled(lamp, patience).await?;
    old.shutdown().await;

    // This build does not match the history. It blocks the order of the lamp and changes nothing.
    let careless = engine_on(&database)
        .await?
        .workflow(careless::Delivery)
        .queue("deliveries", 10)
        .start()
        .await?;
    careless.signal(lamp, Paid).await?;
    let blocked = blocked(&careless, lamp).await?;
    println!("{blocked}");
    ensure!(
        blocked
            == "blocked: the history has event 2: step_completed \"pack\" of call 1; \
                the code has call 1: step \"wrap\""
    );
    careless.shutdown().await;

    // A build that matches continues with the order by itself.
    let new = engine_on(&database)
        .await?
        .workflow(after::Delivery)
        .queue("deliveries", 10)
        .start()
        .await?;
    let lamp = Id::<Running<after::Delivery>>::of(lamp);
    let sent = new.wait(lamp, patience).await?;
    println!("{sent}");
    ensure!(sent == "lamp in a box is on its way");

    // A workflow that starts now is wrapped.
    let vase = Run::<after::Delivery>("vase".into()).queue("deliveries");
    let vase = new.insert(vase).await?;
    let id = vase.id().context("it has no key")?;
    new.signal(id, Paid).await?;
    let sent = new.wait(vase, patience).await?;
    println!("{sent}");
    ensure!(sent == "vase in a box, wrapped, is on its way");
    new.shutdown().await;
    Ok(())
}

/// Returns the reason of a blocked workflow.
async fn blocked(client: &Client, id: InstanceId) -> Result<String> {
    for _ in 0..500 {
        let seen = client.get(id).await?.context("it is stored")?;
        match seen.last_error {
            Some(error) if error.starts_with(BLOCKED) => return Ok(error),
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    anyhow::bail!("it was not blocked")
}
