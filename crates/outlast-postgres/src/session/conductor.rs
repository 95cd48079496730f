//! Control over the order of statements, for tests that run every interleaving of two
//! transactions.
//!
//! `session.rs` calls it before each statement and each commit (docs/decisions/0009). A store
//! without a conductor behaves as if this file did not exist.

use async_trait::async_trait;

/// Decides when each statement of a store is sent. Only for tests.
#[async_trait]
pub trait Conductor: Send + Sync + 'static {
    /// Returns when the statement of this name may be sent.
    async fn before(&self, statement: &'static str);

    /// Returns another text for the statement of this name: a defect that the tests must catch.
    fn variant(&self, statement: &'static str) -> Option<&str> {
        let _ = statement;
        None
    }
}
