//! The routes, a file for each thing they are about.

mod assembly;
mod bulk;
mod ending;
mod events;
mod explaining;
mod family;
mod health;
mod history;
mod inserting;
mod instances;
mod machines;
mod metrics;
mod operating;
mod overview;
mod queues;
mod signals;
mod waiting;
mod webhooks;
mod workers;

pub(crate) use assembly::document;
pub use assembly::router;
pub(crate) use health::Readiness;
pub(crate) use machines::is_failure;
pub(crate) use workers::is_seen;
