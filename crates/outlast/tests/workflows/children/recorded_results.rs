//! Replay reads the parent's own record of a child, whatever happened to the child since.

use crate::support::*;
use outlast::prelude::*;
use outlast::store::{DeleteAnswer, EventKind, RetryAnswer};
use outlast::{InstanceId, Note, Status};

on_both_stores!(
    replay_uses_the_recorded_result_when_the_row_of_a_child_has_changed,
    replay_uses_the_recorded_result_when_the_row_of_a_child_is_gone,
    a_retry_of_a_failed_child_changes_nothing_for_its_parent,
    a_retry_of_a_failed_workflow_begins_a_new_run,
    a_retry_of_a_cancelled_workflow_begins_a_new_run,
    a_cancel_after_a_retry_is_not_lost,
    a_retry_of_a_terminated_workflow_continues_the_same_run,
    a_retry_of_a_terminated_workflow_works_after_its_children_were_collected,
    a_child_collected_before_its_end_was_recorded_fails_with_child_gone,
    children_are_not_collected_or_deleted_while_their_workflow_lives,
    deleting_a_workflow_deletes_its_history,
);

/// A workflow that awaits a child that is done and one that fails. After [`Halt`] it returns both
/// results.
fn remembers() -> Script {
    script(|flow, _| async move {
        let done = flow.run(Kid::with(Say::Give(7))).await?;
        let failed = flow
            .run(Kid::with(Say::Fail("broken".into())))
            .await
            .unwrap_err();
        flow.signal::<Halt>().await?;
        let statuses = flow.children();
        let statuses: Vec<_> = statuses
            .iter()
            .map(|it| it.status().unwrap().as_str())
            .collect();
        Ok((done, failed.to_string(), statuses))
    })
}

fn remembered() -> Value {
    json!([7, "kid failed: broken", ["done", "failed"]])
}

async fn replay_uses_the_recorded_result_when_the_row_of_a_child_has_changed(ground: Ground) {
    let mut harness = ground.runs(remembers()).await;
    let id = begin_and_run(&mut harness, ()).await;
    let kids = children(&harness, id).await;
    let (done, failed) = (kids[0].id, kids[1].id);
    ground
        .tamper(&format!(
            "update instances set result = '8' where id = {done}"
        ))
        .await;
    let sql = format!("update instances set last_error = 'mended' where id = {failed}");
    ground.tamper(&sql).await;
    harness.client().signal(id, Halt(0)).await.unwrap();
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), remembered());
}

async fn replay_uses_the_recorded_result_when_the_row_of_a_child_is_gone(ground: Ground) {
    let mut harness = ground.runs(remembers()).await;
    let id = begin_and_run(&mut harness, ()).await;
    let sql = format!("delete from instances where parent_id = {}", id.get());
    ground.tamper(&sql).await;
    assert!(children(&harness, id).await.is_empty());
    harness.client().signal(id, Halt(0)).await.unwrap();
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), remembered());
}

async fn a_retry_of_a_failed_child_changes_nothing_for_its_parent(ground: Ground) {
    let code = script(|flow, _| async move {
        let failed = flow.run(Kid::with(Say::WaitThenFail("broken".into())));
        let failed = failed.await.unwrap_err();
        flow.signal::<Halt>().await?;
        Ok(failed.to_string())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let kid = children(&harness, id).await[0].id;
    go(&harness, kid, 1).await;
    harness.run().await;
    assert_eq!(statuses(&harness, id).await, [Status::Failed]);
    let before = history(&harness, id, 1).await;
    let retried = harness.client().admin().retry(kid, ada()).await.unwrap();
    assert_eq!(retried, RetryAnswer::Retried);
    harness.run().await;
    // The child lives again, in another run. Its parent waits for something else.
    assert_eq!(statuses(&harness, id).await, [Status::AwaitingSignal]);
    harness.expect(id).await.awaits(["halt"]);
    assert_eq!(history(&harness, id, 1).await, before);
    harness.client().signal(id, Halt(0)).await.unwrap();
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), "kid failed: broken");
}

async fn a_retry_of_a_failed_workflow_begins_a_new_run(ground: Ground) {
    let log = Log::default();
    let build = |is_broken: bool| {
        let log = log.clone();
        script(move |flow, input: Value| {
            let log = log.clone();
            async move {
                log.step(&flow, "effect", 1).await?;
                match is_broken {
                    true => flow.fail("broken"),
                    false => Ok((flow.run_number(), input)),
                }
            }
        })
    };
    let mut broken = ground.runs(build(true)).await;
    let id = begin_and_run(&mut broken, "the input").await;
    assert_eq!(reason(&get(&broken, id).await), "broken");
    let mut fixed = ground.runs(build(false)).await;
    fixed.client().admin().retry(id, ada()).await.unwrap();
    fixed.run().await;
    assert_eq!(output(&get(&fixed, id).await), json!([2, "the input"]));
    assert_eq!(log.times("effect"), 2, "each run has its own steps");
    let first = history_words(&fixed, id).await;
    assert_eq!(
        first,
        ["run_started", "step_completed 1 effect", "run_failed"]
    );
    let second = words(&history(&fixed, id, 2).await);
    assert_eq!(
        second,
        ["run_started", "step_completed 1 effect", "run_completed"]
    );
}

