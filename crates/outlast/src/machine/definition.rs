//! What a machine is.

use super::{Context, Failure, History, Key, Outcome, StepError};
use outlast_core::{Invalid, Json, NewSignal, Target};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// What a step returns.
pub type StepResult<M> = Result<Outcome<M>, StepError>;

/// A machine: a name, a version, and what each of its steps does.
///
/// The value itself holds what the steps need: clients, pools, settings. It is shared by all steps that
/// run, so it changes nothing but through its own locks.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a machine nor a job",
    label = "implement `outlast::Machine` (several steps) or `outlast::Job` (one) for it",
    note = "a workflow is started with `Run::<W>(input)` and registered with `.workflow(..)`"
)]
pub trait Machine: Sized + Send + Sync + 'static {
    /// What instances of it are called in the database, the API and the dashboard. It never changes once
    /// there are instances.
    const NAME: &'static str;

    /// Which form of the machine this is. An instance stays with the version it was started with: when
    /// its steps or their states change in a way that old rows do not fit, register the new form with the
    /// next version beside the old one.
    const VERSION: i32 = 1;

    /// The queue its instances wait in, unless [`New::queue`](super::New::queue) says otherwise.
    const QUEUE: &'static str = "default";

    /// How long one run of a step may take. Then it is dropped where it awaits, and
    /// [`on_failure`](Machine::on_failure) decides. A step that blocks its thread cannot be dropped: its instance fails a
    /// few seconds later without `on_failure`, and the thread is lost until the process ends.
    const STEP_TIMEOUT: Duration = Duration::from_secs(300);

    /// Whether the worker that ran a step also runs the next one at once, without giving the instance
    /// back to its queue. The state is committed in between all the same.
    const RUN_AHEAD: bool = true;

    /// What is recorded of the way its instances take, for people to read: nothing, every outcome, or every outcome with
    /// the state it led to. An event is written in the commit of its outcome, so a history has no gaps, and what was not
    /// committed is not in it. It is kept for as long as the instance is. The machine itself never reads it, so this may
    /// be changed at any time: instances go on with what they have.
    ///
    /// **What it costs**: a step that does nothing costs about twice as much on PostgreSQL, and some one and three quarters as
    /// much on SQLite. Small states add next to nothing to that; large ones what it takes to write them a second time. A
    /// machine that waits for others is not held up: an event goes in the transaction and round trip of its outcome.
    ///
    /// A history is bounded, and never a reason for an instance to fail. It has at most
    /// [`TRANSITIONS_MAX`](outlast_core::limits::TRANSITIONS_MAX) events, the last of which says that nothing more is
    /// recorded. The state of its *n*th event is kept when it has at most 2 MiB / *n*, and never more than 256 KiB; of a larger
    /// one the size is told.
    const HISTORY: History = History::Off;

    /// Its steps with what each needs: an enum with
    /// `#[serde(tag = "step", content = "state", rename_all = "snake_case")]`.
    type State: Serialize + DeserializeOwned + Send + 'static;

    /// What it leads to.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// Runs one step. It may run again when its worker dies before the outcome is committed, so its
    /// effects must bear repeating; [`Context::idempotency_key`] helps with that.
    fn step(
        &self,
        state: Self::State,
        cx: &Context,
    ) -> impl Future<Output = StepResult<Self>> + Send;

    /// Decides what happens after a step that returned an error, panicked, ran out of time, or whose
    /// outcome cannot be stored. The default stops the instance. When this fails itself, the instance
    /// fails with both reasons.
    ///
    /// A failure of [`on_cancel`](Machine::on_cancel) comes here too; then [`Context::is_cancelled`] says so, and what is
    /// decided here is the answer to the cancel. A worker that dies does not come here: its step simply runs again.
    fn on_failure(
        &self,
        state: Self::State,
        failure: Failure,
        cx: &Context,
    ) -> impl Future<Output = StepResult<Self>> + Send {
        let _ = (state, cx);
        async move { Ok(Outcome::fail(failure)) }
    }

    /// Decides what becomes of an instance that was asked to end ([`Client::cancel`](crate::Client::cancel), or a parent
    /// that ended): called instead of the step it stood at, with that step's state, when nothing of it runs any more. The
    /// default ends it as cancelled at once.
    ///
    /// Whatever it decides settles the cancel, but for a retry, after which it is asked again. To undo what was done, it
    /// goes on to steps that do so and end with [`Outcome::cancelled`]; they may wait and fan out like any others. It may
    /// also go on as if nothing had been wished. When it fails itself, [`on_failure`](Machine::on_failure) decides, as after a
    /// step.
    ///
    /// What was awaited is not lost: signals that had come are in [`Context::inbox`], and children of the present round
    /// are in [`Context::round`], ended or not.
    fn on_cancel(
        &self,
        state: Self::State,
        cx: &Context,
    ) -> impl Future<Output = StepResult<Self>> + Send {
        let _ = state;
        let reason = cx.cancel_reason().unwrap_or("cancelled").to_owned();
        async move { Ok(Outcome::cancelled(reason)) }
    }

    /// The instance of this machine that holds the correlation key `key`: an address for signals.
    fn key(key: impl Into<String>) -> Key<Self> {
        Key::new(key)
    }
}

/// A durable message to an instance: its type is what it carries.
///
/// ```
/// use outlast::prelude::*;
///
/// #[derive(Serialize, Deserialize)]
/// struct PaymentConfirmed {
///     amount: u64,
/// }
///
/// impl Signal for PaymentConfirmed {
///     const NAME: &'static str = "payment_confirmed";
/// }
/// ```
pub trait Signal: Serialize + DeserializeOwned + Send + 'static {
    /// What a wait names, and what senders in other languages send.
    const NAME: &'static str;

    /// What it carries, as it is stored.
    fn payload(&self) -> Result<Json, Invalid> {
        Json::of(self).map_err(|invalid| invalid.within(format_args!("signal {}", Self::NAME)))
    }

    /// The signal as it is sent to `target`, plain: for sending it in a transaction of your own. A client with a
    /// codec encodes it: [`Client::prepare_signal`](crate::Client::prepare_signal).
    fn to(&self, target: impl Into<Target>) -> Result<NewSignal, Invalid> {
        Ok(NewSignal::new(target.into(), Self::NAME, self.payload()?))
    }
}
