//! Groups: their shapes, when they wake their workflow, and which failure they return.

use crate::support::*;
use outlast::Status;
use outlast::prelude::*;
use outlast::store::{Child, Event, EventKind};
use outlast::testing::{Harness, Point};
use outlast::workflow::{Call, OneOf2};
use std::sync::Arc;

on_both_stores!(
    results_have_the_shape_of_the_group,
    a_group_mixes_steps_activities_children_machines_timers_signals_and_groups,
    an_empty_group_is_complete,
    everything_in_a_group_is_scheduled_in_one_commit,
    each_call_records_its_path_of_groups,
    a_thousand_children_wake_their_parent_once,
    success_wakes_the_parent_only_when_the_outermost_group_is_complete,
    the_first_failure_wakes_the_parent_at_once,
    a_failure_in_a_nested_group_fails_the_outermost_group_at_once,
    a_group_fails_with_the_failure_that_was_recorded_first,
    a_group_fails_with_its_first_call_when_failures_are_simultaneous,
    a_group_with_a_step_fails_with_the_failure_that_was_recorded_first,
    a_group_of_joins_fails_with_its_first_call_when_failures_are_simultaneous,
    the_chosen_failure_stays_the_same_on_replay_and_after_later_failures,
    the_siblings_of_a_failure_go_on,
    ends_of_siblings_do_not_wake_the_parent_of_a_failed_group,
    ends_of_siblings_of_a_failed_group_do_not_count_for_the_next_group,
    a_thousand_workflows_wake_their_parent_once,
    a_thousand_children_in_a_window_wake_their_parent_once,
    many_children_beside_a_timer_or_a_signal_wake_their_parent_once,
    cancel_rest_cancels_the_siblings_of_a_failure,
    cancel_rest_cancels_the_siblings_of_a_failure_that_ends_the_workflow,
    cancel_rest_cancels_once_despite_a_crash,
    cancel_rest_leaves_a_complete_group_alone,
    a_group_inside_another_cannot_have_a_window,
    cancel_rest_of_an_inner_group_cancels_only_its_own_children,
);

async fn results_have_the_shape_of_the_group(ground: Ground) {
    let code = script(|flow, _| async move {
        let call = |n| flow.run(double::with(n));
        let flat = flow.all((call(1), call(2))).await?;
        let vector = flow.all((1..=4).map(call).collect::<Vec<_>>()).await?;
        let array: [u64; 3] = flow.all([call(5), call(6), call(7)]).await?;
        let nested = flow
            .all((
                flow.all(vec![call(1), call(2)]),
                (
                    call(3),
                    vec![vec![call(4)], Vec::new(), vec![call(5), call(6)]],
                ),
                [flow.all((call(7),)), flow.all((call(8),))],
            ))
            .await?;
        let wide = flow
            .all((
                call(1),
                call(2),
                call(3),
                call(4),
                call(5),
                call(6),
                call(7),
                call(8),
            ))
            .await?;
        Ok((flat, vector, array, nested, wide))
    });
    let expected = json!([
        [2, 4],
        [2, 4, 6, 8],
        [10, 12, 14],
        [[2, 4], [6, [[8], [], [10, 12]]], [[14], [16]]],
        [2, 4, 6, 8, 10, 12, 14, 16],
    ]);
    assert_eq!(result_of(&ground, code, ()).await, expected);
}

