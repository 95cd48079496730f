//! The traits that users implement: machines, signals and requests.

use super::codec;
use super::{Context, Failure, History, Outcome, RetryPolicy, StepError};
use crate::definition::{Key, Needs, New};
use outlast_core::{Invalid, Json, KeyText, NewSignal, Target};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// The result of a step.
pub type StepResult<M> = Result<Outcome<M>, StepError>;

/// A machine: a name, a version, and the code of its steps.
///
/// The value holds what the steps need: clients, pools, settings. All running steps share it, so
/// it may change only through locks.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a machine nor a job",
    label = "implement `outlast::Machine` (several steps) or `outlast::Job` (one) for it",
    note = "`#[job]` turns an `async fn` into a job",
    note = "a step returns `StepResult<Self>`"
)]
pub trait Machine: Sized + Send + Sync + 'static {
    /// The name of the machine in the database, the API and the dashboard. It must not change once
    /// there are instances.
    const NAME: &'static str;

    /// The version of the machine.
    ///
    /// An instance stays with the version it was started with. When old rows no longer fit changed
    /// steps or states, register the new form with the next version beside the old one.
    const VERSION: i32 = 1;

    /// The queue of its instances. [`New::queue`] overrides it.
    const QUEUE: &'static str = "default";

    /// How long one run of a step may take. Default: 300 s.
    ///
    /// Then the engine drops the step where it awaits, and [`on_failure`](Machine::on_failure)
    /// decides. A step that blocks its thread cannot be dropped. Its instance fails a few seconds
    /// later without `on_failure`, and the thread is lost until the process ends.
    const STEP_TIMEOUT: Duration = Duration::from_secs(300);

    /// Whether the worker runs the next step at once, without returning the instance to its queue.
    /// Default: true.
    ///
    /// The state is committed between the two steps in either case.
    const RUN_AHEAD: bool = true;

    /// What the history of its instances records, for people to read. Default: nothing.
    ///
    /// It can record every outcome, or every outcome with its state. The commit of an outcome
    /// writes its event, so a history has no gaps and nothing uncommitted. It is kept as long as
    /// the instance. The machine never reads it, so this may change at any time: instances
    /// continue with the history they have.
    ///
    /// **Cost**: an empty step takes about twice as long on PostgreSQL, and about 1.75 times as
    /// long on SQLite. Small states add almost nothing to that; large states are written twice. A
    /// machine that waits is not delayed: an event needs no extra transaction and no extra round
    /// trip.
    ///
    /// A history is bounded, and an instance never fails because of it. It has at most
    /// [`TRANSITIONS_MAX`](outlast_core::limits::TRANSITIONS_MAX) events; the last one says that
    /// recording has ended. The *n*th event keeps a state of at most 2 MiB / *n*, and never more
    /// than 256 KiB. Of a larger state it keeps the size.
    const HISTORY: History = History::Off;

    /// Its steps with the data of each: an enum with [`#[steps]`](crate::steps).
    ///
    /// Without that macro, write `#[derive(Serialize, Deserialize)]` and `#[serde(tag = "step",
    /// content = "state", rename_all = "snake_case")]`.
    type State: Serialize + DeserializeOwned + Send + 'static;

    /// Its output.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// Runs one step.
    ///
    /// It may run again when its worker dies before the outcome is committed, so its effects must
    /// be idempotent; [`Context::idempotency_key`] provides a key.
    fn step(
        &self,
        state: Self::State,
        cx: &Context,
    ) -> impl Future<Output = StepResult<Self>> + Send;

    /// Decides what happens after a step failed.
    ///
    /// The step returned an error, panicked, timed out, or returned an outcome that cannot be
    /// stored. By default the instance fails. When this method fails too, the instance fails with
    /// both reasons.
    ///
    /// A failure of [`on_cancel`](Machine::on_cancel) comes here too. Then
    /// [`Context::is_cancelled`] is true, and the decision is the answer to the cancel. The death
    /// of a worker does not come here: the step runs again.
    fn on_failure(
        &self,
        state: Self::State,
        failure: Failure,
        cx: &Context,
    ) -> impl Future<Output = StepResult<Self>> + Send {
        let _ = (state, cx);
        async move { Ok(Outcome::fail(failure)) }
    }

    /// Decides what happens to a cancelled instance. By default it ends as cancelled at once.
    ///
    /// A cancel comes from [`Handle::cancel`](crate::Handle::cancel) or from a parent that ended.
    /// The engine calls this instead of the current step, with the state of that step, when no
    /// code of the instance runs.
    ///
    /// Any decision but a retry settles the cancel; after a retry the engine calls this again. To
    /// undo earlier effects, go to steps that undo them and end with [`Outcome::cancelled`]. They
    /// may wait and fan out like any others. A machine may also ignore the cancel and continue.
    /// When this method fails, [`on_failure`](Machine::on_failure) decides, as after a step.
    ///
    /// Nothing awaited is lost: [`Context::inbox`] has the signals that have arrived, and
    /// [`Context::round`] the children of the current round, finished or not.
    fn on_cancel(
        &self,
        state: Self::State,
        cx: &Context,
    ) -> impl Future<Output = StepResult<Self>> + Send {
        let _ = state;
        let reason = cx.cancel_reason().unwrap_or("cancelled").to_owned();
        async move { Ok(Outcome::cancelled(reason)) }
    }

    /// Lists the values that its code takes with [`Context::data`]. Default: none.
    ///
    /// [`EngineBuilder::start`](crate::engine::EngineBuilder::start) fails when one of them is not
    /// provided.
    fn needs(needs: &mut Needs) {
        let _ = needs;
    }

    /// Describes an instance that starts with `state`; a job starts with its arguments.
    fn with(state: impl Into<Self::State>) -> New<Self> {
        New::at_step(codec::encode(&state.into()), Self::retry_policy())
    }

    /// Creates the address of the instance that holds the correlation key `key`, for signals.
    fn key(key: impl Into<KeyText>) -> Key<Self> {
        Key::new(key)
    }

    /// Returns how it is retried, if it is a job.
    #[doc(hidden)]
    fn retry_policy() -> Option<RetryPolicy> {
        None
    }
}

