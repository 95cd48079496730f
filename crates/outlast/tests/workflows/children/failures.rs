//! Failures of children, as their parent sees them.

use crate::support::*;
use outlast::prelude::*;
use outlast::store::EventKind;
use outlast::testing::Harness;
use outlast::workflow::{FlowErrorKind, StepFailure};
use outlast::{Failure, FlowError, InstanceId, Job, JobError, Note, Status};

on_both_stores!(
    anyhow_and_boxed_errors_are_failures_with_their_causes,
    a_failed_child_is_an_error_with_kind_message_child_and_call,
    a_failed_activity_is_an_error_of_its_own_kind,
    a_failed_machine_is_a_failed_child,
    a_cancelled_child_and_a_cancelled_activity_are_errors_of_their_kinds,
    a_terminated_child_is_an_error_of_its_kind,
    a_child_whose_key_is_taken_is_an_error_of_its_kind,
    a_failure_that_is_caught_is_recorded_as_handled,
    a_failure_that_is_not_caught_is_not_recorded_as_handled,
    a_failure_that_is_caught_before_a_new_run_is_recorded_as_handled,
    a_failure_is_recorded_as_handled_once_despite_replays,
    a_failure_that_is_never_joined_is_not_recorded_as_handled,
    any_end_of_a_child_releases_its_place_in_the_window,
);

/// Returns the error of one call, the history of its workflow as words, and the child.
async fn failure(
    ground: &Ground,
    code: Script,
    meanwhile: impl AsyncFn(&Harness, InstanceId),
) -> (Value, Vec<String>, InstanceId) {
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let kids = children(&harness, id).await;
    if get(&harness, id).await.finished_at.is_none() {
        meanwhile(&harness, kids[0].id).await;
        harness.run().await;
    }
    let seen = output(&get(&harness, id).await);
    (seen, history_words(&harness, id).await, kids[0].id)
}

fn seen_as(error: &FlowError) -> Value {
    json!([
        error.kind().as_str(),
        error.to_string(),
        error.child(),
        error.call(),
    ])
}

async fn nothing(_: &Harness, _: InstanceId) {}

async fn a_failed_child_is_an_error_with_kind_message_child_and_call(ground: Ground) {
    let code = script(|flow, _| async move {
        let error = flow
            .run(Kid::with(Say::Fail("no luck".into())))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), FlowErrorKind::ChildFailed);
        assert!(!error.is_cancelled());
        Ok(seen_as(&error))
    });
    let (seen, events, child) = failure(&ground, code, nothing).await;
    let expected = json!(["child_failed", "kid failed: no luck", child, 1]);
    assert_eq!(seen, expected);
    assert!(
        events.contains(&"child_failed 1 kid".to_owned()),
        "{events:?}"
    );
}

async fn a_failed_activity_is_an_error_of_its_own_kind(ground: Ground) {
    let code = script(|flow, _| async move {
        let error = flow.run(fails::with("no luck".into())).await.unwrap_err();
        Ok(seen_as(&error))
    });
    let (seen, events, child) = failure(&ground, code, nothing).await;
    let expected = json!(["activity_failed", "fails failed: no luck", child, 1]);
    assert_eq!(seen, expected);
    assert!(
        events.contains(&"activity_failed 1 fails".to_owned()),
        "{events:?}"
    );
}

async fn a_failed_machine_is_a_failed_child(ground: Ground) {
    let code = script(|flow, _| async move {
        let turnstile = flow.run(Turnstile::with(Turn::Through(1)));
        Ok(seen_as(&turnstile.await.unwrap_err()))
    });
    let (seen, _, child) = failure(&ground, code, nothing).await;
    let expected = json!(["child_failed", "turnstile failed: nobody came", child, 1]);
    assert_eq!(seen, expected);
}

async fn a_cancelled_child_and_a_cancelled_activity_are_errors_of_their_kinds(ground: Ground) {
    let code = script(|flow, _| async move {
        let error = flow.run(Kid::with(Say::Wait)).await.unwrap_err();
        assert!(
            !error.is_cancelled(),
            "the cancel of a child does not cancel its parent"
        );
        Ok(seen_as(&error))
    });
    let cancel = async |harness: &Harness, child: InstanceId| {
        let note = Note::by("ada").because("too dear");
        harness.client().admin().cancel(child, note).await.unwrap();
    };
    let (seen, events, child) = failure(&ground, code, cancel).await;
    let message = "kid was cancelled: cancelled by ada: too dear";
    assert_eq!(seen, json!(["child_cancelled", message, child, 1]));
    assert!(
        events.contains(&"child_cancelled 1 kid".to_owned()),
        "{events:?}"
    );

    let code = script(|flow, _| async move {
        let error = flow.run(fails::with("cancel: not needed".into())).await;
        Ok(seen_as(&error.unwrap_err()))
    });
    let (seen, events, child) = failure(&ground, code, nothing).await;
    let message = "fails was cancelled: not needed";
    assert_eq!(seen, json!(["activity_cancelled", message, child, 1]));
    assert!(
        events.contains(&"activity_cancelled 1 fails".to_owned()),
        "{events:?}"
    );
}

