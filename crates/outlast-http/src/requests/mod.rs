//! Reads requests: extractors, keys, the parameters of lists, and page cursors.

pub(crate) mod cursor;
pub(crate) mod extract;
pub(crate) mod keys;
pub(crate) mod query;