/// A durable message to an instance; the type is its payload.
///
/// ```
/// use outlast::prelude::*;
///
/// #[derive(Signal, Serialize, Deserialize)]
/// struct PaymentConfirmed {
///     amount: u64,
/// }
///
/// assert_eq!(PaymentConfirmed::NAME, "payment_confirmed");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no signal",
    label = "add `#[derive(Signal, Serialize, Deserialize)]` to the type"
)]
pub trait Signal: Serialize + DeserializeOwned + Send + 'static {
    /// The name that waits list, and that senders in other languages use.
    const NAME: &'static str;

    /// Encodes the payload for the store.
    fn payload(&self) -> Result<Json, Invalid> {
        Json::of(self).map_err(|invalid| invalid.within(format_args!("signal {}", Self::NAME)))
    }

    /// Creates the signal to `target`, plain, for sending it in your transaction.
    ///
    /// A client with a codec encodes it:
    /// [`Client::prepare_signal`](crate::Client::prepare_signal).
    fn to(&self, target: impl Into<Target>) -> Result<NewSignal, Invalid> {
        Ok(NewSignal::new(target.into(), Self::NAME, self.payload()?))
    }
}

/// A signal that wants a reply.
///
/// An update sends it to code that may change the instance before it replies.
/// [`Handle::query`](crate::Handle::query) asks code that only reads. Derive it with
/// [`Signal`](derive@crate::Signal):
///
/// ```
/// use outlast::prelude::*;
/// use outlast::machine::Request;
///
/// #[derive(Signal, Serialize, Deserialize)]
/// #[signal(reply = Price)]
/// struct ChangeAddress {
///     street: String,
/// }
///
/// #[derive(Serialize, Deserialize)]
/// struct Price(u64);
///
/// fn reply_of<R: Request<Reply = Price>>(_: &R) {}
/// reply_of(&ChangeAddress { street: "Ada Lane 1".into() });
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what its reply is",
    label = "add `#[derive(Signal)]` and `#[signal(reply = ..)]` to the type"
)]
pub trait Request: Signal {
    /// The type of the reply.
    type Reply: Serialize + DeserializeOwned + Send + 'static;
}
