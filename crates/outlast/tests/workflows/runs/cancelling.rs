//! Cancels: the waiting call fails, cleanup is uncancellable, and a workflow that returns is done.

use crate::support::*;
use outlast::prelude::*;
use outlast::store::EventKind;
use outlast::testing::Point;
use outlast::{Note, Status};

on_both_stores!(
    a_cancel_fails_the_waiting_call,
    a_cancel_reaches_a_workflow_parked_on_each_kind_of_wait,
    a_cancel_before_the_first_claim_fails_the_first_call,
    a_step_keeps_its_result_when_the_workflow_is_cancelled_meanwhile,
    a_cancel_is_seen_before_the_workflow_parks,
    a_cancel_is_seen_before_children_are_started,
    calls_after_a_cancel_fail_unless_they_are_uncancellable,
    uncancellable_cleanup_runs_steps_activities_children_timers_and_groups,
    an_uncancellable_wait_goes_on_after_a_cancel,
    a_workflow_that_catches_its_cancel_and_returns_is_done,
    a_workflow_that_fails_after_its_cancel_has_failed,
    a_workflow_that_returns_the_cancel_error_is_cancelled,
    a_signal_for_a_cancelled_call_stays_in_the_inbox,
    a_cancel_is_recorded_once_despite_crashes,
    a_second_cancel_changes_nothing,
    a_terminate_ends_a_workflow_without_running_its_code,
    a_terminate_while_a_step_runs_drops_its_result,
);

fn note() -> Note {
    Note::by("ada").because("too dear")
}

