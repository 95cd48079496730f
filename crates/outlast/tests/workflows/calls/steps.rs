//! Steps: run here at least once, recorded exactly once.

use crate::support::*;
use outlast::prelude::*;
use outlast::store::{EventKind, limits};
use outlast::testing::Point;
use outlast::workflow::FlowErrorKind;
use outlast::{Durable, Workflow};

on_both_stores!(
    a_step_runs_at_least_once_and_its_result_is_recorded_once,
    a_step_with_a_recorded_result_does_not_run_again,
    a_step_costs_one_commit,
    the_result_of_a_step_is_written_with_the_next_park_or_end,
    a_workflow_is_not_replayed_between_its_steps,
    an_error_of_a_step_fails_its_call,
    a_panic_of_a_step_fails_its_call,
    a_step_that_takes_too_long_fails_its_call,
    a_result_that_is_too_large_fails_its_call,
    a_step_error_that_is_too_long_is_truncated,
    a_failed_step_is_not_run_again,
    a_step_does_not_begin_before_the_events_that_led_to_it_are_written,
    an_invalid_step_name_is_refused,
    steps_of_a_group_run_concurrently_and_are_all_recorded,
    a_call_inside_a_step_is_refused,
    drawing_a_uuid_inside_a_step_does_not_change_later_draws,
);

async fn a_step_runs_at_least_once_and_its_result_is_recorded_once(ground: Ground) {
    let cases = [
        (Point::BeforeStep, 1),
        (Point::BeforeCommit, 2),
        (Point::AfterCommit, 1),
    ];
    for (point, times) in cases {
        let log = Log::default();
        let written = log.clone();
        let code = script(move |flow, _| {
            let log = written.clone();
            async move {
                let counted = log.clone();
                let count = flow.step("count", async move || {
                    counted.note("ran");
                    Ok::<_, String>(counted.times("ran"))
                });
                let first = count.await?;
                number(&flow, "two", 2).await?;
                Ok(first)
            }
        });
        let mut harness = ground.runs(code).await;
        let id = begin(&harness, ()).await;
        harness.crash::<Script>("run", point);
        harness.run().await;
        assert_eq!(log.times("ran"), times, "{point:?}");
        assert_eq!(output(&get(&harness, id).await), json!(times), "{point:?}");
        let history = history(&harness, id, 1).await;
        assert_eq!(count(&history, EventKind::StepCompleted), 2, "{point:?}");
    }
}

async fn a_step_with_a_recorded_result_does_not_run_again(ground: Ground) {
    let log = Log::default();
    let written = log.clone();
    let code = script(move |flow, _| {
        let log = written.clone();
        async move {
            let a = log.step(&flow, "a", 1).await?;
            flow.sleep(SECOND).await?;
            let b = log.step(&flow, "b", 2).await?;
            flow.run(double::with(1)).await?;
            flow.sleep(SECOND).await?;
            Ok((a, b))
        }
    });
    assert_eq!(result_of(&ground, code, ()).await, json!([1, 2]));
    assert_eq!(log.entries(), ["a", "b"]);
}

