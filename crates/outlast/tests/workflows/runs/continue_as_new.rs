//! Continue-as-new: another run of the same instance.

use crate::support::*;
use outlast::Status;
use outlast::prelude::*;
use outlast::store::{ClosePolicy, EventKind};
use outlast::testing::Point;

on_both_stores!(
    a_new_run_has_the_next_number_an_empty_history_and_the_same_id,
    a_new_run_keeps_the_key,
    a_new_run_keeps_the_signals_that_were_not_consumed,
    a_new_run_keeps_the_parent_and_the_call,
    a_parent_follows_the_newest_run_to_its_end,
    a_parked_machine_stays_parked_until_the_last_run_of_its_child_ends,
    a_new_run_applies_no_close_policy,
    a_new_run_begins_once_despite_crashes,
    continue_as_new_works_with_the_question_mark_operator,
    a_cancel_reaches_the_newest_run,
    histories_of_many_runs_are_kept_up_to_a_bound,
);

async fn a_new_run_has_the_next_number_an_empty_history_and_the_same_id(ground: Ground) {
    let code = script(|flow, input: Value| async move {
        let left = input.as_u64().unwrap();
        let before = flow.history_length();
        number(&flow, "one", left).await?;
        match left {
            0 => Ok((flow.id(), flow.run_number(), before)),
            _ => flow.continue_as_new(left - 1),
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, 2).await;
    let report = harness.run().await;
    assert_eq!(report.continued_as_new, 2);
    let row = get(&harness, id).await;
    assert_eq!(output(&row), json!([id.get(), 3, 1]));
    assert_eq!(row.run, 3);
    for run in [1, 2] {
        let words = words(&history(&harness, id, run).await);
        let expected = ["run_started", "step_completed 1 one", "continued_as_new"];
        assert_eq!(words, expected, "run {run}");
    }
    let last = words(&history(&harness, id, 3).await);
    assert_eq!(
        last,
        ["run_started", "step_completed 1 one", "run_completed"]
    );
    let runs = harness.client().admin().histories(id).await.unwrap();
    let runs: Vec<_> = runs.iter().map(|it| (it.run, it.last)).collect();
    let again = EventKind::ContinuedAsNew;
    assert_eq!(runs, [(1, again), (2, again), (3, EventKind::RunCompleted)]);
}

async fn a_new_run_keeps_the_key(ground: Ground) {
    let code = script(|flow, input: Value| async move {
        if input == json!(1) {
            return flow.continue_as_new(0);
        }
        let Go(n) = flow.signal::<Go>().await?;
        Ok((flow.key(), n))
    });
    let mut harness = ground.runs(code).await;
    let new = || Script::with(json!(1)).key("k");
    let id = harness.start(new()).await.unwrap().id();
    harness.run().await;
    assert!(get(&harness, id).await.holds_key);
    assert!(!harness.start(new()).await.unwrap().is_new());
    harness
        .client()
        .signal(Script::key("k"), Go(7))
        .await
        .unwrap();
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!(["k", 7]));
}

async fn a_new_run_keeps_the_signals_that_were_not_consumed(ground: Ground) {
    let code = script(|flow, input: Value| async move {
        let Go(n) = flow.signal::<Go>().await?;
        let mut seen: Vec<u64> = serde_json::from_value(input)?;
        seen.push(n);
        match seen.len() {
            3 => Ok(seen),
            _ => flow.continue_as_new(seen),
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, Vec::<u64>::new()).await;
    for n in [5, 6, 7] {
        go(&harness, id.get(), n).await;
    }
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([5, 6, 7]));
}

async fn a_new_run_keeps_the_parent_and_the_call(ground: Ground) {
    let code = script(|flow, _| async move {
        number(&flow, "first", 1).await?;
        flow.run(Kid::with(Say::ContinueAsNew(2))).await
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let kid = &children(&harness, id).await[0];
    assert_eq!(kid.run, 3);
    let row = get(&harness, kid.id).await;
    assert_eq!(row.parent.as_ref().map(|it| it.id), Some(id.get()));
    assert_eq!((kid.round, kid.position), (1, 0));
    go(&harness, kid.id, 9).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!(9));
    let history = history(&harness, id, 1).await;
    let ended = only_event(&history, EventKind::ChildCompleted);
    assert_eq!(ended.call, Some(2));
    assert_eq!(data(ended)["run"], 3);
}

async fn a_parent_follows_the_newest_run_to_its_end(ground: Ground) {
    let code = script(|flow, _| async move {
        let kids = [1, 2, 3].map(|runs| flow.run(Kid::with(Say::ContinueAsNew(runs))));
        flow.all(kids).await
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    // A new run is not an end.
    harness.expect(id).await.awaits_children();
    for kid in children(&harness, id).await {
        go(&harness, kid.id, kid.run as u64).await;
    }
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([2, 3, 4]));
}

/// A machine that waits for one workflow.
struct Boss;

#[steps]
enum Office {
    Delegate,
    Report,
}

impl Machine for Boss {
    const NAME: &'static str = "boss";
    type State = Office;
    type Output = Option<u64>;

    async fn step(&self, office: Office, cx: &Context) -> StepResult<Self> {
        match office {
            Office::Delegate => fan_out([Kid::with(Say::ContinueAsNew(3))]).then(Office::Report),
            Office::Report => done(cx.children::<Kid>()?[0].output),
        }
    }
}

async fn a_parked_machine_stays_parked_until_the_last_run_of_its_child_ends(ground: Ground) {
    let mut harness = ground.worker().register(Boss).build().await.unwrap();
    let boss = harness.start(Boss::with(Office::Delegate)).await.unwrap();
    let report = harness.run().await;
    assert_eq!(report.continued_as_new, 3);
    let parked = boss.instance().await.unwrap();
    // A claim and a park: no run of the child has woken it.
    assert_eq!(
        (parked.status, parked.revision.0, parked.children_pending),
        (Status::AwaitingChildren, 2, 1)
    );
    let kid = &children(&harness, boss.id().get()).await[0];
    assert_eq!((kid.run, kid.round, kid.position), (4, 1, 0));
    let parent = get(&harness, kid.id).await.parent;
    assert_eq!(parent.map(|parent| parent.id), Some(boss.id().get()));
    go(&harness, kid.id, 9).await;
    harness.run().await;
    assert_eq!(boss.output().await.unwrap(), Some(9));
}

async fn a_new_run_applies_no_close_policy(ground: Ground) {
    let code = script(|flow, input: Value| async move {
        if input == json!(0) {
            flow.signal::<Halt>().await?;
            return Ok(());
        }
        let policies = [ClosePolicy::Terminate, ClosePolicy::RequestCancel];
        for policy in policies {
            flow.spawn(Kid::with(Say::Wait).on_parent_close(policy))
                .await?;
        }
        flow.continue_as_new(0)
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, 1).await;
    assert_eq!(get(&harness, id).await.run, 2);
    assert_eq!(statuses(&harness, id).await, [Status::AwaitingSignal; 2]);
    assert!(
        harness
            .client()
            .admin()
            .close_actions(id.get(), None)
            .await
            .unwrap()
            .is_empty()
    );
    // The children keep their close policies, which apply when the workflow ends.
    harness.client().signal(id, Halt(0)).await.unwrap();
    harness.run().await;
    assert_eq!(statuses(&harness, id).await, [Status::Cancelled; 2]);
}

async fn a_new_run_begins_once_despite_crashes(ground: Ground) {
    for point in [Point::BeforeStep, Point::BeforeCommit, Point::AfterCommit] {
        for nth in 1..=2 {
            let log = Log::default();
            let written = log.clone();
            let code = script(move |flow, input: Value| {
                let log = written.clone();
                async move {
                    log.step(&flow, "effect", 1).await?;
                    match input.as_u64() {
                        Some(0) => Ok(flow.run_number()),
                        _ => flow.continue_as_new(0),
                    }
                }
            });
            let mut harness = ground.runs(code).await;
            let id = begin(&harness, 1).await;
            harness.crash_at::<Script>("run", point, nth);
            let report = harness.run().await;
            assert_eq!(report.crashes, 1, "{point:?} {nth}");
            assert_eq!(output(&get(&harness, id).await), json!(2));
            assert_eq!(history(&harness, id, 1).await.len(), 3);
            assert_eq!(history(&harness, id, 2).await.len(), 3);
            assert!((2..=3).contains(&log.times("effect")));
        }
    }
}

async fn continue_as_new_works_with_the_question_mark_operator(ground: Ground) {
    let code = script(|flow, input: Value| async move {
        if input == json!(0) {
            return Ok(flow.run_number());
        }
        flow.continue_as_new::<_, ()>(0)?;
        Ok(0)
    });
    assert_eq!(result_of(&ground, code, 1).await, json!(2));
}

async fn a_cancel_reaches_the_newest_run(ground: Ground) {
    let code = script(|flow, input: Value| async move {
        if input == json!(1) {
            return flow.continue_as_new(0);
        }
        let error = flow.sleep(HOUR).await.unwrap_err();
        Ok((flow.run_number(), error.is_cancelled()))
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, 1).await;
    harness.client().admin().cancel(id, ada()).await.unwrap();
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([2, true]));
}

async fn histories_of_many_runs_are_kept_up_to_a_bound(ground: Ground) {
    let code = script(|flow, input: Value| async move {
        match input.as_u64() {
            Some(0) => Ok(flow.run_number()),
            left => flow.continue_as_new(left.unwrap() - 1),
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, 14).await;
    assert_eq!(output(&get(&harness, id).await), json!(15));
    let runs = harness.client().admin().histories(id).await.unwrap();
    let runs: Vec<_> = runs.iter().map(|it| it.run).collect();
    assert_eq!(runs, (6..=15).collect::<Vec<_>>());
}
