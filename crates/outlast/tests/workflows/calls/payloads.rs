//! A payload that is too large fails the call that it was given to, and neither the process nor
//! the workflow.

use crate::support::*;
use outlast::prelude::*;
use outlast::store::EventKind;
use outlast::store::limits::{ERROR_BYTES_MAX, JSON_BYTES_MAX};
use outlast::{FlowError, Status};

on_both_stores!(
    an_input_that_is_too_large_fails_its_call,
    an_input_that_is_too_large_starts_no_call_of_its_group,
    code_can_catch_an_input_of_a_new_run_that_is_too_large,
    an_uncaught_input_of_a_new_run_that_is_too_large_fails_the_workflow,
    an_output_that_is_too_large_fails_the_workflow_and_says_why,
    a_signal_through_a_handle_that_is_too_large_fails_its_call,
    a_failure_reason_that_is_too_large_is_truncated,
);

/// Returns a text that is too large together with its quotes.
fn large() -> String {
    "x".repeat(JSON_BYTES_MAX - 1)
}

#[derive(Signal, Serialize, Deserialize)]
struct Word(String);

/// Whether an error says that a payload is too large, and what to do.
fn is_clear(error: &FlowError) -> bool {
    let text = error.to_string();
    text.contains("bytes") && text.contains("keep large things elsewhere")
}

async fn an_input_that_is_too_large_fails_its_call(ground: Ground) {
    let code = script(|flow, _| async move {
        let kid = || Kid::with(Say::Fail(large()));
        let errors = [
            flow.run(kid()).await.unwrap_err(),
            flow.spawn(kid()).await.map(|_| ()).unwrap_err(),
            flow.run(kid()).timeout(SECOND).await.unwrap_err(),
            flow.run(fails::with(large())).await.unwrap_err(),
            flow.spawn(fails::with(large()))
                .await
                .map(|_| ())
                .unwrap_err(),
        ];
        flow.sleep(SECOND).await?;
        let kinds = errors.each_ref().map(|error| error.kind().as_str());
        let clear = errors.iter().all(is_clear);
        Ok((kinds, clear, number(&flow, "goes on", 1).await?))
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    harness.run_all().await;
    let kinds = ["invalid"; 5];
    let expected = json!([kinds, true, 1]);
    assert_eq!(output(&get(&harness, id).await), expected);
    assert!(children(&harness, id).await.is_empty());
}

async fn an_input_that_is_too_large_starts_no_call_of_its_group(ground: Ground) {
    let code = script(|flow, _| async move {
        let large = || flow.run(Kid::with(Say::Fail(large())));
        let fits = || flow.run(Kid::with(Say::Give(1)));
        let all = flow.all((fits(), large())).await.unwrap_err();
        let first = flow.select((fits(), large())).await.unwrap_err();
        flow.sleep(SECOND).await?;
        let kinds = [&all, &first].map(|error| error.kind().as_str());
        Ok((kinds, flow.all((fits(), fits())).await?))
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    harness.run_all().await;
    let expected = json!([["invalid", "invalid"], [1, 1]]);
    assert_eq!(output(&get(&harness, id).await), expected);
    assert_eq!(statuses(&harness, id).await, [Status::Done; 2]);
}

async fn code_can_catch_an_input_of_a_new_run_that_is_too_large(ground: Ground) {
    let code = script(|flow, input: Value| async move {
        if input == json!("small") {
            return Ok(json!(flow.run_number()));
        }
        let error = flow.continue_as_new::<_, ()>(large()).unwrap_err();
        assert_eq!(error.kind().as_str(), "invalid");
        assert!(is_clear(&error), "{error}");
        number(&flow, "goes on", 1).await?;
        flow.continue_as_new("small")
    });
    assert_eq!(result_of(&ground, code, ()).await, json!(2));
}

async fn an_uncaught_input_of_a_new_run_that_is_too_large_fails_the_workflow(ground: Ground) {
    let code = script(|flow, _| async move { flow.continue_as_new::<_, ()>(large()) });
    let (error, events) = failed(&ground, code).await;
    assert!(error.starts_with("input: "), "{error}");
    assert_eq!(events, ["run_started", "run_failed"]);
}

async fn an_output_that_is_too_large_fails_the_workflow_and_says_why(ground: Ground) {
    let code = script(|flow, _| async move {
        number(&flow, "before", 1).await?;
        Ok(large())
    });
    let (error, events) = failed(&ground, code).await;
    assert!(error.starts_with("output: "), "{error}");
    let expected = ["run_started", "step_completed 1 before", "run_failed"];
    assert_eq!(events, expected);
}

/// Returns the error of a workflow that fails at its first attempt, and its history as words.
async fn failed(ground: &Ground, code: Script) -> (String, Vec<String>) {
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    let report = harness.run_all().await;
    assert_eq!((report.failed, report.retries), (1, 0));
    let error = reason(&get(&harness, id).await);
    assert!(error.contains("keep large things elsewhere"), "{error}");
    (error, history_words(&harness, id).await)
}

async fn a_signal_through_a_handle_that_is_too_large_fails_its_call(ground: Ground) {
    let code = script(|flow, _| async move {
        let kid = flow.spawn(Kid::with(Say::Wait)).await?;
        let error = kid.child().signal(Word(large())).await.unwrap_err();
        assert!(is_clear(&error), "{error}");
        // The park makes the code replay. The signal that failed must fail again.
        flow.sleep(SECOND).await?;
        let answer = kid.child().signal(Go(7)).await?;
        Ok((error.call(), answer, kid.join().await?))
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    harness.run_all().await;
    let seen = output(&get(&harness, id).await);
    assert_eq!(seen, json!([2, "delivered", 7]));
    let history = history(&harness, id, 1).await;
    assert_eq!(count(&history, EventKind::ReplayBlocked), 0);
}

async fn a_failure_reason_that_is_too_large_is_truncated(ground: Ground) {
    let code = script(|flow, _| async move {
        let kid = flow.run(Kid::with(Say::Sleep(1, 1)));
        kid.await?;
        flow.fail::<()>(large())
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    harness.run_all().await;
    let error = reason(&get(&harness, id).await);
    assert!(error.starts_with("xxx") && error.len() <= ERROR_BYTES_MAX);
}
