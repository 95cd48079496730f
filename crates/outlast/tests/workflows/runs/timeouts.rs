//! Timeouts of a workflow as a whole and of its runs.

use crate::support::*;
use outlast::Status;
use outlast::prelude::*;
use outlast::store::{ClosePolicy, EventKind};

on_both_stores!(
    a_workflow_that_times_out_closes_its_children,
    a_timeout_is_the_last_event_of_a_run,
    a_call_of_a_child_that_times_out_fails,
    the_timeout_of_a_child_is_not_the_timeout_of_the_wait_for_it,
    a_new_run_has_its_own_run_timeout_and_the_rest_of_the_timeout,
    uncancellable_code_does_not_outlive_a_timeout,
    a_retried_workflow_begins_a_new_run_with_fresh_timeouts,
);

/// A workflow that starts one child with each policy, and waits for [`Halt`].
fn leaves() -> Script {
    script(|flow, _| async move {
        for policy in ClosePolicy::ALL {
            flow.spawn(Kid::with(Say::Wait).on_parent_close(policy))
                .await?;
        }
        flow.signal::<Halt>().await?;
        Ok(())
    })
}

async fn a_workflow_that_times_out_closes_its_children(ground: Ground) {
    let mut harness = ground.runs(leaves()).await;
    let new = Script::with(json!(null)).timeout(MINUTE);
    let id = harness.start(new).await.unwrap().id();
    harness.run().await;
    harness.advance(MINUTE - SECOND).await;
    assert_eq!(get(&harness, id).await.status, Status::AwaitingSignal);
    harness.advance(SECOND).await;
    assert_eq!(reason(&get(&harness, id).await), "timed out after 1 min");
    harness.run().await;
    let expected = [Status::AwaitingSignal, Status::Cancelled, Status::Cancelled];
    assert_eq!(statuses(&harness, id).await, expected);
    let error = children(&harness, id).await[2].last_error.clone().unwrap();
    assert!(error.ends_with("ended as failed"), "{error}");
    assert!(harness.client().signal(id, Halt(0)).await.is_err());
}

async fn a_timeout_is_the_last_event_of_a_run(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.signal::<Halt>().await?;
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    let new = Script::with(json!(null)).timeout(MINUTE);
    let id = harness.start(new).await.unwrap().id();
    harness.run().await;
    harness.advance(MINUTE).await;
    let events = history(&harness, id, 1).await;
    let last = events.last().unwrap();
    assert_eq!(last.kind, EventKind::TimedOut);
    assert_eq!(data(last), json!({"reason": "timed out after 1 min"}));
    let admin = harness.client().admin();
    let waits = admin.waits(&get(&harness, id).await).await.unwrap();
    assert!(waits.open.is_empty(), "it has ended");
}

async fn a_call_of_a_child_that_times_out_fails(ground: Ground) {
    let code = script(|flow, _| async move {
        let kid = flow.run(Kid::with(Say::Wait).timeout(MINUTE)).await;
        Ok(kid.unwrap_err().to_string())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.advance(MINUTE).await;
    harness.run().await;
    let said = output(&get(&harness, id).await);
    assert!(
        said.as_str().unwrap().contains("timed out after 1 min"),
        "{said}"
    );
    let events = history(&harness, id, 1).await;
    assert_eq!(count(&events, EventKind::ChildFailed), 1);
}

async fn the_timeout_of_a_child_is_not_the_timeout_of_the_wait_for_it(ground: Ground) {
    let code = script(|flow, _| async move {
        let call = flow.run(Kid::with(Say::Wait).timeout(2 * MINUTE));
        Ok(call.timeout(MINUTE).await?.is_none())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.advance(MINUTE).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!(true));
    let kid = children(&harness, id).await[0].id;
    assert_eq!(get(&harness, kid).await.status, Status::AwaitingSignal);
    harness.advance(MINUTE).await;
    assert_eq!(reason(&get(&harness, kid).await), "timed out after 2 min");
}

async fn a_new_run_has_its_own_run_timeout_and_the_rest_of_the_timeout(ground: Ground) {
    let code = script(|flow, input: Value| async move {
        let run = input.as_u64().unwrap();
        flow.sleep(40 * SECOND).await?;
        flow.continue_as_new::<_, ()>(run + 1)
    });
    let mut harness = ground.runs(code).await;
    let new = Script::with(json!(1));
    let new = new.timeout(100 * SECOND).run_timeout(MINUTE);
    let id = harness.start(new).await.unwrap().id();
    harness.run_all().await;
    let row = get(&harness, id).await;
    assert_eq!(
        (row.run, reason(&row).as_str()),
        (3, "timed out after 100 s")
    );
    let new = Script::with(json!(1)).run_timeout(30 * SECOND);
    let id = harness.start(new).await.unwrap().id();
    harness.run_all().await;
    let row = get(&harness, id).await;
    assert_eq!(reason(&row), "timed out after 30 s in run 1");
}

async fn uncancellable_code_does_not_outlive_a_timeout(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.uncancellable(async {
            flow.signal::<Halt>().await?;
            Ok(())
        })
        .await
    });
    let mut harness = ground.runs(code).await;
    let new = Script::with(json!(null)).timeout(MINUTE);
    let id = harness.start(new).await.unwrap().id();
    harness.run().await;
    harness.client().admin().cancel(id, ada()).await.unwrap();
    harness.run().await;
    assert_eq!(get(&harness, id).await.status, Status::AwaitingSignal);
    harness.advance(MINUTE).await;
    assert_eq!(reason(&get(&harness, id).await), "timed out after 1 min");
}

async fn a_retried_workflow_begins_a_new_run_with_fresh_timeouts(ground: Ground) {
    let code = script(|flow, _| async move {
        let Go(n) = flow.signal::<Go>().await?;
        Ok((flow.run_number(), n))
    });
    let mut harness = ground.runs(code).await;
    let new = Script::with(json!(null)).timeout(MINUTE);
    let id = harness.start(new).await.unwrap().id();
    harness.run().await;
    harness.advance(MINUTE).await;
    harness.client().admin().retry(id, ada()).await.unwrap();
    harness.run().await;
    harness.advance(MINUTE - SECOND).await;
    harness.client().signal(id, Go(7)).await.unwrap();
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([2, 7]));
}