async fn a_terminated_child_is_an_error_of_its_kind(ground: Ground) {
    let code = script(|flow, _| async move {
        Ok(seen_as(&flow.run(Kid::with(Say::Wait)).await.unwrap_err()))
    });
    let terminate = async |harness: &Harness, child: InstanceId| {
        let note = Note::by("ada").because("a rule asks for it");
        harness
            .client()
            .admin()
            .terminate(child, note)
            .await
            .unwrap();
    };
    let (seen, events, child) = failure(&ground, code, terminate).await;
    let message = "kid was terminated: terminated by ada: a rule asks for it";
    assert_eq!(seen, json!(["child_terminated", message, child, 1]));
    assert!(
        events.contains(&"child_terminated 1 kid".to_owned()),
        "{events:?}"
    );
}

async fn a_child_whose_key_is_taken_is_an_error_of_its_kind(ground: Ground) {
    let code = script(|flow, _| async move {
        let first = flow.spawn(Kid::with(Say::Wait).key("k")).await?;
        let alone = flow
            .run(Kid::with(Say::Give(1)).key("k"))
            .await
            .unwrap_err();
        let group = flow.all((
            flow.run(Kid::with(Say::Give(1))),
            flow.run(Kid::with(Say::Give(2)).key("k")),
        ));
        let grouped = group.await.unwrap_err();
        let started = flow.spawn(Kid::with(Say::Give(1)).key("k")).await?;
        let joined = started.join().await.unwrap_err();
        let kinds = [&alone, &grouped, &joined].map(|error| error.kind().as_str());
        let calls = [&alone, &grouped, &joined].map(|error| error.call());
        Ok((first.child().call(), kinds, calls))
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let gone = "child_gone";
    let expected = json!([1, [gone, gone, gone], [2, 5, 6]]);
    assert_eq!(output(&get(&harness, id).await), expected);
}

async fn a_failure_that_is_caught_is_recorded_as_handled(ground: Ground) {
    let code = script(|flow, _| async move {
        let failed = flow.run(Kid::with(Say::Fail("one".into()))).await.is_err();
        let step = flow.step("two", async || Err::<(), _>("no")).await.is_err();
        let group = flow
            .all((flow.run(fails::with("three".into())),))
            .await
            .is_err();
        Ok((failed, step, group))
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    output(&get(&harness, id).await);
    let history = history(&harness, id, 1).await;
    let handled = history
        .iter()
        .filter(|it| it.kind == EventKind::FailureHandled);
    let handled: Vec<_> = handled
        .map(|it| (it.call, it.name.as_str(), data(it)["reason"].clone()))
        .collect();
    let expected = [
        (Some(1), "kid", json!("one")),
        (Some(2), "two", json!("no")),
        (Some(4), "fails", json!("three")),
    ];
    assert_eq!(handled, expected);
}

async fn a_failure_that_is_not_caught_is_not_recorded_as_handled(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.run(Kid::with(Say::Fail("one".into()))).await?;
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(reason(&get(&harness, id).await), "kid failed: one");
    let history = history(&harness, id, 1).await;
    assert_eq!(count(&history, EventKind::FailureHandled), 0);
    assert_eq!(count(&history, EventKind::ChildFailed), 1);
}

async fn a_failure_that_is_caught_before_a_new_run_is_recorded_as_handled(ground: Ground) {
    let code = script(|flow, input: Value| async move {
        if input == json!(0) {
            return Ok(());
        }
        flow.run(Kid::with(Say::Fail("one".into())))
            .await
            .unwrap_err();
        flow.continue_as_new(0)
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, 1).await;
    output(&get(&harness, id).await);
    let history = history(&harness, id, 1).await;
    assert_eq!(count(&history, EventKind::FailureHandled), 1);
}

async fn a_failure_is_recorded_as_handled_once_despite_replays(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.run(Kid::with(Say::Fail("one".into())))
            .await
            .unwrap_err();
        flow.sleep(SECOND).await?;
        flow.sleep(SECOND).await?;
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.run_all().await;
    output(&get(&harness, id).await);
    let history = history(&harness, id, 1).await;
    assert_eq!(count(&history, EventKind::FailureHandled), 1);
}

async fn a_failure_that_is_never_joined_is_not_recorded_as_handled(ground: Ground) {
    let code = script(|flow, _| async move {
        let failing = flow.spawn(Kid::with(Say::Fail("unseen".into()))).await?;
        flow.sleep(SECOND).await?;
        Ok(failing.child().call())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.run_all().await;
    assert_eq!(output(&get(&harness, id).await), json!(1));
    let history = history(&harness, id, 1).await;
    assert_eq!(count(&history, EventKind::FailureHandled), 0);
}

async fn any_end_of_a_child_releases_its_place_in_the_window(ground: Ground) {
    let code = script(|flow, _| async move {
        let kids = [
            Say::Fail("badly".into()),
            Say::Wait,
            Say::Wait,
            Say::Give(4),
            Say::Wait,
            Say::Wait,
        ];
        let kids = kids.map(|say| flow.run(Kid::with(say)));
        let error = flow.all(kids).window(1).await.unwrap_err();
        flow.signal::<Halt>().await?;
        Ok(error.to_string())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let kids = children(&harness, id).await;
    let waiting = Status::AwaitingSignal;
    assert_eq!(statuses(&harness, id).await[..2], [Status::Failed, waiting]);
    harness
        .client()
        .admin()
        .cancel(kids[1].id, ada())
        .await
        .unwrap();
    harness.run().await;
    assert_eq!(
        statuses(&harness, id).await[1..3],
        [Status::Cancelled, waiting]
    );
    harness
        .client()
        .admin()
        .terminate(kids[2].id, ada())
        .await
        .unwrap();
    harness.run().await;
    let expected = [Status::Cancelled, Status::Done, waiting];
    assert_eq!(statuses(&harness, id).await[2..5], expected);
    go(&harness, kids[4].id, 1).await;
    harness.run().await;
    assert_eq!(statuses(&harness, id).await[4..], [Status::Done, waiting]);
}

fn of_anyhow(what: &str) -> anyhow::Result<u64> {
    let refused = std::io::Error::other("refused");
    Err(anyhow::Error::new(refused).context(format!("{what} with anyhow")))
}

fn of_a_box(what: &str) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
    Err(format!("{what} in a box").into())
}

/// A job that fails with an anyhow error or a boxed one.
struct Question;

impl Job for Question {
    const NAME: &'static str = "question";
    const MAX_ATTEMPTS: u32 = 1;
    type Args = bool;
    type Output = u64;

    async fn perform(&self, boxed: bool, _: &Context) -> Result<u64, JobError> {
        Ok(match boxed {
            true => of_a_box("a job")?,
            false => of_anyhow("a job")?,
        })
    }
}

/// A machine that fails with the same errors.
struct Asker;

#[steps]
enum Asking {
    Ask(bool),
}

impl Machine for Asker {
    const NAME: &'static str = "asker";
    type State = Asking;
    type Output = u64;

    async fn step(&self, Asking::Ask(boxed): Asking, _: &Context) -> StepResult<Self> {
        let n = match boxed {
            true => of_a_box("a machine")?,
            false => of_anyhow("a machine")?,
        };
        done(n)
    }

    async fn on_failure(&self, _: Asking, failure: Failure, _: &Context) -> StepResult<Self> {
        fail(failure.to_string())
    }
}

async fn anyhow_and_boxed_errors_are_failures_with_their_causes(ground: Ground) {
    let code = script(|flow, boxed: Value| async move {
        let boxed = boxed == json!(true);
        let step = flow.step("step", async move || {
            Ok::<_, StepFailure>(match boxed {
                true => of_a_box("a step")?,
                false => of_anyhow("a step")?,
            })
        });
        let step = step.await.unwrap_err().to_string();
        let anyhow_step = flow.step("of anyhow", async || of_anyhow("a step")).await;
        let job = flow.run(Question::with(boxed)).await.unwrap_err();
        let asker = flow.run(Asker::with(Asking::Ask(boxed))).await;
        let seen = json!([
            step,
            anyhow_step.unwrap_err().to_string(),
            job.to_string(),
            asker.unwrap_err().to_string()
        ]);
        flow.step("seen", async || Ok::<_, String>(seen)).await?;
        match boxed {
            true => of_a_box("a workflow")?,
            false => of_anyhow("a workflow")?,
        };
        Ok(())
    });
    let worker = ground.worker().register(code).register(Question);
    let mut harness = worker.register(Asker).build().await.unwrap();
    for (boxed, how) in [(false, "with anyhow: refused"), (true, "in a box")] {
        let id = begin_and_run(&mut harness, boxed).await;
        harness.run_all().await;
        let row = get(&harness, id).await;
        assert_eq!(row.status, Status::Failed);
        assert_eq!(reason(&row), format!("a workflow {how}"));
        let events = history(&harness, id, 1).await;
        let seen = events.iter().find(|event| event.name == "seen").unwrap();
        let expected = json!([
            format!("step step: a step {how}"),
            "step of anyhow: a step with anyhow: refused",
            format!("question failed: gave up after 1 attempt: a job {how}"),
            format!("asker failed: a machine {how}"),
        ]);
        assert_eq!(data(seen)["result"], expected);
    }
}
