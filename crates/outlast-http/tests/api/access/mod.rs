//! Who may do what: hosts, tokens, their scopes, webhooks, and the router within an application.

mod hosts;
mod mounted;
mod token_scope;
mod tokens;
mod tree_scope;
mod webhooks;
