//! Jobs: attempts, backoff, and the ends of a job.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::{LONG, eventually, insert, on_both_stores, running};
use outlast::prelude::*;
use outlast::store::{Inspect, Instance, Store};
use outlast::{Job, JobError, Status};
use std::sync::{Arc, Mutex};
use std::time::Instant;

on_both_stores!(
    a_job_that_works_is_done_with_its_output,
    a_job_that_fails_is_tried_again_after_its_backoff,
    a_job_is_tried_again_after_any_error,
    a_job_is_tried_again_after_the_delay_that_it_names,
    a_job_that_keeps_failing_is_given_up_after_its_last_attempt,
    a_job_can_cancel_itself,
    a_job_with_a_fatal_error_fails_at_once,
    a_job_that_panics_is_tried_again,
    a_job_that_takes_too_long_is_tried_again,
    a_job_whose_output_cannot_be_stored_is_tried_again_and_given_up,
    a_job_can_be_a_child,
);

/// Does what its arguments say.
#[derive(Clone, Default)]
struct Errand {
    attempts: Arc<Mutex<Vec<Instant>>>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Task {
    Work,
    FailTwice,
    ParseFirst,
    SayWhen { ms: u64 },
    FailAlways,
    Cancel,
    Fatal,
    PanicFirst,
    HangFirst,
    AnswerNul,
    Postpone,
}

impl Job for Errand {
    const NAME: &'static str = "errand";
    const MAX_ATTEMPTS: u32 = 4;
    const TIMEOUT: Duration = Duration::from_millis(200);
    type Args = Task;
    type Output = String;

    async fn perform(&self, task: Task, cx: &Context) -> Result<String, JobError> {
        self.attempts.lock().unwrap().push(Instant::now());
        let first = cx.attempt() == 0;
        match task {
            Task::FailTwice if cx.attempt() < 2 => Err(JobError::retry("busy")),
            Task::ParseFirst if first => Ok("x".parse::<u32>()?.to_string()),
            Task::SayWhen { ms } if first => {
                let delay = Duration::from_millis(ms);
                Err(JobError::retry_after(delay, "come back later"))
            }
            Task::FailAlways => Err(JobError::retry("still busy")),
            Task::Cancel => Err(JobError::cancel("nobody asks any more")),
            Task::Fatal => Err(JobError::fatal("no such address")),
            Task::PanicFirst if first => panic!("stumbled"),
            Task::HangFirst if first => std::future::pending().await,
            Task::AnswerNul => Ok("\0".to_owned()),
            Task::Postpone => Err(JobError::retry_after(HOUR, "tomorrow")),
            Task::Work
            | Task::FailTwice
            | Task::ParseFirst
            | Task::SayWhen { .. }
            | Task::PanicFirst
            | Task::HangFirst => Ok(format!("done at attempt {}", cx.attempt())),
        }
    }

