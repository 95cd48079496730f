//! The engine: runs the steps of machines and does the maintenance.
//!
//! ```
//! use outlast::prelude::*;
//!
//! #[job(queue = "mail")]
//! async fn greet(name: String) -> std::io::Result<String> {
//!     Ok(format!("Hello {name}"))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> outlast::Result<()> {
//! let engine = Engine::sqlite_in_memory()?
//!     .register(greet)
//!     .queue("mail", 5)   // at most 5 steps at a time; other queues: 100
//!     .lease(MINUTE)      // how long the steps of a killed process wait
//!     .retention(DAY)     // how long finished instances are kept
//!     .start()
//!     .await?;
//!
//! let greeting = engine.start(greet::with("Ada".into())).await?;
//! assert_eq!(greeting.output().timeout(MINUTE).await?, "Hello Ada");
//!
//! // On SIGTERM: no new claims, running steps get their grace, the worker is gone.
//! engine.shutdown().await
//! # }
//! ```
//!
//! # How a step gets run
//!
//! A *picker* per queue claims as many instances as there are free slots, and a few more. Each
//! claim is a task of the *executor*. The task runs the step with a time limit and catches its
//! panics. It hands the outcome to the *committer*, which writes all waiting outcomes in one
//! transaction. When the outcome is durable, the same task runs the next step.
//!
//! An insert or signal through the engine itself may take the *fast path*. While slots are free
//! and nothing waits, the store returns the instance as a claim, and it runs at once.
//!
//! The *watchdog* fails instances whose step blocks its thread. A time limit cannot drop such a
//! step.
//!
//! The *cancel watcher* sends cancel requests to running steps. It drops steps whose instance was
//! terminated.
//!
//! The other loops:
//! - The *heartbeat* renews the worker's lease.
//! - The *reaper* of any node gives back the claims of a worker whose lease expired.
//! - The *timers* wake waits and joins at their deadline.
//! - The *cascader* cancels or terminates children as their close policy says.
//! - The *collector* deletes finished instances after their retention.
//! - The *reconciler* repairs instances that nothing would ever wake.
//! - The *gauge sampler* sets the gauges that need a query.
//! - The *stats flusher* adds run counts to the store.
//! - The *notifier* receives hints from other nodes.
//!
//! Each loop is a file. `dispatch` brings instances to free slots, `maintenance` keeps the store in
//! order, and `stats` counts and measures.
//!
//! A loop's `run` only loops, backs off and logs; its `run_once` does the work. User code never
//! runs inside a transaction, and no loop relies on a hint or on a leader.

mod backoff;
mod builder;
mod cancel_watcher;
mod claims;
mod committer;
mod dispatch;
mod executor;
mod faults;
mod heartbeat;
mod maintenance;
mod node;
mod notifier;
mod running;
mod stats;
mod unserved_queues;
mod watchdog;

pub use crate::definition::Register;
pub use crate::error::ShutdownError;
pub use builder::{EngineBuilder, Roles};
pub use running::Engine;

pub(crate) use builder::{Definitions, Settings, assemble};
pub(crate) use committer::Committer;
pub(crate) use dispatch::fast_path::{FastPath, Reservation};
pub(crate) use dispatch::picker::Picker;
pub(crate) use dispatch::queue_slots::QueueSlots;
pub(crate) use executor::{ClaimEnd, Executor};
pub use faults::Point;
pub(crate) use faults::{Fault, StepPoint};
pub(crate) use heartbeat::Heartbeat;
pub(crate) use maintenance::cascader::Cascader;
pub(crate) use maintenance::reaper::Reaper;
pub(crate) use maintenance::timers::Timers;
pub(crate) use node::Node;
