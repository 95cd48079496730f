//! Commands for the database: its schema, its health and its old rows.

pub(crate) mod collect;
pub(crate) mod doctor;
pub(crate) mod migrate;
