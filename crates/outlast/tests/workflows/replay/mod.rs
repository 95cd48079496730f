//! Replay: after crashes, after changes of the code, and its limits.

mod crashing;
mod determinism;
mod history_budget;
mod no_progress;
mod repair;
mod versions;
