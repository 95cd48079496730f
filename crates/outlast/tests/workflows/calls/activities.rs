//! Activities: jobs with their own retries, by the policy that was fixed when they were scheduled.

use crate::support::*;
use outlast::prelude::*;
use outlast::store::{EventKind, limits};
use outlast::testing::Harness;
use outlast::workflow::FlowErrorKind;
use outlast::{Job, JobError, Status};

on_both_stores!(
    an_activity_is_retried_with_the_backoff_of_its_job,
    an_activity_fails_after_the_max_attempts_of_its_job,
    the_max_attempts_of_a_call_override_those_of_the_job,
    the_backoff_of_a_call_overrides_that_of_the_job,
    an_attempt_is_bounded_by_the_attempt_timeout_of_the_call,
    the_retry_policy_of_an_activity_is_fixed_when_it_is_scheduled,
    an_activity_runs_on_its_own_queue,
    retries_of_an_activity_do_not_wake_its_workflow,
    a_directly_inserted_job_keeps_its_own_retry_policy,
    an_activity_accepts_arguments_up_to_the_limit_of_a_job,
    an_invalid_queue_or_key_fails_the_call_and_not_the_workflow,
);

/// A job that succeeds at the attempt that its argument names. It has at most `MAX` attempts.
struct Flaky<const MAX: u32>(Log);

impl<const MAX: u32> Job for Flaky<MAX> {
    const NAME: &'static str = "flaky";
    const QUEUE: &'static str = "errands";
    const MAX_ATTEMPTS: u32 = MAX;
    const TIMEOUT: Duration = Duration::from_secs(60);
    type Args = u32;
    type Output = u32;

    async fn perform(&self, works_at: u32, cx: &Context) -> Result<u32, JobError> {
        self.0.note(format!("try {}", cx.attempt() + 1));
        match cx.attempt() + 1 {
            0 => std::future::pending().await,
            attempt if attempt >= works_at => Ok(attempt),
            attempt => Err(JobError::retry(format!("not at {attempt}"))),
        }
    }

    fn backoff(&self, _: u32) -> Duration {
        Duration::from_secs(7)
    }
}

/// A job that hangs at its first attempt.
#[job(timeout = MINUTE)]
async fn hangs(cx: &Context) -> Result<u32, JobError> {
    match cx.attempt() {
        0 => std::future::pending().await,
        attempt => Ok(attempt + 1),
    }
}

async fn runs<const MAX: u32>(ground: &Ground, log: &Log, code: Script) -> Harness {
    let worker = ground.worker().register(code);
    let worker = worker.register(Flaky::<MAX>(log.clone())).register(hangs);
    worker.build().await.unwrap()
}

async fn an_activity_is_retried_with_the_backoff_of_its_job(ground: Ground) {
    let code = script(|flow, _| async move { flow.run(Flaky::<3>::with(3)).await });
    let log = Log::default();
    let mut harness = runs::<3>(&ground, &log, code).await;
    let id = begin(&harness, ()).await;
    let begun = harness.time();
    harness.run_all().await;
    assert_eq!(output(&get(&harness, id).await), json!(3));
    assert_eq!(harness.time().since(begun), 14 * SECOND);
    assert_eq!(log.entries().len(), 3);
}

async fn an_activity_fails_after_the_max_attempts_of_its_job(ground: Ground) {
    let code = script(|flow, _| async move {
        let error = flow.run(Flaky::<3>::with(9)).await.unwrap_err();
        assert_eq!(error.kind(), FlowErrorKind::ActivityFailed);
        Ok(error.to_string())
    });
    let log = Log::default();
    let mut harness = runs::<3>(&ground, &log, code).await;
    let id = begin(&harness, ()).await;
    harness.run_all().await;
    let expected = "flaky failed: gave up after 3 attempts: not at 3";
    assert_eq!(output(&get(&harness, id).await), expected);
    assert_eq!(log.entries().len(), 3);
}

async fn the_max_attempts_of_a_call_override_those_of_the_job(ground: Ground) {
    let code = script(|flow, _| async move {
        let more = flow.run(Flaky::<3>::with(5).max_attempts(5)).await?;
        let fewer = flow
            .run(Flaky::<3>::with(2).max_attempts(1))
            .await
            .unwrap_err();
        Ok((more, fewer.to_string()))
    });
    let log = Log::default();
    let mut harness = runs::<3>(&ground, &log, code).await;
    let id = begin(&harness, ()).await;
    harness.run_all().await;
    let fewer = "flaky failed: gave up after 1 attempt: not at 1";
    assert_eq!(output(&get(&harness, id).await), json!([5, fewer]));
}

async fn the_backoff_of_a_call_overrides_that_of_the_job(ground: Ground) {
    let code = script(|flow, _| async move {
        let longest = Duration::from_millis(500);
        let flaky = Flaky::<3>::with(5).max_attempts(5);
        let flaky = flaky.backoff(Duration::from_millis(100), 2.0, longest);
        flow.run(flaky).await
    });
    let log = Log::default();
    let mut harness = runs::<3>(&ground, &log, code).await;
    let id = begin(&harness, ()).await;
    let begun = harness.time();
    harness.run_all().await;
    assert_eq!(output(&get(&harness, id).await), json!(5));
    let paused = harness.time().since(begun);
    assert_eq!(paused, Duration::from_millis(100 + 200 + 400 + 500));
}

