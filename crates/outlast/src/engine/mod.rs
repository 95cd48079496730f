//! The engine: runs the steps of machines, and keeps house.
//!
//! ```
//! use outlast::prelude::*;
//! # struct Hello;
//! # #[derive(Serialize, Deserialize)]
//! # #[serde(tag = "step", content = "state", rename_all = "snake_case")]
//! # enum Greeting { Say }
//! # impl Machine for Hello {
//! #     const NAME: &'static str = "hello";
//! #     type State = Greeting;
//! #     type Output = String;
//! #     async fn step(&self, _: Greeting, _: &Context) -> StepResult<Self> { Ok(Outcome::done("hello".into())) }
//! # }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::builder(Sqlite::in_memory()?)
//!     .machine(Hello)
//!     .queue("default", 100)                 // at most 100 steps at a time
//!     .queue("mail", 5)
//!     .lease(Duration::from_secs(30))        // how long a dead worker's steps wait
//!     .retention(Duration::from_secs(86_400)) // how long ended instances are kept
//!     .start()
//!     .await?;
//!
//! let id = engine.insert(New::<Hello>(Greeting::Say)).await?;
//! assert_eq!(engine.wait(id, Duration::from_secs(10)).await?, "hello");
//!
//! // On SIGTERM: no new claims, running steps get their grace, the worker is gone.
//! engine.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # How a step gets run
//!
//! A *picker* per queue claims as many instances as there are free slots, and a few more. Each claim is a
//! task of the *executor*: it runs the step, with panics caught and a limit of time, and hands the outcome
//! to the *committer*, which writes whatever has gathered in one transaction. When that is durable, the same
//! task runs the next step. What is inserted through the engine itself while slots are free and nothing waits
//! goes in as a claim, by way of the *intake*, and runs at once.
//!
//! The *watchdog* ends instances whose step blocks its thread, which no limit of time can.
//!
//! The *warden* tells steps that run what was wished of their instances, and drops those whose instance was
//! terminated.
//!
//! The *heartbeat* keeps the worker's lease; when it stops, the *reaper* of any node gives the claims back. The
//! *timers* wake waits and joins at their deadline, the *cascader* tells children what became of their parents, the *collector* removes what ended long ago, the *reconciler* looks
//! for what should not exist, the *surveyor* measures, the *recorder* adds what was run to the counts that people
//! see, and the *notifier* hears from other nodes what is worth a look.
//!
//! Each of them is a file of this module: a `run` that only loops, backs off and logs, and a `run_once` that
//! does the work.

mod backoff;
mod builder;
mod cancel_watcher;
mod cascader;
mod claims;
mod collector;
mod committer;
mod executor;
mod fast_path;
mod faults;
mod gauge_sampler;
mod heartbeat;
mod no_progress;
mod node;
mod notifier;
mod picker;
mod quarantine;
mod queue_slots;
mod reaper;
mod reconciler;
mod run_counters;
mod running;
mod stats_flusher;
mod timers;
mod unrunnable;
mod unserved_queues;
mod watchdog;

pub use builder::{EngineBuilder, Roles};
pub use running::{Engine, Stopped};

pub(crate) use builder::{Settings, assemble};
pub(crate) use cascader::Cascader;
pub(crate) use committer::Committer;
pub(crate) use executor::{Executor, Ran};
pub(crate) use fast_path::{FastPath, Reservation};
pub use faults::Point;
pub(crate) use faults::{Fault, Moment};
pub(crate) use heartbeat::Heartbeat;
pub(crate) use node::Node;
pub(crate) use picker::Picker;
pub(crate) use queue_slots::QueueSlots;
pub(crate) use reaper::Reaper;
pub(crate) use timers::Timers;
