//! Definitions that users write: machines, jobs, signals, and the outcomes of a step.
//!
//! The engine runs them. Nothing here starts a task or opens a store.
//!
//! The state enum **is** the machine. A variant is a step, its fields are the data of that step.
//! serde's adjacent tagging turns a value into the two columns `step` and `state`. The compiler
//! checks that every step is handled, and that a transition carries the data of the next step.
//!
//! ```
//! use outlast::prelude::*;
//!
//! struct Countdown;
//!
//! #[steps]
//! enum Count {
//!     Down { from: u32 },
//!     Lift,
//! }
//!
//! impl Machine for Countdown {
//!     const NAME: &'static str = "countdown";
//!     type State = Count;
//!     type Output = String;
//!
//!     async fn step(&self, state: Count, _cx: &Context) -> StepResult<Self> {
//!         match state {
//!             Count::Down { from: 0 } => next(Count::Lift),
//!             Count::Down { from } => next(Count::Down { from: from - 1 }),
//!             Count::Lift => done("up we go".to_owned()),
//!         }
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> outlast::Result<()> {
//! let engine = Engine::sqlite_in_memory()?.register(Countdown).start().await?;
//! let countdown = engine.start(Countdown::with(Count::Down { from: 3 })).await?;
//! assert_eq!(countdown.output().await?, "up we go");
//! engine.shutdown().await
//! # }
//! ```
//!
//! [`Machine`] is the trait of a machine, and [`Job`] its one-step form. [`Outcome`] is the
//! decision of a step. [`fan_out`] starts children and waits for them. [`Context`] is what a step
//! may read. [`Machine::with`] describes an instance to start.

mod cancel_flag;
mod children;
mod codec;
mod context;
mod definition;
mod failure;
mod fan_out;
mod history;
mod job;
mod outcome;
mod registered;
mod update;

pub use crate::definition::{MissingData, Needs};
pub use children::{ChildHandle, ChildOf};
pub use context::Context;
pub use definition::{Machine, Request, Signal, StepResult};
pub use failure::{ErrorValue, Failure, StepError};
pub use fan_out::{FanOut, fan_out};
pub use history::{History, Transition, WokenBy};
pub use job::{Doubling, Job, JobError, Perform, RetryPolicy};
pub use outcome::{
    Outcome, Signals, Wait, done, fail, fail_with, next, retry, sleep, wait_for, wait_for_named,
};
pub use update::Update;

pub(crate) use cancel_flag::CancelFlag;
pub(crate) use codec::decode_state;
pub(crate) use context::StepHandles;
pub(crate) use failure::{Trouble, panic_message, write_chain};
pub(crate) use registered::{Code, Decided, Registered, Registry};
pub(crate) use update::TakeReply;
