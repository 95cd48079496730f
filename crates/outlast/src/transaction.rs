//! Inserts and signals inside your transaction: they commit with your rows, or not at all.
//!
//! Each driver is a feature and a module of the same name: `rusqlite` for SQLite; `sqlx-0_8`,
//! `sqlx-0_9` and `tokio-postgres` for PostgreSQL. All have the verbs `insert` and `signal`, with
//! the same answers as the client's verbs.
//!
#![cfg_attr(
    feature = "rusqlite",
    doc = r#"```
use outlast::prelude::*;
use outlast::transaction::rusqlite::{insert, signal};
use rusqlite::{Connection, TransactionBehavior};
# struct Checkout;
# #[derive(Serialize, Deserialize)]
# #[serde(tag = "step", content = "state", rename_all = "snake_case")]
# enum Order { Start { number: u64 } }
# impl Machine for Checkout {
#     const NAME: &'static str = "checkout";
#     type State = Order;
#     type Output = u64;
#     async fn step(&self, state: Order, _: &Context) -> StepResult<Self> {
#         let Order::Start { number } = state;
#         Ok(Outcome::done(number))
#     }
# }
# #[derive(Serialize, Deserialize)]
# struct PaymentConfirmed { amount: u64 }
# impl Signal for PaymentConfirmed { const NAME: &'static str = "payment_confirmed"; }

# #[tokio::main(flavor = "current_thread")]
# async fn main() -> Result<(), Box<dyn std::error::Error>> {
# let folder = tempfile::tempdir()?;
# let path = folder.path().join("shop.db");
let engine = Engine::builder(Sqlite::open(&path)?)
    .machine(Checkout)
    .queue("default", 10)
    .start()
    .await?;
let mut connection = Connection::open(&path)?;
connection.execute_batch("create table orders (number integer)")?;

let order = New::<Checkout>(Order::Start { number: 42 }).key("order:42");
let paid = PaymentConfirmed { amount: 100 };

let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
tx.execute("insert into orders values (42)", [])?;
let inserted = insert(&tx, engine.prepare(order)?)?; // with the caller's trace, and encoded by its codec
signal(&tx, engine.prepare_signal(Checkout::key("order:42"), paid)?)?;
tx.commit()?;

// Workers poll now and then; a wake-up makes them look at once.
engine.wake("default");
let id = Id::<Checkout>::of(inserted.new_id().expect("nobody held the key"));
assert_eq!(engine.wait(id, Duration::from_secs(10)).await?, 42);
# engine.shutdown().await;
# Ok(())
# }
```"#
)]
//!
//! A transaction does not know a client's [`codec`](crate::codec). With a codec, pass only rows
//! and signals that the client has prepared ([`prepare`](crate::Client::prepare),
//! [`prepare_signal`](crate::Client::prepare_signal)). Everything else is stored plain.
//!
//! The modules describe locks, errors and isolation. In other languages, use the SQL functions
//! `outlast.insert` and `outlast.signal` of PostgreSQL.

#[cfg(feature = "postgres")]
pub use outlast_postgres::transaction::Schema;
#[cfg(feature = "sqlx-0_8")]
pub use outlast_postgres::transaction::sqlx_0_8;
#[cfg(feature = "sqlx-0_9")]
pub use outlast_postgres::transaction::sqlx_0_9;
#[cfg(feature = "tokio-postgres")]
pub use outlast_postgres::transaction::tokio_postgres;
#[cfg(feature = "rusqlite")]
pub use outlast_sqlite::transaction as rusqlite;
