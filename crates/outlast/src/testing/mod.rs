//! Tests of machines without waiting.
//!
//! A [`Harness`] runs machines in the calling task, one step after another. The time of its store
//! stands still until the test moves it. The harness uses the engine's own components, so a test
//! sees the real behaviour.
//!
//! ```
//! use outlast::prelude::*;
//! use outlast::testing::{Harness, Point};
//! # struct Checkout;
//! # #[steps] enum Order { Start { number: u64 }, Ship { number: u64 } }
//! # #[derive(Signal, Serialize, Deserialize)] struct PaymentConfirmed { amount: u64 }
//! # impl Machine for Checkout {
//! #     const NAME: &'static str = "checkout";
//! #     type State = Order;
//! #     type Output = u64;
//! #     async fn step(&self, state: Order, cx: &Context) -> StepResult<Self> {
//! #         match state {
//! #             Order::Start { number } => wait_for::<PaymentConfirmed>().timeout(HOUR).then(Order::Ship { number }),
//! #             Order::Ship { .. } => match cx.received::<PaymentConfirmed>()? {
//! #                 Some(paid) => done(paid.amount),
//! #                 None => fail("payment never came"),
//! #             },
//! #         }
//! #     }
//! # }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> outlast::Result<()> {
//! let mut harness = Harness::builder().register(Checkout).build().await?;
//!
//! // The order waits for its payment, and the worker that ships it crashes once.
//! let paid = harness.start(Checkout::with(Order::Start { number: 1 })).await?;
//! harness.run().await;
//! harness.expect(&paid).await.awaits(["payment_confirmed"]).at_step("ship");
//! paid.signal(PaymentConfirmed { amount: 100 }).await?;
//! harness.crash::<Checkout>("ship", Point::BeforeCommit);
//! let report = harness.run().await;
//! assert_eq!((report.crashes, report.done), (1, 1));
//! harness.expect(&paid).await.is_done_with(&100);
//!
//! // The wait times out after an hour, without waiting.
//! let unpaid = harness.start(Checkout::with(Order::Start { number: 2 })).await?;
//! harness.run().await;
//! harness.advance(HOUR).await;
//! harness.run().await;
//! harness.expect(&unpaid).await.is_failed_with("payment never came");
//!
//! // An operator cancels the order, and its machine decides how it ends.
//! let unwanted = harness.start(Checkout::with(Order::Start { number: 3 })).await?;
//! harness.run().await;
//! unwanted.cancel(outlast::Note::by("ada").because("too dear")).await?;
//! harness.run().await;
//! harness.expect(&unwanted).await.is_cancelled_with("ada: too dear");
//! # Ok(())
//! # }
//! ```
//!
//! The harness has an SQLite database in memory. [`Harness::on`] takes any store with a clock that
//! the test holds.

mod expect;
mod harness;
mod replay;
mod run_report;

pub use crate::engine::Point;
pub use expect::Expected;
pub use harness::{Harness, HarnessBuilder};
pub use replay::{Replay, ReplayError};
pub use run_report::RunReport;