async fn an_attempt_is_bounded_by_the_attempt_timeout_of_the_call(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.run(hangs::with().attempt_timeout(Duration::from_millis(5)))
            .await
    });
    let log = Log::default();
    let mut harness = runs::<3>(&ground, &log, code).await;
    let id = begin(&harness, ()).await;
    harness.run_all().await;
    assert_eq!(output(&get(&harness, id).await), json!(2));
}

async fn the_retry_policy_of_an_activity_is_fixed_when_it_is_scheduled(ground: Ground) {
    let code = script(|flow, _| async move {
        let job = flow.run(Flaky::<3>::with(3));
        let overridden = flow.run(Flaky::<3>::with(9).max_attempts(4));
        let group = flow.all((job, overridden)).await.unwrap_err();
        flow.signal::<Halt>().await?;
        Ok(group.to_string())
    });
    // The build that schedules the job has three attempts. The build that runs it later has one.
    let mut old = ground.runs_only(code.clone()).await;
    let id = begin_and_run(&mut old, ()).await;
    let events = history(&old, id, 1).await;
    let scheduled = events
        .iter()
        .filter(|it| it.kind == EventKind::ActivityScheduled);
    let policies: Vec<_> = scheduled.map(|it| data(it)["policy"].clone()).collect();
    let policy = |max: u32| json!({"max_attempts": max, "timeout_ms": 60_000});
    assert_eq!(policies, [policy(3), policy(4)]);
    let log = Log::default();
    let mut new = runs::<1>(&ground, &log, code).await;
    new.run_all().await;
    new.client().signal(id, Halt(0)).await.unwrap();
    new.run().await;
    let seen = output(&get(&new, id).await);
    assert_eq!(seen, "flaky failed: gave up after 4 attempts: not at 4");
    assert_eq!(log.entries().len(), 3 + 4);
    assert_eq!(statuses(&new, id).await, [Status::Done, Status::Failed]);
}

async fn an_activity_runs_on_its_own_queue(ground: Ground) {
    let code = script(|flow, _| async move {
        let other = Flaky::<3>::with(1).queue("elsewhere").priority(-3);
        let other = flow.run(other.partition_key("p"));
        flow.all((flow.run(Flaky::<3>::with(1)), other)).await
    });
    let mut harness = ground.runs_only(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let mut places = Vec::new();
    for child in children(&harness, id).await {
        let row = get(&harness, child.id).await;
        places.push((row.queue, row.priority, row.partition_key));
    }
    let expected = [
        ("errands".to_owned(), 0, None),
        ("elsewhere".to_owned(), -3, Some("p".to_owned())),
    ];
    assert_eq!(places, expected);
}

async fn retries_of_an_activity_do_not_wake_its_workflow(ground: Ground) {
    let code = script(|flow, _| async move { flow.run(Flaky::<3>::with(3)).await });
    let log = Log::default();
    let mut harness = runs::<3>(&ground, &log, code).await;
    let id = begin(&harness, ()).await;
    let report = harness.run_all().await;
    assert_eq!(output(&get(&harness, id).await), json!(3));
    assert_eq!((report.retries, report.flows), (2, 1));
}

async fn a_directly_inserted_job_keeps_its_own_retry_policy(ground: Ground) {
    let log = Log::default();
    let code = script(|_, _| async move { Ok(()) });
    let mut harness = runs::<3>(&ground, &log, code).await;
    let job = harness.start(Flaky::<3>::with(3)).await.unwrap();
    harness.run_all().await;
    harness.expect(&job).await.is_done_with(&3);
}

/// A job that returns the length of its argument.
#[job]
async fn measure(what: String) -> Result<usize, JobError> {
    Ok(what.len())
}

async fn an_activity_accepts_arguments_up_to_the_limit_of_a_job(ground: Ground) {
    let largest = limits::JSON_BYTES_MAX - 2;
    let code = script(move |flow, _| async move {
        let fits = flow.run(measure::with("x".repeat(largest))).await?;
        let error = flow
            .run(measure::with("x".repeat(largest + 1)))
            .await
            .unwrap_err();
        Ok((fits, error.kind().as_str()))
    });
    let worker = ground.worker().register(code).register(measure);
    let mut harness = worker.build().await.unwrap();
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(
        output(&get(&harness, id).await),
        json!([largest, "invalid"])
    );
}

async fn an_invalid_queue_or_key_fails_the_call_and_not_the_workflow(ground: Ground) {
    let code = script(|flow, _| async move {
        let long = || "x".repeat(limits::KEY_BYTES_MAX + 1);
        let queue = flow.run(double::with(1).queue("")).await.unwrap_err();
        let key = flow
            .run(Kid::with(Say::Give(1)).key(long()))
            .await
            .unwrap_err();
        let grouped = flow.all((flow.run(double::with(1).partition_key(long())),));
        let grouped = grouped.await.unwrap_err();
        let started = flow.spawn(Kid::with(Say::Give(1)).queue("")).await;
        let started = started.map(|_| ()).unwrap_err();
        let kinds = [queue, key, grouped, started].map(|error| error.kind().as_str());
        Ok((kinds, number(&flow, "next", 1).await?))
    });
    let invalid = "invalid";
    let expected = json!([[invalid, invalid, invalid, invalid], 1]);
    assert_eq!(result_of(&ground, code, ()).await, expected);
}
