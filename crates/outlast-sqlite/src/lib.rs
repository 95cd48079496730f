//! The SQLite store of Outlast: nothing to install, one file, the same semantics as PostgreSQL.
//!
//! ```
//! use outlast_core::{Inspect, Json, NewInstance, Status, Store};
//! use outlast_sqlite::Sqlite;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> outlast_core::Result<()> {
//! let store = Sqlite::in_memory()?; // or Sqlite::open("shop.db")?
//! let state = Json::parse(r#"{"number":42}"#).expect("this is JSON");
//! let order = NewInstance::new("checkout", "start", state).correlation_key("order:42");
//!
//! let inserted = store.insert(vec![order], None).await?;
//! let id = inserted.rows[0].new_id().expect("no instance held the key");
//!
//! let instance = store.get(id).await?.expect("it was just inserted");
//! assert_eq!(instance.status, Status::Runnable);
//! store.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//!
//! **One writer thread** runs all waiting verbs in one transaction. While one group is being made
//! durable, the next one collects, so that many verbs share one wait for the disk. Each verb runs
//! in a savepoint, and a failed verb is undone alone. No verb is answered before its transaction
//! has committed. A claim that comes alone does not wait for the disk. A loss of power ends the
//! worker together with the claim, and another worker claims the step again.
//!
//! **Reader threads** answer the questions of [`Inspect`](outlast_core::Inspect), each in a read
//! transaction. They see one consistent moment and never wait for the writer. A store in memory
//! has one connection, and its questions go through the writer.
//!
//! **Several processes** may use one file. Write transactions begin immediately, so they queue for
//! the lock instead of failing half-way. A wait longer than
//! [`busy_timeout`](Options::busy_timeout) is a transient error. All processes must be on one
//! machine: SQLite's locks do not work over a network file system.
//!
//! **Your own transaction** can start and signal instances together with your own rows:
//! [`transaction`].
//!
//! **Time** is the machine's, or that of the [`clock`](Options::clock) a test sets.
//!
//! The statements are in `sql/`, one per file, and the schema is in `migrations/`. Both are
//! written to be read.

mod decode;
mod doctor;
mod error;
#[cfg(test)]
mod executed;
mod history_events;
mod inspect;
mod migrate;
#[cfg(outlast_mutants)]
mod mutants;
mod open;
mod options;
mod store;
mod threads;
pub mod transaction;
mod tx;
mod verbs;

pub use migrate::Migration;
pub use options::{Options, Synchronous};
pub use store::Sqlite;
