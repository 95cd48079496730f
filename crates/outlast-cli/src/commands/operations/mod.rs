//! Commands that change many instances or a queue, and are recorded as operations.

pub(crate) mod bulk;
pub(crate) mod bulk_summary;
pub(crate) mod cascade;
pub(crate) mod end_instances;
pub(crate) mod family_count;
pub(crate) mod operator;
pub(crate) mod queues;
pub(crate) mod verb;
