//! Starting and signalling instances inside your own transaction: together with your rows, or not at all.
//!
//! Each driver is a feature and a module of its name: `rusqlite` for SQLite; `sqlx-0_8`, `sqlx-0_9` and
//! `tokio-postgres` for PostgreSQL. All have the verbs `insert` and `signal`, and answer what the client's
//! verbs answer.
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

// Workers look by themselves now and then; told, they look at once.
engine.wake("default");
let id = Id::<Checkout>::of(inserted.new_id().expect("nobody held the key"));
assert_eq!(engine.wait(id, Duration::from_secs(10)).await?, 42);
# engine.shutdown().await;
# Ok(())
# }
```"#
)]
//!
//! A transaction knows nothing of a client's [`codec`](crate::codec): with one, hand over only what the client has
//! prepared ([`prepare`](crate::Client::prepare), [`prepare_signal`](crate::Client::prepare_signal)). Whatever else
//! is handed over is stored as it is.
//!
//! The modules say what to know about locks, errors and isolation. From other languages, the SQL functions
//! `outlast.insert` and `outlast.signal` do the same on PostgreSQL.

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
