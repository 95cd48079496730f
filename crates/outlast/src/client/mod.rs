//! The client: starts, signals, waits for and queries instances. It needs no worker.
//!
//! Applications and the HTTP API call it. It never runs a step.
//!
//! ```
//! use outlast::prelude::*;
//! # struct Checkout;
//! # #[derive(Serialize, Deserialize)]
//! # #[serde(tag = "step", content = "state", rename_all = "snake_case")]
//! # enum Order { Start { number: u64 }, Ship }
//! # impl Machine for Checkout {
//! #     const NAME: &'static str = "checkout";
//! #     type State = Order;
//! #     type Output = ();
//! #     async fn step(&self, _: Order, _: &Context) -> StepResult<Self> { Ok(Outcome::done(())) }
//! # }
//! # #[derive(Serialize, Deserialize)]
//! # struct PaymentConfirmed { amount: u64 }
//! # impl Signal for PaymentConfirmed { const NAME: &'static str = "payment_confirmed"; }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A web node starts and signals instances; other nodes run the machines.
//! let client = Client::new(Sqlite::in_memory()?);
//!
//! let order = New::<Checkout>(Order::Start { number: 42 }).key("order:42");
//! match client.insert(order).await? {
//!     Inserted::New(id) => println!("order {id}"),
//!     Inserted::Duplicate { holder } => println!("there already: {holder:?}"),
//! }
//!
//! let paid = PaymentConfirmed { amount: 100 };
//! let delivery = client.signal(Checkout::key("order:42"), paid).dedup("evt-7").await?;
//! assert!(matches!(delivery, Delivery::Delivered { .. }));
//!
//! // The same dedup key again is a duplicate. A key without a holder has no target.
//! let paid = PaymentConfirmed { amount: 100 };
//! let again = client.signal(Checkout::key("order:42"), paid).dedup("evt-7").await?;
//! assert!(matches!(again, Delivery::Duplicate { .. }));
//! let paid = PaymentConfirmed { amount: 100 };
//! let nobody = client.signal(Checkout::key("order:43"), paid).await?;
//! assert_eq!(nobody, Delivery::NoTarget);
//! # Ok(())
//! # }
//! ```

mod end_instances;
mod explain;
mod handle;
mod insert;
mod operations;
mod queries;
mod sentence;
mod signals;
mod tree;
mod wait;

pub use handle::Client;
pub use insert::Inserted;
pub use signals::{SignalledOrInserted, Signalling, SignallingOrInserting};
pub use tree::{Tree, TreeLimits};
pub use wait::Awaited;

pub(crate) use handle::Backend;
