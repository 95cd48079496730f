//! Who may do what: tokens and their scopes, the guard of every request, signed webhooks.

pub(crate) mod guard;
pub(crate) mod scoped_queries;
pub(crate) mod signature;
pub(crate) mod tokens;
