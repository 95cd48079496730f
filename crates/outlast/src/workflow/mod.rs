//! Workflows: one `async` function that starts children and activities and survives crashes.
//!
//! A workflow is an instance like any other, with a history beside it. The history records the
//! calls of the code and their results. After a crash, a deploy or a wait the code runs again from
//! the start. Every call gets the result that the history has, so the code continues where it was.
//!
//! ```
//! use outlast::prelude::*;
//!
//! struct Charge;
//!
//! impl Job for Charge {
//!     const NAME: &'static str = "charge";
//!     type Args = u64;
//!     type Output = String;
//!
//!     async fn perform(&self, amount: u64, _cx: &Context) -> Result<String, JobError> {
//!         Ok(format!("receipt over {amount}"))
//!     }
//! }
//!
//! #[derive(Serialize, Deserialize)]
//! struct Approved {
//!     by: String,
//! }
//!
//! impl Signal for Approved {
//!     const NAME: &'static str = "approved";
//! }
//!
//! struct Purchase;
//!
//! impl Workflow for Purchase {
//!     const NAME: &'static str = "purchase";
//!     type Input = u64;
//!     type Output = String;
//!
//!     async fn run(&self, flow: Flow, amount: u64) -> FlowResult<String> {
//!         let day = Duration::from_secs(24 * 3600);
//!         let Some(approved) = flow.signal::<Approved>().timeout(day).await? else {
//!             return Err(flow.fail("nobody approved"));
//!         };
//!         let receipt = flow.activity(Charge, amount).await?;
//!         Ok(format!("{receipt}, approved by {}", approved.by))
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::builder(Sqlite::in_memory()?)
//!     .workflow(Purchase)
//!     .machine(Charge)
//!     .queue("default", 10)
//!     .start()
//!     .await?;
//! let id = engine.insert(Run::<Purchase>(100).key("purchase:1")).await?;
//! engine.signal(Purchase::key("purchase:1"), Approved { by: "Ada".into() }).await?;
//! let receipt = engine.wait(id, Duration::from_secs(10)).await?;
//! assert_eq!(receipt, "receipt over 100, approved by Ada");
//! engine.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! Implement [`Workflow`], call [`Flow`] in its code, and start it with [`Run`](fn@Run).

mod call;
mod children;
mod definition;
mod error;
mod flow;
mod group;
mod replay;
mod select;
mod view;
mod waiting;

pub use call::{Activity, Awaiting, Call, Child, Joining, Plain, Started, Starting};
pub use children::{ChildCancelAnswer, ChildRef, ChildSignalAnswer};
pub use definition::{Begin, FlowResult, Run, Running, Workflow};
pub use error::{FlowError, FlowErrorKind};
pub use flow::{Flow, StepFailure, Uncancellable};
pub use group::{All, Group};
pub use outlast_core::BLOCKED;
pub use select::{Choices, OneOf2, OneOf3, OneOf4, Select, Within};
pub use view::{
    Blocked, ChildCall, EventDetail, ExportedEvent, ExportedPolicy, ExportedRun, GroupPlace,
    GroupWait, Handled, OpenWait, Origin, PolicyApplied, TimelineEntry, Waits, WindowWait,
    open_waits,
};

pub(crate) use replay::{Begun, Session, failed, failed_step};
