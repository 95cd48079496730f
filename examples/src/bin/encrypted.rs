//! Payloads that the database cannot read.
//!
//! An order carries a card number. The engine has a keyring and encrypts states, results, signals
//! and errors before they leave the process. The machine does not change. Then the key is rotated:
//! the new key encrypts, and the old key still decrypts.
//!
//! ```sh
//! cargo run -p outlast-examples --bin encrypted
//! ```

use anyhow::{Context as _, Result, ensure};
use outlast::codec::Keyring;
use outlast::prelude::*;
use outlast_examples::{engine_on, shared_database};

const CARD: &str = "4111 1111 1111 1111";

struct Checkout;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
enum Order {
    Start { card: String },
    Charge { card: String },
}

#[derive(Serialize, Deserialize)]
struct Approved {
    by: String,
}

impl Signal for Approved {
    const NAME: &'static str = "approved";
}

impl Machine for Checkout {
    const NAME: &'static str = "encrypted_checkout";
    type State = Order;
    type Output = String;

    async fn step(&self, state: Order, cx: &Context) -> StepResult<Self> {
        Ok(match state {
            Order::Start { card } => wait_for([Approved::NAME]).then(Order::Charge { card }),
            Order::Charge { card } => match cx.received::<Approved>()? {
                Some(approved) => Outcome::done(format!("{card} charged for {}", approved.by)),
                None => Outcome::fail(format_args!("nobody approved of {card}")),
            },
        })
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let database = shared_database(folder.path());
    // From a key service, or `openssl rand -base64 32`; never from the program's source.
    let (may, november) = (random_key()?, random_key()?);

    let engine = worker(&database, Keyring::new("2026-05", &may)?).await?;
    let order = New::<Checkout>(Order::Start { card: CARD.into() });
    let order = engine.insert(order).await?.id().context("it has no key")?;
    engine.wait_settled(order, Duration::from_secs(10)).await?;
    engine.shutdown().await;

    // With the database but without the keys, only the status of the order is readable.
    let outsider = engine_on(&database)
        .await?
        .roles(Roles::WEB)
        .start()
        .await?;
    let stored = outsider.get(order).await?.context("it is stored")?;
    println!("at {}, with {}", stored.step, stored.state.as_str());
    ensure!(stored.step == "charge" && stored.status == Status::AwaitingSignal);
    ensure!(stored.state.as_str().contains("2026-05") && !stored.state.as_str().contains(CARD));
    outsider.shutdown().await;

    // The new key encrypts. The old key still decrypts values that were stored before.
    let keys = Keyring::new("2026-11", &november)?.and("2026-05", &may)?;
    let engine = worker(&database, keys).await?;
    let approved = Approved { by: "Ada".into() };
    engine.signal(order, approved).await?;
    let output = engine.wait(order, Duration::from_secs(10)).await?;
    println!("{output}");
    ensure!(output == format!("{CARD} charged for Ada"));
    engine.shutdown().await;

    // A node without the new key gets an error that names the key.
    let forgotten = Keyring::new("2026-05", &may)?;
    let forgotten = engine_on(&database).await?.codec(forgotten);
    let forgotten = forgotten.roles(Roles::WEB).start().await?;
    let error = forgotten
        .get(order)
        .await
        .err()
        .context("it has no such key")?;
    println!("{error}");
    ensure!(
        error
            .to_string()
            .contains("is encoded with key \"2026-11\"")
    );
    forgotten.shutdown().await;
    Ok(())
}

async fn worker(database: &str, keys: Keyring) -> Result<Engine> {
    let builder = engine_on(database).await?.codec(keys);
    let builder = builder.machine(Checkout).queue("default", 10);
    Ok(builder.start().await?)
}

/// For this example only.
fn random_key() -> Result<[u8; 32]> {
    use std::io::Read;
    let mut key = [0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut key)?;
    Ok(key)
}
