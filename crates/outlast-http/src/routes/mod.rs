//! The routes, one file per resource.

mod bulk;
mod end_instances;
mod events;
mod explain;
mod family;
mod health;
mod histories;
mod insert;
mod instances;
mod machines;
mod metrics;
mod operate;
mod overview;
mod queries;
mod queues;
mod router;
mod signals;
mod updates;
mod views;
mod wait;
mod webhooks;
mod workers;

pub(crate) use health::Readiness;
pub(crate) use machines::is_failure;
pub(crate) use router::document;
pub use router::router;
pub(crate) use workers::is_seen;
