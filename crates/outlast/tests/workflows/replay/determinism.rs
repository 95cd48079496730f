//! Code that cannot be replayed, and code that does not fit its history.

use crate::support::*;
use futures_util::future::Either;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use outlast::prelude::*;
use outlast::store::EventKind;
use outlast::testing::Harness;
use outlast::workflow::BLOCKED;
use outlast::{JobError, Status};
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::SystemTime;
use tracing::field::{Field, Visit};
use tracing::instrument::WithSubscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context as LayerContext, SubscriberExt};

on_both_stores!(
    an_await_that_is_not_durable_blocks_and_names_the_previous_call_and_the_remedy,
    awaiting_a_channel_beside_a_durable_call_blocks,
    a_spawned_task_blocks_and_never_runs,
    a_sleep_that_is_not_durable_blocks_in_a_combinator_that_keeps_wakers,
    awaits_that_are_not_durable_work_inside_a_step,
    a_call_of_another_kind_blocks_and_shows_both_sides,
    a_call_with_another_name_blocks_and_shows_both_sides,
    a_removed_call_blocks_and_shows_both_sides,
    an_added_call_blocks_and_shows_both_sides,
    an_early_end_blocks_and_shows_both_sides,
    calls_in_another_order_block_and_show_both_sides,
    a_child_of_another_workflow_blocks,
    a_member_that_was_added_to_a_group_blocks,
    a_call_that_was_taken_out_of_its_group_blocks,
    a_child_input_from_a_clock_blocks_and_names_the_call_and_the_remedy,
    a_timer_set_from_a_clock_blocks_and_names_the_call_and_the_remedy,
    a_differing_input_from_another_process_does_not_block,
    a_replay_warns_once_of_differing_inputs_from_another_process,
    an_input_with_an_unordered_map_does_not_block,
    a_blocked_workflow_adds_one_event_to_its_history,
    a_blocked_workflow_goes_on_with_a_build_that_fits_its_history,
    a_blocked_workflow_is_retried_with_backoff_and_never_fails,
    a_blocked_workflow_keeps_its_signals_and_its_cancel,
    a_step_before_a_block_is_not_run_again,
    a_result_that_no_longer_decodes_blocks_and_shows_both_sides,
    a_result_in_a_group_that_no_longer_decodes_blocks,
    a_result_that_arrives_and_does_not_decode_adds_one_event,
    an_event_with_unreadable_data_blocks_and_is_named,
    a_signal_that_does_not_decode_fails_its_call,
    a_panic_of_the_code_fails_only_its_own_workflow,
    a_panic_after_a_step_leaves_its_result_in_the_history,
);

/// Runs a workflow that gets blocked, and returns its error.
async fn blocked(harness: &mut Harness, id: Scripted) -> String {
    harness.run().await;
    let row = get(harness, id).await;
    let error = row.last_error.clone().unwrap_or_default();
    assert_eq!(row.status, Status::Runnable, "{error}");
    assert!(
        row.eligible_at > harness.time(),
        "the workflow is tried again later"
    );
    assert!(error.starts_with(BLOCKED), "{error}");
    error
}

