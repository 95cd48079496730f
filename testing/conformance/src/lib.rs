//! The conformance tests that every store of Outlast must pass.
//!
//! The crate has four parts:
//!
//! - [`Model`], the contract of [`outlast_core::Store`] in its plainest form;
//! - the [`suite`]: one function per rule, its name a sentence, run by [`conformance_suite!`];
//! - [`repairs`]: rules about rows that were edited by hand, run by [`repair_suite!`];
//! - [`sequences`]: random verbs sent to the model and to a store, with answers and whole states
//!   compared.
//!
//! A store's crate runs all of it in an integration test. The test opens an empty store that takes
//! its time from a [`ManualClock`](outlast_core::ManualClock); the rest is one line each. This
//! example uses the model as the store:
//!
//! ```
//! use outlast_conformance::{Model, Subject, sequences};
//! use outlast_core::ManualClock;
//!
//! async fn open_at(clock: ManualClock) -> Subject {
//!     Subject::new(Model::new(clock.clone()), clock)
//! }
//!
//! async fn open() -> Subject {
//!     open_at(ManualClock::default()).await
//! }
//!
//! outlast_conformance::conformance_suite!(open);
//!
//! #[tokio::test]
//! async fn the_store_agrees_with_the_model() {
//!     sequences::compare_with_model(open_at).await;
//! }
//! ```
//!
//! A subject may carry a [guard](Subject::guarded_by) such as a temporary folder. It may also have
//! a [cleanup](Subject::cleaned_by), which is awaited after a rule has held or failed.

mod breadth;
mod model;
pub mod repairs;
mod rules;
pub mod sequences;
mod subject;
pub mod suite;
mod vocabulary;

pub use breadth::try_broad_rules;
pub use model::Model;
#[doc(hidden)]
pub use rules::compiled;
pub use subject::{Database, Subject, Threads, try_rule};