async fn a_step_costs_one_commit(ground: Ground) {
    let code = script(|flow, _| async move {
        for _ in 0..10 {
            number(&flow, "one", 1).await?;
        }
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    begin(&harness, ()).await;
    let report = harness.run().await;
    assert_eq!((report.flows, report.done), (9, 1));
}

async fn the_result_of_a_step_is_written_with_the_next_park_or_end(ground: Ground) {
    let code = script(|flow, _| async move {
        number(&flow, "before an activity", 1).await?;
        flow.run(double::with(1)).await?;
        number(&flow, "before a timer", 1).await?;
        flow.sleep(SECOND).await?;
        number(&flow, "before the end", 1).await
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    let report = harness.run_all().await;
    // One of the two ends is that of the activity.
    assert_eq!((report.flows, report.done), (4, 2));
    let expected = [
        "run_started",
        "step_completed 1 before an activity",
        "activity_scheduled 2 double",
        "activity_completed 2 double",
        "step_completed 3 before a timer",
        "timer_scheduled 4",
        "timer_fired 4",
        "step_completed 5 before the end",
        "run_completed",
    ];
    assert_eq!(history_words(&harness, id).await, expected);
}

async fn a_workflow_is_not_replayed_between_its_steps(ground: Ground) {
    let log = Log::default();
    let written = log.clone();
    let code = script(move |flow, _| {
        let log = written.clone();
        async move {
            log.note("begun");
            for _ in 0..10 {
                number(&flow, "one", 1).await?;
            }
            Ok(())
        }
    });
    let worker = ground.worker().register(code);
    let mut harness = worker.run_ahead(100).build().await.unwrap();
    begin_and_run(&mut harness, ()).await;
    assert_eq!(log.times("begun"), 1);
}

async fn an_error_of_a_step_fails_its_call(ground: Ground) {
    let code = script(|flow, _| async move {
        let text = flow.step("text", async || Err::<u64, _>("no luck")).await;
        let parsed = flow.step("parse", async || "x".parse::<u64>()).await;
        let (text, parsed) = (text.unwrap_err(), parsed.unwrap_err());
        assert_eq!(text.kind(), FlowErrorKind::Step);
        Ok((text.to_string(), text.call(), parsed.to_string()))
    });
    let seen = result_of(&ground, code, ()).await;
    let parsed = "step parse: invalid digit found in string";
    assert_eq!(seen, json!(["step text: no luck", 1, parsed]));
}

async fn a_panic_of_a_step_fails_its_call(ground: Ground) {
    let code = script(|flow, _| async move {
        let step = flow.step("panics", async || -> Result<u64, String> {
            panic!("at the wrong place")
        });
        let error = step.await.unwrap_err();
        let sync = flow.step("begins", || -> std::future::Ready<Result<u64, String>> {
            panic!("before it begins")
        });
        let sync = sync.await.unwrap_err();
        Ok((error.kind().as_str(), error.to_string(), sync.to_string()))
    });
    let seen = result_of(&ground, code, ()).await;
    let expected = json!([
        "step",
        "step panics: panicked: at the wrong place",
        "step begins: panicked: before it begins",
    ]);
    assert_eq!(seen, expected);
}

/// A workflow whose steps have a short timeout.
struct Hasty;

impl Durable for Hasty {
    const NAME: &'static str = "hasty";
    type Input = ();
    type Output = (String, String, u64);
}

impl Workflow for Hasty {
    const STEP_TIMEOUT: Duration = Duration::from_millis(20);

    async fn run(&self, flow: Flow, (): ()) -> FlowResult<(String, String, u64)> {
        let hangs = flow.step("hangs", std::future::pending::<Result<u64, String>>);
        let error = hangs.await.unwrap_err();
        let next = number(&flow, "next", 1).await?;
        Ok((error.kind().as_str().into(), error.to_string(), next))
    }
}

async fn a_step_that_takes_too_long_fails_its_call(ground: Ground) {
    let mut harness = ground.bare().register(Hasty).build().await.unwrap();
    let hasty = harness.start(Hasty::with(())).await.unwrap();
    harness.run().await;
    let error = "step hangs: took longer than 20ms".to_owned();
    let expected = ("step".to_owned(), error, 1);
    harness.expect(&hasty).await.is_done_with(&expected);
}

async fn a_result_that_is_too_large_fails_its_call(ground: Ground) {
    let code = script(|flow, _| async move {
        let large =
            |bytes: usize| flow.step("large", async move || Ok::<_, String>("x".repeat(bytes)));
        let fits = large(limits::JSON_BYTES_MAX - 2).await?.len();
        let error = large(limits::JSON_BYTES_MAX - 1).await.unwrap_err();
        Ok((fits, error.kind().as_str(), error.to_string()))
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let seen = output(&get(&harness, id).await);
    assert_eq!(seen[0], limits::JSON_BYTES_MAX - 2);
    assert_eq!(seen[1], "invalid");
    let error = seen[2].as_str().unwrap();
    assert!(error.contains("cannot be stored"), "{error}");
    let history = history(&harness, id, 1).await;
    assert_eq!(count(&history, EventKind::StepFailed), 1);
}

async fn a_step_error_that_is_too_long_is_truncated(ground: Ground) {
    let code = script(|flow, _| async move {
        let long = flow.step("long", async || Err::<u64, _>("no ".repeat(100_000)));
        Ok(long.await.unwrap_err().to_string().len())
    });
    let seen = result_of(&ground, code, ()).await;
    assert!(seen.as_u64().unwrap() < 10_000, "{seen}");
}

async fn a_failed_step_is_not_run_again(ground: Ground) {
    let log = Log::default();
    let written = log.clone();
    let code = script(move |flow, _| {
        let log = written.clone();
        async move {
            let failing = flow.step("fails", async move || {
                log.note("ran");
                Err::<u64, _>("no")
            });
            let error = failing.await.unwrap_err();
            flow.sleep(SECOND).await?;
            Ok(error.to_string())
        }
    });
    assert_eq!(result_of(&ground, code, ()).await, "step fails: no");
    assert_eq!(log.times("ran"), 1);
}

async fn a_step_does_not_begin_before_the_events_that_led_to_it_are_written(ground: Ground) {
    let log = Log::default();
    let client = ground.client.clone();
    let written = log.clone();
    let code = script(move |flow, _| {
        let (log, client, id) = (written.clone(), client.clone(), flow.id());
        async move {
            let Go(n) = flow.signal::<Go>().await?;
            let look = flow.step("look", async move || {
                let seen = history_words(&client, id).await;
                log.note(seen.last().cloned().unwrap_or_default());
                Ok::<_, String>(n)
            });
            look.await
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    go(&harness, id.get(), 7).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!(7));
    let seen = log.entries();
    assert!(
        ["signal_consumed 1 go", "step_scheduled 2 look"].contains(&seen[0].as_str()),
        "{seen:?}"
    );
}

async fn an_invalid_step_name_is_refused(ground: Ground) {
    let code = script(|flow, _| async move {
        let empty = flow.step("", async || Ok::<_, String>(1)).await;
        let long = "x".repeat(limits::NAME_BYTES_MAX + 1);
        let long = flow.step(&long, async || Ok::<_, String>(1)).await;
        Ok([empty.unwrap_err(), long.unwrap_err()].map(|it| it.kind().as_str()))
    });
    let seen = result_of(&ground, code, ()).await;
    assert_eq!(seen, json!(["invalid", "invalid"]));
}

async fn steps_of_a_group_run_concurrently_and_are_all_recorded(ground: Ground) {
    let code = script(|flow, _| async move {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        flow.all((
            flow.step("receive", async move || {
                receiver.await.map_err(|_| "the sender is gone")
            }),
            flow.step("send", async move || {
                sender
                    .send(7)
                    .map(|()| 8)
                    .map_err(|_| "the receiver is gone")
            }),
        ))
        .await
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(output(&get(&harness, id).await), json!([7, 8]));
    let history = history(&harness, id, 1).await;
    assert_eq!(count(&history, EventKind::StepCompleted), 2);
}

async fn a_call_inside_a_step_is_refused(ground: Ground) {
    let code = script(|flow, _| async move {
        let within = flow.clone();
        let nests = flow.step("nests", async move || {
            let error = number(&within, "inner", 1).await.unwrap_err();
            Ok::<_, String>(error.to_string())
        });
        let error = nests.await?;
        flow.sleep(SECOND).await?;
        Ok((error, number(&flow, "next", 2).await?))
    });
    let seen = result_of(&ground, code, ()).await;
    assert!(
        seen[0].as_str().unwrap().contains("inside a step"),
        "{seen}"
    );
    assert_eq!(seen[1], 2);
}

async fn drawing_a_uuid_inside_a_step_does_not_change_later_draws(ground: Ground) {
    let log = Log::default();
    let written = log.clone();
    let code = script(move |flow, _| {
        let log = written.clone();
        async move {
            let within = flow.clone();
            let draws = flow.step("draws", async move || Ok::<_, String>(within.uuid()));
            let inside = draws.await?;
            let after = flow.uuid();
            log.note(after.clone());
            flow.sleep(SECOND).await?;
            Ok(inside != after)
        }
    });
    assert_eq!(result_of(&ground, code, ()).await, json!(true));
    let drawn = log.entries();
    assert_eq!(drawn.len(), 2);
    assert_eq!(drawn[0], drawn[1]);
}
