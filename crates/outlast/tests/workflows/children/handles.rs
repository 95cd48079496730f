//! Handles of children, in the workflow that started them.

use crate::support::*;
use outlast::prelude::*;
use outlast::store::{ClosePolicy, EventKind};
use outlast::testing::Point;
use outlast::workflow::{ChildCancelAnswer, ChildSignalAnswer, OneOf2};
use outlast::{Durable, FlowError, Note, Status, Workflow};

on_both_stores!(
    handles_are_listed_in_the_order_of_the_calls,
    a_handle_does_not_exist_before_its_call_is_committed,
    a_handle_returns_the_status_of_its_ended_child,
    a_handle_follows_the_newest_run_and_keeps_id_and_call,
    a_signal_through_a_handle_reaches_a_child_of_an_open_group,
    a_signal_through_a_handle_arrives_once_despite_crashes,
    a_signal_or_cancel_to_an_ended_child_returns_that_it_has_ended,
    a_send_through_a_handle_without_a_child_fails_the_same_on_replay,
    a_cancel_through_a_handle_cancels_the_child,
    a_cancel_through_a_handle_is_recorded_once_despite_crashes,
    a_signal_that_was_sent_before_a_crash_is_answered_the_same_after_it,
    a_cancel_that_was_sent_before_a_crash_is_answered_the_same_after_it,
    a_cancel_after_an_operators_cancel_is_answered_the_same_after_a_crash,
    a_cancel_of_a_held_child_is_answered_the_same_after_a_crash,
    a_cancel_of_an_ended_child_is_answered_the_same_after_a_crash,
    the_id_of_a_child_in_a_selection_is_known_at_the_same_point_on_replay,
    the_ids_of_a_group_beside_a_signal_are_known_at_the_same_point_on_replay,
    the_id_of_a_child_started_beside_a_signal_is_known_at_the_same_point_on_replay,
);

fn calls(flow: &Flow) -> Vec<(i32, String)> {
    let children = flow.children();
    children
        .iter()
        .map(|it| (it.call(), it.machine()))
        .collect()
}

async fn handles_are_listed_in_the_order_of_the_calls(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.run(double::with(1)).await?;
        let late = flow.spawn(Kid::with(Say::Wait)).await?;
        flow.all((
            flow.run(Kid::with(Say::Give(1))),
            flow.run(Turnstile::with(Turn::Wait(1)).key("t")),
            flow.all((flow.run(Kid::with(Say::Give(2))),)),
        ))
        .await?;
        let last = flow.last_child().unwrap();
        let ids = flow
            .children()
            .iter()
            .filter(|it| it.id().is_some())
            .count();
        Ok((calls(&flow), last.call(), late.child().call(), ids))
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let turnstile = get(&harness, Turnstile::key("t")).await.id;
    go(&harness, turnstile, 1).await;
    harness.run().await;
    let expected = json!([
        [[2, "kid"], [5, "kid"], [6, "turnstile"], [7, "kid"]],
        7,
        2,
        4
    ]);
    assert_eq!(output(&get(&harness, id).await), expected);
}

