//! Payloads that the database cannot read.
//!
//! An order carries a card number. The engine has a keyring and encrypts states, results, signals
//! and errors before they leave the process. The machine does not change. Then the key is rotated:
//! the new key encrypts, and the old key still decrypts.
//!
//! ```sh
//! cargo run -p outlast-examples --bin encrypted
//! ```

use anyhow::Result;
use outlast::codec::Keyring;
use outlast::prelude::*;
use outlast::{Roles, Status};
use outlast_examples::{engine_on, shared_database};

const CARD: &str = "4111 1111 1111 1111";

struct Checkout;

#[steps]
enum Order {
    Start { card: String },
    Charge { card: String },
}

#[derive(Signal, Serialize, Deserialize)]
struct Approved {
    by: String,
}

impl Machine for Checkout {
    const NAME: &'static str = "encrypted_checkout";
    type State = Order;
    type Output = String;

    async fn step(&self, state: Order, cx: &Context) -> StepResult<Self> {
        match state {
            Order::Start { card } => wait_for::<Approved>().then(Order::Charge { card }),
            Order::Charge { card } => match cx.received::<Approved>()? {
                Some(approved) => done(format!("{card} charged for {}", approved.by)),
                None => fail(format_args!("nobody approved of {card}")),
            },
        }
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let database = shared_database(folder.path());
    // From a key service, or `openssl rand -base64 32`; never from the program's source.
    let (may, november) = (random_key()?, random_key()?);

    let engine = worker(&database, Keyring::new("2026-05", &may)?).await?;
    let order = Checkout::with(Order::Start { card: CARD.into() });
    let order = engine.start(order).await?;
    order.settled().timeout(MINUTE).await?;
    let id = order.id();
    engine.shutdown().await?;

    // With the database but without the keys, only the status of the order is readable.
    let outsider = engine_on(&database)
        .await?
        .roles(Roles::WEB)
        .start()
        .await?;
    let stored = outsider.handle(id).await?.instance().await?;
    println!("at {}, with {}", stored.step, stored.state.as_str());
    assert_eq!(
        (stored.step.as_str(), stored.status),
        ("charge", Status::AwaitingSignal)
    );
    assert!(stored.state.as_str().contains("2026-05") && !stored.state.as_str().contains(CARD));
    outsider.shutdown().await?;

    // The new key encrypts. The old key still decrypts values that were stored before.
    let keys = Keyring::new("2026-11", &november)?.and("2026-05", &may)?;
    let engine = worker(&database, keys).await?;
    let order = engine.handle(id).await?;
    order.signal(Approved { by: "Ada".into() }).await?;
    let output = order.output().timeout(MINUTE).await?;
    println!("{output}");
    assert_eq!(output, format!("{CARD} charged for Ada"));
    engine.shutdown().await?;

    // A node without the new key gets an error that names the key.
    let may = Keyring::new("2026-05", &may)?;
    let forgotten = engine_on(&database).await?.codec(may).roles(Roles::WEB);
    let forgotten = forgotten.start().await?;
    let order = forgotten.handle(id).await?;
    let error = order
        .instance()
        .await
        .expect_err("it has no such key")
        .to_string();
    println!("{error}");
    assert!(error.contains("is encoded with key \"2026-11\""));
    forgotten.shutdown().await?;
    Ok(())
}

async fn worker(database: &str, keys: Keyring) -> outlast::Result<Engine> {
    let builder = engine_on(database).await?.codec(keys);
    Ok(builder.register(Checkout).start().await?)
}

/// For this example only.
fn random_key() -> Result<[u8; 32]> {
    use std::io::Read;
    let mut key = [0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut key)?;
    Ok(key)
}
