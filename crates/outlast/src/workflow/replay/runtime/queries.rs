//! The handlers of queries that the code has registered.
//!
//! A run that continues keeps their names only, so that its code gets the same errors as in a
//! query. A run that was replayed for a query keeps the handlers.

use super::Runtime;
use outlast_core::limits::{QUERIES_MAX, check_name};
use outlast_core::{Invalid, Json};
use std::collections::BTreeMap;

/// A handler without its types.
pub(in crate::workflow) type Handler = Box<dyn Fn(&Json) -> Result<Json, Unanswered> + Send>;

/// Why a handler has no reply.
#[derive(Debug)]
pub(in crate::workflow) enum Unanswered {
    /// The query does not decode as its type.
    Malformed(Invalid),
    /// The code returned an error, or a reply that is no JSON.
    Failed(String),
}

/// Handlers by the name of their query.
#[derive(Default)]
pub(in crate::workflow) struct Queries {
    handlers: BTreeMap<&'static str, Option<Handler>>,
    /// Whether handlers are kept, because a query was asked.
    are_kept: bool,
    /// Whether a handler runs now.
    is_answering: bool,
}

impl Queries {
    /// Registers a name, and returns whether its handler is to be [kept](Queries::keep).
    pub(in crate::workflow) fn register(&mut self, name: &'static str) -> Result<bool, Invalid> {
        check_name("query", name)?;
        if !self.handlers.contains_key(name) {
            if self.handlers.len() == QUERIES_MAX {
                let reason = format!("is one too many; a workflow handles at most {QUERIES_MAX}");
                return Err(Invalid::new(format!("query {name:?}"), reason));
            }
            self.handlers.insert(name, None);
        }
        Ok(self.are_kept)
    }

    /// Sets the handler of a name, and returns the handler that it replaces.
    ///
    /// Drop that one without the lock of the runtime: it may own calls.
    pub(in crate::workflow) fn keep(
        &mut self,
        name: &'static str,
        handler: Handler,
    ) -> Option<Handler> {
        self.handlers.insert(name, Some(handler)).flatten()
    }

    /// Takes a handler out, and notes that it runs now.
    pub(in crate::workflow) fn begin(&mut self, name: &str) -> Option<Handler> {
        let handler = self.handlers.get_mut(name)?.take()?;
        self.is_answering = true;
        Some(handler)
    }

    /// Notes that no handler runs any more.
    pub(in crate::workflow) fn end(&mut self) {
        self.is_answering = false;
    }

    /// Refuses what a handler must not do.
    pub(in crate::workflow) fn refuse_changes(&self, what: &str) -> Result<(), Invalid> {
        if self.is_answering {
            let reason = "is made by the handler of a query, which only reads";
            return Err(Invalid::new(what, reason));
        }
        Ok(())
    }

    /// Returns the names of all handlers, in order.
    pub(in crate::workflow) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.handlers.keys().copied()
    }

    /// Takes all handlers out. They share the runtime that keeps them, so it would never be freed.
    pub(in crate::workflow) fn take(&mut self) -> Queries {
        std::mem::take(self)
    }
}

impl Runtime {
    /// Prepares a run whose code is replayed for a query.
    pub(in crate::workflow) fn keep_queries(&mut self) {
        self.queries.are_kept = true;
        // The engine logs a changed argument. Each query would log it again.
        self.has_told_difference = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns so many different names.
    fn names(count: usize) -> Vec<&'static str> {
        let names = (0..count).map(|number| &*format!("query-{number}").leak());
        names.collect()
    }

    #[test]
    fn a_workflow_handles_a_bounded_number_of_queries() {
        let mut queries = Queries::default();
        let names = names(QUERIES_MAX + 1);
        for name in &names[..QUERIES_MAX] {
            assert_eq!(queries.register(name), Ok(false));
        }
        let refused = queries.register(names[QUERIES_MAX]).unwrap_err();
        assert!(refused.to_string().contains("at most 100"), "{refused}");
        assert_eq!(queries.register(names[0]), Ok(false), "it is known");
        assert_eq!(queries.names().count(), QUERIES_MAX);
    }

    #[test]
    fn a_run_that_goes_on_keeps_no_handler() {
        let mut queries = Queries::default();
        assert_eq!(queries.register("progress"), Ok(false));
        assert!(queries.begin("progress").is_none());
        assert!(queries.refuse_changes("call").is_ok());
        assert!(queries.register("").is_err(), "a name is needed");
    }
}
