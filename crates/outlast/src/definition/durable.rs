//! `Durable`: the name, version, queue and types of a machine, a job or a workflow.

use crate::error::SetupError;
use crate::machine::{Machine, Registered};
use crate::workflow::Workflow;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What can be started: a [machine](crate::Machine), a [job](crate::Job) or a
/// [workflow](crate::Workflow).
///
/// Every machine and every job implements it already. A workflow implements it beside
/// [`Workflow`], and [`#[workflow]`](macro@crate::workflow) does so for a function.
///
/// ```
/// use outlast::prelude::*;
/// use outlast::{Durable, Workflow};
///
/// struct Greet {
///     greeting: String,
/// }
///
/// impl Durable for Greet {
///     const NAME: &'static str = "greet";
///     type Input = String;
///     type Output = String;
/// }
///
/// impl Workflow for Greet {
///     async fn run(&self, _flow: Flow, name: String) -> FlowResult<String> {
///         Ok(format!("{} {name}", self.greeting))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a machine, a job or a workflow",
    label = "implement `outlast::Machine` or `outlast::Job` for it, or `outlast::Durable` beside `outlast::Workflow`",
    note = "`Durable` has the name, the input and the output of a workflow",
    note = "`#[job]` and `#[workflow]` turn an `async fn` into a job or a workflow"
)]
pub trait Durable: Sized + Send + Sync + 'static {
    /// The name in the database, the API and the dashboard.
    ///
    /// Never change it once there are instances. Machines, jobs and workflows share one set of
    /// names.
    const NAME: &'static str;

    /// The version. Default: 1.
    ///
    /// An instance stays with the version it was started with. When old rows no longer fit changed
    /// code, register the new code with the next version beside the old one. A workflow can use
    /// [`Flow::version`](crate::Flow::version) for small changes.
    const VERSION: i32 = 1;

    /// The queue of its instances. Default: `default`. [`New::queue`](super::New::queue) overrides
    /// it.
    const QUEUE: &'static str = "default";

    /// What an instance starts with: the state of a machine, the input of a workflow.
    type Input: Serialize + DeserializeOwned + Send + 'static;

    /// Its output.
    type Output: Serialize + DeserializeOwned + Send + 'static;
}

#[diagnostic::do_not_recommend]
impl<M: Machine> Durable for M {
    const NAME: &'static str = M::NAME;
    const VERSION: i32 = M::VERSION;
    const QUEUE: &'static str = M::QUEUE;
    type Input = M::State;
    type Output = M::Output;
}

/// Declares the error type of a machine, a job or a workflow, which its callers can read back.
///
/// Without it a failure is a text. With it, a failure with an error of this type is stored as a
/// value too. [`FlowError::downcast`](crate::FlowError::downcast),
/// [`ChildOf::downcast`](crate::machine::ChildOf::downcast) and
/// [`WaitError::downcast`](crate::WaitError::downcast) return that value.
///
/// | | declares | fails with the value |
/// |---|---|---|
/// | `#[job]` | the error of its `Result` is the type | by returning it |
/// | `#[workflow(error = E)]` | `E` is the type | by returning it, as `Err(E::X)?` |
/// | a machine | `impl Fails for M` | by [`fail_with`](crate::machine::fail_with) |
/// | `impl Job`, `impl Workflow` | `impl Fails for J` | by [`JobError::typed`](crate::JobError::typed), [`FlowError::typed`](crate::FlowError::typed) |
///
/// The value is stored as JSON, so its type must implement `Serialize` and `Deserialize`. It must
/// read what earlier builds stored: failed instances keep their value.
#[diagnostic::on_unimplemented(
    message = "`{Self}` declares no error type, so its failure is a text",
    label = "write `impl outlast::Fails for {Self} {{ type Error = ..; }}`",
    note = "a function declares it with `#[workflow(error = ..)]`; the error of a `#[job]` is the one in its `Result`"
)]
pub trait Fails: Durable {
    /// The type of its errors.
    type Error;
}

/// What an engine can run: every machine, job and workflow.
///
/// The compiler infers `K`, which says how the definition runs.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a machine, a job or a workflow, so it cannot be registered",
    label = "implement `outlast::Machine`, `outlast::Job` or `outlast::Workflow` for it",
    note = "`#[job]` and `#[workflow]` turn an `async fn` into a job or a workflow"
)]
pub trait Register<K> {
    /// Checks the definition and erases its type.
    #[doc(hidden)]
    fn registration(self) -> Registration;
}

/// A checked definition, or why it was refused.
#[doc(hidden)]
pub struct Registration(pub(crate) Result<Registered, SetupError>);

/// The kind of machines and jobs.
#[doc(hidden)]
#[derive(Debug)]
pub enum AsMachine {}

/// The kind of workflows.
#[doc(hidden)]
#[derive(Debug)]
pub enum AsWorkflow {}

impl<M: Machine> Register<AsMachine> for M {
    fn registration(self) -> Registration {
        Registration(Registered::new(self))
    }
}

impl<W: Workflow> Register<AsWorkflow> for W {
    fn registration(self) -> Registration {
        Registration(Registered::workflow(self))
    }
}
