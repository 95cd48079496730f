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

#[derive(Signal, Serialize, Deserialize)]
struct Paid {
    amount: u64,
}

#[workflow]
async fn checkout(flow: Flow, order: u64) -> FlowResult<String> {
    let paid = flow.signal::<Paid>().await?;
    Ok(format!("order {order}, {} paid", paid.amount))
}

# #[tokio::main(flavor = "current_thread")]
# async fn main() -> Result<(), Box<dyn std::error::Error>> {
# let folder = tempfile::tempdir()?;
# let path = folder.path().join("shop.db");
let engine = Engine::sqlite(&path)?.register(checkout).start().await?;
let client = engine.client();
let mut connection = Connection::open(&path)?;
connection.execute_batch("create table orders (number integer)")?;

let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
tx.execute("insert into orders values (42)", [])?;
// With the caller's trace, and encoded by the client's codec.
insert(&tx, client.prepare(checkout::with(42).key("order:42"))?)?;
signal(&tx, client.prepare_signal(checkout::key("order:42"), Paid { amount: 100 })?)?;
tx.commit()?;

// Workers poll now and then; a wake-up makes them look at once.
client.wake("default");
let order = engine.handle::<checkout>("order:42").await?;
assert_eq!(order.output().await?, "order 42, 100 paid");
# engine.shutdown().await?;
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