async fn a_handle_does_not_exist_before_its_call_is_committed(ground: Ground) {
    let log = Log::default();
    let written = log.clone();
    let code = script(move |flow, _| {
        let log = written.clone();
        async move {
            log.note(format!("at first {}", flow.children().len()));
            let look = async {
                // The other branch has made its call by now, but the call is not written yet.
                log.note(format!("asked {}", flow.children().len()));
                number(&flow, "pass", 1).await?;
                log.note(format!("committed {}", flow.children().len()));
                Ok::<_, FlowError>(())
            };
            let child = async { flow.run(Kid::with(Say::Give(1))).await };
            let (child, looked) = futures_util::join!(child, look);
            looked?;
            child
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(output(&get(&harness, id).await), json!(1));
    let first: Vec<_> = log.entries().into_iter().take(3).collect();
    assert_eq!(first, ["at first 0", "asked 0", "committed 1"]);
}

async fn a_handle_returns_the_status_of_its_ended_child(ground: Ground) {
    let code = script(|flow, _| async move {
        let living = flow.spawn(Kid::with(Say::Wait)).await?;
        let done = flow.spawn(Kid::with(Say::Give(1))).await?;
        let failed = flow.spawn(Kid::with(Say::Fail("no".into()))).await?;
        let before = failed.child().status().is_none();
        done.join().await?;
        failed.join().await.unwrap_err();
        let ended = living.child();
        ended.cancel("not needed").await?;
        living.join().await.unwrap_err();
        let statuses = flow.children();
        let statuses: Vec<_> = statuses
            .iter()
            .map(|it| it.status().unwrap().as_str())
            .collect();
        let policy = ended.on_parent_close() == ClosePolicy::Abandon;
        Ok((before, statuses, policy))
    });
    let seen = result_of(&ground, code, ()).await;
    assert_eq!(seen, json!([true, ["cancelled", "done", "failed"], true]));
}

async fn a_handle_follows_the_newest_run_and_keeps_id_and_call(ground: Ground) {
    let code = script(|flow, _| async move {
        let kid = flow.spawn(Kid::with(Say::ContinueAsNew(3))).await?;
        let handle = kid.child();
        let first = (handle.call(), handle.id());
        flow.sleep(SECOND).await?;
        let woken = flow.select((kid.join(), flow.signal::<Halt>())).await?;
        assert!(matches!(woken, OneOf2::Second(_)));
        let then = (handle.call(), handle.id());
        assert_eq!(first, then);
        Ok((then.0, then.1, handle.run()))
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.advance(SECOND).await;
    harness.run().await;
    let kid = &children(&harness, id).await[0];
    assert_eq!(kid.run, 4);
    harness.client().signal(id, Halt(1)).await.unwrap();
    harness.run().await;
    let expected = json!([1, kid.id, 4]);
    assert_eq!(output(&get(&harness, id).await), expected);
    let history = history(&harness, id, 1).await;
    let started = history
        .iter()
        .filter(|it| it.kind == EventKind::ChildStarted);
    assert!(started.clone().all(|it| it.call == Some(1)));
    let runs: Vec<_> = started.map(|it| data(it)["run"].clone()).collect();
    assert_eq!(runs.first(), Some(&json!(1)), "{runs:?}");
    assert_eq!(runs.last(), Some(&json!(4)), "{runs:?}");
}

async fn a_signal_through_a_handle_reaches_a_child_of_an_open_group(ground: Ground) {
    let code = script(|flow, _| async move {
        let group = async {
            let kids = [Say::Wait, Say::Wait].map(|say| flow.run(Kid::with(say)));
            flow.all(kids).await
        };
        let send = async {
            number(&flow, "after they were started", 1).await?;
            for (index, child) in flow.children().into_iter().enumerate() {
                let answer = child.signal(Go(index as u64 + 10)).await?;
                assert_eq!(answer, ChildSignalAnswer::Delivered);
            }
            Ok::<_, FlowError>(())
        };
        let (results, sent) = futures_util::join!(group, send);
        sent?;
        results
    });
    assert_eq!(result_of(&ground, code, ()).await, json!([10, 11]));
}

/// A workflow that collects the numbers of [`Go`] until it receives [`Halt`].
struct Counts;

impl Durable for Counts {
    const NAME: &'static str = "counts";
    type Input = ();
    type Output = Vec<u64>;
}

impl Workflow for Counts {
    async fn run(&self, flow: Flow, (): ()) -> FlowResult<Vec<u64>> {
        let mut seen = Vec::new();
        loop {
            match flow
                .select((flow.signal::<Go>(), flow.signal::<Halt>()))
                .await?
            {
                OneOf2::First(Go(n)) => seen.push(n),
                OneOf2::Second(_) => return Ok(seen),
            }
        }
    }
}

async fn a_signal_through_a_handle_arrives_once_despite_crashes(ground: Ground) {
    for point in [Point::BeforeCommit, Point::AfterCommit] {
        for nth in 1..=5 {
            let code = script(|flow, _| async move {
                let counts = flow.spawn(Counts::with(())).await?;
                let answers = [
                    counts.child().signal(Go(1)).await?,
                    counts.child().signal(Go(2)).await?,
                    counts.child().signal(Halt(0)).await?,
                ];
                Ok((counts.join().await?, answers))
            });
            let worker = ground.worker().register(code).register(Counts);
            let mut harness = worker.build().await.unwrap();
            let id = begin(&harness, ()).await;
            harness.crash_at::<Script>("run", point, nth);
            let report = harness.run().await;
            assert_eq!(report.crashes, 1, "{point:?} {nth}");
            let seen = output(&get(&harness, id).await);
            let delivered = "delivered";
            let expected = json!([[1, 2], [delivered, delivered, delivered]]);
            assert_eq!(seen, expected, "{point:?} {nth}");
        }
    }
}

async fn a_signal_or_cancel_to_an_ended_child_returns_that_it_has_ended(ground: Ground) {
    let code = script(|flow, _| async move {
        let kid = flow.spawn(Kid::with(Say::Give(1))).await?;
        kid.join().await?;
        let signalled = kid.child().signal(Go(1)).await?;
        let cancelled = kid.child().cancel("late").await?;
        Ok((signalled, cancelled))
    });
    let seen = result_of(&ground, code, ()).await;
    assert_eq!(seen, json!(["no_target", "already_ended"]));
}

async fn a_send_through_a_handle_without_a_child_fails_the_same_on_replay(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.spawn(Kid::with(Say::Wait).key("k")).await?;
        // No child was started, because the key is taken.
        let unstarted = flow.spawn(Kid::with(Say::Wait).key("k")).await?;
        let signalled = unstarted.child().signal(Go(1)).await.unwrap_err();
        let cancelled = unstarted.child().cancel("no").await.unwrap_err();
        flow.sleep(SECOND).await?;
        Ok([signalled.call(), cancelled.call()])
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.advance(SECOND).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([3, 4]));
}

async fn a_cancel_through_a_handle_cancels_the_child(ground: Ground) {
    let code = script(|flow, _| async move {
        let kid = flow.spawn(Kid::with(Say::Wait)).await?;
        let answer = kid.child().cancel("too late for that").await?;
        let error = kid.join().await.unwrap_err();
        Ok((answer, error.kind().as_str(), error.to_string()))
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let seen = output(&get(&harness, id).await);
    let error = format!(
        "kid was cancelled: cancelled by parent {}: too late for that",
        id.get()
    );
    assert_eq!(seen, json!(["requested", "child_cancelled", error]));
}

async fn a_cancel_through_a_handle_is_recorded_once_despite_crashes(ground: Ground) {
    for point in [Point::BeforeCommit, Point::AfterCommit] {
        let code = script(|flow, _| async move {
            let kid = flow.spawn(Kid::with(Say::Wait)).await?;
            let answer = kid.child().cancel("no").await?;
            flow.signal::<Halt>().await?;
            Ok(answer)
        });
        let mut harness = ground.runs(code).await;
        let id = begin(&harness, ()).await;
        // The second commit writes the cancel.
        harness.crash_at::<Script>("run", point, 2);
        assert_eq!(harness.run().await.crashes, 1);
        let history = history(&harness, id, 1).await;
        let message = only_event(&history, EventKind::ChildMessaged);
        assert_eq!(data(message)["answer"], "requested");
        assert_eq!(statuses(&harness, id).await, [Status::Cancelled]);
    }
}

/// Checks that a script has the same result without a crash, and with a crash before or after each
/// commit. Its children run first, so they act on their signals and cancels before a replay.
async fn same_answers_despite_crashes(ground: &Ground, code: Script, result: Value) {
    answers_with_crash(ground, &code, None, &result).await;
    for point in [Point::BeforeCommit, Point::AfterCommit] {
        let mut nth = 1;
        while answers_with_crash(ground, &code, Some((point, nth)), &result).await == 1 {
            nth += 1;
        }
        assert!(nth > 3, "{point:?} {nth}");
    }
}

/// Checks the result of a script, and returns how many workers crashed.
async fn answers_with_crash(
    ground: &Ground,
    code: &Script,
    crash: Option<(Point, u32)>,
    result: &Value,
) -> u32 {
    let mut harness = ground.runs(code.clone()).await;
    let id = begin(&harness, ()).await;
    if let Some((point, nth)) = crash {
        harness.crash_at::<Script>("run", point, nth);
    }
    let report = harness.run_all().await;
    let instance = get(&harness, id).await;
    let error = instance.last_error.as_deref().unwrap_or_default();
    assert_eq!(instance.status, Status::Done, "{crash:?}: {error}");
    assert_eq!(&output(&instance), result, "{crash:?}");
    report.crashes
}

async fn a_signal_that_was_sent_before_a_crash_is_answered_the_same_after_it(ground: Ground) {
    let code = script(|flow, _| async move {
        let kid = flow.spawn(Kid::with(Say::Wait).priority(-1)).await?;
        let first = kid.child().signal(Go(7)).await?;
        kid.join().await?;
        // The child has ended, so no code receives this signal.
        let late = kid.child().signal(Go(8)).await?;
        Ok((first, late, kid.join().await?))
    });
    same_answers_despite_crashes(&ground, code, json!(["delivered", "no_target", 7])).await;
}

async fn a_cancel_that_was_sent_before_a_crash_is_answered_the_same_after_it(ground: Ground) {
    for (say, kind) in [
        (Say::Wait, Some("child_cancelled")),
        (Say::Stubborn(3), None),
    ] {
        let code = script(move |flow, _| {
            let say = say.clone();
            async move {
                let kid = flow.spawn(Kid::with(say).priority(-1)).await?;
                let answer = kid.child().cancel("no").await?;
                assert_ne!(answer, ChildCancelAnswer::NotFound);
                let error = kid.join().await.err();
                let late = kid.child().cancel("no").await?;
                Ok((answer, error.map(|it| it.kind().as_str()), late))
            }
        });
        let result = json!(["requested", kind, "already_ended"]);
        same_answers_despite_crashes(&ground, code, result).await;
    }
}

async fn a_cancel_after_an_operators_cancel_is_answered_the_same_after_a_crash(ground: Ground) {
    let client = ground.client.clone();
    let code = script(move |flow, _| {
        let client = client.clone();
        async move {
            let kid = flow.spawn(Kid::with(Say::Wait).priority(-1)).await?;
            let child = kid.child().id().expect("it was started");
            let operator = flow.step("operator", async move || {
                client
                    .admin()
                    .cancel(child, Note::by("ops"))
                    .await
                    .map(|_| ())
            });
            operator.await?;
            let answer = kid.child().cancel("no").await?;
            Ok((answer, kid.join().await.is_err()))
        }
    });
    same_answers_despite_crashes(&ground, code, json!(["requested", true])).await;
}

async fn a_cancel_of_a_held_child_is_answered_the_same_after_a_crash(ground: Ground) {
    let code = script(|flow, _| async move {
        let group = async {
            let kids = [Say::Wait, Say::Wait].map(|say| flow.run(Kid::with(say).priority(-1)));
            flow.all(kids).window(1).await
        };
        let send = async {
            number(&flow, "after they were started", 1).await?;
            let kids = flow.children();
            let held = kids[1].cancel("no").await?;
            Ok::<_, FlowError>((held, kids[0].signal(Go(1)).await?))
        };
        let (group, sent) = futures_util::join!(group, send);
        Ok((sent?, group.is_err()))
    });
    let result = json!([["never_started", "delivered"], true]);
    same_answers_despite_crashes(&ground, code, result).await;
}

async fn a_cancel_of_an_ended_child_is_answered_the_same_after_a_crash(ground: Ground) {
    let code = script(|flow, _| async move {
        let kid = flow.spawn(Kid::with(Say::Give(1)).priority(-1)).await?;
        // The child ends meanwhile.
        flow.sleep(SECOND).await?;
        let answer = kid.child().cancel("late").await?;
        Ok((answer, kid.child().signal(Go(1)).await?))
    });
    same_answers_despite_crashes(&ground, code, json!(["already_ended", "no_target"])).await;
}

/// Lists which children have a known id. Code that depends on it must see the same list on replay.
fn known(flow: &Flow) -> String {
    let children = flow.children();
    let known: Vec<_> = children.iter().map(|it| it.id().is_some()).collect();
    format!("known {known:?}")
}

/// Runs a step whose name lists the known ids, and parks. The replay after the park is blocked if
/// other ids are known then.
async fn depends_on_known_ids(flow: &Flow) -> FlowResult<()> {
    flow.step(&known(flow), async || Ok::<_, String>(()))
        .await?;
    flow.sleep(SECOND).await
}

/// Checks the result of a script that depends on known ids, without a crash and with a crash
/// before or after each commit. The script gets a signal before it begins or while it waits. Then
/// each of its children gets one.
async fn same_result_despite_crashes(
    ground: &Ground,
    code: Script,
    signal_first: bool,
    result: Value,
) {
    let commits = result_with_crash(ground, &code, signal_first, None, &result).await;
    for point in [Point::BeforeCommit, Point::AfterCommit] {
        for nth in 1..=commits {
            let crash = Some((point, nth));
            result_with_crash(ground, &code, signal_first, crash, &result).await;
        }
    }
}

async fn result_with_crash(
    ground: &Ground,
    code: &Script,
    signal_first: bool,
    crash: Option<(Point, u32)>,
    result: &Value,
) -> u32 {
    let mut harness = ground.runs(code.clone()).await;
    let id = begin(&harness, ()).await;
    if let Some((point, nth)) = crash {
        harness.crash_any(point, nth);
    }
    if signal_first {
        go(&harness, id.get(), 5).await;
    }
    let mut reports = vec![harness.run().await];
    if !signal_first {
        go(&harness, id.get(), 5).await;
        reports.push(harness.run().await);
    }
    for kid in children(&harness, id).await {
        go(&harness, kid.id, 1).await;
    }
    reports.push(harness.run_all().await);
    let crashes: u32 = reports.iter().map(|it| it.crashes).sum();
    assert_eq!(crashes, u32::from(crash.is_some()), "{crash:?}");
    let instance = get(&harness, id).await;
    let error = instance.last_error.as_deref().unwrap_or_default();
    assert_eq!(instance.status, Status::Done, "{crash:?}: {error}");
    assert_eq!(&output(&instance), result, "{crash:?}");
    let history = history(&harness, id, 1).await;
    assert_eq!(count(&history, EventKind::ReplayBlocked), 0, "{crash:?}");
    reports.iter().map(|it| it.steps).sum()
}

async fn the_id_of_a_child_in_a_selection_is_known_at_the_same_point_on_replay(ground: Ground) {
    let code = script(|flow, _| async move {
        let first = flow.select((flow.run(Kid::with(Say::Wait)), flow.signal::<Go>()));
        let first = first.await?;
        depends_on_known_ids(&flow).await?;
        Ok(matches!(first, OneOf2::Second(Go(5))))
    });
    same_result_despite_crashes(&ground, code, false, json!(true)).await;
}

async fn the_ids_of_a_group_beside_a_signal_are_known_at_the_same_point_on_replay(ground: Ground) {
    let code = script(|flow, _| async move {
        let group = async {
            let kids = [Say::Wait, Say::Wait].map(|say| flow.run(Kid::with(say)));
            let results = flow.all(kids).await?;
            depends_on_known_ids(&flow).await?;
            Ok::<_, FlowError>(results)
        };
        let signal = async {
            let Go(n) = flow.signal::<Go>().await?;
            depends_on_known_ids(&flow).await?;
            Ok::<_, FlowError>(n)
        };
        futures_util::try_join!(group, signal)
    });
    for signal_first in [false, true] {
        same_result_despite_crashes(&ground, code.clone(), signal_first, json!([[1, 1], 5])).await;
    }
}

async fn the_id_of_a_child_started_beside_a_signal_is_known_at_the_same_point_on_replay(
    ground: Ground,
) {
    let code = script(|flow, _| async move {
        let launch = async {
            let kid = flow.spawn(Kid::with(Say::Wait)).await?;
            depends_on_known_ids(&flow).await?;
            kid.join().await
        };
        let signal = async {
            let Go(n) = flow.signal::<Go>().await?;
            depends_on_known_ids(&flow).await?;
            Ok::<_, FlowError>(n)
        };
        futures_util::try_join!(launch, signal)
    });
    for signal_first in [false, true] {
        same_result_despite_crashes(&ground, code.clone(), signal_first, json!([1, 5])).await;
    }
}
