//! The `Workflow` trait.
//!
//! A workflow is stored as an instance with one step, whose state is its input.

use super::{Flow, FlowError};
use crate::definition::{Durable, Key, Needs, New};
use outlast_core::{Json, KeyText, WORKFLOW_STEP};
use std::time::Duration;

/// The result of a workflow.
pub type FlowResult<T> = Result<T, FlowError>;

/// A workflow: one `async` function whose calls of [`Flow`] are durable.
///
/// [`#[workflow]`](macro@crate::workflow) turns an `async fn` into a workflow. A type with fields
/// implements [`Durable`], which names it, and this trait. The value holds the resources of the
/// function: clients, pools, settings.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no workflow",
    label = "implement `outlast::Workflow` for it",
    note = "`#[workflow]` turns an `async fn` into a workflow"
)]
pub trait Workflow: Durable {
    /// How long one [`step`](Flow::step) may take. Default: 300 s.
    ///
    /// After that it is dropped while it awaits, and has failed.
    const STEP_TIMEOUT: Duration = Duration::from_secs(300);

    /// Runs the workflow.
    ///
    /// After a crash, a deploy or a wait this is called again from the start. Every call of `flow`
    /// that was answered before returns the same answer. So the code between those calls may only
    /// compute. Effects and queries belong in [`Flow::step`] or in a [job](Flow::run).
    fn run(
        &self,
        flow: Flow,
        input: Self::Input,
    ) -> impl Future<Output = FlowResult<Self::Output>> + Send;

    /// Lists the values that its code takes with [`Flow::data`]. Default: none.
    ///
    /// [`EngineBuilder::start`](crate::engine::EngineBuilder::start) fails when one of them is not
    /// provided.
    fn needs(needs: &mut Needs) {
        let _ = needs;
    }

    /// Describes an instance that starts with `input`.
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// #[workflow]
    /// async fn greet(flow: Flow, name: String) -> FlowResult<String> {
    ///     Ok(format!("Hello {name}"))
    /// }
    ///
    /// let greeting = greet::with("Ada".to_owned()).key("ada").priority(-1);
    /// ```
    fn with(input: Self::Input) -> New<Self> {
        let input = Json::of(&input).map_err(|invalid| invalid.within("input"));
        New::at_step(input.map(|input| (WORKFLOW_STEP.to_owned(), input)), None)
    }

    /// Creates the address of the instance that holds the correlation key `key`, for signals.
    fn key(key: impl Into<KeyText>) -> Key<Self> {
        Key::new(key)
    }
}
