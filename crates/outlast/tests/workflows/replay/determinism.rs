//! Code that cannot be run again, and code that does not fit its history.

use crate::support::*;
use futures_util::future::Either;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use outlast::EventKind;
use outlast::prelude::*;
use outlast::testing::Harness;
use outlast::workflow::BLOCKED;
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::SystemTime;
use tracing::field::{Field, Visit};
use tracing::instrument::WithSubscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context as LayerContext, SubscriberExt};

on_both_stores!(
    a_foreign_await_blocks_and_names_the_call_before_and_the_remedy,
    a_channel_and_a_task_block,
    a_spawned_task_blocks_and_never_runs,
    what_is_foreign_blocks_also_beside_calls_in_a_combinator_that_keeps_wakers,
    what_is_foreign_works_inside_a_step,
    another_kind_of_call_blocks_with_both_sides_shown,
    another_name_blocks_with_both_sides_shown,
    a_removed_call_blocks_with_both_sides_shown,
    an_added_call_blocks_with_both_sides_shown,
    an_early_end_blocks_with_both_sides_shown,
    another_order_blocks_with_both_sides_shown,
    a_child_of_another_workflow_blocks,
    a_member_that_was_added_to_a_group_blocks,
    a_call_that_was_taken_out_of_its_group_blocks,
    a_child_that_is_given_what_a_clock_says_blocks_and_names_the_call_and_the_remedy,
    a_timer_that_goes_by_a_clock_blocks_and_names_the_call_and_the_remedy,
    what_another_process_has_given_stands_and_does_not_block,
    what_another_process_has_given_is_told_once_with_both_sides_and_the_remedy,
    a_map_without_an_order_in_an_input_is_no_difference,
    a_blocked_workflow_keeps_its_history_but_for_one_event,
    a_blocked_workflow_goes_on_when_a_build_that_fits_runs_it,
    a_blocked_workflow_is_tried_with_growing_pauses_and_never_fails,
    a_blocked_workflow_keeps_its_signals_and_its_cancel,
    a_step_before_a_block_is_not_run_again,
    a_result_that_the_code_has_no_type_for_blocks_with_both_sides_shown,
    a_result_in_a_group_that_the_code_has_no_type_for_blocks,
    an_event_whose_data_cannot_be_read_blocks_and_names_it,
    a_signal_that_cannot_be_read_is_the_error_of_its_call,
    a_panic_of_the_code_fails_the_workflow_alone,
    a_panic_after_a_step_leaves_its_result_in_the_history,
);

/// The error of a workflow that is blocked.
async fn blocked(harness: &mut Harness, id: Scripted) -> String {
    harness.run().await;
    let row = get(harness, id).await;
    let error = row.last_error.clone().unwrap_or_default();
    assert_eq!(row.status, Status::Runnable, "{error}");
    assert!(row.eligible_at > harness.time(), "it is tried later");
    assert!(error.starts_with(BLOCKED), "{error}");
    error
}