async fn a_group_mixes_steps_activities_children_machines_timers_signals_and_groups(
    ground: Ground,
) {
    let code = script(|flow, _| async move {
        let mixed = flow.all((
            number(&flow, "here", 1),
            flow.run(double::with(2)),
            flow.run(Kid::with(Say::Give(3))),
            flow.run(Turnstile::with(Turn::Wait(4)).key("turnstile")),
            flow.sleep(SECOND),
            flow.signal::<Go>(),
            flow.all(vec![
                number(&flow, "there", 7),
                number(&flow, "everywhere", 8),
            ]),
            vec![flow.run(Kid::with(Say::Sleep(1_500, 9)))],
        ));
        let (a, b, c, d, (), Go(f), g, h) = mixed.await?;
        Ok((a, b, c, d, f, g, h))
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    go(&harness, id.get(), 6).await;
    let machine = get(&harness, Turnstile::key("turnstile")).await.id;
    go(&harness, machine, 40).await;
    harness.run_all().await;
    let expected = json!([1, 4, 3, 44, 6, [7, 8], [9]]);
    assert_eq!(output(&get(&harness, id).await), expected);
}

async fn an_empty_group_is_complete(ground: Ground) {
    let code = script(|flow, _| async move {
        let none: Vec<u64> = flow.all(Vec::<Call<'_, u64>>::new()).await?;
        flow.all(()).await?;
        let nested: (Vec<Vec<u64>>, ()) = flow.all((Vec::<Vec<Call<'_, u64>>>::new(), ())).await?;
        Ok((none, nested.0))
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(output(&get(&harness, id).await), json!([[], []]));
    let expected = [
        "run_started",
        "group_resolved 1",
        "group_resolved 2",
        "group_resolved 3",
        "run_completed",
    ];
    assert_eq!(history_words(&harness, id).await, expected);
}

async fn everything_in_a_group_is_scheduled_in_one_commit(ground: Ground) {
    let code = script(|flow, _| async move {
        let members = (0..5).map(|n| flow.run(double::with(n)));
        flow.all((
            members.collect::<Vec<_>>(),
            flow.run(Kid::with(Say::Give(1))),
            flow.sleep(HOUR),
            flow.signal::<Go>(),
        ))
        .await?;
        Ok(())
    });
    let mut harness = ground.runs_only(code).await;
    let id = begin(&harness, ()).await;
    let report = harness.run().await;
    assert_eq!(report.flows, 1, "one commit schedules and parks");
    let expected = [
        "run_started",
        "activity_scheduled 2 double",
        "activity_scheduled 3 double",
        "activity_scheduled 4 double",
        "activity_scheduled 5 double",
        "activity_scheduled 6 double",
        "child_scheduled 7 kid",
        "timer_scheduled 8",
        "signal_awaited 9 go",
    ];
    assert_eq!(history_words(&harness, id).await, expected);
    let rounds: Vec<_> = children(&harness, id).await;
    assert!(rounds.iter().all(|child| child.round == 1));
    assert_eq!(rounds.len(), 6);
}

async fn each_call_records_its_path_of_groups(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.all((
            flow.run(double::with(1)),
            flow.all((
                flow.run(double::with(2)),
                flow.all((flow.run(Kid::with(Say::Give(1))),)),
            )),
            flow.sleep(HOUR),
        ))
        .await?;
        Ok(())
    });
    let mut harness = ground.runs_only(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let history = history(&harness, id, 1).await;
    let places: Vec<Value> = history[1..]
        .iter()
        .map(|it| data(it)["group"].clone())
        .collect();
    let expected = json!([
        {"path": [1], "size": 4, "index": 0, "member": 0},
        {"path": [1, 2], "size": 4, "index": 1, "member": 0},
        {"path": [1, 2, 3], "size": 4, "index": 2, "member": 0},
        {"path": [1], "size": 4, "index": 3, "member": 0},
    ]);
    assert_eq!(json!(places), expected);
}

async fn a_thousand_children_wake_their_parent_once(ground: Ground) {
    let code = script(|flow, _| async move {
        let members = (0..1_000).map(|n| flow.run(double::with(n)));
        let results = flow.all(members.collect::<Vec<_>>()).await?;
        Ok(results.iter().sum::<u64>())
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    let report = harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!(999_000));
    assert_eq!(report.done, 1_001);
    assert_eq!(report.flows, 1, "the park, and then the end");
}

async fn a_thousand_workflows_wake_their_parent_once(ground: Ground) {
    let code = script(|flow, _| async move {
        let members = (0..1_000).map(|n| flow.run(Kid::with(Say::Give(n))));
        let results = flow.all(members.collect::<Vec<_>>()).await?;
        Ok(results.iter().sum::<u64>())
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    let report = harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!(499_500));
    assert_eq!((report.done, report.flows), (1_001, 1));
}

async fn a_thousand_children_in_a_window_wake_their_parent_once(ground: Ground) {
    let code = script(|flow, _| async move {
        let jobs = (0..500).map(|n| flow.run(double::with(n)));
        let kids = (0..500).map(|n| flow.run(Kid::with(Say::Give(n))));
        let group = flow.all((jobs.collect::<Vec<_>>(), kids.collect::<Vec<_>>()));
        let (doubled, given) = group.window(50).await?;
        Ok((doubled.iter().sum::<u64>(), given.iter().sum::<u64>()))
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    let report = harness.run().await;
    let seen = output(&get(&harness, id).await);
    assert_eq!(seen, json!([249_500, 124_750]));
    assert_eq!((report.done, report.flows), (1_001, 1));
}

async fn many_children_beside_a_timer_or_a_signal_wake_their_parent_once(ground: Ground) {
    for beside in ["timeout", "select", "nested"] {
        let code = script(move |flow, _| async move {
            let kids = (0..100).map(|n| flow.run(Kid::with(Say::Give(n))));
            let kids = flow.all(kids.collect::<Vec<_>>());
            match beside {
                "timeout" => Ok(kids.timeout(HOUR).await?.is_some()),
                "select" => {
                    let first = flow.select((kids, flow.signal::<Go>())).await?;
                    Ok(matches!(first, OneOf2::First(_)))
                }
                _ => {
                    let group = flow.all((kids, flow.run(double::with(1))));
                    let first = flow.select((flow.sleep(HOUR), group)).await?;
                    Ok(matches!(first, OneOf2::Second(_)))
                }
            }
        });
        let mut harness = ground.runs(code).await;
        let id = begin(&harness, ()).await;
        let report = harness.run().await;
        assert_eq!(output(&get(&harness, id).await), json!(true), "{beside}");
        assert_eq!(report.flows, 1, "{beside}");
    }
}

async fn success_wakes_the_parent_only_when_the_outermost_group_is_complete(ground: Ground) {
    let code = script(|flow, _| async move {
        let kid = || flow.run(Kid::with(Say::Wait));
        flow.all((flow.all((kid(), kid())), kid())).await
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let kids = children(&harness, id).await;
    for kid in &kids[..2] {
        go(&harness, kid.id, 1).await;
    }
    let report = harness.run().await;
    assert_eq!(report.done, 2, "the inner group is complete");
    assert_eq!(report.flows, 0, "the inner group does not wake the parent");
    harness.expect(id).await.awaits_children();
    go(&harness, kids[2].id, 2).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([[1, 1], 2]));
}

/// A workflow with a group of two children that wait and one that fails on [`Go`].
fn catches_a_failure() -> Script {
    script(|flow, _| async move {
        let group = flow.all((
            flow.run(Kid::with(Say::Wait)),
            flow.run(Kid::with(Say::WaitThenFail("broken".into()))),
            flow.run(Kid::with(Say::Wait)),
        ));
        match group.await {
            Ok(_) => Ok("complete".to_owned()),
            Err(error) => {
                let seen = error.to_string();
                flow.signal::<Halt>().await?;
                Ok(seen)
            }
        }
    })
}

/// Runs that workflow until the second child has failed and the group with it. Returns the three
/// children too.
async fn one_of_three_has_failed(ground: &Ground) -> (Harness, Scripted, Vec<Child>) {
    let mut harness = ground.runs(catches_a_failure()).await;
    let id = begin_and_run(&mut harness, ()).await;
    let kids = children(&harness, id).await;
    go(&harness, kids[1].id, 1).await;
    harness.run().await;
    (harness, id, kids)
}

async fn the_first_failure_wakes_the_parent_at_once(ground: Ground) {
    let (harness, id, _) = one_of_three_has_failed(&ground).await;
    harness.expect(id).await.awaits(["halt"]);
    let history = history(&harness, id, 1).await;
    let resolved = only_event(&history, EventKind::GroupResolved);
    assert_eq!(data(resolved)["failed"], 3);
}

async fn a_failure_in_a_nested_group_fails_the_outermost_group_at_once(ground: Ground) {
    let code = script(|flow, _| async move {
        let deep = flow.all(vec![flow.all([flow.run(fails::with("deep".into()))])]);
        let group = flow.all((flow.run(Kid::with(Say::Wait)), deep));
        Ok(group.await.unwrap_err().to_string())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let seen = output(&get(&harness, id).await);
    assert!(seen.as_str().unwrap().contains("deep"), "{seen}");
}

/// A workflow with a group of children that fail after these milliseconds. It returns the failure
/// of the group and its call.
fn fails_after(pauses: &'static [u64]) -> Script {
    script(move |flow, _| async move {
        let kids = pauses.iter().enumerate();
        let kids = kids.map(|(index, ms)| {
            flow.run(Kid::with(Say::SleepThenFail(
                *ms,
                format!("number {index}"),
            )))
        });
        let error = flow.all(kids.collect::<Vec<_>>()).await.unwrap_err();
        flow.sleep(HOUR).await?;
        Ok((error.call(), error.to_string()))
    })
}

async fn a_group_fails_with_the_failure_that_was_recorded_first(ground: Ground) {
    let code = fails_after(&[30, 10, 20]);
    let mut harness = ground.runs(code.clone()).await;
    let id = begin_and_run(&mut harness, ()).await;
    // The worker of the parent is away until all children have failed.
    let mut others = ground.runs_children().await;
    others.run_all().await;
    assert_eq!(statuses(&others, id).await, [Status::Failed; 3]);
    harness.run_all().await;
    let seen = output(&get(&harness, id).await);
    assert_eq!(seen, json!([3, "kid failed: number 1"]));
}

async fn a_group_fails_with_its_first_call_when_failures_are_simultaneous(ground: Ground) {
    let mut harness = ground.runs(fails_after(&[30, 10, 10])).await;
    let id = begin_and_run(&mut harness, ()).await;
    let mut others = ground.runs_children().await;
    others.run_all().await;
    harness.run_all().await;
    let seen = output(&get(&harness, id).await);
    assert_eq!(seen, json!([3, "kid failed: number 1"]));
}

async fn a_group_with_a_step_fails_with_the_failure_that_was_recorded_first(ground: Ground) {
    let others = Arc::new(tokio::sync::Mutex::new(ground.runs_children().await));
    let code = script(move |flow, _| {
        let others = others.clone();
        async move {
            let group = flow.all((
                flow.run(Kid::with(Say::SleepThenFail(20, "later".into()))),
                flow.run(Kid::with(Say::SleepThenFail(10, "earlier".into()))),
                flow.step("while they fail", async move || {
                    others.lock().await.run_all().await;
                    Ok::<_, String>(())
                }),
            ));
            Ok(group.await.unwrap_err().to_string())
        }
    });
    let mut harness = ground.runs_only(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(output(&get(&harness, id).await), "kid failed: earlier");
}

async fn a_group_of_joins_fails_with_its_first_call_when_failures_are_simultaneous(ground: Ground) {
    let code = script(|flow, _| async move {
        let first = flow
            .spawn(Kid::with(Say::SleepThenFail(5, "older".into())))
            .await?;
        let second = flow
            .spawn(Kid::with(Say::SleepThenFail(5, "younger".into())))
            .await?;
        let error = flow.all((second.join(), first.join())).await.unwrap_err();
        Ok(error.to_string())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let mut others = ground.runs_children().await;
    others.run_all().await;
    harness.run_all().await;
    let seen = output(&get(&harness, id).await);
    assert_eq!(seen, "kid failed: younger");
}

async fn the_chosen_failure_stays_the_same_on_replay_and_after_later_failures(ground: Ground) {
    let mut harness = ground.runs(fails_after(&[30, 10, 20])).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.advance(Duration::from_millis(10)).await;
    harness.run().await;
    let resolved = |events: &[Event]| data(only_event(events, EventKind::GroupResolved));
    let before = resolved(&history(&harness, id, 1).await);
    assert_eq!(before["failed"], 3);
    harness.advance(Duration::from_millis(20)).await;
    harness.run().await;
    assert_eq!(statuses(&harness, id).await, [Status::Failed; 3]);
    // The code replays on a worker that crashes once.
    harness.crash::<Script>("run", Point::BeforeCommit);
    harness.run_all().await;
    let seen = output(&get(&harness, id).await);
    assert_eq!(seen, json!([3, "kid failed: number 1"]));
    assert_eq!(resolved(&history(&harness, id, 1).await), before);
}

async fn the_siblings_of_a_failure_go_on(ground: Ground) {
    let (mut harness, id, kids) = one_of_three_has_failed(&ground).await;
    let waiting = Status::AwaitingSignal;
    let expected = [waiting, Status::Failed, waiting];
    assert_eq!(statuses(&harness, id).await, expected);
    go(&harness, kids[0].id, 1).await;
    harness.run().await;
    let expected = [Status::Done, Status::Failed, waiting];
    assert_eq!(statuses(&harness, id).await, expected);
}

async fn ends_of_siblings_do_not_wake_the_parent_of_a_failed_group(ground: Ground) {
    let (mut harness, id, kids) = one_of_three_has_failed(&ground).await;
    harness.expect(id).await.awaits(["halt"]);
    let before = history(&harness, id, 1).await;
    // One sibling is done and one is terminated.
    go(&harness, kids[0].id, 1).await;
    harness
        .client()
        .admin()
        .terminate(kids[2].id, ada())
        .await
        .unwrap();
    let report = harness.run().await;
    assert_eq!((report.done, report.steps), (1, 1), "the sibling's own end");
    harness.expect(id).await.awaits(["halt"]);
    assert_eq!(history(&harness, id, 1).await, before);
    harness.client().signal(id, Halt(0)).await.unwrap();
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), "kid failed: broken");
}

async fn ends_of_siblings_of_a_failed_group_do_not_count_for_the_next_group(ground: Ground) {
    let code = script(|flow, _| async move {
        let kid = || flow.run(Kid::with(Say::Wait));
        let broken = flow.run(Kid::with(Say::WaitThenFail("broken".into())));
        let failed = flow.all((kid(), broken, kid())).await.is_err();
        Ok((failed, flow.all((kid(), kid())).await?))
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let siblings = children(&harness, id).await;
    go(&harness, siblings[1].id, 1).await;
    harness.run().await;
    let kids = children(&harness, id).await[3..].to_vec();
    assert_eq!(kids.len(), 2);
    for sibling in [&siblings[0], &siblings[2]] {
        go(&harness, sibling.id, 1).await;
    }
    let report = harness.run().await;
    assert_eq!((report.done, report.flows), (2, 0));
    harness.expect(id).await.awaits_children();
    go(&harness, kids[0].id, 2).await;
    let report = harness.run().await;
    assert_eq!((report.done, report.flows), (1, 0));
    go(&harness, kids[1].id, 3).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([true, [2, 3]]));
}

/// A workflow with a group with `cancel_rest`. It fails with the group, or catches the failure.
fn cancels_rest(survives: bool) -> Script {
    script(move |flow, _| async move {
        let group = flow.all((
            flow.run(Kid::with(Say::Wait)),
            flow.run(Kid::with(Say::WaitThenFail("broken".into()))),
            flow.run(Turnstile::with(Turn::Wait(1))),
        ));
        let failed = group.cancel_rest().await;
        if survives {
            flow.signal::<Halt>().await?;
            return Ok(());
        }
        failed.map(|_| ())
    })
}

async fn cancel_rest_cancels_the_siblings_of_a_failure(ground: Ground) {
    let mut harness = ground.runs(cancels_rest(true)).await;
    let id = begin_and_run(&mut harness, ()).await;
    let kids = children(&harness, id).await;
    go(&harness, kids[1].id, 1).await;
    harness.run().await;
    let expected = [Status::Cancelled, Status::Failed, Status::Cancelled];
    assert_eq!(statuses(&harness, id).await, expected);
    harness.expect(id).await.awaits(["halt"]);
    let events = history_words(&harness, id).await;
    let cancels = events.iter().filter(|it| it.starts_with("child_messaged"));
    let cancels: Vec<_> = cancels.collect();
    assert_eq!(
        cancels,
        ["child_messaged 2 cancel", "child_messaged 4 cancel"]
    );
}

async fn cancel_rest_cancels_the_siblings_of_a_failure_that_ends_the_workflow(ground: Ground) {
    let mut harness = ground.runs(cancels_rest(false)).await;
    let id = begin_and_run(&mut harness, ()).await;
    let kids = children(&harness, id).await;
    go(&harness, kids[1].id, 1).await;
    harness.run().await;
    assert_eq!(reason(&get(&harness, id).await), "kid failed: broken");
    let expected = [Status::Cancelled, Status::Failed, Status::Cancelled];
    assert_eq!(statuses(&harness, id).await, expected);
    let history = history(&harness, id, 1).await;
    assert_eq!(count(&history, EventKind::FailureHandled), 0);
    assert_eq!(history.last().unwrap().kind, EventKind::RunFailed);
}

async fn cancel_rest_cancels_once_despite_a_crash(ground: Ground) {
    for survives in [true, false] {
        let mut harness = ground.runs(cancels_rest(survives)).await;
        let id = begin_and_run(&mut harness, ()).await;
        let kids = children(&harness, id).await;
        go(&harness, kids[1].id, 1).await;
        // The chosen failure is written, but not what follows from it.
        harness.crash::<Script>("run", Point::AfterCommit);
        let report = harness.run().await;
        assert_eq!(report.crashes, 1);
        let expected = [Status::Cancelled, Status::Failed, Status::Cancelled];
        assert_eq!(statuses(&harness, id).await, expected);
        let history = history(&harness, id, 1).await;
        assert_eq!(count(&history, EventKind::ChildMessaged), 2);
        assert_eq!(count(&history, EventKind::GroupResolved), 1);
    }
}

async fn cancel_rest_leaves_a_complete_group_alone(ground: Ground) {
    let code = script(|flow, _| async move {
        let bystander = flow.spawn(Kid::with(Say::Wait)).await?;
        flow.all((flow.run(double::with(1)), flow.run(double::with(2))))
            .cancel_rest()
            .await?;
        Ok(bystander.child().status().is_none())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(output(&get(&harness, id).await), json!(true));
    let history = history(&harness, id, 1).await;
    assert_eq!(count(&history, EventKind::ChildMessaged), 0);
}

async fn a_group_inside_another_cannot_have_a_window(ground: Ground) {
    let code = script(|flow, _| async move {
        let inner = flow.all((flow.run(double::with(1)),)).window(1);
        let error = flow
            .all((inner, flow.run(double::with(2))))
            .await
            .unwrap_err();
        Ok((error.kind().as_str(), error.to_string()))
    });
    let seen = result_of(&ground, code, ()).await;
    assert_eq!(seen[0], "invalid");
    assert!(seen[1].as_str().unwrap().contains("outermost"), "{seen}");
}

async fn cancel_rest_of_an_inner_group_cancels_only_its_own_children(ground: Ground) {
    let code = script(|flow, _| async move {
        let inner = (
            flow.run(Kid::with(Say::Wait)),
            flow.run(Kid::with(Say::Wait)),
        );
        let failed = flow
            .all((
                flow.all(inner).cancel_rest(),
                flow.run(Kid::with(Say::Wait)),
                flow.run(fails::with("no".into())),
            ))
            .await;
        Ok(failed.is_err())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(output(&get(&harness, id).await), json!(true));
    let (ended, lives) = (Status::Cancelled, Status::AwaitingSignal);
    let expected = [ended, ended, lives, Status::Failed];
    assert_eq!(statuses(&harness, id).await, expected);
}
