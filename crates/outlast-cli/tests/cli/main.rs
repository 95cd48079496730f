//! Tests of the program: they run the real binary, on both databases.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod support;
#[cfg(target_os = "linux")]
mod terminal;

mod demonstrating;
#[cfg(unix)]
mod deploying;
mod ending;
mod examining;
mod families;
mod flows;
mod inserting;
mod looking;
#[cfg(target_os = "linux")]
mod memory;
mod operating;
mod querying;
#[cfg(unix)]
mod reaching;
mod refusing;
mod showing;
#[cfg(target_os = "linux")]
mod typing;
mod updating;
