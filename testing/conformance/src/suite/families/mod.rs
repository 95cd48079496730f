//! Parents and their children.

pub mod cascades;
pub mod children;
pub mod join_deadlines;
pub mod join_policies;
pub mod joins;
pub mod trees;
pub mod windows;