async fn a_cancel_fails_the_waiting_call(ground: Ground) {
    let code = script(|flow, _| async move {
        let before = (flow.is_cancelled(), flow.cancel_reason());
        let error = flow.signal::<Go>().await.map(|_| ()).unwrap_err();
        let after = (flow.is_cancelled(), flow.cancel_reason());
        Ok((before, after, error.is_cancelled(), error.to_string()))
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.client().admin().cancel(id, note()).await.unwrap();
    harness.run().await;
    let why = "cancelled by ada: too dear";
    let expected = json!([[false, null], [true, why], true, why]);
    assert_eq!(output(&get(&harness, id).await), expected);
    let history = history(&harness, id, 1).await;
    let requested = only_event(&history, EventKind::CancelRequested);
    assert_eq!(data(requested), json!({"reason": why}));
}

async fn a_cancel_reaches_a_workflow_parked_on_each_kind_of_wait(ground: Ground) {
    for wait in [
        "sleep", "signal", "child", "activity", "all", "select", "timeout", "join",
    ] {
        let code = script(move |flow, _| async move {
            let kid = || flow.run(Kid::with(Say::Wait));
            match wait {
                "sleep" => flow.sleep(HOUR).await?,
                "signal" => flow.signal::<Go>().await.map(|_| ())?,
                "child" => drop(kid().await?),
                "activity" => drop(flow.run(double::with(1).queue("nobody")).await?),
                "all" => drop(flow.all((kid(), flow.sleep(HOUR))).await?),
                "select" => {
                    let first = flow.select((kid(), flow.signal::<Go>()));
                    first.await.map(|_| ())?;
                }
                "timeout" => drop(kid().timeout(HOUR).await?),
                _ => drop(flow.spawn(Kid::with(Say::Wait)).await?.join().await?),
            }
            Ok(())
        });
        // No worker runs the activity.
        let mut harness = ground.runs_only(code).await;
        let id = begin_and_run(&mut harness, ()).await;
        let parked = get(&harness, id).await.status;
        let expected = match wait {
            "sleep" => Status::Sleeping,
            "signal" => Status::AwaitingSignal,
            _ => Status::AwaitingChildren,
        };
        assert_eq!(parked, expected, "{wait}");
        harness.client().admin().cancel(id, note()).await.unwrap();
        harness.run().await;
        harness.expect(id).await.is_cancelled_with("ada: too dear");
        let events = history_words(&harness, id).await;
        let expected = ["cancel_requested", "run_cancelled"];
        assert_eq!(events[events.len() - 2..], expected, "{wait}");
    }
}

async fn a_cancel_before_the_first_claim_fails_the_first_call(ground: Ground) {
    let log = Log::default();
    let written = log.clone();
    let code = script(move |flow, _| {
        let log = written.clone();
        async move { log.step(&flow, "effect", 1).await }
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    harness.client().admin().cancel(id, note()).await.unwrap();
    harness.run().await;
    harness.expect(id).await.is_cancelled_with("ada: too dear");
    assert_eq!(log.times("effect"), 0);
    let expected = ["run_started", "cancel_requested", "run_cancelled"];
    assert_eq!(history_words(&harness, id).await, expected);
}

async fn a_step_keeps_its_result_when_the_workflow_is_cancelled_meanwhile(ground: Ground) {
    let client = ground.client.clone();
    let code = script(move |flow, _| {
        let (client, id) = (client.clone(), flow.id());
        async move {
            let cancelled = flow.step("cancelled meanwhile", async move || {
                client.admin().cancel(id, note()).await.map(|_| 7)
            });
            let result = cancelled.await;
            let next = number(&flow, "next", 1).await;
            Ok((result.ok(), next.unwrap_err().is_cancelled()))
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(output(&get(&harness, id).await), json!([7, true]));
}

async fn a_cancel_is_seen_before_the_workflow_parks(ground: Ground) {
    let client = ground.client.clone();
    let code = script(move |flow, _| {
        let (client, id) = (client.clone(), flow.id());
        async move {
            let cancel = flow.step("cancelled meanwhile", async move || {
                client.admin().cancel(id, note()).await.map(|_| ())
            });
            let slept = flow.sleep(HOUR).into_future();
            let (cancelled, slept) = futures_util::join!(cancel.into_future(), slept);
            cancelled?;
            slept
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.expect(id).await.is_cancelled_with("ada: too dear");
}

/// The workflow cancels itself in a step, and starts children right after it.
async fn a_cancel_is_seen_before_children_are_started(ground: Ground) {
    let client = ground.client.clone();
    let code = script(move |flow, _| {
        let (client, id) = (client.clone(), flow.id());
        async move {
            let cancel = flow.step("cancelled meanwhile", async move || {
                client.admin().cancel(id, note()).await.map(|_| ())
            });
            cancel.await?;
            flow.all((flow.run(Kid::with(Say::Wait)), flow.run(double::with(1))))
                .await
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.expect(id).await.is_cancelled_with("ada: too dear");
    assert!(children(&harness, id).await.is_empty());
    let expected = [
        "run_started",
        "step_completed 1 cancelled meanwhile",
        "cancel_requested",
        "run_cancelled",
    ];
    assert_eq!(history_words(&harness, id).await, expected);
}

async fn calls_after_a_cancel_fail_unless_they_are_uncancellable(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.sleep(HOUR).await.unwrap_err();
        let mut open = vec![
            number(&flow, "one", 1).await.is_err(),
            flow.run(double::with(1)).await.is_err(),
            flow.run(Kid::with(Say::Give(1))).await.is_err(),
            flow.spawn(Kid::with(Say::Give(1))).await.is_err(),
            flow.all((flow.run(double::with(1)),)).await.is_err(),
            flow.all(()).await.is_err(),
            flow.select((flow.sleep(SECOND), flow.signal::<Go>()))
                .await
                .is_err(),
            flow.signal::<Go>().await.is_err(),
        ];
        let uncancellable = flow.uncancellable(async { number(&flow, "two", 2).await });
        open.push(uncancellable.await? != 2);
        open.push(number(&flow, "three", 3).await.is_ok());
        Ok(open)
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.client().admin().cancel(id, note()).await.unwrap();
    harness.run().await;
    let t = true;
    let expected = json!([t, t, t, t, t, t, t, t, false, false]);
    assert_eq!(output(&get(&harness, id).await), expected);
    assert!(children(&harness, id).await.is_empty());
}

/// A workflow that waits, and cleans up with every kind of call. The tests in `replay/crashing.rs`
/// crash such a cleanup.
fn cleans_up(log: &Log) -> Script {
    let log = log.clone();
    script(move |flow, _| {
        let log = log.clone();
        async move {
            let Err(error) = flow.sleep(HOUR).await else {
                return Ok(());
            };
            let cleanup = async {
                log.step(&flow, "undo", 1).await?;
                flow.run(double::with(1)).await?;
                let kid = flow.spawn(Kid::with(Say::Sleep(10, 2))).await?;
                flow.sleep(SECOND).await?;
                flow.all((
                    kid.join(),
                    flow.run(Kid::with(Say::Give(3))),
                    log.step(&flow, "last", 4),
                ))
                .await
            };
            let cleaned = flow.uncancellable(cleanup).await?;
            assert_eq!(cleaned, (2, 3, 4));
            Err(error)
        }
    })
}

async fn uncancellable_cleanup_runs_steps_activities_children_timers_and_groups(ground: Ground) {
    let log = Log::default();
    let mut harness = ground.runs(cleans_up(&log)).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.client().admin().cancel(id, note()).await.unwrap();
    harness.run_all().await;
    harness.expect(id).await.is_cancelled_with("ada: too dear");
    assert_eq!(log.entries(), ["undo", "last"]);
    assert_eq!(statuses(&harness, id).await, [Status::Done; 3]);
    let events = history_words(&harness, id).await;
    assert_eq!(events.last().unwrap(), "run_cancelled");
}

async fn an_uncancellable_wait_goes_on_after_a_cancel(ground: Ground) {
    let code = script(|flow, _| async move {
        let uncancellable = flow.uncancellable(async { flow.signal::<Go>().await });
        let Go(n) = uncancellable.await?;
        let after = flow.sleep(HOUR).await.unwrap_err();
        Ok((n, after.is_cancelled()))
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.client().admin().cancel(id, note()).await.unwrap();
    harness.run().await;
    harness
        .expect(id)
        .await
        .awaits(["go"])
        .was_asked_to_end("too dear");
    go(&harness, id.get(), 7).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([7, true]));
}

async fn a_workflow_that_catches_its_cancel_and_returns_is_done(ground: Ground) {
    let code = script(|flow, _| async move {
        Ok(match flow.sleep(HOUR).await {
            Ok(()) => 1,
            Err(_) => 2,
        })
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.client().admin().cancel(id, note()).await.unwrap();
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!(2));
    let events = history_words(&harness, id).await;
    assert_eq!(events.last().unwrap(), "run_completed");
}

async fn a_workflow_that_fails_after_its_cancel_has_failed(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.sleep(HOUR).await.unwrap_err();
        flow.fail::<()>("cannot undo that")
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.client().admin().cancel(id, note()).await.unwrap();
    harness.run().await;
    assert_eq!(reason(&get(&harness, id).await), "cannot undo that");
}

async fn a_workflow_that_returns_the_cancel_error_is_cancelled(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.all((flow.run(Kid::with(Say::Wait)),)).await?;
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.client().admin().cancel(id, note()).await.unwrap();
    harness.run().await;
    harness.expect(id).await.is_cancelled_with("ada: too dear");
    assert_eq!(statuses(&harness, id).await, [Status::AwaitingSignal]);
}

async fn a_signal_for_a_cancelled_call_stays_in_the_inbox(ground: Ground) {
    let code = script(|flow, _| async move {
        let cancelled = flow.signal::<Go>().await.is_err();
        let Go(n) = flow
            .uncancellable(async { flow.signal::<Go>().await })
            .await?;
        Ok((cancelled, n))
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.client().admin().cancel(id, note()).await.unwrap();
    go(&harness, id.get(), 7).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([true, 7]));
}

async fn a_cancel_is_recorded_once_despite_crashes(ground: Ground) {
    for point in [Point::BeforeStep, Point::BeforeCommit, Point::AfterCommit] {
        let code = script(|flow, _| async move {
            flow.sleep(HOUR).await.unwrap_err();
            let undo = flow.uncancellable(async { number(&flow, "undo", 1).await });
            undo.await?;
            flow.uncancellable(async { flow.sleep(SECOND).await })
                .await?;
            Ok(1)
        });
        let mut harness = ground.runs(code).await;
        let id = begin_and_run(&mut harness, ()).await;
        harness.client().admin().cancel(id, note()).await.unwrap();
        harness.crash::<Script>("run", point);
        harness.run_all().await;
        assert_eq!(output(&get(&harness, id).await), json!(1));
        let history = history(&harness, id, 1).await;
        assert_eq!(count(&history, EventKind::CancelRequested), 1, "{point:?}");
        assert_eq!(count(&history, EventKind::StepCompleted), 1, "{point:?}");
    }
}

async fn a_second_cancel_changes_nothing(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.sleep(HOUR).await.unwrap_err();
        flow.uncancellable(async { flow.signal::<Go>().await })
            .await?;
        Ok(flow.cancel_reason())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.client().admin().cancel(id, note()).await.unwrap();
    harness.run().await;
    harness
        .client()
        .admin()
        .cancel(id, Note::by("grace"))
        .await
        .unwrap();
    harness.run().await;
    go(&harness, id.get(), 1).await;
    harness.run().await;
    assert_eq!(
        output(&get(&harness, id).await),
        json!("cancelled by ada: too dear")
    );
    let history = history(&harness, id, 1).await;
    assert_eq!(count(&history, EventKind::CancelRequested), 1);
}

async fn a_terminate_ends_a_workflow_without_running_its_code(ground: Ground) {
    let log = Log::default();
    let mut harness = ground.runs(cleans_up(&log)).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness
        .client()
        .admin()
        .terminate(id, note())
        .await
        .unwrap();
    harness.run_all().await;
    harness
        .expect(id)
        .await
        .is_cancelled_with("terminated by ada: too dear");
    assert!(log.entries().is_empty());
    assert_eq!(
        history_words(&harness, id).await,
        ["run_started", "timer_scheduled 1"]
    );
}

async fn a_terminate_while_a_step_runs_drops_its_result(ground: Ground) {
    let client = ground.client.clone();
    let code = script(move |flow, _| {
        let (client, id) = (client.clone(), flow.id());
        async move {
            number(&flow, "before", 1).await?;
            let ended = flow.step("terminated meanwhile", async move || {
                client.admin().terminate(id, note()).await.map(|_| ())
            });
            ended.await
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness
        .expect(id)
        .await
        .is_cancelled_with("terminated by ada");
    assert_eq!(
        history_words(&harness, id).await,
        ["run_started", "step_completed 1 before"]
    );
}
