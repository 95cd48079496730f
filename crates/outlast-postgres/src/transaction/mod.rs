//! Starts and signals instances inside your own transaction, together with your own rows.
//!
//! Each driver has a module behind a feature of its name: `sqlx_0_8`, `sqlx_0_9` and
//! `tokio_postgres`. Each module has the verbs `insert` and `signal`. They answer as the store's
//! verbs do.
//!
#![cfg_attr(
    feature = "tokio-postgres",
    doc = "```no_run
# async fn example(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
use outlast_core::{Json, NewInstance};
use outlast_postgres::Postgres;
use outlast_postgres::transaction::tokio_postgres::insert;

let store = Postgres::connect(\"postgres://outlast@127.0.0.1/shop\").await?;
let order = NewInstance::new(\"checkout\", \"start\", Json::null()).correlation_key(\"order:42\");

let tx = client.transaction().await?;
tx.execute(\"insert into orders (number) values (42)\", &[]).await?;
insert(&tx, &store, order).await?;
tx.commit().await?;
# Ok(()) }
```"
)]
//!
//! The second argument is the [`Schema`] of the instances. A store can stand for it. A program
//! without a store, such as a web node that only takes orders, names it. That needs no connection
//! and no second pool.
//!
//! # What to know
//!
//! - **Nothing happens before you commit**, and a rollback undoes everything. Workers see the
//!   instance or the signal after your commit.
//! - **No hint is sent.** A notification would make your commit wait for all other notifying
//!   commits. So workers find the instance at their next poll. To wake them sooner, notify them
//!   after the commit, as the engine's `Client::wake` does.
//! - **Your transaction holds locks until it ends**: `insert` locks the correlation key, `signal`
//!   the instance. No step of that instance can commit in the meantime. Keep the transaction
//!   short, and make these its last statements if you can. Send several signals in the order of
//!   their instances' ids. Outlast takes locks in that order; another order may deadlock.
//! - **An error ends your transaction**, as any error of PostgreSQL does: roll it back. After an
//!   error of kind [`Transient`](outlast_core::ErrorKind::Transient), retry the whole transaction.
//!   In isolation levels above *read committed* that includes serialization failures, which are
//!   common there. A value that is [`Invalid`](outlast_core::ErrorKind::Invalid) is refused before
//!   anything is sent.
//! - **Time is the server's.** A store's own [`clock`](crate::Options::clock) is not used.
//! - **A pooler** in transaction mode makes no difference: a verb is one statement.
//!
//! # Other drivers
//!
//! Each verb is one published statement, [`Schema::insert_statement`] and
//! [`Schema::signal_statement`], with parameters of plain types. Check your values with
//! [`NewInstance::check`] and [`NewSignal::check`]. The statements refuse values that do not pass,
//! and that ends your transaction. Other languages use the SQL functions `outlast.insert`,
//! `outlast.signal` and `outlast.update`, which check everything themselves.

#[cfg(any(feature = "sqlx-0_8", feature = "sqlx-0_9"))]
mod sqlx;
#[cfg(feature = "sqlx-0_8")]
pub mod sqlx_0_8;
#[cfg(feature = "sqlx-0_9")]
pub mod sqlx_0_9;
#[cfg(feature = "tokio-postgres")]
pub mod tokio_postgres;

mod verbs;

pub use verbs::Schema;
pub(crate) use verbs::{DeliveredRow, InsertedRow, SIGNAL_MAX, Values};

#[cfg(doc)]
use outlast_core::{NewInstance, NewSignal};
