//! Outcomes, waits and histories of workflows.

pub mod continue_as_new;
pub mod finished_children;
pub mod groups;
pub mod histories;
pub mod join_sets;
pub mod outcomes;
pub mod parks;
pub mod views;
