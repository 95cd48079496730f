//! What a workflow is, and how one is started.

use super::{Flow, FlowError};
use crate::machine::{Context, Key, Machine, New, StepError, StepResult};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// What a workflow returns.
pub type FlowResult<T> = Result<T, FlowError>;

/// A workflow: one `async` function whose calls of [`Flow`] are durable.
///
/// The value itself holds what the function needs: clients, pools, settings.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no workflow",
    label = "implement `outlast::Workflow` for it"
)]
pub trait Workflow: Sized + Send + Sync + 'static {
    /// What instances of it are called in the database, the API and the dashboard. It never changes once there are
    /// instances. Workflows and machines share their names.
    const NAME: &'static str;

    /// Which form of the workflow this is; see [`Machine::VERSION`]. Small changes under running instances are
    /// [`Flow::version`]'s to tell apart.
    const VERSION: i32 = 1;

    /// The queue its instances wait in, unless [`New::queue`] says otherwise.
    const QUEUE: &'static str = "default";

    /// How long one [`step`](Flow::step) may take. Then it is dropped where it awaits, and has failed.
    const STEP_TIMEOUT: Duration = Duration::from_secs(300);

    /// What it starts with.
    type Input: Serialize + DeserializeOwned + Send + 'static;

    /// What it leads to.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// Runs it. After a crash, a deploy or a wait this is called again from the start, and every call of `flow` that was
    /// answered before is given the same answer; so between those calls it does nothing but compute. What has effects or
    /// asks the world is in [`Flow::step`] or in an [activity](Flow::activity).
    fn run(
        &self,
        flow: Flow,
        input: Self::Input,
    ) -> impl Future<Output = FlowResult<Self::Output>> + Send;

    /// The instance of this workflow that holds the correlation key `key`: an address for signals.
    fn key(key: impl Into<String>) -> Key<Running<Self>> {
        <Running<Self> as Machine>::key(key)
    }
}

/// An instance of workflow `W` that starts with `input`.
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

/// A workflow as the machine it is: one step, whose state is the input. Ids and keys of its instances carry it.
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
    /// Run it: [`WORKFLOW_STEP`](outlast_core::WORKFLOW_STEP).
    Run(I),
}

impl<I> fmt::Debug for Begin<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Run(..)")
    }
}

/// It says what the instances are. They are run by what [`EngineBuilder::workflow`](crate::EngineBuilder::workflow)
/// registers, never by this.
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