    fn backoff(&self, attempt: u32) -> Duration {
        Duration::from_millis(20) * attempt
    }
}

/// Runs a job until it is done. Returns its output and the pauses between its attempts.
async fn performed(store: impl Store + Inspect, task: Task) -> (String, Vec<Duration>) {
    let errand = Errand::default();
    let engine = running(store, errand.clone()).await;
    let handle = insert(engine.client(), Errand::with(task)).await;
    let output = handle.output().timeout(LONG).await.unwrap();
    let attempts = errand.attempts.lock().unwrap();
    let pauses = attempts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    (output, pauses)
}

/// Runs a job until it has ended. Returns its instance and the number of its attempts.
async fn ended(store: impl Store + Inspect, task: Task) -> (Instance, usize) {
    let errand = Errand::default();
    let engine = running(store, errand.clone()).await;
    let handle = insert(engine.client(), Errand::with(task)).await;
    let ended = handle.ended().timeout(LONG).await.unwrap();
    let attempts = errand.attempts.lock().unwrap().len();
    (ended, attempts)
}

async fn a_job_that_works_is_done_with_its_output<S: Store + Inspect + Clone>(store: S) {
    let (output, pauses) = performed(store, Task::Work).await;
    assert_eq!(output, "done at attempt 0");
    assert!(pauses.is_empty());
}

async fn a_job_that_fails_is_tried_again_after_its_backoff<S: Store + Inspect + Clone>(store: S) {
    let (output, pauses) = performed(store, Task::FailTwice).await;
    assert_eq!(output, "done at attempt 2");
    assert!(pauses[0] >= Duration::from_millis(20), "{pauses:?}");
    assert!(pauses[1] >= Duration::from_millis(40), "{pauses:?}");
}

async fn a_job_is_tried_again_after_any_error<S: Store + Inspect + Clone>(store: S) {
    let (output, _) = performed(store, Task::ParseFirst).await;
    assert_eq!(output, "done at attempt 1");
}

async fn a_job_is_tried_again_after_the_delay_that_it_names<S: Store + Inspect + Clone>(store: S) {
    let (output, pauses) = performed(store.clone(), Task::SayWhen { ms: 100 }).await;
    assert_eq!(output, "done at attempt 1");
    assert!(pauses[0] >= Duration::from_millis(100), "{pauses:?}");

    let engine = running(store, Errand::default()).await;
    let handle = insert(engine.client(), Errand::with(Task::Postpone)).await;
    eventually("the job is postponed", async || {
        handle.instance().await.unwrap().attempt == 1
    })
    .await;
    let postponed = handle.instance().await.unwrap();
    assert_eq!(postponed.last_error.as_deref(), Some("tomorrow"));
    assert!(postponed.eligible_at > engine.client().admin().now().await.unwrap());
}

async fn a_job_that_keeps_failing_is_given_up_after_its_last_attempt<S: Store + Inspect + Clone>(
    store: S,
) {
    let (ended, attempts) = ended(store, Task::FailAlways).await;
    assert_eq!(ended.status, Status::Failed);
    let reason = ended.last_error.unwrap();
    assert_eq!(reason, "gave up after 4 attempts: still busy");
    assert_eq!(attempts, 4);
}

async fn a_job_can_cancel_itself<S: Store + Inspect + Clone>(store: S) {
    let (ended, attempts) = ended(store, Task::Cancel).await;
    assert_eq!(ended.status, Status::Cancelled);
    assert_eq!(ended.last_error.as_deref(), Some("nobody asks any more"));
    assert_eq!(attempts, 1);
}

async fn a_job_with_a_fatal_error_fails_at_once<S: Store + Inspect + Clone>(store: S) {
    let (ended, attempts) = ended(store, Task::Fatal).await;
    assert_eq!(ended.status, Status::Failed);
    assert_eq!(ended.last_error.as_deref(), Some("no such address"));
    assert_eq!(attempts, 1);
}

async fn a_job_that_panics_is_tried_again<S: Store + Inspect + Clone>(store: S) {
    let (output, _) = performed(store, Task::PanicFirst).await;
    assert_eq!(output, "done at attempt 1");
}

async fn a_job_that_takes_too_long_is_tried_again<S: Store + Inspect + Clone>(store: S) {
    let (output, pauses) = performed(store, Task::HangFirst).await;
    assert_eq!(output, "done at attempt 1");
    assert!(pauses[0] >= <Errand as Job>::TIMEOUT, "{pauses:?}");
}

async fn a_job_whose_output_cannot_be_stored_is_tried_again_and_given_up<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let (ended, attempts) = ended(store, Task::AnswerNul).await;
    assert_eq!((ended.status, attempts), (Status::Failed, 4));
    let reason = ended.last_error.unwrap();
    assert!(reason.starts_with("gave up after 4 attempts"), "{reason}");
    assert!(reason.contains("\\u0000"), "{reason}");
}

/// Starts jobs as its children.
struct Boss;

#[steps]
enum Order {
    Send,
    Collect,
}

impl Machine for Boss {
    const NAME: &'static str = "boss";
    type State = Order;
    type Output = Vec<Option<String>>;

    async fn step(&self, order: Order, cx: &Context) -> StepResult<Self> {
        match order {
            Order::Send => {
                let errands = [Task::Work, Task::FailTwice, Task::Fatal];
                fan_out(errands.map(Errand::with)).then(Order::Collect)
            }
            Order::Collect => {
                let errands = cx.children::<Errand>()?.into_iter();
                done(errands.map(|errand| errand.output).collect())
            }
        }
    }
}

async fn a_job_can_be_a_child<S: Store + Inspect + Clone>(store: S) {
    let builder = Engine::builder(store)
        .register(Boss)
        .register(Errand::default());
    let engine = builder.queue("default", 10).start().await.unwrap();
    let handle = insert(engine.client(), Boss::with(Order::Send)).await;
    let expected = ["done at attempt 0", "done at attempt 2"].map(|text| Some(text.to_owned()));
    let outputs = handle.output().timeout(LONG).await.unwrap();
    assert_eq!(outputs[..2], expected);
    assert_eq!(outputs[2], None);
}

/// A job with the defaults.
struct Plain;

impl Job for Plain {
    const NAME: &'static str = "plain";
    type Args = ();
    type Output = ();

    async fn perform(&self, (): (), _cx: &Context) -> Result<(), JobError> {
        Ok(())
    }
}

#[test]
fn the_default_backoff_of_a_job_doubles_from_a_second_to_an_hour() {
    for (attempt, seconds) in [
        (1, 1.0),
        (2, 2.0),
        (5, 16.0),
        (13, 3600.0),
        (u32::MAX, 3600.0),
    ] {
        for _ in 0..100 {
            let pause = Plain.backoff(attempt).as_secs_f64();
            assert!(
                (0.9 * seconds..=1.1 * seconds).contains(&pause),
                "{attempt}: {pause}"
            );
        }
    }
}
