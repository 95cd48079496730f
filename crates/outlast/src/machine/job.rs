//! The one-step form of a machine.

use super::failure::{TimedOut, write_chain};
use super::{Context, Failure, History, Machine, Outcome, StepResult};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// A machine of one step that is tried until it works.
///
/// One that is [cancelled](crate::Client::cancel) ends as cancelled instead of being tried again; a try that runs is told
/// ([`Context::cancelled`]), and what it returns counts if it is an end. A job with something to undo is a [`Machine`].
///
/// ```
/// use outlast::prelude::*;
///
/// struct SendMail;
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
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::builder(Sqlite::in_memory()?)
///     .machine(SendMail)
///     .queue("default", 10)
///     .start()
///     .await?;
/// let mail = engine.insert(New::<SendMail>(Mail { to: "ada@example.org".into() })).await?;
/// engine.wait(mail, Duration::from_secs(10)).await?;
/// # engine.shutdown().await;
/// # Ok(())
/// # }
/// ```
// Who is neither is told so here: every job is a machine, so the compiler looks for a job last.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a machine nor a job",
    label = "implement `outlast::Machine` (several steps) or `outlast::Job` (one) for it",
    note = "a workflow is started with `Run::<W>(input)` and registered with `.workflow(..)`"
)]
pub trait Job: Send + Sync + 'static {
    /// What it is called; see [`Machine::NAME`].
    const NAME: &'static str;
    /// Which form of the job this is; see [`Machine::VERSION`].
    const VERSION: i32 = 1;
    /// The queue it waits in.
    const QUEUE: &'static str = "default";
    /// How often it is tried at most.
    const MAX_ATTEMPTS: u32 = 20;
    /// How long one try may take.
    const TIMEOUT: Duration = Duration::from_secs(300);
    /// What is recorded of its tries; see [`Machine::HISTORY`].
    const HISTORY: History = History::Off;

    /// What it needs.
    type Args: Serialize + DeserializeOwned + Send + 'static;
    /// What it leads to.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// Does it.
    fn perform(
        &self,
        args: Self::Args,
        cx: &Context,
    ) -> impl Future<Output = Result<Self::Output, JobError>> + Send;

    /// How long to wait after the try with this number, counted from 1. The default doubles from one second
    /// to one hour, give or take a tenth so that jobs which failed together do not come back together.
    fn backoff(&self, attempt: u32) -> Duration {
        let doubled = 1u64 << attempt.saturating_sub(1).min(12);
        let seconds = doubled.min(3600) as f64;
        Duration::from_secs_f64(seconds * (0.9 + 0.2 * fastrand::f64()))
    }
}

/// Why a job did not work, and what to do about it. `?` makes one that is tried again, of any error, of `anyhow::Error`, of
/// `Box<dyn Error + Send + Sync>` and of a text. Its text has the causes too.
pub struct JobError {
    source: Box<dyn Error + Send + Sync>,
    then: Then,
}

enum Then {
    Retry,
    RetryAfter(Duration),
    Cancel,
    Stop,
}

impl JobError {
    /// Try again after the job's backoff.
    pub fn retry(error: impl Into<Box<dyn Error + Send + Sync>>) -> JobError {
        JobError::with(Then::Retry, error)
    }

    /// Try again after this long: somebody said when.
    pub fn retry_after(
        delay: Duration,
        error: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> JobError {
        JobError::with(Then::RetryAfter(delay), error)
    }

    /// Nothing needs to be done any more: the job ends as cancelled.
    pub fn cancel(reason: impl Into<Box<dyn Error + Send + Sync>>) -> JobError {
        JobError::with(Then::Cancel, reason)
    }

    /// It can never work: the job ends as failed.
    pub fn fatal(error: impl Into<Box<dyn Error + Send + Sync>>) -> JobError {
        JobError::with(Then::Stop, error)
    }

    fn with(then: Then, error: impl Into<Box<dyn Error + Send + Sync>>) -> JobError {
        JobError {
            source: error.into(),
            then,
        }
    }
}

/// Any error, a boxed one, an `anyhow::Error`, a text.
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
    /// Do it.
    Perform(A),
    /// Do it as a workflow has said.
    Scheduled {
        /// What it needs.
        args: A,
        /// How it is tried.
        policy: RetryPolicy,
    },
}

/// How a job is tried that a workflow has scheduled: fixed then, whatever later builds say.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// How often at most.
    pub max_attempts: u32,
    /// How long one try may take, in milliseconds.
    pub timeout_ms: u64,
    /// How long to wait between tries; the job's own [`backoff`](Job::backoff) when nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Doubling>,
}

/// A pause that grows from try to try.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Doubling {
    /// After the first try, in milliseconds.
    pub first_ms: u64,
    /// How many times as long after each further one.
    pub factor: f64,
    /// At most so long, in milliseconds.
    pub longest_ms: u64,
}

impl RetryPolicy {
    /// What the job says of itself.
    pub(crate) fn of<J: Job>() -> RetryPolicy {
        RetryPolicy {
            max_attempts: J::MAX_ATTEMPTS,
            timeout_ms: u64::try_from(J::TIMEOUT.as_millis()).unwrap_or(u64::MAX),
            backoff: None,
        }
    }
}

impl Doubling {
    /// How long to wait after the try with this number, counted from 1.
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

impl<J: Job> Machine for J {
    const NAME: &'static str = <J as Job>::NAME;
    const VERSION: i32 = <J as Job>::VERSION;
    const QUEUE: &'static str = <J as Job>::QUEUE;
    const STEP_TIMEOUT: Duration = <J as Job>::TIMEOUT;
    const HISTORY: History = <J as Job>::HISTORY;
    type State = Perform<J::Args>;
    type Output = J::Output;

    async fn step(&self, state: Perform<J::Args>, cx: &Context) -> StepResult<J> {
        let (args, policy) = match state {
            Perform::Perform(args) => (args, RetryPolicy::of::<J>()),
            Perform::Scheduled { args, policy } => (args, policy),
        };
        let limit = Duration::from_millis(policy.timeout_ms).min(J::TIMEOUT);
        // The engine's own limit is the job's; only a shorter one needs a clock of its own.
        let performed = match limit < J::TIMEOUT {
            true => match tokio::time::timeout(limit, self.perform(args, cx)).await {
                Ok(performed) => performed,
                Err(_) => return Err(TimedOut(limit).into()),
            },
            false => self.perform(args, cx).await,
        };
        Ok(match performed {
            Ok(output) => Outcome::done(output),
            Err(error) => match error.then {
                Then::Retry => again(self, cx, &policy, None, &error),
                Then::RetryAfter(delay) => again(self, cx, &policy, Some(delay), &error),
                Then::Cancel => Outcome::cancelled(error),
                Then::Stop => Outcome::fail(error),
            },
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
        Ok(again(self, cx, &policy, None, &failure))
    }
}

fn again<J: Job>(
    job: &J,
    cx: &Context,
    policy: &RetryPolicy,
    delay: Option<Duration>,
    error: &dyn fmt::Display,
) -> Outcome<J> {
    let attempt = cx.attempt() + 1;
    if attempt >= policy.max_attempts {
        return Outcome::fail(format_args!("gave up after {attempt} attempts: {error}"));
    }
    let pause = || match &policy.backoff {
        Some(backoff) => backoff.pause(attempt),
        None => job.backoff(attempt),
    };
    Outcome::retry(delay.unwrap_or_else(pause), error)
}
