//! Selections: the first call to resolve wins.

use crate::support::*;
use outlast::prelude::*;
use outlast::store::{Event, EventKind};
use outlast::testing::Point;
use outlast::workflow::{Call, OneOf2, OneOf3, OneOf4};
use outlast::{Client, Status};
use std::sync::Arc;

on_both_stores!(
    the_first_call_to_resolve_wins_whatever_its_kind,
    the_earliest_of_several_arrivals_wins,
    the_losers_go_on,
    cancel_rest_cancels_the_losers,
    cancel_rest_cancels_the_losers_when_the_workflow_ends_at_once,
    a_signal_for_a_losing_call_stays_in_the_inbox,
    a_failed_winner_fails_the_selection,
    a_group_wins_when_it_is_complete,
    an_empty_group_wins_at_once,
    an_empty_selection_is_refused,
    the_winner_is_recorded_and_stays_the_same_on_replay,
    a_group_in_a_selection_wakes_the_workflow_when_it_is_complete,
    calls_beside_a_ready_call_are_not_started_even_on_replay,
    the_first_of_two_steps_wins_and_the_other_is_dropped,
    a_losing_step_does_not_run_again_once_the_winner_is_recorded,
    two_steps_that_end_together_are_both_recorded_and_the_first_listed_wins,
    a_step_that_fails_first_fails_the_selection,
    a_signal_in_the_inbox_wins_and_the_step_never_runs,
    a_signal_that_comes_while_a_step_runs_stays_in_the_inbox,
    a_signal_sent_before_a_crash_wins_over_an_unfinished_step,
    a_signal_that_came_during_an_earlier_step_wins_over_the_next_step,
    signals_that_came_during_an_earlier_step_win_in_their_order,
    a_running_step_wins_over_a_child_that_ends_meanwhile,
    a_thousand_children_beside_a_single_child_do_not_wake_their_parent,
    a_thousand_children_between_single_children_do_not_wake_their_parent,
    groups_in_a_selection_do_not_wake_their_parent_for_each_other,
    a_failure_in_any_group_of_a_selection_wakes_the_parent_at_once,
);

/// A workflow that selects between a call of each kind, and returns which one won.
fn one_of_everything() -> Script {
    script(|flow, _| async move {
        let first = flow.select((
            flow.run(Kid::with(Say::Wait)),
            flow.signal::<Go>(),
            flow.sleep(HOUR),
            flow.run(Turnstile::with(Turn::Wait(1))),
        ));
        Ok(match first.await? {
            OneOf4::First(n) => json!(["child", n]),
            OneOf4::Second(Go(n)) => json!(["signal", n]),
            OneOf4::Third(()) => json!(["timer"]),
            OneOf4::Fourth(n) => json!(["machine", n]),
        })
    })
}

async fn the_first_call_to_resolve_wins_whatever_its_kind(ground: Ground) {
    let mut harness = ground.runs(one_of_everything()).await;
    let mut seen = Vec::new();
    for first in 0..4 {
        let id = begin_and_run(&mut harness, ()).await;
        let kids = children(&harness, id).await;
        match first {
            0 => go(&harness, kids[0].id, 10).await,
            1 => go(&harness, id.get(), 20).await,
            2 => harness.advance(HOUR).await,
            _ => go(&harness, kids[1].id, 30).await,
        }
        harness.run().await;
        seen.push(output(&get(&harness, id).await));
    }
    let expected = json!([["child", 10], ["signal", 20], ["timer"], ["machine", 31]]);
    assert_eq!(json!(seen), expected);
}

async fn the_earliest_of_several_arrivals_wins(ground: Ground) {
    let mut harness = ground.runs(one_of_everything()).await;
    let mut others = ground.runs_children().await;
    for earliest in ["child", "signal"] {
        let id = begin_and_run(&mut harness, ()).await;
        let kid = children(&harness, id).await[0].id;
        for turn in 0..2 {
            others.advance(SECOND).await;
            match (earliest == "child") == (turn == 0) {
                true => go(&others, kid, 1).await,
                false => go(&others, id.get(), 2).await,
            }
            others.run().await;
        }
        harness.run().await;
        assert_eq!(output(&get(&harness, id).await)[0], earliest);
    }
}

