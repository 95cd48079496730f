//! `outlast serve`, its tokens and its webhooks.

pub(crate) mod line_files;
pub(crate) mod serve;
pub(crate) mod token;
pub(crate) mod webhooks;