async fn an_await_that_is_not_durable_blocks_and_names_the_previous_call_and_the_remedy(
    ground: Ground,
) {
    let code = script(|flow, _| async move {
        number(&flow, "the last one", 1).await?;
        tokio::time::sleep(SECOND).await;
        number(&flow, "next", 1).await
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    let error = blocked(&mut harness, id).await;
    assert!(error.contains("call 1: step \"the last one\""), "{error}");
    assert!(error.contains("flow.step("), "{error}");
    assert!(error.contains("activity"), "{error}");
    let first = script(|_, _| async move {
        tokio::task::yield_now().await;
        Ok(1)
    });
    let mut harness = ground.runs(first).await;
    let id = begin(&harness, ()).await;
    let error = blocked(&mut harness, id).await;
    assert!(error.contains("after the start"), "{error}");
}

async fn awaiting_a_channel_beside_a_durable_call_blocks(ground: Ground) {
    let (sender, receiver) = tokio::sync::mpsc::channel::<u64>(1);
    let receiver = std::sync::Arc::new(tokio::sync::Mutex::new(receiver));
    let code = script(move |flow, _| {
        let receiver = receiver.clone();
        async move {
            number(&flow, "one", 1).await?;
            let received = async { receiver.lock().await.recv().await };
            // The code awaits the channel beside a durable call.
            let (received, _) = futures_util::join!(received, flow.signal::<Go>().into_future());
            Ok(received)
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    let error = blocked(&mut harness, id).await;
    assert!(error.contains("not durable"), "{error}");
    drop(sender);
}

async fn a_spawned_task_blocks_and_never_runs(ground: Ground) {
    let log = Log::default();
    let written = log.clone();
    let code = script(move |flow, _| {
        let log = written.clone();
        async move {
            number(&flow, "the last one", 1).await?;
            tokio::spawn(async move { log.note("ran") });
            number(&flow, "next", 1).await
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    let error = blocked(&mut harness, id).await;
    // The code does not wait for the task, so it makes its next call before it is blocked.
    assert!(error.contains("after call 2: step \"next\""), "{error}");
    assert!(error.contains("a task that the code spawns"), "{error}");
    assert!(error.contains("flow.all("), "{error}");
    assert!(log.entries().is_empty());
}

async fn a_sleep_that_is_not_durable_blocks_in_a_combinator_that_keeps_wakers(ground: Ground) {
    let code = script(|flow, _| async move {
        let mut calls = FuturesUnordered::new();
        calls.push(flow.run(double::with(1)).into_future().boxed());
        let never = async {
            tokio::time::sleep(SECOND).await;
            Ok(0)
        };
        let first = futures_util::future::select(calls.next(), never.boxed());
        match first.await {
            Either::Left((first, _)) => first.unwrap(),
            Either::Right((late, _)) => late,
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    let error = blocked(&mut harness, id).await;
    assert!(error.contains("call 1: activity \"double\""), "{error}");
    assert!(error.contains("flow.all("), "{error}");
    assert!(children(&harness, id).await.is_empty());
}

async fn awaits_that_are_not_durable_work_inside_a_step(ground: Ground) {
    let code = script(|flow, _| async move {
        let foreign = flow.step("foreign", async || {
            tokio::time::sleep(Duration::from_millis(1)).await;
            tokio::task::yield_now().await;
            let task = tokio::spawn(async { 7 });
            task.await
        });
        foreign.await
    });
    assert_eq!(result_of(&ground, code, ()).await, json!(7));
}

/// Returns the error of changed code that replays a workflow which waits for a timer.
async fn changed(ground: &Ground, code: Script) -> String {
    let mut old = ground.runs(original()).await;
    let id = begin_and_run(&mut old, ()).await;
    old.expect(id).await.sleeps();
    let before = history(&old, id, 1).await;
    old.advance(SECOND).await;
    let mut new = ground.runs(code).await;
    let error = blocked(&mut new, id).await;
    let after = history(&new, id, 1).await;
    assert_eq!(after[..before.len()], before, "no event is changed");
    assert_eq!(after.len(), before.len() + 1);
    assert_eq!(after.last().unwrap().kind, EventKind::ReplayBlocked);
    // The next attempt adds no event.
    new.advance(HOUR).await;
    assert_eq!(blocked(&mut new, id).await, error);
    assert_eq!(history(&new, id, 1).await.len(), before.len() + 1);
    error
}

fn original() -> Script {
    script(|flow, _| async move {
        number(&flow, "one", 1).await?;
        flow.run(double::with(2)).await?;
        flow.run(Kid::with(Say::Give(3))).await?;
        flow.sleep(SECOND).await?;
        Ok(())
    })
}

#[track_caller]
fn says(error: &str, parts: [&str; 2]) {
    let [expected, found] = parts;
    assert!(error.contains(expected), "{error}");
    assert!(error.contains(found), "{error}");
}

async fn a_call_of_another_kind_blocks_and_shows_both_sides(ground: Ground) {
    let code = script(|flow, _| async move {
        number(&flow, "one", 1).await?;
        number(&flow, "double", 2).await
    });
    let error = changed(&ground, code).await;
    let expected = "event 3: activity_scheduled \"double\" of call 2";
    says(&error, [expected, "call 2: step \"double\""]);
}

async fn a_call_with_another_name_blocks_and_shows_both_sides(ground: Ground) {
    let code = script(|flow, _| async move { number(&flow, "uno", 1).await });
    let error = changed(&ground, code).await;
    let expected = "event 2: step_completed \"one\" of call 1";
    says(&error, [expected, "call 1: step \"uno\""]);
}

async fn a_removed_call_blocks_and_shows_both_sides(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.run(double::with(2)).await?;
        flow.run(Kid::with(Say::Give(3))).await?;
        flow.sleep(SECOND).await
    });
    let error = changed(&ground, code).await;
    let expected = "event 2: step_completed \"one\" of call 1";
    says(&error, [expected, "call 1: activity \"double\""]);
}

async fn an_added_call_blocks_and_shows_both_sides(ground: Ground) {
    let code = script(|flow, _| async move {
        number(&flow, "one", 1).await?;
        flow.signal::<Go>().timeout(SECOND).await?;
        flow.run(double::with(2)).await?;
        Ok(())
    });
    let error = changed(&ground, code).await;
    says(&error, ["of call 2", "call 2: select"]);
}

async fn an_early_end_blocks_and_shows_both_sides(ground: Ground) {
    let code = script(|flow, _| async move {
        number(&flow, "one", 1).await?;
        flow.run(double::with(2)).await
    });
    let error = changed(&ground, code).await;
    let found = "the end of the code, after call 2: activity \"double\"";
    says(&error, ["child_scheduled \"kid\" of call 3", found]);
}

async fn calls_in_another_order_block_and_show_both_sides(ground: Ground) {
    let code = script(|flow, _| async move {
        number(&flow, "one", 1).await?;
        flow.run(Kid::with(Say::Give(3))).await?;
        flow.run(double::with(2)).await
    });
    let error = changed(&ground, code).await;
    let expected = "event 3: activity_scheduled \"double\" of call 2";
    says(&error, [expected, "call 2: child \"kid\""]);
}

async fn a_child_of_another_workflow_blocks(ground: Ground) {
    let code = script(|flow, _| async move {
        number(&flow, "one", 1).await?;
        flow.run(double::with(2)).await?;
        flow.run(Turnstile::with(Turn::Wait(1))).await
    });
    let error = changed(&ground, code).await;
    let expected = "child_scheduled \"kid\" of call 3";
    says(&error, [expected, "call 3: child \"turnstile\""]);
}

async fn a_member_that_was_added_to_a_group_blocks(ground: Ground) {
    let grouped = |members: u64| {
        script(move |flow, _| async move {
            let group = (0..members).map(|n| flow.run(double::with(n)));
            flow.all(group.collect::<Vec<_>>()).await?;
            flow.sleep(SECOND).await
        })
    };
    let mut old = ground.runs(grouped(2)).await;
    let id = begin_and_run(&mut old, ()).await;
    old.advance(SECOND).await;
    let mut new = ground.runs(grouped(3)).await;
    let error = blocked(&mut new, id).await;
    let expected = "activity_scheduled \"double\" of call 2, number 1 of 2 in all";
    let found = "call 2: activity \"double\", number 1 of 3 in all";
    says(&error, [expected, found]);
}

async fn a_call_that_was_taken_out_of_its_group_blocks(ground: Ground) {
    let grouped = script(|flow, _| async move {
        flow.all((flow.run(double::with(1)), flow.run(Kid::with(Say::Wait))))
            .await?;
        Ok(())
    });
    let alone = script(|flow, _| async move {
        flow.run(double::with(1)).await?;
        flow.run(Kid::with(Say::Wait)).await?;
        Ok(())
    });
    let mut old = ground.runs(grouped).await;
    let id = begin_and_run(&mut old, ()).await;
    go(&old, children(&old, id).await[1].id, 1).await;
    let mut others = ground.runs_children().await;
    others.run().await;
    let mut new = ground.runs(alone).await;
    let error = blocked(&mut new, id).await;
    let expected = "event 2: activity_scheduled \"double\" of call 2";
    says(&error, [expected, "after call 1: activity \"double\""]);
    old.run_all().await;
    old.expect(id).await.is_done();
}

/// A clock that is not the workflow's: the time since the test began, and an hour.
fn clock() -> Duration {
    static BEGUN: LazyLock<SystemTime> = LazyLock::new(SystemTime::now);
    let begun = *BEGUN;
    HOUR + SystemTime::now().duration_since(begun).unwrap()
}

/// A workflow that passes the time of the clock to a child, and awaits the child.
fn gives_the_time() -> Script {
    script(|flow, _| async move {
        number(&flow, "one", 1).await?;
        let nanos = u64::try_from(clock().as_nanos()).unwrap();
        let kid = flow.run(Kid::with(Say::Sleep(1_000, nanos))).await?;
        Ok(kid)
    })
}

async fn a_child_input_from_a_clock_blocks_and_names_the_call_and_the_remedy(ground: Ground) {
    let mut harness = ground.runs(gives_the_time()).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.advance(SECOND).await;
    let error = blocked(&mut harness, id).await;
    let expected = "child_scheduled \"kid\" of call 2 as it was given then";
    let found = "call 2: child \"kid\" given something else";
    says(&error, [expected, found]);
    says(&error, ["read a clock", "use flow.now()"]);
    // The child is not affected.
    assert_eq!(statuses(&harness, id).await, [Status::Done]);
}

async fn a_timer_set_from_a_clock_blocks_and_names_the_call_and_the_remedy(ground: Ground) {
    let code = script(|flow, _| async move {
        let kid = flow.spawn(Kid::with(Say::Give(1))).await?;
        // The end of the child wakes the workflow before the timer is due.
        let until = flow.sleep(clock()).into_future();
        let (kid, until) = futures_util::join!(kid.join().into_future(), until);
        kid.and(until)
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    let error = blocked(&mut harness, id).await;
    let found = "call 2: timer given something else";
    says(&error, ["timer_scheduled of call 2", found]);
    says(&error, ["read a clock", "use flow.now()"]);
}

/// Another process may be another build, whose types have other fields. It may have other
/// settings. And no build can compute the time that a clock has once returned.
async fn a_differing_input_from_another_process_does_not_block(ground: Ground) {
    let mut harness = ground.runs(gives_the_time()).await;
    let id = begin_and_run(&mut harness, ()).await;
    ground
        .tamper(
            "update events set data = json(replace(cast(data as text), '\"process\":', '\"before\":'))",
        )
        .await;
    harness.run_all().await;
    let kid = get(&harness, children(&harness, id).await[0].id).await;
    assert_eq!(output(&get(&harness, id).await), output(&kid));
}

async fn a_replay_warns_once_of_differing_inputs_from_another_process(ground: Ground) {
    let code = script(|flow, _| async move {
        let time = || Say::Sleep(1_000, u64::try_from(clock().as_nanos()).unwrap());
        flow.run(Kid::with(time())).await?;
        flow.run(Kid::with(time())).await
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let by_another =
        "update events set data = json(replace(cast(data as text), '\"process\":', '\"before\":'))";
    let mut warnings = Vec::new();
    // The code replays at the end of each child. The second time, both inputs differ.
    for _ in 0..2 {
        ground.tamper(by_another).await;
        harness.advance(SECOND).await;
        warnings.push(Warnings::of(harness.run()).await);
    }
    harness.expect(id).await.is_done();
    for messages in warnings {
        let [warning] = &messages[..] else {
            panic!("not one warning: {messages:?}");
        };
        let expected = "the history has event 2: child_scheduled \"kid\" of call 1";
        says(
            warning,
            [expected, "call 1: child \"kid\" given something else"],
        );
        says(warning, ["read a clock", "use flow.now()"]);
    }
}

/// The warnings that are logged while a future runs.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    async fn of<T>(run: impl Future<Output = T>) -> Vec<String> {
        let warnings = Warnings::default();
        let subscriber = tracing_subscriber::registry().with(warnings.clone());
        run.with_subscriber(subscriber).await;
        warnings.0.lock().unwrap().clone()
    }
}

impl<S: tracing::Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &tracing::Event<'_>, _: LayerContext<'_, S>) {
        struct Message(String);

        impl Visit for Message {
            fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
                if field.name() == "message" {
                    self.0 = format!("{value:?}");
                }
            }
        }

        if *event.metadata().level() == tracing::Level::WARN {
            let mut message = Message(String::new());
            event.record(&mut message);
            self.0.lock().unwrap().push(message.0);
        }
    }
}

async fn an_input_with_an_unordered_map_does_not_block(ground: Ground) {
    #[job]
    async fn adds(all: HashMap<String, u64>) -> Result<u64, JobError> {
        Ok(all.values().sum())
    }

    let code = script(|flow, _| async move {
        // With so many keys, two maps hardly ever have the same order.
        let all: HashMap<String, u64> = (0..50).map(|n| (format!("n{n}"), n)).collect();
        flow.run(adds::with(all)).await
    });
    let worker = ground.worker().register(code).register(adds);
    let mut harness = worker.build().await.unwrap();
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(output(&get(&harness, id).await), json!(1225));
}

async fn a_blocked_workflow_adds_one_event_to_its_history(ground: Ground) {
    let code = script(|flow, _| async move { flow.sleep(SECOND).await });
    let error = changed(&ground, code).await;
    says(&error, ["call 1", "call 1: timer"]);
}

async fn a_blocked_workflow_goes_on_with_a_build_that_fits_its_history(ground: Ground) {
    let mut old = ground.runs(original()).await;
    let id = begin_and_run(&mut old, ()).await;
    old.advance(SECOND).await;
    let mut other = ground
        .runs(script(|flow, _| async move { flow.sleep(SECOND).await }))
        .await;
    blocked(&mut other, id).await;
    old.run_all().await;
    let row = get(&old, id).await;
    assert_eq!(row.status, Status::Done);
    assert_eq!(row.last_error, None);
    let events = history_words(&old, id).await;
    assert_eq!(events.last().unwrap(), "run_completed");
    assert_eq!(
        events.iter().filter(|it| *it == "replay_blocked").count(),
        1
    );
}

async fn a_blocked_workflow_is_retried_with_backoff_and_never_fails(ground: Ground) {
    let code = script(|_, _| async move {
        tokio::task::yield_now().await;
        Ok(1)
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    let mut pauses = Vec::new();
    for _ in 0..12 {
        blocked(&mut harness, id).await;
        let due = get(&harness, id).await.eligible_at;
        pauses.push(due.since(harness.time()).as_secs());
        harness.set_time(due).await;
    }
    assert_eq!(pauses[..7], [1, 2, 4, 8, 16, 32, 60]);
    assert!(pauses[7..].iter().all(|pause| *pause == 60), "{pauses:?}");
}

async fn a_blocked_workflow_keeps_its_signals_and_its_cancel(ground: Ground) {
    let build = |name: &'static str| {
        script(move |flow, _| async move {
            number(&flow, name, 1).await?;
            let cancelled = flow.signal::<Go>().await.is_err();
            let Go(n) = flow
                .uncancellable(async { flow.signal::<Go>().await })
                .await?;
            Ok((n, cancelled))
        })
    };
    let mut old = ground.runs(build("one")).await;
    let id = begin_and_run(&mut old, ()).await;
    go(&old, id.get(), 7).await;
    let mut new = ground.runs(build("uno")).await;
    blocked(&mut new, id).await;
    new.client().admin().cancel(id, ada()).await.unwrap();
    blocked(&mut new, id).await;
    new.advance(HOUR).await;
    old.run().await;
    assert_eq!(output(&get(&old, id).await), json!([7, true]));
}

async fn a_step_before_a_block_is_not_run_again(ground: Ground) {
    let log = Log::default();
    let written = log.clone();
    let code = script(move |flow, _| {
        let log = written.clone();
        async move {
            log.step(&flow, "charge", 1).await?;
            tokio::task::yield_now().await;
            Ok(1)
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    for _ in 0..3 {
        blocked(&mut harness, id).await;
        let due = get(&harness, id).await.eligible_at;
        harness.set_time(due).await;
    }
    assert_eq!(log.times("charge"), 1);
    let expected = ["run_started", "step_completed 1 charge", "replay_blocked"];
    assert_eq!(history_words(&harness, id).await, expected);
}

async fn a_result_that_no_longer_decodes_blocks_and_shows_both_sides(ground: Ground) {
    let code = script(|flow, _| async move {
        let seen = number(&flow, "one", 1).await?;
        flow.signal::<Go>().await?;
        Ok(seen)
    });
    let mut old = ground.runs(code).await;
    let id = begin_and_run(&mut old, ()).await;
    go(&old, id.get(), 1).await;
    let changed = script(|flow, _| async move {
        let seen = flow.step("one", async || Ok::<_, String>(String::new()));
        // The workflow is blocked, although the code ignores the error.
        let seen = seen.await.unwrap_or_default();
        flow.signal::<Go>().await?;
        Ok(seen)
    });
    let mut new = ground.runs(changed).await;
    let error = blocked(&mut new, id).await;
    assert!(
        error.contains("event 2: step_completed \"one\" of call 1"),
        "{error}"
    );
    assert!(error.contains("expected a string"), "{error}");
    old.run_all().await;
    assert_eq!(output(&get(&old, id).await), json!(1));
}

/// The job of a later build, with another output.
#[job(name = "double")]
async fn doubled_in_words(_: u64) -> Result<String, JobError> {
    Ok(String::new())
}

async fn a_result_that_arrives_and_does_not_decode_adds_one_event(ground: Ground) {
    let code = script(|flow, _| async move { flow.run(doubled_in_words::with(1)).await });
    let mut harness = ground.runs_only(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    ground.runs_children().await.run().await;
    for _ in 0..3 {
        let error = blocked(&mut harness, id).await;
        let completed = "activity_completed \"double\" of call 1";
        says(&error, [completed, "expected a string"]);
        // The result is not written, so the history has no number for it.
        let expected = [
            "run_started",
            "activity_scheduled 1 double",
            "replay_blocked",
        ];
        assert_eq!(history_words(&harness, id).await, expected);
        harness.advance(HOUR).await;
    }
}

async fn a_result_in_a_group_that_no_longer_decodes_blocks(ground: Ground) {
    let code = script(|flow, _| async move {
        let doubled = flow.all((flow.run(double::with(1)), flow.run(double::with(2))));
        let doubled = doubled.await?;
        flow.signal::<Go>().await?;
        Ok(doubled)
    });
    let mut old = ground.runs(code).await;
    let id = begin_and_run(&mut old, ()).await;
    go(&old, id.get(), 1).await;
    let changed = script(|flow, _| async move {
        let doubled = flow.all((
            flow.run(double::with(1)),
            flow.run(doubled_in_words::with(2)),
        ));
        let doubled = doubled.await?;
        flow.signal::<Go>().await?;
        Ok(doubled)
    });
    let mut new = ground.runs(changed).await;
    let error = blocked(&mut new, id).await;
    assert!(
        error.contains("activity_completed \"double\" of call 3"),
        "{error}"
    );
    old.run_all().await;
    assert_eq!(output(&get(&old, id).await), json!([2, 4]));
}

/// Changes one event of each kind whose data the code reads.
async fn an_event_with_unreadable_data_blocks_and_is_named(ground: Ground) {
    let log = Log::default();
    let written = log.clone();
    let code = script(move |flow, _| {
        let log = written.clone();
        async move {
            number(&flow, "one", 1).await?;
            flow.step("two", async || Err::<u64, _>("no"))
                .await
                .unwrap_err();
            flow.run(double::with(3)).await?;
            let kid = flow.spawn(Kid::with(Say::Wait)).await?;
            kid.child().signal(Go(4)).await?;
            flow.all((kid.join(), flow.sleep(SECOND))).await?;
            flow.signal::<Go>().await?;
            log.step(&flow, "last", 5).await
        }
    });
    let mut harness = ground.runs(code.clone()).await;
    let id = begin(&harness, ()).await;
    harness.run_all().await;
    harness.expect(id).await.awaits([Go::NAME]);
    let events = history(&harness, id, 1).await;
    go(&harness, id.get(), 6).await;
    for event in events {
        // The code reads no data of these kinds.
        if matches!(
            event.kind,
            EventKind::TimerFired | EventKind::FailureHandled
        ) {
            continue;
        }
        let at = format!("instance_id = {} and seq = {}", id.get(), event.seq);
        let sql = format!("update events set data = '7' where {at}");
        ground.tamper(&sql).await;
        let error = blocked(&mut harness, id).await;
        says(
            &error,
            [
                &format!("event {}: {}", event.seq, event.kind),
                "cannot be read",
            ],
        );
        let was = event.data.as_str().replace('\'', "''");
        let sql = format!("update events set data = '{was}' where {at}");
        ground.tamper(&sql).await;
        harness.advance(HOUR).await;
    }
    assert_eq!(log.times("last"), 0);
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!(5));
}

async fn a_signal_that_does_not_decode_fails_its_call(ground: Ground) {
    #[derive(Signal, Serialize, Deserialize)]
    #[signal(name = "go")]
    struct Words(String);

    let code = script(|flow, _| async move {
        let error = flow
            .signal::<Go>()
            .await
            .err()
            .expect("the payload is no number");
        Ok((error.kind().as_str(), flow.signal::<Go>().await?.0))
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let words = Words("no number".into());
    harness.client().signal(id.get(), words).await.unwrap();
    go(&harness, id.get(), 7).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!(["invalid", 7]));
}

async fn a_panic_after_a_step_leaves_its_result_in_the_history(ground: Ground) {
    let code = script(|flow, _| async move {
        let one: u64 = number(&flow, "one", 1).await?;
        assert_eq!(one, 2, "an assertion of the code");
        Ok(1)
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let error = reason(&get(&harness, id).await);
    assert!(error.contains("an assertion of the code"), "{error}");
    let expected = ["run_started", "step_completed 1 one", "run_failed"];
    assert_eq!(history_words(&harness, id).await, expected);
}

async fn a_panic_of_the_code_fails_only_its_own_workflow(ground: Ground) {
    let code = script(|flow, input: Value| async move {
        number(&flow, "one", 1).await?;
        assert!(input != json!("bad"), "an assertion of the code");
        Ok(1)
    });
    let mut harness = ground.runs(code).await;
    let bad = begin(&harness, "bad").await;
    let good = begin(&harness, "good").await;
    harness.run().await;
    let error = reason(&get(&harness, bad).await);
    assert!(error.contains("an assertion of the code"), "{error}");
    assert_eq!(output(&get(&harness, good).await), json!(1));
    assert_eq!(
        history_words(&harness, bad).await.last().unwrap(),
        "run_failed"
    );
}
