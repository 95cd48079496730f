//! A hand on the order of statements, for tests that run every interleaving of two transactions.

use async_trait::async_trait;

/// Decides when each statement of a store runs. Not for use outside tests.
#[async_trait]
pub trait Conductor: Send + Sync + 'static {
    /// Returns when the statement of this name may be sent.
    async fn before(&self, statement: &'static str);

    /// Another text for the statement of this name: the defective forms that the tests must catch.
    fn variant(&self, statement: &'static str) -> Option<&str> {
        let _ = statement;
        None
    }
}
