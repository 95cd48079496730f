//! Starting and signalling instances inside your own transaction: together with your rows, or not at all.
//!
//! There is a module for each driver, behind a feature of its name: `sqlx_0_8`, `sqlx_0_9` and
//! `tokio_postgres`. Each has the verbs `insert` and `signal`, which answer what the store's verbs answer.
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
//! The second argument says in which [`Schema`] the instances are: a store says it, and a program that has
//! none (a web node that only takes orders) names it, which needs no connection and no second pool.
//!
//! # What to know
//!
//! - **Nothing happens before you commit**, and nothing has happened when you roll back. A worker sees the
//!   instance, or the signal, with your commit.
//! - **No hint is sent.** A notification inside your transaction would put your commit in line behind
//!   everybody else's; so workers find the instance at their next poll. Who wants it sooner tells them after
//!   the commit, as the engine's `Client::wake` does.
//! - **Your transaction holds locks until it ends**: `insert` the correlation key, `signal` the instance. A
//!   step of that instance cannot be committed meanwhile, so keep the transaction short, and let these be
//!   its last statements where you can. Several signals in one transaction are best sent in the order of
//!   their instances' ids, the order in which everybody else takes locks; else the server may find a
//!   deadlock.
//! - **An error ends your transaction**, as any error of PostgreSQL does: roll it back. One of kind
//!   [`Transient`](outlast_core::ErrorKind::Transient) is worth another try of the whole transaction; in
//!   isolation levels above *read committed* that includes failures to serialise, which are usual there.
//!   What is [`Invalid`](outlast_core::ErrorKind::Invalid) is refused before anything is sent.
//! - **Time is the server's.** A store's own [`clock`](crate::Options::clock) is not asked.
//! - **Behind a pooler** in transaction mode nothing is special: a verb is one statement.
//!
//! # Other drivers
//!
//! Each verb is one published statement, [`Schema::insert_statement`] and [`Schema::signal_statement`], with
//! parameters of plain types. Check what you send with [`NewInstance::check`] and [`NewSignal::check`]: the
//! statements refuse what does not pass, and that ends your transaction. Other languages use the SQL functions `outlast.insert` and `outlast.signal`, which
//! check everything themselves.

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
