//! Jobs: machines of one step.

use super::failure::{AttemptTimedOut, ErrorValue, write_chain};
use super::{Context, Failure, History, Machine, Outcome, StepResult};
use crate::definition::{Fails, Needs};
use outlast_core::Json;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// A machine of one step that is retried until it succeeds.
///
/// A [cancelled](crate::Handle::cancel) job ends as cancelled and is not retried. A running
/// attempt is notified through [`Context::cancelled`]; its result counts if it is an end. A job
/// with effects to undo should be a [`Machine`].
///
/// [`#[job]`](macro@crate::job) turns an `async fn` into a job. A type with fields implements this trait:
///
/// ```
/// use outlast::prelude::*;
/// use outlast::{Job, JobError};
///
/// struct SendMail; // put clients, pools and settings here
///
/// #[derive(Serialize, Deserialize)]
/// struct Mail {
///     to: String,
/// }
///
/// impl Job for SendMail {
///     const NAME: &'static str = "send_mail";
///     type Args = Mail;
///     type Output = ();
///
///     async fn perform(&self, mail: Mail, _cx: &Context) -> Result<(), JobError> {
///         if !mail.to.contains('@') {
///             return Err(JobError::fatal(format!("{} is no address", mail.to)));
///         }
///         Ok(())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> outlast::Result<()> {
/// let engine = Engine::sqlite_in_memory()?.register(SendMail).start().await?;
/// let mail = engine.start(SendMail::with(Mail { to: "ada@example.org".into() })).await?;
/// mail.output().await?;
/// engine.shutdown().await
/// # }
/// ```
// `X::with(..)` of a type that is neither is reported with this text: every job is a machine, so the
// compiler looks for a job last.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a machine nor a job",
    label = "implement `outlast::Machine` (several steps) or `outlast::Job` (one) for it",
    note = "`#[job]` turns an `async fn` into a job"
)]
pub trait Job: Send + Sync + 'static {
    /// The name of the job; see [`Machine::NAME`].
    const NAME: &'static str;
    /// The version of the job; see [`Machine::VERSION`].
    const VERSION: i32 = 1;
    /// The queue of its instances.
    const QUEUE: &'static str = "default";
    /// How often it is tried at most. Default: 20.
    const MAX_ATTEMPTS: u32 = 20;
    /// How long one attempt may take. Default: 300 s.
    const TIMEOUT: Duration = Duration::from_secs(300);
    /// What is recorded of its attempts; see [`Machine::HISTORY`].
    const HISTORY: History = History::Off;

    /// Its arguments.
    type Args: Serialize + DeserializeOwned + Send + 'static;
    /// Its output.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// Lists the values that its code takes with [`Context::data`]. Default: none.
    ///
    /// [`EngineBuilder::start`](crate::engine::EngineBuilder::start) fails when one of them is not
    /// provided.
    fn needs(needs: &mut Needs) {
        let _ = needs;
    }

    /// Performs the job.
    fn perform(
        &self,
        args: Self::Args,
        cx: &Context,
    ) -> impl Future<Output = Result<Self::Output, JobError>> + Send;

    /// Returns the delay after an attempt, counted from 1.
    ///
    /// The default doubles from one second to one hour, with a jitter of a tenth. So jobs that
    /// failed together do not come back together.
    fn backoff(&self, attempt: u32) -> Duration {
        let doubled = 1u64 << attempt.saturating_sub(1).min(12);
        let seconds = doubled.min(3600) as f64;
        Duration::from_secs_f64(seconds * (0.9 + 0.2 * fastrand::f64()))
    }
}

/// Why a job did not succeed, and what to do about it.
///
/// `?` converts any error, `anyhow::Error`, `Box<dyn Error + Send + Sync>` and text into a retry.
/// Its text includes the causes.
pub struct JobError {
    source: Box<dyn Error + Send + Sync>,
    then: Then,
    value: Option<ErrorValue>,
}

enum Then {
    Retry,
    RetryAfter(Duration),
    Cancel,
    Stop,
}

impl JobError {
    /// Retries after the job's backoff.
    pub fn retry(error: impl Into<Box<dyn Error + Send + Sync>>) -> JobError {
        JobError::with(Then::Retry, error)
    }

    /// Retries after this delay, for example the one a server asked for.
    pub fn retry_after(
        delay: Duration,
        error: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> JobError {
        JobError::with(Then::RetryAfter(delay), error)
    }

    /// Ends the job as cancelled: nothing needs to be done any more.
    pub fn cancel(reason: impl Into<Box<dyn Error + Send + Sync>>) -> JobError {
        JobError::with(Then::Cancel, reason)
    }

    /// Ends the job as failed: no retry can succeed.
    pub fn fatal(error: impl Into<Box<dyn Error + Send + Sync>>) -> JobError {
        JobError::with(Then::Stop, error)
    }

    fn with(then: Then, error: impl Into<Box<dyn Error + Send + Sync>>) -> JobError {
        JobError {
            source: error.into(),
            then,
            value: None,
        }
    }

    /// Stores the error as a value too, if it is of type `D::Error`: callers can read it by type.
    ///
    /// `#[job]` does so itself.
    pub fn typed<D: Fails>(self) -> JobError
    where
        D::Error: Error + Serialize + 'static,
    {
        match self.source.downcast_ref::<D::Error>().map(ErrorValue::of) {
            Some(value) => self.with_value(value),
            None => self,
        }
    }

    pub(crate) fn with_value(mut self, value: ErrorValue) -> JobError {
        self.value = Some(value);
        self
    }
}

/// Converts any error, a boxed error, an `anyhow::Error` or a text.
impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for JobError {
    fn from(error: E) -> JobError {
        JobError::retry(error)
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_chain(self.source.as_ref(), f)
    }
}

impl fmt::Debug for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.source, f)
    }
}

