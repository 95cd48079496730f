//! What workflows promise, on both stores. One program, so that it is linked once.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod support;
mod updates;

mod calls;
mod children;
mod groups;
mod replay;
mod runs;
