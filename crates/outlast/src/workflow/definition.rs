//! The `Workflow` trait, and `Run`, which creates an instance of a workflow.
//!
//! A workflow is stored as a machine with one step. The engine never runs that machine directly.

use super::{Flow, FlowError};
use crate::machine::{Context, Key, Machine, New, StepError, StepResult};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// The result of a workflow.
pub type FlowResult<T> = Result<T, FlowError>;

/// A workflow: one `async` function whose calls of [`Flow`] are durable.
///
/// The value itself holds the resources of the function: clients, pools, settings.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no workflow",
    label = "implement `outlast::Workflow` for it"
)]
pub trait Workflow: Sized + Send + Sync + 'static {
    /// The name of the workflow in the database, the API and the dashboard.
    ///
    /// Never change it once there are instances. Workflows and machines share one set of names.
    const NAME: &'static str;

    /// The version of the workflow; see [`Machine::VERSION`].
    ///
    /// Use [`Flow::version`] for small changes under running instances.
    const VERSION: i32 = 1;

    /// The queue of its instances, unless [`New::queue`] sets another.
    const QUEUE: &'static str = "default";

    /// How long one [`step`](Flow::step) may take. After that it is dropped while it awaits, and
    /// has failed.
    const STEP_TIMEOUT: Duration = Duration::from_secs(300);

    /// The input of the workflow.
    type Input: Serialize + DeserializeOwned + Send + 'static;

    /// The result of the workflow.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// Runs the workflow.
    ///
    /// After a crash, a deploy or a wait this is called again from the start. Every call of `flow`
    /// that was answered before returns the same answer. So the code between those calls may only
    /// compute. Effects and queries belong in [`Flow::step`] or in an [activity](Flow::activity).
    fn run(
        &self,
        flow: Flow,
        input: Self::Input,
    ) -> impl Future<Output = FlowResult<Self::Output>> + Send;

    /// Returns an address for signals: the instance of this workflow that holds `key`.
    fn key(key: impl Into<String>) -> Key<Running<Self>> {
        <Running<Self> as Machine>::key(key)
    }
}

/// Creates an instance of workflow `W` with this input.
///
/// ```
/// # use outlast::prelude::*;
/// # struct Greet;
/// # impl Workflow for Greet { const NAME: &'static str = "greet"; type Input = String; type Output = String;
/// # async fn run(&self, _: Flow, name: String) -> FlowResult<String> { Ok(name) } }
/// let greeting = Run::<Greet>("Ada".to_owned()).key("ada").priority(-1);
/// ```
#[allow(non_snake_case)]
pub fn Run<W: Workflow>(input: W::Input) -> New<Running<W>> {
    New::<Running<W>>(Begin::Run(input))
}

/// A workflow as a machine with one step, whose state is the input.
///
/// Ids and keys of its instances carry this type.
pub struct Running<W>(PhantomData<fn() -> W>);

impl<W> Running<W> {
    pub(crate) fn new() -> Running<W> {
        Running(PhantomData)
    }
}

/// The one state of a workflow: its input, which `Debug` does not show.
#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
pub enum Begin<I> {
    /// The only step: [`WORKFLOW_STEP`](outlast_core::WORKFLOW_STEP).
    Run(I),
}

impl<I> fmt::Debug for Begin<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Run(..)")
    }
}

/// Describes the instances. The engine runs them with what
/// [`EngineBuilder::workflow`](crate::EngineBuilder::workflow) registers, never with this.
#[diagnostic::do_not_recommend]
impl<W: Workflow> Machine for Running<W> {
    const NAME: &'static str = W::NAME;
    const VERSION: i32 = W::VERSION;
    const QUEUE: &'static str = W::QUEUE;
    const STEP_TIMEOUT: Duration = W::STEP_TIMEOUT;
    type State = Begin<W::Input>;
    type Output = W::Output;

    async fn step(&self, _: Begin<W::Input>, _: &Context) -> StepResult<Self> {
        let reason = format!("{} is a workflow; register it with .workflow(..)", W::NAME);
        Err(StepError::fatal(reason))
    }
}
