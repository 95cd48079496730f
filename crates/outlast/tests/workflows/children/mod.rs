//! Children of workflows.

mod close_policies;
mod failures;
mod handles;
mod recorded_results;
mod recorded_starts;
mod repeated_joins;
mod starts;
mod typed_failures;
