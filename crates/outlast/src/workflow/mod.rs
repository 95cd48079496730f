//! Workflows: one `async` function that starts children and activities and survives crashes.
//!
//! A workflow is an instance like any other, with a history beside it. The history records the
//! calls of the code and their results. After a crash, a deploy or a wait the code runs again from
//! the start. Every call gets the result that the history has, so the code continues where it was.
//!
//! ```
//! use outlast::prelude::*;
//!
//! #[job]
//! async fn charge(amount: u64) -> std::io::Result<String> {
//!     Ok(format!("receipt over {amount}"))
//! }
//!
//! #[derive(Signal, Serialize, Deserialize)]
//! struct Approved {
//!     by: String,
//! }
//!
//! #[workflow]
//! async fn purchase(flow: Flow, amount: u64) -> FlowResult<String> {
//!     let Some(approved) = flow.signal::<Approved>().timeout(DAY).await? else {
//!         return flow.fail("nobody approved");
//!     };
//!     let receipt = flow.run(charge::with(amount)).await?;
//!     Ok(format!("{receipt}, approved by {}", approved.by))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> outlast::Result<()> {
//! let engine = Engine::sqlite_in_memory()?.register(purchase).register(charge).start().await?;
//! let order = engine.start(purchase::with(100).key("purchase:1")).await?;
//! order.signal(Approved { by: "Ada".into() }).await?;
//! assert_eq!(order.output().await?, "receipt over 100, approved by Ada");
//! engine.shutdown().await
//! # }
//! ```
//!
//! [`Flow`] has the calls of a workflow. A workflow with fields implements [`Workflow`].

mod call;
mod children;
mod definition;
mod error;
mod flow;
mod group;
mod replay;
mod select;
mod updates;
mod view;
mod waiting;

pub use call::{Awaiting, Call, Joining, Started, Starting};
pub use children::{ChildCancelAnswer, ChildRef, ChildSignalAnswer};
pub use definition::{FlowResult, Workflow};
pub use error::{FlowError, FlowErrorKind};
pub use flow::{Flow, StepFailure, Uncancellable};
pub use group::{All, Group};
pub use outlast_core::BLOCKED;
pub use select::{Choices, OneOf2, OneOf3, OneOf4, Select, Within};
pub use updates::{OnUpdate, TakingUpdate, Until, UntilTimeout, UpdateCall};
pub use view::{
    Blocked, ChildCall, EventDetail, ExportedChild, ExportedEvent, ExportedPolicy, ExportedRun,
    GroupPlace, GroupWait, Handled, OpenWait, Origin, PolicyApplied, TimelineEntry, Waits,
    WindowWait, open_waits,
};

pub(crate) use replay::{Begun, Replayed, Session, failed, failed_step};
