//! What the crate promises, on both stores. One program, so that it is linked once.

mod support;

mod families;
mod harness;
mod machines;
mod operations;
mod queues;
mod workers;
