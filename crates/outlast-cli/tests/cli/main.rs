//! The program as people run it: the real binary, on both databases.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod support;

mod demonstrating;
mod examining;
mod inserting;
mod looking;
mod operating;
mod refusing;
