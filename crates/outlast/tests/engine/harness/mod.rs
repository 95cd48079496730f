//! The harness that users test their machines with.

mod families;
mod machines;
