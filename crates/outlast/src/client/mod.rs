//! The client: starts, signals, waits for and queries instances. It needs no worker.
//!
//! Applications and the HTTP API call it. It never runs a step.
//!
//! ```
//! use outlast::{Client, SignalError, Sqlite, prelude::*};
//! # struct Checkout;
//! # #[steps] enum Order { Start { number: u64 }, Ship }
//! # impl Machine for Checkout {
//! #     const NAME: &'static str = "checkout";
//! #     type State = Order;
//! #     type Output = ();
//! #     async fn step(&self, _: Order, _: &Context) -> StepResult<Self> { done(()) }
//! # }
//!
//! #[derive(Signal, Serialize, Deserialize)]
//! struct Paid {
//!     amount: u64,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> outlast::Result<()> {
//! // A web node starts and signals instances; other nodes run the machines.
//! let client = Client::new(Sqlite::in_memory()?);
//! let order = client.start(Checkout::with(Order::Start { number: 42 }).key("order:42")).await?;
//!
//! // A webhook knows the key alone. The same dedup key again is no second signal.
//! let sent = client.signal(Checkout::key("order:42"), Paid { amount: 100 }).dedup("evt-7").await?;
//! assert!(sent.is_new && sent.instance == order.id().get());
//! let again = client.signal(Checkout::key("order:42"), Paid { amount: 100 }).dedup("evt-7").await?;
//! assert!(!again.is_new);
//!
//! // A key without a holder is an error.
//! let lost = client.signal(Checkout::key("order:43"), Paid { amount: 100 }).await;
//! assert!(matches!(lost, Err(SignalError::NoTarget { .. })));
//! # Ok(())
//! # }
//! ```

mod definition;
mod end_instances;
mod explain;
mod handle;
mod operations;
mod queries;
mod requests;
mod sentence;
mod signals;
mod start;
mod tree;
mod updates;
mod views;
mod wait;

pub use crate::definition::Address;
pub use crate::error::RequestError;
pub use definition::{Admin, Client};
pub use explain::Explanation;
pub use handle::{Handle, HistoryQuery, Outputting, Settling};
pub use queries::Listing;
pub use signals::{Sent, Signalling, SignallingOrStarting};
pub use tree::{Tree, TreeLimits};
pub use updates::Updating;
pub use views::{ViewOf, Viewing};

pub(crate) use definition::Backend;
