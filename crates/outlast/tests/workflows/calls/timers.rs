//! Timers: they fire at their exact time and never early.

use crate::support::*;
use outlast::prelude::*;
use outlast::store::{EventKind, Timestamp};
use outlast::testing::Point;
use outlast::workflow::{OneOf2, OneOf3};
use outlast::{FlowError, Status};

on_both_stores!(
    a_timer_fires_at_its_exact_due_time_and_never_early,
    a_timer_counts_from_its_scheduling_despite_wakes_and_crashes,
    a_sleep_of_zero_ends_at_once,
    a_call_whose_timeout_comes_first_returns_none,
    a_timeout_is_cancelled_when_its_call_ends_first,
    a_group_whose_deadline_passes_returns_none,
    a_child_goes_on_after_its_call_times_out,
    cancel_rest_cancels_the_children_of_a_group_that_times_out,
    a_deadline_cancels_the_children_of_a_group_with_cancel_rest,
    a_deadline_keeps_the_window_of_its_group,
    a_timeout_interrupts_a_step_that_runs,
    a_new_timer_does_not_delay_an_older_one,
    the_earliest_of_several_timers_wakes_the_workflow,
    a_timer_that_is_too_long_is_refused,
);

const MS: Duration = Duration::from_millis(1);

async fn a_timer_fires_at_its_exact_due_time_and_never_early(ground: Ground) {
    let code = script(|flow, _| async move {
        let begun = flow.timestamp();
        flow.sleep(Duration::from_millis(1_234)).await?;
        Ok(flow.timestamp().0 - begun.0)
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    harness.run().await;
    let due = Timestamp(harness.time().0 + 1_234_000);
    assert_eq!(get(&harness, id).await.await_deadline, Some(due));
    harness.advance(Duration::from_micros(1_233_999)).await;
    assert_eq!(harness.run().await.steps, 0, "not a microsecond early");
    harness.advance(Duration::from_micros(1)).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!(1_234_000));
    let history = history(&harness, id, 1).await;
    assert_eq!(only_event(&history, EventKind::TimerFired).at, due);
}

async fn a_timer_counts_from_its_scheduling_despite_wakes_and_crashes(ground: Ground) {
    let code = script(|flow, _| async move {
        let timer = async { flow.sleep(10 * SECOND).await };
        let signals = async {
            for _ in 0..3 {
                flow.signal::<Go>().await?;
            }
            Ok::<_, FlowError>(())
        };
        let (timer, signals) = futures_util::join!(timer, signals);
        timer.and(signals)
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let due = Timestamp(harness.time().0 + 10_000_000);
    for _ in 0..3 {
        harness.advance(3 * SECOND).await;
        go(&harness, id.get(), 1).await;
        harness.crash::<Script>("run", Point::BeforeCommit);
        harness.run().await;
        assert_eq!(get(&harness, id).await.await_deadline, Some(due));
    }
    harness.advance(SECOND - MS).await;
    assert_eq!(harness.run().await.steps, 0);
    harness.advance(MS).await;
    harness.run().await;
    harness.expect(id).await.is_done();
}

async fn a_sleep_of_zero_ends_at_once(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.sleep(Duration::ZERO).await?;
        Ok(1)
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(output(&get(&harness, id).await), json!(1));
}

async fn a_call_whose_timeout_comes_first_returns_none(ground: Ground) {
    let code = script(|flow, _| async move {
        let signal = flow.signal::<Go>().timeout(SECOND).await?;
        let child = flow.run(Kid::with(Say::Wait)).timeout(SECOND).await?;
        let joined = flow.spawn(Kid::with(Say::Wait)).await?;
        let joined = flow.deadline(SECOND, joined.join()).await?;
        Ok((signal.is_none(), child, joined))
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    let begun = harness.time();
    harness.run_all().await;
    assert_eq!(output(&get(&harness, id).await), json!([true, null, null]));
    assert_eq!(harness.time().since(begun), 3 * SECOND);
}

async fn a_timeout_is_cancelled_when_its_call_ends_first(ground: Ground) {
    let code = script(|flow, _| async move {
        let Some(Go(n)) = flow.signal::<Go>().timeout(HOUR).await? else {
            return Ok(0);
        };
        let doubled = flow.run(double::with(n)).timeout(HOUR).await?;
        flow.signal::<Halt>().await?;
        Ok(doubled.unwrap())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    go(&harness, id.get(), 4).await;
    harness.run().await;
    let parked = get(&harness, id).await;
    assert_eq!(parked.await_deadline, None, "no timer is left");
    let events = history(&harness, id, 1).await;
    assert_eq!(count(&events, EventKind::TimerCancelled), 2);
    assert_eq!(count(&events, EventKind::TimerFired), 0);
    harness.advance(2 * HOUR).await;
    harness.client().signal(id, Halt(0)).await.unwrap();
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!(8));
}

async fn a_group_whose_deadline_passes_returns_none(ground: Ground) {
    let code = script(|flow, _| async move {
        let quick = (
            flow.run(double::with(1)),
            vec![flow.run(Kid::with(Say::Give(2)))],
        );
        let quick = flow.deadline(SECOND, quick).await?;
        let slow = flow.all((flow.run(double::with(1)), flow.run(Kid::with(Say::Wait))));
        let slow = slow.timeout(SECOND).await?;
        Ok((quick, slow))
    });
    let seen = result_of(&ground, code, ()).await;
    assert_eq!(seen, json!([[2, [2]], null]));
}

async fn a_child_goes_on_after_its_call_times_out(ground: Ground) {
    let code = script(|flow, _| async move {
        let late = flow.run(Kid::with(Say::Wait)).timeout(SECOND).await?;
        flow.signal::<Halt>().await?;
        Ok(late)
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.advance(SECOND).await;
    harness.run().await;
    harness.expect(id).await.awaits(["halt"]);
    assert_eq!(statuses(&harness, id).await, [Status::AwaitingSignal]);
}

async fn cancel_rest_cancels_the_children_of_a_group_that_times_out(ground: Ground) {
    let code = script(|flow, _| async move {
        let group = flow.all((flow.run(Kid::with(Say::Wait)), flow.run(double::with(2))));
        let late = group.timeout(SECOND).cancel_rest().await?;
        Ok(late.is_none())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.run_all().await;
    assert_eq!(output(&get(&harness, id).await), json!(true));
    let expected = [Status::Cancelled, Status::Done];
    assert_eq!(statuses(&harness, id).await, expected);
}

async fn a_deadline_cancels_the_children_of_a_group_with_cancel_rest(ground: Ground) {
    let codes = [
        script(|flow, _| async move {
            let group = flow.all((flow.run(Kid::with(Say::Wait)), flow.run(double::with(2))));
            let late = flow.deadline(SECOND, group.cancel_rest()).await?;
            Ok(late.is_none())
        }),
        script(|flow, _| async move {
            let group = flow.all((flow.run(Kid::with(Say::Wait)), flow.run(double::with(2))));
            let late = group.cancel_rest().timeout(SECOND).await?;
            Ok(late.is_none())
        }),
        script(|flow, _| async move {
            let group = flow.all((flow.run(Kid::with(Say::Wait)), flow.run(double::with(2))));
            let first = flow
                .select((group.cancel_rest(), flow.sleep(SECOND)))
                .await?;
            Ok(matches!(first, OneOf2::Second(())))
        }),
    ];
    for code in codes {
        let mut harness = ground.runs(code).await;
        let id = begin_and_run(&mut harness, ()).await;
        harness.run_all().await;
        assert_eq!(output(&get(&harness, id).await), json!(true));
        let expected = [Status::Cancelled, Status::Done];
        assert_eq!(statuses(&harness, id).await, expected);
    }
}

async fn a_deadline_keeps_the_window_of_its_group(ground: Ground) {
    let code = script(|flow, _| async move {
        let kids = [Say::Wait, Say::Wait].map(|say| flow.run(Kid::with(say)));
        let group = flow.all(kids).window(1);
        Ok(flow.deadline(HOUR, group).await?.is_none())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let expected = [Status::AwaitingSignal, Status::Runnable];
    assert_eq!(statuses(&harness, id).await, expected);
}

async fn a_timeout_interrupts_a_step_that_runs(ground: Ground) {
    let clock = ground.clock.clone();
    let code = script(move |flow, _| {
        let clock = clock.clone();
        async move {
            let hangs = flow.step("hangs", async move || {
                clock.advance(5 * MS);
                std::future::pending::<Result<u64, String>>().await
            });
            let timed_out = hangs.timeout(5 * MS).await?;
            let next = number(&flow, "next", 2).await?;
            Ok((timed_out, next))
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(output(&get(&harness, id).await), json!([null, 2]));
    let history = history(&harness, id, 1).await;
    assert_eq!(count(&history, EventKind::TimerFired), 1);
    assert_eq!(count(&history, EventKind::StepFailed), 0);
}

/// A child wakes the workflow late. The workflow then starts a timer that is shorter than the
/// pending one.
async fn a_new_timer_does_not_delay_an_older_one(ground: Ground) {
    let code = script(|flow, _| async move {
        let older = async { flow.sleep(10 * SECOND).await };
        let newer = async {
            flow.run(Kid::with(Say::Sleep(5_000, 1))).await?;
            flow.run(Kid::with(Say::Wait)).timeout(4 * SECOND).await
        };
        let (older, newer) = futures_util::join!(older, newer);
        older?;
        newer
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let begun = harness.time();
    let mut others = ground.runs_children().await;
    others.advance(5 * SECOND).await;
    others.run().await;
    others.advance(3 * SECOND).await;
    harness.run().await;
    let deadline = get(&harness, id).await.await_deadline.unwrap();
    assert_eq!(deadline.since(begun), 10 * SECOND);
    harness.run_all().await;
    harness.expect(id).await.is_done();
    assert_eq!(harness.time().since(begun), 12 * SECOND);
}

async fn the_earliest_of_several_timers_wakes_the_workflow(ground: Ground) {
    let code = script(|flow, _| async move {
        let sleep = |seconds| flow.sleep(seconds * SECOND);
        let first = flow.select((sleep(3), sleep(1), sleep(2))).await?;
        assert!(matches!(first, OneOf3::Second(())));
        let all_or_one = flow
            .select((flow.all((sleep(1), sleep(9))), sleep(5)))
            .await?;
        Ok(matches!(all_or_one, OneOf2::Second(())))
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    let begun = harness.time();
    harness.run_all().await;
    assert_eq!(output(&get(&harness, id).await), json!(true));
    assert_eq!(harness.time().since(begun), 6 * SECOND);
}

async fn a_timer_that_is_too_long_is_refused(ground: Ground) {
    let code = script(|flow, _| async move {
        let error = flow.sleep(Duration::MAX).await.unwrap_err();
        let timeout = flow.signal::<Go>().timeout(Duration::MAX).await;
        Ok((error.kind().as_str(), timeout.is_err()))
    });
    assert_eq!(result_of(&ground, code, ()).await, json!(["invalid", true]));
}