/// The state of a job: its one step with its arguments, which `Debug` does not show.
#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
pub enum Perform<A> {
    /// Perform the job.
    Perform(A),
    /// Perform the job with the retry policy of a workflow.
    Scheduled {
        /// Its arguments.
        args: A,
        /// Its retry policy.
        policy: RetryPolicy,
    },
}

/// The retry policy of a job that a workflow has scheduled.
///
/// It is fixed then, so that later builds do not change it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// The largest number of attempts.
    pub max_attempts: u32,
    /// How long one attempt may take, in milliseconds.
    pub timeout_ms: u64,
    /// The delay between attempts. Default: the job's [`backoff`](Job::backoff).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Doubling>,
}

/// A delay that grows from attempt to attempt.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Doubling {
    /// The delay after the first attempt, in milliseconds.
    pub first_ms: u64,
    /// The factor for each further attempt.
    pub factor: f64,
    /// The longest delay, in milliseconds.
    pub longest_ms: u64,
}

impl RetryPolicy {
    /// Returns the policy that the job declares.
    pub(crate) fn of<J: Job>() -> RetryPolicy {
        RetryPolicy {
            max_attempts: J::MAX_ATTEMPTS,
            timeout_ms: u64::try_from(J::TIMEOUT.as_millis()).unwrap_or(u64::MAX),
            backoff: None,
        }
    }

    /// Returns step and state of a job with this policy; they are those of [`Perform::Scheduled`].
    pub(crate) fn scheduled_state(self, args: &Json) -> (String, Json) {
        #[derive(Serialize)]
        struct ScheduledState<'a> {
            args: &'a Json,
            policy: RetryPolicy,
        }

        let state = ScheduledState { args, policy: self };
        let text = serde_json::to_string(&state).expect("arguments and policy are plain JSON");
        (
            "scheduled".into(),
            Json::stored(text).expect("serde writes JSON"),
        )
    }
}

impl Doubling {
    /// Returns the delay after an attempt, counted from 1.
    fn pause(&self, attempt: u32) -> Duration {
        let grown = self.first_ms as f64 * self.factor.powi(attempt.saturating_sub(1) as i32);
        Duration::from_millis(grown.min(self.longest_ms as f64) as u64)
    }
}

impl<A> fmt::Debug for Perform<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Perform(..)")
    }
}

impl<A> From<A> for Perform<A> {
    fn from(args: A) -> Perform<A> {
        Perform::Perform(args)
    }
}

#[diagnostic::do_not_recommend]
impl<J: Job> Machine for J {
    const NAME: &'static str = <J as Job>::NAME;
    const VERSION: i32 = <J as Job>::VERSION;
    const QUEUE: &'static str = <J as Job>::QUEUE;
    const STEP_TIMEOUT: Duration = <J as Job>::TIMEOUT;
    const HISTORY: History = <J as Job>::HISTORY;
    type State = Perform<J::Args>;
    type Output = J::Output;

    fn needs(needs: &mut Needs) {
        <J as Job>::needs(needs);
    }

    fn retry_policy() -> Option<RetryPolicy> {
        Some(RetryPolicy::of::<J>())
    }

    async fn step(&self, state: Perform<J::Args>, cx: &Context) -> StepResult<J> {
        let (args, policy) = match state {
            Perform::Perform(args) => (args, RetryPolicy::of::<J>()),
            Perform::Scheduled { args, policy } => (args, policy),
        };
        let limit = Duration::from_millis(policy.timeout_ms).min(J::TIMEOUT);
        // The engine enforces the job's time limit; only a shorter limit needs another timer.
        let performed = match limit < J::TIMEOUT {
            true => match tokio::time::timeout(limit, self.perform(args, cx)).await {
                Ok(performed) => performed,
                Err(_) => return Err(AttemptTimedOut(limit).into()),
            },
            false => self.perform(args, cx).await,
        };
        Ok(match performed {
            Ok(output) => Outcome::done(output),
            Err(mut error) => {
                let value = error.value.take();
                match error.then {
                    Then::Retry => again(self, cx, &policy, None, &error, value),
                    Then::RetryAfter(delay) => again(self, cx, &policy, Some(delay), &error, value),
                    Then::Cancel => Outcome::cancelled(error),
                    Then::Stop => Outcome::failed(error, value),
                }
            }
        })
    }

    async fn on_failure(
        &self,
        state: Perform<J::Args>,
        failure: Failure,
        cx: &Context,
    ) -> StepResult<J> {
        let policy = match state {
            Perform::Perform(_) => RetryPolicy::of::<J>(),
            Perform::Scheduled { policy, .. } => policy,
        };
        Ok(again(self, cx, &policy, None, &failure, None))
    }
}

fn again<J: Job>(
    job: &J,
    cx: &Context,
    policy: &RetryPolicy,
    delay: Option<Duration>,
    error: &dyn fmt::Display,
    value: Option<ErrorValue>,
) -> Outcome<J> {
    let attempt = cx.attempt() + 1;
    if attempt >= policy.max_attempts {
        let times = if attempt == 1 { "attempt" } else { "attempts" };
        let reason = format_args!("gave up after {attempt} {times}: {error}");
        return Outcome::failed(reason, value);
    }
    let pause = || match &policy.backoff {
        Some(backoff) => backoff.pause(attempt),
        None => job.backoff(attempt),
    };
    Outcome::retry(delay.unwrap_or_else(pause), error)
}
