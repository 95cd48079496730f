//! Operations: end, retry, delete, pause, and the overview.

mod bulk;
mod end_instances;
mod overview;
mod single;
