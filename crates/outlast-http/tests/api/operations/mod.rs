//! What operators do and look at: end, retry, delete, pause, the overview.

mod bulk;
mod end_instances;
mod overview;
mod single;
