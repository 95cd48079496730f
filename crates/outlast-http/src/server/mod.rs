//! A standalone server with bounds on its connections, reads and writes.

pub(crate) mod connections;
pub(crate) mod serve;
pub(crate) mod write_timeout;
