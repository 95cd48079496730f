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
//! Each statement is one file under `sql/`. Its header names the guard, the locks and their order,
//! the index and the bound. The schema is under `migrations/`. The Rust code sends the statements
//! of a verb together, in one round trip per transaction, and reads the answers. Files have the
//! names of the verbs of [`outlast_core::Store`].
//!
//! Programs in any language can use the schema's functions inside their own transactions. `select
//! outlast.insert('checkout', 'start', '{"number": 42}', correlation_key => 'order:42')` starts an
//! instance. `select outlast.signal('checkout', 'order:42', 'payment_confirmed', '{"amount":
//! 100}')` wakes it. Rust programs do the same with their own driver, by [`transaction`].

mod connection;
mod decode;
mod doctor;
mod error;
mod hints;
mod history_events;
mod inspect;
mod migrate;
#[cfg(outlast_mutants)]
mod mutants;
mod options;
mod roles;
mod session;
mod store;
pub mod transaction;
mod verbs;

pub use migrate::{SCHEMA_VERSION, migrations_sql};
pub use options::{Migrations, Options};
pub use roles::Roles;
#[doc(hidden)]
pub use session::conductor::Conductor;
pub use store::Postgres;

#[doc(hidden)]
pub mod testing {
    //! Internals that this crate's tests use.

    /// Returns the name of every statement, and its text for `schema`.
    pub fn statements(schema: &str) -> Vec<(&'static str, String)> {
        crate::session::statement::ALL
            .iter()
            .map(|s| (s.name, crate::session::statement::in_schema(s.text, schema)))
            .collect()
    }

    /// Returns a statement as a store with a test clock sends it.
    pub fn with_test_clock(text: &str) -> String {
        crate::session::statement::Timekeeper::Test
            .put_into(text)
            .into_owned()
    }

    /// Returns whether each connection of the store has one server process for its whole life.
    pub async fn is_direct(store: &crate::Postgres) -> bool {
        let client = store.session.pool.get().await;
        client.is_ok_and(|client| client.is_direct())
    }

    /// Returns the SQL that begins a transaction that writes.
    pub fn opening() -> String {
        use crate::session::tx_settings::{TimeLimits, TxKind};
        TimeLimits::default().opening(TxKind::Write)
    }
}
