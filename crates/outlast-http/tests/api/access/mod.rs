//! Access: hosts, tokens and their scopes, webhooks, and the router inside an application.

mod hosts;
mod mounted;
mod token_scope;
mod tokens;
mod tree_scope;
mod webhooks;
