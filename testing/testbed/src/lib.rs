//! Servers that tests and benchmarks start and end: private, on this machine, gone with the value that stands
//! for them. What is missing on the machine is said, what goes wrong is a panic: nobody ships this.

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