async fn the_losers_go_on(ground: Ground) {
    let code = script(|flow, _| async move {
        let first = flow.select((
            flow.run(Kid::with(Say::Wait)),
            flow.run(Kid::with(Say::Give(1))),
        ));
        let first = first.await?;
        flow.signal::<Halt>().await?;
        Ok(matches!(first, OneOf2::Second(1)))
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.expect(id).await.awaits(["halt"]);
    let expected = [Status::AwaitingSignal, Status::Done];
    assert_eq!(statuses(&harness, id).await, expected);
    let kids = children(&harness, id).await;
    go(&harness, kids[0].id, 1).await;
    harness.run().await;
    assert_eq!(statuses(&harness, id).await, [Status::Done; 2]);
}

async fn cancel_rest_cancels_the_losers(ground: Ground) {
    let code = script(|flow, _| async move {
        let kids = [Say::Wait, Say::Give(1), Say::Wait].map(|say| flow.run(Kid::with(say)));
        let first = flow.select(Vec::from(kids)).cancel_rest().await?;
        flow.signal::<Halt>().await?;
        Ok(first)
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let expected = [Status::Cancelled, Status::Done, Status::Cancelled];
    assert_eq!(statuses(&harness, id).await, expected);
    harness.client().signal(id, Halt(0)).await.unwrap();
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([1, 1]));
}

async fn cancel_rest_cancels_the_losers_when_the_workflow_ends_at_once(ground: Ground) {
    for renews in [false, true] {
        let code = script(move |flow, input: Value| async move {
            if input == json!("again") {
                return Ok(0);
            }
            let kids = [Say::Wait, Say::Give(1)].map(|say| flow.run(Kid::with(say)));
            let (_, first) = flow.select(Vec::from(kids)).cancel_rest().await?;
            match renews {
                true => flow.continue_as_new("again"),
                false => Ok(first),
            }
        });
        let mut harness = ground.runs(code).await;
        let id = begin_and_run(&mut harness, ()).await;
        harness.expect(id).await.is_done();
        let expected = [Status::Cancelled, Status::Done];
        assert_eq!(statuses(&harness, id).await, expected, "renews: {renews}");
    }
}

async fn a_signal_for_a_losing_call_stays_in_the_inbox(ground: Ground) {
    let code = script(|flow, _| async move {
        let first = flow
            .select((flow.signal::<Go>(), flow.run(Kid::with(Say::Wait))))
            .await?;
        let OneOf2::Second(child) = first else {
            return Ok((0, 0));
        };
        let Go(later) = flow.signal::<Go>().await?;
        Ok((child, later))
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let kid = children(&harness, id).await[0].id;
    let mut others = ground.runs_children().await;
    go(&others, kid, 1).await;
    others.run().await;
    others.advance(SECOND).await;
    go(&others, id.get(), 2).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([1, 2]));
}

async fn a_failed_winner_fails_the_selection(ground: Ground) {
    let code = script(|flow, _| async move {
        let broken = flow.run(Kid::with(Say::SleepThenFail(10, "broken".into())));
        let error = flow.select((flow.sleep(HOUR), broken)).await.unwrap_err();
        let group = flow.all((
            flow.run(Kid::with(Say::Wait)),
            flow.run(fails::with("deep".into())),
        ));
        let deep = flow.select((group, flow.sleep(HOUR))).await.unwrap_err();
        Ok((error.kind().as_str(), error.to_string(), deep.to_string()))
    });
    let seen = result_of(&ground, code, ()).await;
    let expected = json!(["child_failed", "kid failed: broken", "fails failed: deep"]);
    assert_eq!(seen, expected);
}

async fn a_group_wins_when_it_is_complete(ground: Ground) {
    let code = script(|flow, _| async move {
        let kid = |ms| flow.run(Kid::with(Say::Sleep(ms, ms)));
        let first = flow.select((flow.all((kid(1), kid(50))), kid(60), (kid(2), kid(70))));
        Ok(match first.await? {
            OneOf3::First(both) => json!(both),
            OneOf3::Second(n) => json!(n),
            OneOf3::Third(both) => json!(["third", both]),
        })
    });
    assert_eq!(result_of(&ground, code, ()).await, json!([1, 50]));
}

async fn an_empty_group_wins_at_once(ground: Ground) {
    let code = script(|flow, _| async move {
        let first = flow.select((flow.signal::<Go>(), flow.all(()))).await?;
        Ok(matches!(first, OneOf2::Second(())))
    });
    assert_eq!(result_of(&ground, code, ()).await, json!(true));
}

async fn an_empty_selection_is_refused(ground: Ground) {
    let code = script(|flow, _| async move {
        let none = Vec::<Call<'_, u64>>::new();
        let error = flow.select(none).await.unwrap_err();
        Ok(error.kind().as_str())
    });
    assert_eq!(result_of(&ground, code, ()).await, json!("invalid"));
}

async fn the_winner_is_recorded_and_stays_the_same_on_replay(ground: Ground) {
    let code = script(|flow, _| async move {
        let kids = [30, 10, 20].map(|ms| flow.run(Kid::with(Say::Sleep(ms, ms))));
        let first = flow.select(Vec::from(kids)).await?;
        flow.sleep(SECOND).await?;
        Ok(first)
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.advance(Duration::from_millis(10)).await;
    harness.run().await;
    let choice = |events: &[Event]| data(only_event(events, EventKind::SelectionResolved));
    let before = choice(&history(&harness, id, 1).await);
    assert_eq!(before, json!({"winner": 1}));
    harness.crash::<Script>("run", Point::BeforeCommit);
    harness.run_all().await;
    assert_eq!(output(&get(&harness, id).await), json!([1, 10]));
    assert_eq!(choice(&history(&harness, id, 1).await), before);
}

async fn a_group_in_a_selection_wakes_the_workflow_when_it_is_complete(ground: Ground) {
    let code = script(|flow, _| async move {
        let pair = flow.all((
            flow.run(Kid::with(Say::Wait)),
            flow.run(Kid::with(Say::Wait)),
        ));
        let first = flow
            .select((pair, flow.signal::<Go>(), flow.sleep(HOUR)))
            .await?;
        Ok(match first {
            OneOf3::First(pair) => json!(pair),
            OneOf3::Second(Go(n)) => json!(n),
            OneOf3::Third(()) => json!(null),
        })
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let kids = children(&harness, id).await;
    go(&harness, kids[0].id, 1).await;
    harness.run().await;
    harness.expect(id).await.awaits_children();
    go(&harness, kids[1].id, 2).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([1, 2]));
}

/// A child that was not started, because another branch was ready, is not in the history.
async fn calls_beside_a_ready_call_are_not_started_even_on_replay(ground: Ground) {
    let code = script(|flow, _| async move {
        let failed = flow.spawn(Kid::with(Say::Fail("broken".into()))).await?;
        failed.join().await.unwrap_err();
        let kid = || flow.run(Kid::with(Say::Wait));
        let selected = flow
            .select((kid(), flow.sleep(HOUR), flow.signal::<Go>()))
            .await?;
        let raced = {
            let kid = async { kid().await };
            let signal = async { flow.signal::<Go>().await };
            futures_util::pin_mut!(kid, signal);
            match futures_util::future::select(kid, signal).await {
                futures_util::future::Either::Left(_) => false,
                futures_util::future::Either::Right((signal, _)) => signal?.0 == 2,
            }
        };
        let grouped = flow.all((kid(), failed.join())).await.is_err();
        flow.sleep(SECOND).await?;
        number(&flow, "last", 1).await?;
        Ok((matches!(selected, OneOf3::Third(Go(1))), raced, grouped))
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    go(&harness, id.get(), 1).await;
    go(&harness, id.get(), 2).await;
    harness.run_all().await;
    assert_eq!(output(&get(&harness, id).await), json!([true, true, true]));
    let events = history_words(&harness, id).await;
    assert!(
        !events.contains(&"timer_scheduled 4".to_owned()),
        "{events:?}"
    );
    assert_eq!(statuses(&harness, id).await, [Status::Failed]);
    let timers = events.iter().filter(|it| it.starts_with("timer_scheduled"));
    assert_eq!(timers.count(), 1, "{events:?}");
}

/// Adds a note to the log when it is dropped.
struct Leaves(Log, &'static str);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.note(self.1);
    }
}

/// A step that waits forever.
fn endless(flow: &Flow, log: &Log) -> Call<'static, u64> {
    let log = log.clone();
    flow.step("endless", async move || {
        log.note("endless begins");
        let _left = Leaves(log.clone(), "endless is left");
        std::future::pending::<()>().await;
        log.note("endless ends");
        Ok::<_, String>(0)
    })
}

/// A step that yields once, so that the step beside it begins.
fn quick(flow: &Flow, log: &Log) -> Call<'static, u64> {
    let log = log.clone();
    flow.step("quick", async move || {
        tokio::task::yield_now().await;
        log.note("quick");
        Ok::<_, String>(7)
    })
}

/// A workflow that selects between a step that never ends and a quick one. Then it parks, so that
/// its code replays.
fn first_of_two_steps(log: &Log, asks_for_the_time: bool) -> Script {
    let log = log.clone();
    script(move |flow, _| {
        let log = log.clone();
        async move {
            if asks_for_the_time {
                flow.timestamp();
            }
            let first = flow.select((endless(&flow, &log), quick(&flow, &log)));
            let first = first.await?;
            log.note("goes on");
            flow.sleep(SECOND).await?;
            let then = number(&flow, "then", 1).await?;
            Ok((matches!(first, OneOf2::Second(7)), then))
        }
    })
}

async fn the_first_of_two_steps_wins_and_the_other_is_dropped(ground: Ground) {
    let log = Log::default();
    let mut harness = ground.runs(first_of_two_steps(&log, false)).await;
    let id = begin_and_run(&mut harness, ()).await;
    let parked = ["endless begins", "quick", "endless is left", "goes on"];
    assert_eq!(log.entries(), parked);
    harness.run_all().await;
    assert_eq!(output(&get(&harness, id).await), json!([true, 1]));
    let once_more = [&parked[..], &["goes on"]].concat();
    assert_eq!(log.entries(), once_more, "only the code runs again");
    let history = history(&harness, id, 1).await;
    let chosen = data(only_event(&history, EventKind::SelectionResolved));
    assert_eq!(chosen, json!({"winner": 1}));
    let steps = history
        .iter()
        .filter(|it| it.kind == EventKind::StepCompleted);
    let steps: Vec<_> = steps.map(|it| it.name.as_str()).collect();
    assert_eq!(steps, ["quick", "then"]);
}

async fn a_losing_step_does_not_run_again_once_the_winner_is_recorded(ground: Ground) {
    // When the code asks for the time, its start is written before its first steps run.
    for (asks, first) in [(false, 1), (true, 2)] {
        let code = first_of_two_steps(&Log::default(), asks);
        let mut usual = ground.runs(code).await;
        begin(&usual, ()).await;
        let commits = usual.run_all().await.steps;
        assert!(commits > first, "{commits}");
        for point in [Point::BeforeCommit, Point::AfterCommit] {
            for nth in 1..=commits {
                // Both steps run again until the winner is written.
                let both = 1 + usize::from((point, nth) == (Point::BeforeCommit, first));
                let log = Log::default();
                let mut harness = ground.runs(first_of_two_steps(&log, asks)).await;
                let id = begin(&harness, ()).await;
                harness.crash_any(point, nth);
                let at = format!("{point:?} of commit {nth}, asks: {asks}");
                assert_eq!(harness.run_all().await.crashes, 1, "{at}");
                assert_eq!(output(&get(&harness, id).await), json!([true, 1]), "{at}");
                for what in ["endless begins", "endless is left", "quick"] {
                    assert_eq!(log.times(what), both, "{what}, {at}");
                }
                assert_eq!(log.times("endless ends"), 0, "{at}");
                let history = history(&harness, id, 1).await;
                assert_eq!(count(&history, EventKind::StepCompleted), 2, "{at}");
                only_event(&history, EventKind::SelectionResolved);
            }
        }
    }
}

async fn two_steps_that_end_together_are_both_recorded_and_the_first_listed_wins(ground: Ground) {
    let log = Log::default();
    let written = log.clone();
    let code = script(move |flow, _| {
        let log = written.clone();
        async move {
            let first = flow.select((log.step(&flow, "one", 1), log.step(&flow, "two", 2)));
            let first = first.await?;
            flow.sleep(SECOND).await?;
            Ok(matches!(first, OneOf2::First(1)))
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    harness.run_all().await;
    assert_eq!(output(&get(&harness, id).await), json!(true));
    assert_eq!(log.entries(), ["one", "two"]);
    let history = history(&harness, id, 1).await;
    assert_eq!(count(&history, EventKind::StepCompleted), 2);
    let chosen = data(only_event(&history, EventKind::SelectionResolved));
    assert_eq!(chosen, json!({"winner": 0}));
}

async fn a_step_that_fails_first_fails_the_selection(ground: Ground) {
    let log = Log::default();
    let written = log.clone();
    let code = script(move |flow, _| {
        let log = written.clone();
        async move {
            let failing = flow.step("fails", async || Err::<u64, _>("no"));
            let error = flow.select((endless(&flow, &log), failing)).await;
            let error = error.unwrap_err();
            flow.sleep(SECOND).await?;
            Ok((error.kind().as_str(), error.call()))
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    harness.run_all().await;
    assert_eq!(output(&get(&harness, id).await), json!(["step", 3]));
    assert_eq!(log.entries(), ["endless begins", "endless is left"]);
}

async fn a_signal_in_the_inbox_wins_and_the_step_never_runs(ground: Ground) {
    let log = Log::default();
    let written = log.clone();
    let code = script(move |flow, _| {
        let log = written.clone();
        async move {
            let first = flow.select((log.step(&flow, "effect", 1), flow.signal::<Go>()));
            let first = first.await?;
            flow.sleep(SECOND).await?;
            Ok(matches!(first, OneOf2::Second(Go(7))))
        }
    });
    for point in [None, Some(Point::BeforeCommit), Some(Point::AfterCommit)] {
        let mut harness = ground.runs(code.clone()).await;
        let id = begin(&harness, ()).await;
        go(&harness, id.get(), 7).await;
        if let Some(point) = point {
            harness.crash::<Script>("run", point);
        }
        let report = harness.run_all().await;
        assert_eq!(report.crashes, u32::from(point.is_some()));
        assert_eq!(output(&get(&harness, id).await), json!(true), "{point:?}");
    }
    assert_eq!(log.times("effect"), 0);
}

/// A workflow that selects between a signal and a step that sends it. Then it awaits the signal,
/// if the step won.
fn step_beside_its_signal(log: &Log, client: &Client) -> Script {
    let (log, client) = (log.clone(), client.clone());
    script(move |flow, _| {
        let (log, client, id) = (log.clone(), client.clone(), flow.id());
        async move {
            let send = flow.step("send", async move || {
                log.note("send");
                client.signal(id, Go(7)).dedup("once").await.map(|_| 1)
            });
            let first = flow.select((flow.signal::<Go>(), send)).await?;
            flow.sleep(SECOND).await?;
            Ok(match first {
                OneOf2::First(Go(n)) => json!(["signal", n]),
                OneOf2::Second(n) => json!(["step", n, flow.signal::<Go>().await?.0]),
            })
        }
    })
}

async fn a_signal_that_comes_while_a_step_runs_stays_in_the_inbox(ground: Ground) {
    let log = Log::default();
    let code = step_beside_its_signal(&log, &ground.client);
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    harness.crash::<Script>("run", Point::AfterCommit);
    assert_eq!(harness.run_all().await.crashes, 1);
    assert_eq!(output(&get(&harness, id).await), json!(["step", 1, 7]));
    assert_eq!(log.times("send"), 1);
}

async fn a_signal_sent_before_a_crash_wins_over_an_unfinished_step(ground: Ground) {
    let log = Log::default();
    let code = step_beside_its_signal(&log, &ground.client);
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    harness.crash::<Script>("run", Point::BeforeCommit);
    assert_eq!(harness.run_all().await.crashes, 1);
    // Nothing of the step is written, and the replay finds the signal in the inbox.
    assert_eq!(output(&get(&harness, id).await), json!(["signal", 7]));
    assert_eq!(log.times("send"), 1);
    let history = history(&harness, id, 1).await;
    assert_eq!(count(&history, EventKind::StepCompleted), 0);
}

/// The claim is kept between the two steps, and its inbox is read again.
async fn a_signal_that_came_during_an_earlier_step_wins_over_the_next_step(ground: Ground) {
    let (log, client) = (Log::default(), ground.client.clone());
    let noted = log.clone();
    let code = script(move |flow, _| {
        let (log, client, id) = (noted.clone(), client.clone(), flow.id());
        async move {
            flow.step("send", async move || {
                client.signal(id, Go(7)).await.map(|_| ())
            })
            .await?;
            let next = log.step(&flow, "next", 1);
            Ok(match flow.select((next, flow.signal::<Go>())).await? {
                OneOf2::First(n) => json!(["step", n]),
                OneOf2::Second(Go(n)) => json!(["signal", n]),
            })
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let ended = get(&harness, id).await;
    assert_eq!(output(&ended), json!(["signal", 7]));
    assert_eq!(log.times("next"), 0, "it lost before it began");
    let commits = history(&harness, id, 1).await.len();
    assert!(ended.revision.0 <= commits as i64, "one claim");
    harness.run_all().await;
}

async fn signals_that_came_during_an_earlier_step_win_in_their_order(ground: Ground) {
    let (clock, client) = (ground.clock.clone(), ground.client.clone());
    let code = script(move |flow, _| {
        let (clock, client, id) = (clock.clone(), client.clone(), flow.id());
        async move {
            let send = async move || {
                client.signal(id, Halt(1)).await?;
                clock.advance(SECOND);
                client.signal(id, Go(2)).await.map(|_| ())
            };
            flow.step("send", send).await?;
            let next = flow.step("next", async || Ok::<_, String>(0));
            let calls = (next, flow.signal::<Go>(), flow.signal::<Halt>());
            Ok(match flow.select(calls).await? {
                OneOf3::First(n) => json!(["step", n]),
                OneOf3::Second(Go(n)) => json!(["go", n]),
                OneOf3::Third(Halt(n)) => json!(["halt", n]),
            })
        }
    });
    assert_eq!(result_of(&ground, code, ()).await, json!(["halt", 1]));
}

async fn a_running_step_wins_over_a_child_that_ends_meanwhile(ground: Ground) {
    let others = Arc::new(tokio::sync::Mutex::new(ground.runs_children().await));
    let code = script(move |flow, _| {
        let others = others.clone();
        async move {
            let kid = flow.run(Kid::with(Say::Give(1)));
            let step = flow.step("while it ends", async move || {
                others.lock().await.run().await;
                Ok::<_, String>(2)
            });
            let first = flow.select((kid, step)).await?;
            flow.sleep(SECOND).await?;
            Ok(matches!(first, OneOf2::Second(2)))
        }
    });
    let mut harness = ground.runs_only(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(statuses(&harness, id).await, [Status::Done]);
    harness.run_all().await;
    assert_eq!(output(&get(&harness, id).await), json!(true));
}

async fn a_thousand_children_beside_a_single_child_do_not_wake_their_parent(ground: Ground) {
    for lone_ends in [false, true] {
        let code = script(|flow, _| async move {
            let jobs = (0..1_000).map(|n| flow.run(double::with(n)));
            let jobs = jobs.collect::<Vec<_>>();
            let held = flow.run(Kid::with(Say::Wait));
            let group = flow.all((jobs, held));
            let first = flow.select((group, flow.run(Kid::with(Say::Wait))));
            Ok(match first.await? {
                OneOf2::First((jobs, held)) => json!([jobs.len(), held]),
                OneOf2::Second(lone) => json!(lone),
            })
        });
        let mut harness = ground.runs(code).await;
        let id = begin(&harness, ()).await;
        let report = harness.run().await;
        assert_eq!(report.done, 1_000);
        assert_eq!(
            report.flows, 3,
            "its own park, and those of the two waiting children"
        );
        let kids = children(&harness, id).await;
        let mut waiting = kids.iter().filter(|kid| !kid.status.is_terminal());
        let (held, lone) = (waiting.next().unwrap(), waiting.next().unwrap());
        let (ends, expected) = match lone_ends {
            true => (lone, json!(9)),
            false => (held, json!([1_000, 9])),
        };
        go(&harness, ends.id, 9).await;
        let report = harness.run().await;
        assert_eq!(output(&get(&harness, id).await), expected);
        assert_eq!((report.flows, report.done), (0, 2));
    }
}

async fn a_thousand_children_between_single_children_do_not_wake_their_parent(ground: Ground) {
    let code = script(|flow, _| async move {
        let jobs = (0..1_000).map(|n| flow.run(double::with(n)));
        let group = flow.all((jobs.collect::<Vec<_>>(), flow.run(Kid::with(Say::Wait))));
        let lone = || flow.run(Kid::with(Say::Wait));
        Ok(match flow.select((lone(), group, lone())).await? {
            OneOf3::First(n) => json!(["before", n]),
            OneOf3::Second((jobs, n)) => json!([jobs.len(), n]),
            OneOf3::Third(n) => json!(["behind", n]),
        })
    });
    let expected = [
        json!(["before", 9]),
        json!([1_000, 9]),
        json!(["behind", 9]),
    ];
    for (ends, expected) in expected.into_iter().enumerate() {
        let mut harness = ground.runs(code.clone()).await;
        let id = begin(&harness, ()).await;
        let report = harness.run().await;
        assert_eq!(report.done, 1_000);
        assert_eq!(
            report.flows, 4,
            "its own park, and those of the three waiting children"
        );
        let kids = children(&harness, id).await;
        let mut waiting = kids.iter().filter(|kid| !kid.status.is_terminal());
        go(&harness, waiting.nth(ends).unwrap().id, 9).await;
        harness.run().await;
        assert_eq!(output(&get(&harness, id).await), expected);
    }
}

/// This holds also when there are more groups than join sets.
async fn groups_in_a_selection_do_not_wake_their_parent_for_each_other(ground: Ground) {
    for (groups, wakes) in [(3_u32, 0), (120, 21)] {
        let code = script(move |flow, _| async move {
            let group = |n| flow.all((flow.run(double::with(n)), flow.run(Kid::with(Say::Wait))));
            let groups = (0..u64::from(groups)).map(group).collect::<Vec<_>>();
            let (first, (doubled, given)) = flow.select(groups).await?;
            Ok((first, doubled, given))
        });
        let mut harness = ground.runs(code).await;
        let id = begin(&harness, ()).await;
        let report = harness.run().await;
        assert_eq!(report.done, groups, "the activity of each group");
        let own = report.flows - groups;
        assert!(own <= 1 + wakes, "{own} parks of {groups} groups");
        let kids = children(&harness, id).await;
        let mut waiting = kids.iter().filter(|kid| !kid.status.is_terminal());
        let second = waiting.nth(1).unwrap();
        go(&harness, second.id, 9).await;
        harness.run().await;
        assert_eq!(output(&get(&harness, id).await), json!([1, 2, 9]));
    }
}

async fn a_failure_in_any_group_of_a_selection_wakes_the_parent_at_once(ground: Ground) {
    for broken in 0..2 {
        let code = script(move |flow, _| async move {
            let group = |n| {
                let end = match n == broken {
                    true => Say::WaitThenFail("broken".into()),
                    false => Say::Wait,
                };
                flow.all((flow.run(Kid::with(end)), flow.run(Kid::with(Say::Wait))))
            };
            let error = flow.select((group(0), group(1))).await.unwrap_err();
            Ok(error.to_string())
        });
        let mut harness = ground.runs(code).await;
        let id = begin_and_run(&mut harness, ()).await;
        let kids = children(&harness, id).await;
        go(&harness, kids[2 * broken].id, 1).await;
        harness.run().await;
        let seen = output(&get(&harness, id).await);
        assert_eq!(seen, "kid failed: broken");
    }
}