async fn a_foreign_await_blocks_and_names_the_call_before_and_the_remedy(ground: Ground) {
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

async fn a_channel_and_a_task_block(ground: Ground) {
    let (sender, receiver) = tokio::sync::mpsc::channel::<u64>(1);
    let receiver = std::sync::Arc::new(tokio::sync::Mutex::new(receiver));
    let code = script(move |flow, _| {
        let receiver = receiver.clone();
        async move {
            number(&flow, "one", 1).await?;
            let heard = async { receiver.lock().await.recv().await };
            // Also beside a call that is durable.
            let (heard, _) = futures_util::join!(heard, flow.signal::<Go>().into_future());
            Ok(heard)
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
    // It does not wait for the task, so that it comes to its next call before it is caught.
    assert!(error.contains("after call 2: step \"next\""), "{error}");
    assert!(error.contains("a task that the code spawns"), "{error}");
    assert!(error.contains("flow.all("), "{error}");
    assert!(log.entries().is_empty());
}

async fn what_is_foreign_blocks_also_beside_calls_in_a_combinator_that_keeps_wakers(
    ground: Ground,
) {
    let code = script(|flow, _| async move {
        let mut calls = FuturesUnordered::new();
        calls.push(flow.activity(Double, 1).into_future().boxed());
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

async fn what_is_foreign_works_inside_a_step(ground: Ground) {
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

/// What the changed code of a workflow that stands at a timer is told.
async fn changed(ground: &Ground, code: Script) -> String {
    let mut old = ground.runs(original()).await;
    let id = ran(&mut old, ()).await;
    old.expect(id).await.sleeps();
    let before = history(&old, id, 1).await;
    old.advance(SECOND).await;
    let mut new = ground.runs(code).await;
    let error = blocked(&mut new, id).await;
    let after = history(&new, id, 1).await;
    assert_eq!(after[..before.len()], before, "nothing is edited");
    assert_eq!(after.len(), before.len() + 1);
    assert_eq!(after.last().unwrap().kind, EventKind::ReplayBlocked);
    // The next try says nothing new.
    new.advance(HOUR).await;
    assert_eq!(blocked(&mut new, id).await, error);
    assert_eq!(history(&new, id, 1).await.len(), before.len() + 1);
    error
}

fn original() -> Script {
    script(|flow, _| async move {
        number(&flow, "one", 1).await?;
        flow.activity(Double, 2).await?;
        flow.child::<Kid>(Say::Give(3)).await?;
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

async fn another_kind_of_call_blocks_with_both_sides_shown(ground: Ground) {
    let code = script(|flow, _| async move {
        number(&flow, "one", 1).await?;
        number(&flow, "double", 2).await
    });
    let error = changed(&ground, code).await;
    let expected = "event 3: activity_scheduled \"double\" of call 2";
    says(&error, [expected, "call 2: step \"double\""]);
}

async fn another_name_blocks_with_both_sides_shown(ground: Ground) {
    let code = script(|flow, _| async move { number(&flow, "uno", 1).await });
    let error = changed(&ground, code).await;
    let expected = "event 2: step_completed \"one\" of call 1";
    says(&error, [expected, "call 1: step \"uno\""]);
}

async fn a_removed_call_blocks_with_both_sides_shown(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.activity(Double, 2).await?;
        flow.child::<Kid>(Say::Give(3)).await?;
        flow.sleep(SECOND).await
    });
    let error = changed(&ground, code).await;
    let expected = "event 2: step_completed \"one\" of call 1";
    says(&error, [expected, "call 1: activity \"double\""]);
}

async fn an_added_call_blocks_with_both_sides_shown(ground: Ground) {
    let code = script(|flow, _| async move {
        number(&flow, "one", 1).await?;
        flow.signal::<Go>().timeout(SECOND).await?;
        flow.activity(Double, 2).await?;
        Ok(())
    });
    let error = changed(&ground, code).await;
    says(&error, ["of call 2", "call 2: select"]);
}

async fn an_early_end_blocks_with_both_sides_shown(ground: Ground) {
    let code = script(|flow, _| async move {
        number(&flow, "one", 1).await?;
        flow.activity(Double, 2).await
    });
    let error = changed(&ground, code).await;
    let found = "the end of the code, after call 2: activity \"double\"";
    says(&error, ["child_scheduled \"kid\" of call 3", found]);
}

async fn another_order_blocks_with_both_sides_shown(ground: Ground) {
    let code = script(|flow, _| async move {
        number(&flow, "one", 1).await?;
        flow.child::<Kid>(Say::Give(3)).await?;
        flow.activity(Double, 2).await
    });
    let error = changed(&ground, code).await;
    let expected = "event 3: activity_scheduled \"double\" of call 2";
    says(&error, [expected, "call 2: child \"kid\""]);
}

async fn a_child_of_another_workflow_blocks(ground: Ground) {
    let code = script(|flow, _| async move {
        number(&flow, "one", 1).await?;
        flow.activity(Double, 2).await?;
        flow.machine(New::<Turnstile>(Turn::Wait(1))).await
    });
    let error = changed(&ground, code).await;
    let expected = "child_scheduled \"kid\" of call 3";
    says(&error, [expected, "call 3: child \"turnstile\""]);
}

async fn a_member_that_was_added_to_a_group_blocks(ground: Ground) {
    let grouped = |members: u64| {
        script(move |flow, _| async move {
            let group = (0..members).map(|n| flow.activity(Double, n));
            flow.all(group.collect::<Vec<_>>()).await?;
            flow.sleep(SECOND).await
        })
    };
    let mut old = ground.runs(grouped(2)).await;
    let id = ran(&mut old, ()).await;
    old.advance(SECOND).await;
    let mut new = ground.runs(grouped(3)).await;
    let error = blocked(&mut new, id).await;
    let expected = "activity_scheduled \"double\" of call 2, number 1 of 2 in all";
    let found = "call 2: activity \"double\", number 1 of 3 in all";
    says(&error, [expected, found]);
}

async fn a_call_that_was_taken_out_of_its_group_blocks(ground: Ground) {
    let grouped = script(|flow, _| async move {
        flow.all((flow.activity(Double, 1), flow.child::<Kid>(Say::Wait)))
            .await?;
        Ok(())
    });
    let alone = script(|flow, _| async move {
        flow.activity(Double, 1).await?;
        flow.child::<Kid>(Say::Wait).await?;
        Ok(())
    });
    let mut old = ground.runs(grouped).await;
    let id = ran(&mut old, ()).await;
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

/// A clock that is not the workflow's: how long ago the test began, and an hour.
fn clock() -> Duration {
    static BEGUN: LazyLock<SystemTime> = LazyLock::new(SystemTime::now);
    let begun = *BEGUN;
    HOUR + SystemTime::now().duration_since(begun).unwrap()
}

/// Gives a child, whose end it waits for, the time.
fn gives_the_time() -> Script {
    script(|flow, _| async move {
        number(&flow, "one", 1).await?;
        let nanos = u64::try_from(clock().as_nanos()).unwrap();
        let kid = flow.child::<Kid>(Say::Sleep(1_000, nanos)).await?;
        Ok(kid)
    })
}

async fn a_child_that_is_given_what_a_clock_says_blocks_and_names_the_call_and_the_remedy(
    ground: Ground,
) {
    let mut harness = ground.runs(gives_the_time()).await;
    let id = ran(&mut harness, ()).await;
    harness.advance(SECOND).await;
    let error = blocked(&mut harness, id).await;
    let expected = "child_scheduled \"kid\" of call 2 as it was given then";
    let found = "call 2: child \"kid\" given something else";
    says(&error, [expected, found]);
    says(&error, ["read a clock", "use flow.now()"]);
    // The child is what it was.
    assert_eq!(statuses(&harness, id).await, [Status::Done]);
}

async fn a_timer_that_goes_by_a_clock_blocks_and_names_the_call_and_the_remedy(ground: Ground) {
    let code = script(|flow, _| async move {
        let kid = flow.start_child::<Kid>(Say::Give(1)).await?;
        // The end of the child wakes it before the time is up.
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

/// It may be of another build, whose types have other members, or have other settings; and no build could come to what a
/// clock has once said.
async fn what_another_process_has_given_stands_and_does_not_block(ground: Ground) {
    let mut harness = ground.runs(gives_the_time()).await;
    let id = ran(&mut harness, ()).await;
    ground
        .tamper(
            "update events set data = json(replace(cast(data as text), '\"process\":', '\"before\":'))",
        )
        .await;
    harness.run_all().await;
    let kid = get(&harness, children(&harness, id).await[0].id).await;
    assert_eq!(output(&get(&harness, id).await), output(&kid));
}

async fn what_another_process_has_given_is_told_once_with_both_sides_and_the_remedy(
    ground: Ground,
) {
    let code = script(|flow, _| async move {
        let time = || Say::Sleep(1_000, u64::try_from(clock().as_nanos()).unwrap());
        flow.child::<Kid>(time()).await?;
        flow.child::<Kid>(time()).await
    });
    let mut harness = ground.runs(code).await;
    let id = ran(&mut harness, ()).await;
    let by_another =
        "update events set data = json(replace(cast(data as text), '\"process\":', '\"before\":'))";
    let mut warnings = Vec::new();
    // It is run again at the end of each child, the second time with a difference in both.
    for _ in 0..2 {
        ground.tamper(by_another).await;
        harness.advance(SECOND).await;
        warnings.push(Warnings::of(harness.run()).await);
    }
    harness.expect(id).await.is_done();
    for told in warnings {
        let [told] = &told[..] else {
            panic!("not one warning: {told:?}");
        };
        let expected = "the history has event 2: child_scheduled \"kid\" of call 1";
        says(
            told,
            [expected, "call 1: child \"kid\" given something else"],
        );
        says(told, ["read a clock", "use flow.now()"]);
    }
}

/// What is warned of while something runs.
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

async fn a_map_without_an_order_in_an_input_is_no_difference(ground: Ground) {
    struct Adds;

    impl Job for Adds {
        const NAME: &'static str = "adds";
        type Args = HashMap<String, u64>;
        type Output = u64;

        async fn perform(&self, all: HashMap<String, u64>, _: &Context) -> Result<u64, JobError> {
            Ok(all.values().sum())
        }
    }

    let code = script(|flow, _| async move {
        // So many that they hardly ever stand in the same order twice.
        let all: HashMap<String, u64> = (0..50).map(|n| (format!("n{n}"), n)).collect();
        flow.activity(Adds, all).await
    });
    let worker = ground.worker().workflow(code).machine(Adds);
    let mut harness = worker.build().await.unwrap();
    let id = ran(&mut harness, ()).await;
    assert_eq!(output(&get(&harness, id).await), json!(1225));
}

async fn a_blocked_workflow_keeps_its_history_but_for_one_event(ground: Ground) {
    let code = script(|flow, _| async move { flow.sleep(SECOND).await });
    let error = changed(&ground, code).await;
    says(&error, ["call 1", "call 1: timer"]);
}

async fn a_blocked_workflow_goes_on_when_a_build_that_fits_runs_it(ground: Ground) {
    let mut old = ground.runs(original()).await;
    let id = ran(&mut old, ()).await;
    old.advance(SECOND).await;
    let mut other = ground
        .runs(script(|flow, _| async move { flow.sleep(SECOND).await }))
        .await;
    blocked(&mut other, id).await;
    old.run_all().await;
    let row = get(&old, id).await;
    assert_eq!(row.status, Status::Done);
    assert_eq!(row.last_error, None);
    let told = told(&old, id).await;
    assert_eq!(told.last().unwrap(), "run_completed");
    assert_eq!(told.iter().filter(|it| *it == "replay_blocked").count(), 1);
}

async fn a_blocked_workflow_is_tried_with_growing_pauses_and_never_fails(ground: Ground) {
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
    let id = ran(&mut old, ()).await;
    go(&old, id.get(), 7).await;
    let mut new = ground.runs(build("uno")).await;
    blocked(&mut new, id).await;
    new.cancel(id, Note::by("ada")).await.unwrap();
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
    assert_eq!(told(&harness, id).await, expected);
}

async fn a_result_that_the_code_has_no_type_for_blocks_with_both_sides_shown(ground: Ground) {
    let code = script(|flow, _| async move {
        let seen = number(&flow, "one", 1).await?;
        flow.signal::<Go>().await?;
        Ok(seen)
    });
    let mut old = ground.runs(code).await;
    let id = ran(&mut old, ()).await;
    go(&old, id.get(), 1).await;
    let changed = script(|flow, _| async move {
        let seen = flow.step("one", async || Ok::<_, String>(String::new()));
        // It is not for the code to survive.
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

async fn a_result_in_a_group_that_the_code_has_no_type_for_blocks(ground: Ground) {
    struct Doubles;

    impl Job for Doubles {
        const NAME: &'static str = <Double as Job>::NAME;
        type Args = u64;
        type Output = String;

        async fn perform(&self, _: u64, _: &Context) -> Result<String, JobError> {
            Ok(String::new())
        }
    }

    let code = script(|flow, _| async move {
        let doubled = flow.all((flow.activity(Double, 1), flow.activity(Double, 2)));
        let doubled = doubled.await?;
        flow.signal::<Go>().await?;
        Ok(doubled)
    });
    let mut old = ground.runs(code).await;
    let id = ran(&mut old, ()).await;
    go(&old, id.get(), 1).await;
    let changed = script(|flow, _| async move {
        let doubled = flow.all((flow.activity(Double, 1), flow.activity(Doubles, 2)));
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

/// Of every kind that the code is told of.
async fn an_event_whose_data_cannot_be_read_blocks_and_names_it(ground: Ground) {
    let log = Log::default();
    let written = log.clone();
    let code = script(move |flow, _| {
        let log = written.clone();
        async move {
            number(&flow, "one", 1).await?;
            flow.step("two", async || Err::<u64, _>("no"))
                .await
                .unwrap_err();
            flow.activity(Double, 3).await?;
            let kid = flow.start_child::<Kid>(Say::Wait).await?;
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
        // Those say nothing that the code is told.
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

async fn a_signal_that_cannot_be_read_is_the_error_of_its_call(ground: Ground) {
    #[derive(Serialize, Deserialize)]
    struct Words(String);

    impl Signal for Words {
        const NAME: &'static str = Go::NAME;
    }

    let code = script(|flow, _| async move {
        let error = flow.signal::<Go>().await.err().expect("it is no number");
        Ok((error.kind().as_str(), flow.signal::<Go>().await?.0))
    });
    let mut harness = ground.runs(code).await;
    let id = ran(&mut harness, ()).await;
    let words = Words("no number".into());
    harness.signal(id.get(), words).await.unwrap();
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
    let id = ran(&mut harness, ()).await;
    let error = reason(&get(&harness, id).await);
    assert!(error.contains("an assertion of the code"), "{error}");
    let expected = ["run_started", "step_completed 1 one", "run_failed"];
    assert_eq!(told(&harness, id).await, expected);
}

async fn a_panic_of_the_code_fails_the_workflow_alone(ground: Ground) {
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
    assert_eq!(told(&harness, bad).await.last().unwrap(), "run_failed");
}
