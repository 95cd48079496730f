//! Children that are started first and joined later, and windows.

use crate::support::*;
use outlast::prelude::*;
use outlast::store::EventKind;
use outlast::workflow::ChildSignalAnswer;
use outlast::{JobError, Status};

on_both_stores!(
    a_started_child_runs_while_its_workflow_does_other_things,
    a_started_child_is_joined_later,
    a_started_child_that_has_ended_is_joined_at_once,
    started_children_are_joined_in_a_group_with_others,
    started_children_are_joined_in_a_selection,
    joining_a_child_twice_gives_the_same_result,
    two_branches_can_join_a_child_at_the_same_time,
    a_group_can_join_the_same_child_twice,
    a_started_machine_is_joined,
    a_started_job_is_joined,
    a_started_job_keeps_the_retry_policy_of_its_start,
    a_child_that_is_never_joined_does_not_keep_its_workflow_open,
    a_window_bounds_how_many_children_run_at_a_time,
    a_window_bounds_activities,
    a_window_bounds_a_group_under_a_timeout,
    a_window_bounds_the_children_of_a_mixed_group_and_nothing_else,
    cancel_rest_ends_held_children_before_they_start,
    a_window_of_zero_is_refused,
);

async fn a_started_child_runs_while_its_workflow_does_other_things(ground: Ground) {
    let code = script(|flow, _| async move {
        let kid = flow.spawn(Kid::with(Say::Give(7))).await?;
        flow.signal::<Halt>().await?;
        kid.join().await
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.expect(id).await.awaits(["halt"]);
    assert_eq!(statuses(&harness, id).await, [Status::Done]);
    let expected = [
        "run_started",
        "child_scheduled 1 kid",
        "child_started 1 kid",
        "signal_awaited 2 halt",
    ];
    assert_eq!(history_words(&harness, id).await, expected);
}

async fn a_started_child_is_joined_later(ground: Ground) {
    let code = script(|flow, _| async move {
        let kid = flow.spawn(Kid::with(Say::Sleep(3_000, 7))).await?;
        let a = flow.run(double::with(1)).await?;
        let b = number(&flow, "two", 2).await?;
        Ok((a, b, kid.join().await?))
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.expect(id).await.awaits_children();
    harness.run_all().await;
    assert_eq!(output(&get(&harness, id).await), json!([2, 2, 7]));
}

async fn a_started_child_that_has_ended_is_joined_at_once(ground: Ground) {
    let code = script(|flow, _| async move {
        let kid = flow.spawn(Kid::with(Say::Give(7))).await?;
        flow.sleep(HOUR).await?;
        kid.join().await
    });
    assert_eq!(result_of(&ground, code, ()).await, json!(7));
}

async fn started_children_are_joined_in_a_group_with_others(ground: Ground) {
    let code = script(|flow, _| async move {
        let early = flow.spawn(Kid::with(Say::Give(1))).await?;
        let late = flow.spawn(Kid::with(Say::Sleep(9_000, 2))).await?;
        let group = flow.all((
            late.join(),
            vec![early.join()],
            flow.run(double::with(3)),
            flow.run(Kid::with(Say::Sleep(5_000, 4))),
        ));
        group.await
    });
    assert_eq!(result_of(&ground, code, ()).await, json!([2, [1], 6, 4]));
}

async fn started_children_are_joined_in_a_selection(ground: Ground) {
    let code = script(|flow, _| async move {
        let slow = flow.spawn(Kid::with(Say::Sleep(9_000, 1))).await?;
        let fast = flow.spawn(Kid::with(Say::Sleep(4_000, 2))).await?;
        let first = flow.select(vec![slow.join(), fast.join()]).await?;
        // The children that were not first still exist.
        Ok((first, slow.join().await?))
    });
    assert_eq!(result_of(&ground, code, ()).await, json!([[1, 2], 1]));
}

async fn joining_a_child_twice_gives_the_same_result(ground: Ground) {
    let code = script(|flow, _| async move {
        let kid = flow.spawn(Kid::with(Say::Sleep(1_000, 7))).await?;
        Ok((kid.join().await?, kid.join().await?))
    });
    assert_eq!(result_of(&ground, code, ()).await, json!([7, 7]));
}

async fn two_branches_can_join_a_child_at_the_same_time(ground: Ground) {
    let code = script(|flow, _| async move {
        let kid = flow.spawn(Kid::with(Say::Sleep(1_000, 7))).await?;
        let (a, b) = futures_util::join!(kid.join(), kid.join());
        Ok((a?, b?))
    });
    ends_once(ground, code, json!([7, 7])).await;
}

/// Checks the output, and that the history records the end of the only child once.
async fn ends_once(ground: Ground, code: Script, expected: Value) {
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.run_all().await;
    assert_eq!(output(&get(&harness, id).await), expected);
    let history = history(&harness, id, 1).await;
    assert_eq!(count(&history, EventKind::ChildCompleted), 1);
}

async fn a_group_can_join_the_same_child_twice(ground: Ground) {
    let code = script(|flow, _| async move {
        let kid = flow.spawn(Kid::with(Say::Sleep(1_000, 7))).await?;
        flow.all((kid.join(), flow.run(double::with(1)), kid.join()))
            .await
    });
    ends_once(ground, code, json!([7, 2, 7])).await;
}

async fn a_started_machine_is_joined(ground: Ground) {
    let code = script(|flow, _| async move {
        let machine = flow.spawn(Turnstile::with(Turn::Wait(1))).await?;
        let answer = machine.child().signal(Go(2)).await?;
        assert_eq!(answer, ChildSignalAnswer::Delivered);
        machine.join().await
    });
    assert_eq!(result_of(&ground, code, ()).await, json!(3));
}

async fn a_started_job_is_joined(ground: Ground) {
    let code = script(|flow, _| async move {
        let works = flow.spawn(double::with(2)).await?;
        let breaks = flow.spawn(fails::with("no luck".into())).await?;
        flow.sleep(SECOND).await?;
        let broken = breaks.join().await.unwrap_err();
        let broken = (broken.kind().as_str(), broken.to_string());
        Ok((works.child().machine(), works.join().await?, broken))
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    harness.run_all().await;
    let broken = ["activity_failed", "fails failed: no luck"];
    let expected = json!(["double", 4, broken]);
    assert_eq!(output(&get(&harness, id).await), expected);
    let started = [
        "run_started",
        "activity_scheduled 1 double",
        "child_started 1 double",
        "activity_scheduled 2 fails",
        "child_started 2 fails",
    ];
    assert_eq!(history_words(&harness, id).await[..5], started);
}

async fn a_started_job_keeps_the_retry_policy_of_its_start(ground: Ground) {
    #[job(attempts = 5)]
    async fn breaks(cx: &Context) -> Result<u64, JobError> {
        Err(JobError::retry(format!("not at {}", cx.attempt() + 1)))
    }

    let code = script(|flow, _| async move {
        let job = breaks::with().max_attempts(2);
        let job = flow.spawn(job.backoff(SECOND, 1.0, SECOND)).await?;
        Ok(job.join().await.unwrap_err().to_string())
    });
    let worker = ground.worker().register(code).register(breaks);
    let mut harness = worker.build().await.unwrap();
    let id = begin(&harness, ()).await;
    let begun = harness.time();
    assert_eq!(harness.run_all().await.retries, 1);
    assert_eq!(harness.time().since(begun), SECOND);
    let expected = "breaks failed: gave up after 2 attempts: not at 2";
    assert_eq!(output(&get(&harness, id).await), expected);
}

async fn a_child_that_is_never_joined_does_not_keep_its_workflow_open(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.spawn(Kid::with(Say::Wait)).await?;
        Ok(1)
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(output(&get(&harness, id).await), json!(1));
    assert_eq!(statuses(&harness, id).await, [Status::AwaitingSignal]);
}

async fn a_window_bounds_how_many_children_run_at_a_time(ground: Ground) {
    let code = script(|flow, _| async move {
        let kids = (0..7).map(|_| flow.run(Kid::with(Say::Wait)));
        flow.all(kids.collect::<Vec<_>>()).window(3).await
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let mut most = 0;
    for n in 0..7 {
        let kids = children(&harness, id).await;
        let running: Vec<_> = kids
            .iter()
            .filter(|it| it.status == Status::AwaitingSignal)
            .collect();
        let ended = kids.iter().filter(|it| it.status == Status::Done).count();
        assert_eq!(running.len(), 3.min(7 - ended), "after {n}");
        most = most.max(running.len());
        // Held children start in their order.
        let held = kids.iter().position(|it| it.held);
        assert!(
            held.is_none_or(|held| held == ended + 3),
            "{held:?} {ended}"
        );
        go(&harness, running[running.len() - 1].id, n).await;
        harness.run().await;
    }
    assert_eq!(most, 3);
    let results = output(&get(&harness, id).await);
    assert_eq!(results.as_array().unwrap().len(), 7);
}

/// Returns for each child whether the window holds it.
async fn held(harness: &outlast::testing::Harness, id: Scripted) -> Vec<bool> {
    let kids = children(harness, id).await;
    kids.iter().map(|it| it.held).collect()
}

async fn a_window_bounds_activities(ground: Ground) {
    let code = script(|flow, _| async move {
        let jobs = (0..4).map(|n| flow.run(double::with(n)));
        flow.all(jobs.collect::<Vec<_>>()).window(2).await
    });
    // No worker runs the activities yet.
    let mut harness = ground.runs_only(code.clone()).await;
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(held(&harness, id).await, [false, false, true, true]);
    let mut harness = ground.runs(code).await;
    let report = harness.run().await;
    assert_eq!((report.done, report.flows), (5, 0));
    assert_eq!(output(&get(&harness, id).await), json!([0, 2, 4, 6]));
}

async fn a_window_bounds_a_group_under_a_timeout(ground: Ground) {
    let code = script(|flow, _| async move {
        let kids = (0..2).map(|_| flow.run(Kid::with(Say::Wait)));
        let group = flow.all((kids.collect::<Vec<_>>(), flow.run(double::with(1))));
        Ok(group.window(1).timeout(HOUR).await?.is_none())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(held(&harness, id).await, [false, true, true]);
    harness.advance(HOUR).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!(true));
}

async fn a_window_bounds_the_children_of_a_mixed_group_and_nothing_else(ground: Ground) {
    let log = Log::default();
    let written = log.clone();
    let code = script(move |flow, _| {
        let log = written.clone();
        async move {
            let group = flow.all((
                flow.run(Kid::with(Say::Wait)),
                flow.sleep(SECOND),
                flow.all((
                    flow.run(Turnstile::with(Turn::Wait(1))),
                    log.step(&flow, "here", 2),
                )),
                vec![flow.run(double::with(3)), flow.run(double::with(4))],
            ));
            let (kid, (), nested, doubled) = group.window(1).await?;
            Ok((kid, nested, doubled))
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(log.times("here"), 1, "a step takes no place in the window");
    assert_eq!(held(&harness, id).await, [false, true, true, true]);
    let kids = children(&harness, id).await;
    go(&harness, kids[0].id, 10).await;
    harness.run().await;
    assert_eq!(held(&harness, id).await, [false, false, true, true]);
    go(&harness, kids[1].id, 20).await;
    harness.run().await;
    assert_eq!(statuses(&harness, id).await, [Status::Done; 4]);
    // Only the timer is left.
    harness.run_all().await;
    assert_eq!(
        output(&get(&harness, id).await),
        json!([10, [21, 2], [6, 8]])
    );
}

async fn cancel_rest_ends_held_children_before_they_start(ground: Ground) {
    for survives in [true, false] {
        let code = script(move |flow, _| async move {
            let broken = flow.run(Kid::with(Say::WaitThenFail("broken".into())));
            let kids = (0..5).map(|_| flow.run(Kid::with(Say::Wait)));
            let group = flow.all((broken, kids.collect::<Vec<_>>()));
            let failed = group.window(2).cancel_rest().await;
            match survives {
                true => flow.signal::<Halt>().await.map(|_| ()),
                false => failed.map(|_| ()),
            }
        });
        let mut harness = ground.runs(code).await;
        let id = begin_and_run(&mut harness, ()).await;
        let kids = children(&harness, id).await;
        go(&harness, kids[0].id, 1).await;
        harness.run().await;
        match survives {
            true => drop(harness.expect(id).await.awaits(["halt"])),
            false => drop(harness.expect(id).await.is_failed_with("broken")),
        }
        let mut expected = [Status::Cancelled; 6];
        expected[0] = Status::Failed;
        assert_eq!(statuses(&harness, id).await, expected);
        // The third child takes the place of the failed one before the workflow sees the failure.
        // The others stay held.
        for kid in &kids[3..] {
            let begun = history(&harness, kid.id, 1).await;
            assert!(begun.is_empty(), "survives: {survives}, {begun:?}");
        }
        assert!(harness.run_all().await.steps == 0);
    }
}

async fn a_window_of_zero_is_refused(ground: Ground) {
    let code = script(|flow, _| async move {
        let group = flow.all((flow.run(double::with(1)),)).window(0);
        Ok(group.await.unwrap_err().to_string())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let seen = output(&get(&harness, id).await);
    assert!(seen.as_str().unwrap().contains("window"), "{seen}");
    let history = history(&harness, id, 1).await;
    assert_eq!(count(&history, EventKind::ActivityScheduled), 0);
}
