//! Private servers for tests and benchmarks, on this machine, removed when their value is dropped.
//! A missing program is reported; any other failure is a panic, because this crate is never
//! shipped.

pub mod cluster;
pub mod patroni;
pub mod pooler;
pub mod process;
pub mod program;
pub mod proxy;
pub mod question;
pub mod replicas;
pub mod shared;
pub mod small_disk;
