//! Tests of the engine and the client on both stores. One program, so that it is linked once.

mod support;

mod families;
mod harness;
mod machines;
mod operations;
mod queues;
mod workers;