async fn a_retry_of_a_cancelled_workflow_begins_a_new_run(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.signal::<Go>().await?;
        Ok(flow.run_number())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.client().admin().cancel(id, ada()).await.unwrap();
    harness.run().await;
    harness.expect(id).await.is_cancelled_with("ada");
    harness.client().admin().retry(id, ada()).await.unwrap();
    harness.run().await;
    go(&harness, id.get(), 1).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!(2));
}

async fn a_cancel_after_a_retry_is_not_lost(ground: Ground) {
    let code = script(|flow, input: Value| async move {
        match flow.run_number() {
            1 => flow.fail("broken"),
            _ => {
                let cancelled = flow.signal::<Go>().await.is_err();
                Ok((input, cancelled))
            }
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, 1).await;
    harness.client().admin().retry(id, ada()).await.unwrap();
    harness
        .client()
        .admin()
        .cancel(id, Note::by("grace"))
        .await
        .unwrap();
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([1, true]));
}

async fn a_retry_of_a_terminated_workflow_continues_the_same_run(ground: Ground) {
    let log = Log::default();
    let written = log.clone();
    let code = script(move |flow, _| {
        let log = written.clone();
        async move {
            log.step(&flow, "effect", 1).await?;
            flow.signal::<Go>().await?;
            Ok(flow.run_number())
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.client().admin().terminate(id, ada()).await.unwrap();
    harness.client().admin().retry(id, ada()).await.unwrap();
    harness.run().await;
    go(&harness, id.get(), 1).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!(1));
    assert_eq!(log.times("effect"), 1);
}

/// Removes the instances that ended more than half an hour ago.
async fn collect(ground: &Ground) -> Vec<InstanceId> {
    let request = outlast_core::CollectRequest {
        retention: HOUR / 2,
        max: 100,
    };
    ground.store.collect(request).await.unwrap().removed
}

async fn a_retry_of_a_terminated_workflow_works_after_its_children_were_collected(ground: Ground) {
    let mut harness = ground.runs(remembers()).await;
    let id = begin_and_run(&mut harness, ()).await;
    let kids: Vec<_> = children(&harness, id).await;
    let kids: Vec<_> = kids.iter().map(|it| it.id).collect();
    harness.advance(HOUR).await;
    assert_eq!(collect(&ground).await, [], "their workflow lives");
    harness.client().admin().terminate(id, ada()).await.unwrap();
    assert_eq!(collect(&ground).await, kids);
    assert!(children(&harness, id).await.is_empty());
    let retried = harness.client().admin().retry(id, ada()).await.unwrap();
    assert_eq!(retried, RetryAnswer::Retried);
    harness.run().await;
    harness.expect(id).await.awaits(["halt"]);
    harness.client().signal(id, Halt(0)).await.unwrap();
    harness.run().await;
    let ended = get(&harness, id).await;
    assert_eq!((ended.run, output(&ended)), (1, remembered()));
}

async fn a_child_collected_before_its_end_was_recorded_fails_with_child_gone(ground: Ground) {
    let code = script(|flow, _| async move {
        let kid = flow.spawn(Kid::with(Say::Give(7))).await?;
        flow.signal::<Halt>().await?;
        let error = kid.join().await.unwrap_err();
        flow.sleep(SECOND).await?;
        Ok((error.kind().as_str(), error.call()))
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(statuses(&harness, id).await, [Status::Done]);
    harness.advance(HOUR).await;
    harness.client().admin().terminate(id, ada()).await.unwrap();
    assert_eq!(collect(&ground).await.len(), 1);
    harness.client().admin().retry(id, ada()).await.unwrap();
    harness.client().signal(id, Halt(0)).await.unwrap();
    harness.run_all().await;
    let ended = get(&harness, id).await;
    assert_eq!((ended.run, output(&ended)), (1, json!(["child_gone", 1])));
}

async fn children_are_not_collected_or_deleted_while_their_workflow_lives(ground: Ground) {
    let mut harness = ground.runs(remembers()).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.advance(HOUR).await;
    let request = outlast_core::CollectRequest {
        retention: Duration::ZERO,
        max: 100,
    };
    let collected = ground.store.collect(request).await.unwrap();
    assert_eq!(collected.removed, []);
    let kid = children(&harness, id).await[0].id;
    let deleted = harness.client().admin().delete(kid, ada()).await.unwrap();
    assert_eq!(deleted, DeleteAnswer::ParentLives(id.get()));
}

async fn deleting_a_workflow_deletes_its_history(ground: Ground) {
    let code = script(|flow, _| async move { number(&flow, "one", 1).await });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(
        count(&history(&harness, id, 1).await, EventKind::StepCompleted),
        1
    );
    harness.client().admin().delete(id, ada()).await.unwrap();
    assert!(history(&harness, id, 1).await.is_empty());
}
