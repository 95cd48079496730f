//! The PostgreSQL store of Outlast: version 14 and later, any number of nodes.
//!
//! ```no_run
//! use outlast_core::{Json, NewInstance, Store};
//! use outlast_postgres::Postgres;
//!
//! # async fn example() -> outlast_core::Result<()> {
//! let store = Postgres::connect("postgres://outlast@127.0.0.1/shop").await?;
//! let order = NewInstance::new("checkout", "start", Json::null()).correlation_key("order:42");
//! store.insert(vec![order], None).await?;
//! # Ok(()) }
//! ```
//!
//! The SQL is the store: one statement per file under `sql/`, each with what it guards, what it locks
//! in which order and which index it uses; the schema under `migrations/`. The Rust around it sends the
//! statements of a verb together, one round trip for a transaction, and reads the answers. Files are
//! named as the verbs of [`outlast_core::Store`].
//!
//! Any language can take part inside its own transaction: `select outlast.insert('checkout', 'start',
//! '{"number": 42}', correlation_key => 'order:42')` starts an instance, and `select
//! outlast.signal('checkout', 'order:42', 'payment_confirmed', '{"amount": 100}')` wakes it. Rust programs do
//! the same with their own driver, by [`transaction`].

mod cascade;
mod claim;
mod collect;
mod commit;
mod conductor;
mod connect;
mod connection;
mod deliver;
mod direct;
mod doctor;
mod end_instances;
mod enqueue;
mod error;
mod fire;
mod history_events;
mod insert;
mod inspect;
mod lease;
mod list;
mod listen;
mod message;
mod migrate;
#[cfg(outlast_mutants)]
mod mutants;
mod operate;
mod options;
mod outcome;
mod passfile;
mod presence;
mod reap;
mod reconcile;
mod roles;
mod row;
mod run_stats;
mod session;
mod spawn;
mod statement;
mod step_count;
mod store;
mod tls;
pub mod transaction;
mod tx_settings;
mod workflow_outcome;
mod write_check;

#[doc(hidden)]
pub use conductor::Conductor;
pub use migrate::{SCHEMA_VERSION, migrations_sql};
pub use options::{Migrations, Options};
pub use roles::Roles;
pub use store::Postgres;

#[doc(hidden)]
pub mod testing {
    //! What this crate's own tests need to see of the inside.

    /// Every statement: its name and its text for `schema`.
    pub fn statements(schema: &str) -> Vec<(&'static str, String)> {
        crate::statement::ALL
            .iter()
            .map(|s| (s.name, crate::statement::in_schema(s.text, schema)))
            .collect()
    }

    /// A statement as a store with a clock of its own sends it.
    pub fn with_test_clock(text: &str) -> String {
        crate::statement::Timekeeper::Test
            .put_into(text)
            .into_owned()
    }

    /// Whether the store's connections lead to one process of the server each.
    pub async fn is_direct(store: &crate::Postgres) -> bool {
        let client = store.session.pool.get().await;
        client.is_ok_and(|client| client.is_direct())
    }

    /// What a transaction that writes begins with.
    pub fn opening() -> String {
        use crate::tx_settings::{TimeLimits, TxKind};
        TimeLimits::default().opening(TxKind::Write)
    }
}
