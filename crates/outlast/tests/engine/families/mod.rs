//! Parents and their children.

mod children;
mod close_policies;
mod joins;
