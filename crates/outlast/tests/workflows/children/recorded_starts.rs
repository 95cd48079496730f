//! Starts of children in the history of their workflow, and what handles and views make of them.

use crate::support::*;
use outlast::prelude::*;
use outlast::store::{Event, EventKind};
use outlast::testing::{Harness, Point, Replay, RunReport};
use outlast::workflow::{ChildRef, OneOf2};
use outlast::{Durable, FlowError, InstanceId, Workflow};

on_both_stores!(
    children_of_a_group_have_an_id_and_a_run_whatever_wakes_their_workflow,
    a_step_beside_a_group_runs_after_the_ids_of_its_children_are_known,
    children_of_a_selection_have_an_id_and_a_run_after_it,
    a_child_that_is_awaited_alone_has_an_id_and_a_run_beside_a_signal,
    a_cancelled_workflow_knows_the_ids_of_its_children,
    every_child_has_a_start_before_its_end_in_the_history,
    an_awaited_job_is_named_by_its_end_alone,
    a_job_that_is_awaited_alone_has_no_start_while_it_waits,
    new_runs_of_a_child_are_recorded_when_its_parked_workflow_wakes,
    a_renewed_child_does_not_wake_its_workflow,
    of_many_new_runs_the_last_ones_are_recorded,
    the_runs_of_a_child_are_recorded_once_despite_crashes,
    a_history_without_starts_goes_on_where_it_ended,
    views_name_the_child_and_the_run_of_a_group_before_and_after_it_is_recorded,
    an_exported_history_without_starts_replays_beside_one_with_starts,
);

/// A workflow that begins another run with each [`Go`], and ends with [`Halt`].
struct Renews;

impl Durable for Renews {
    const NAME: &'static str = "renews";
    type Input = ();
    type Output = i32;
}

impl Workflow for Renews {
    async fn run(&self, flow: Flow, (): ()) -> FlowResult<i32> {
        let next = flow.select((flow.signal::<Go>(), flow.signal::<Halt>()));
        match next.await? {
            OneOf2::First(_) => flow.continue_as_new(()),
            OneOf2::Second(_) => Ok(flow.run_number()),
        }
    }
}

async fn renews(ground: &Ground, code: Script) -> Harness {
    let worker = ground.worker().register(code).register(Renews);
    worker.build().await.unwrap()
}

fn seen(child: &ChildRef) -> (Option<InstanceId>, Option<i32>) {
    (child.id(), child.run())
}

fn all_seen(flow: &Flow) -> Vec<(Option<InstanceId>, Option<i32>)> {
    flow.children().iter().map(seen).collect()
}

/// Returns id and run of each child in the store.
async fn stored(harness: &Harness, id: Scripted) -> Vec<(Option<InstanceId>, Option<i32>)> {
    let children = children(harness, id).await;
    let stored = children.iter().map(|it| (Some(it.id), Some(it.run)));
    stored.collect()
}

/// Returns child and run of each start of a call, in the order of the history.
fn starts(events: &[Event], call: i32) -> Vec<(u64, i32)> {
    let starts = events
        .iter()
        .filter(|it| it.kind == EventKind::ChildStarted && it.call == Some(call));
    let starts = starts.map(|it| {
        let data = data(it);
        let run = i32::try_from(data["run"].as_i64().unwrap()).unwrap();
        (data["child"].as_u64().unwrap(), run)
    });
    starts.collect()
}

fn runs(events: &[Event], call: i32) -> Vec<i32> {
    let starts = starts(events, call);
    starts.into_iter().map(|(_, run)| run).collect()
}

fn two_kids(flow: &Flow) -> [outlast::workflow::Call<'static, u64>; 2] {
    [Say::Wait, Say::Wait].map(|say| flow.run(Kid::with(say)))
}

async fn children_of_a_group_have_an_id_and_a_run_whatever_wakes_their_workflow(ground: Ground) {
    for wake in ["signal", "timer", "child"] {
        let code = script(|flow, input: Value| async move {
            let group = flow.all(two_kids(&flow));
            let look = async {
                let _ = match input.as_str().unwrap() {
                    "signal" => flow.signal::<Halt>().await?.0,
                    "timer" => flow.sleep(SECOND).await.map(|()| 0)?,
                    _ => flow.run(Kid::with(Say::Sleep(1_000, 1))).await?,
                };
                Ok::<_, FlowError>(all_seen(&flow))
            };
            let (group, seen) = futures_util::join!(group, look);
            group?;
            seen
        });
        let mut harness = ground.runs(code).await;
        let id = begin_and_run(&mut harness, wake).await;
        let expected = stored(&harness, id).await;
        match wake {
            "signal" => drop(harness.client().signal(id, Halt(1)).await.unwrap()),
            _ => harness.advance(SECOND).await,
        }
        harness.run().await;
        for (kid, _) in &expected[..2] {
            go(&harness, kid.unwrap(), 1).await;
        }
        harness.run().await;
        assert_eq!(output(&get(&harness, id).await), json!(expected), "{wake}");
    }
}

async fn a_step_beside_a_group_runs_after_the_ids_of_its_children_are_known(ground: Ground) {
    let code = script(|flow, _| async move {
        let group = flow.all(two_kids(&flow));
        let look = async {
            let inner = flow.clone();
            let step = flow.step("look", async move || Ok::<_, String>(all_seen(&inner)));
            let in_step = step.await?;
            Ok::<_, FlowError>((in_step, all_seen(&flow)))
        };
        let (group, seen) = futures_util::join!(group, look);
        group?;
        seen
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    // One commit starts the children, and one has the starts, the result of the step and the park.
    let report = harness.run().await;
    assert_eq!(
        report.steps,
        2 + 2,
        "two of the workflow, one of each child"
    );
    let expected = stored(&harness, id).await;
    for (kid, _) in &expected {
        go(&harness, kid.unwrap(), 1).await;
    }
    harness.run().await;
    let seen = output(&get(&harness, id).await);
    assert_eq!(seen, json!([expected, expected]));
    let words = history_words(&harness, id).await;
    let expected = [
        "run_started",
        "child_scheduled 2 kid",
        "child_scheduled 3 kid",
        "child_started 2 kid",
        "child_started 3 kid",
        "step_completed 4 look",
    ];
    assert_eq!(words[..6], expected);
}

async fn children_of_a_selection_have_an_id_and_a_run_after_it(ground: Ground) {
    let code = script(|flow, _| async move {
        let first = flow.select((flow.run(Kid::with(Say::Wait)), flow.signal::<Halt>()));
        assert!(matches!(first.await?, OneOf2::Second(_)));
        flow.sleep(SECOND).await?;
        Ok(seen(&flow.last_child().unwrap()))
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.client().signal(id, Halt(1)).await.unwrap();
    harness.run().await;
    harness.advance(SECOND).await;
    harness.run().await;
    let expected = stored(&harness, id).await;
    assert_eq!(output(&get(&harness, id).await), json!(expected[0]));
}

async fn a_child_that_is_awaited_alone_has_an_id_and_a_run_beside_a_signal(ground: Ground) {
    let code = script(|flow, _| async move {
        let look = async {
            flow.signal::<Halt>().await?;
            Ok::<_, FlowError>(all_seen(&flow))
        };
        let (child, seen) = futures_util::join!(flow.run(Renews::with(())).into_future(), look);
        Ok((seen?, child?))
    });
    let mut harness = renews(&ground, code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let expected = stored(&harness, id).await;
    harness.client().signal(id, Halt(1)).await.unwrap();
    harness.run().await;
    let child = expected[0].0.unwrap();
    harness.client().signal(child, Halt(1)).await.unwrap();
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([expected, 1]));
}

async fn a_cancelled_workflow_knows_the_ids_of_its_children(ground: Ground) {
    let code = script(|flow, _| async move {
        let error = flow.all(two_kids(&flow)).await.unwrap_err();
        Ok((error.is_cancelled(), all_seen(&flow)))
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let expected = stored(&harness, id).await;
    harness.client().admin().cancel(id, ada()).await.unwrap();
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([true, expected]));
}

async fn every_child_has_a_start_before_its_end_in_the_history(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.run(Kid::with(Say::Give(1))).await?;
        flow.all((
            flow.run(Kid::with(Say::Give(2))),
            flow.run(Turnstile::with(Turn::Wait(1)).key("t")),
        ))
        .await?;
        let kids = vec![
            flow.run(Kid::with(Say::Wait)),
            flow.run(Kid::with(Say::Give(3))),
        ];
        flow.select(kids).await?;
        Ok(all_seen(&flow))
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let turnstile = get(&harness, Turnstile::key("t")).await.id;
    go(&harness, turnstile, 1).await;
    harness.run().await;
    let expected = stored(&harness, id).await;
    assert_eq!(output(&get(&harness, id).await), json!(expected));
    let history = history(&harness, id, 1).await;
    let found: Vec<_> = [1, 3, 4, 6, 7]
        .map(|call| starts(&history, call))
        .concat()
        .into_iter()
        .map(|(child, run)| (Some(child), Some(run)))
        .collect();
    assert_eq!(json!(found), json!(expected));
    let words = words(&history);
    let place = |word: &str| words.iter().position(|it| it == word).unwrap();
    for (started, ended) in [
        ("child_started 1 kid", "child_completed 1 kid"),
        ("child_started 3 kid", "child_completed 3 kid"),
        ("child_started 4 turnstile", "child_completed 4 turnstile"),
        // The child that lost the selection is known before the code continues.
        ("child_started 6 kid", "child_completed 7 kid"),
    ] {
        assert!(place(started) < place(ended), "{words:?}");
    }
}

async fn an_awaited_job_is_named_by_its_end_alone(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.run(double::with(1)).await?;
        let jobs = flow.all((flow.run(double::with(2)), flow.run(double::with(3))));
        jobs.await?;
        flow.spawn(double::with(4)).await?.join().await
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    harness.run_all().await;
    let history = history(&harness, id, 1).await;
    let started = history
        .iter()
        .filter(|it| it.kind == EventKind::ChildStarted);
    let started: Vec<_> = started.map(|it| it.call.unwrap()).collect();
    // Code that spawns a job waits for its start.
    assert_eq!(started, [5]);
    let ends = history
        .iter()
        .filter(|it| it.kind == EventKind::ActivityCompleted);
    assert!(ends.clone().all(|it| data(it)["child"].is_u64()));
    assert_eq!(ends.count(), 4);
}

async fn a_job_that_is_awaited_alone_has_no_start_while_it_waits(ground: Ground) {
    let code = script(|flow, _| async move {
        let job = flow.run(double::with(1)).into_future();
        let (job, signal) = futures_util::join!(job, flow.signal::<Halt>().into_future());
        Ok((job?, signal?.0))
    });
    // No worker runs the job yet.
    let mut harness = ground.runs_only(code.clone()).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.client().signal(id, Halt(1)).await.unwrap();
    harness.run().await;
    let mut harness = ground.runs(code).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([2, 1]));
    let history = history(&harness, id, 1).await;
    assert_eq!(count(&history, EventKind::SignalConsumed), 1);
    assert_eq!(count(&history, EventKind::ChildStarted), 0);
}

/// A group beside a loop that lists the runs of its only child at each signal, until it gets 0.
fn watches() -> Script {
    script(|flow, _| async move {
        let group = async { flow.all((flow.run(Renews::with(())),)).await };
        let look = async {
            let mut seen = Vec::new();
            while flow.signal::<Go>().await?.0 > 0 {
                let child = flow.last_child().unwrap();
                seen.push((child.id(), child.call(), child.run()));
            }
            Ok::<_, FlowError>(seen)
        };
        let (group, seen) = futures_util::join!(group, look);
        Ok((group?.0, seen?))
    })
}

async fn new_runs_of_a_child_are_recorded_when_its_parked_workflow_wakes(ground: Ground) {
    let mut harness = renews(&ground, watches()).await;
    let id = begin_and_run(&mut harness, ()).await;
    let child = children(&harness, id).await[0].id;
    let mut expected = Vec::new();
    for renewals in [0, 1, 3, 0, 2] {
        for _ in 0..renewals {
            go(&harness, child, 1).await;
            harness.run().await;
        }
        go(&harness, id.get(), 1).await;
        harness.run().await;
        expected.push((child, 2, get(&harness, child).await.run));
    }
    let newest = expected.last().unwrap().2;
    assert_eq!(newest, 7);
    let recorded = history(&harness, id, 1).await;
    assert_eq!(runs(&recorded, 2), (1..=newest).collect::<Vec<_>>());
    // One more run that the workflow sees only with the end of the child.
    go(&harness, child, 1).await;
    harness.client().signal(child, Halt(1)).await.unwrap();
    go(&harness, id.get(), 0).await;
    harness.run().await;
    let result = output(&get(&harness, id).await);
    assert_eq!(result, json!([newest + 1, expected]));
    let recorded = history(&harness, id, 1).await;
    assert_eq!(runs(&recorded, 2), (1..=newest + 1).collect::<Vec<_>>());
    let words = words(&recorded);
    let last = words
        .iter()
        .rposition(|it| it == "child_started 2 renews")
        .unwrap();
    let end = words
        .iter()
        .position(|it| it == "child_completed 2 renews")
        .unwrap();
    assert!(last < end, "{words:?}");
}

async fn a_renewed_child_does_not_wake_its_workflow(ground: Ground) {
    let mut harness = renews(&ground, watches()).await;
    let id = begin_and_run(&mut harness, ()).await;
    let child = children(&harness, id).await[0].id;
    let before = get(&harness, id).await;
    for _ in 0..3 {
        go(&harness, child, 1).await;
        harness.run().await;
    }
    let after = get(&harness, id).await;
    assert_eq!(get(&harness, child).await.run, 4);
    assert_eq!(
        (after.revision, after.events),
        (before.revision, before.events)
    );
}

async fn of_many_new_runs_the_last_ones_are_recorded(ground: Ground) {
    let code = script(|flow, _| async move {
        let kids = [20, 2].map(|times| flow.run(Kid::with(Say::ContinueAsNew(times))));
        flow.all(kids).await
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    for kid in children(&harness, id).await {
        go(&harness, kid.id, 1).await;
    }
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([1, 1]));
    let history = history(&harness, id, 1).await;
    // As many as there are histories of runs.
    assert_eq!(runs(&history, 2), (12..=21).collect::<Vec<_>>());
    assert_eq!(runs(&history, 3), [1, 2, 3]);
}

async fn the_runs_of_a_child_are_recorded_once_despite_crashes(ground: Ground) {
    /// Runs the workflow to its end, and returns its output and starts without the id of the
    /// child, and how many commits there were.
    async fn once(ground: &Ground, crash: Option<(Point, u32)>) -> (Value, Vec<i32>, u32) {
        // Code whose calls depend on what it knows of the child: another answer on replay blocks.
        let code = script(|flow, _| async move {
            let group = async { flow.all((flow.run(Renews::with(())),)).await };
            let look = async {
                let mut seen = Vec::new();
                for _ in 0..3 {
                    flow.signal::<Go>().await?;
                    let child = flow.last_child().unwrap();
                    let known = format!("{} {:?}", child.id().is_some(), child.run());
                    number(&flow, "look", 1).await?;
                    flow.step(&known, async || Ok::<_, String>(())).await?;
                    seen.push(known);
                }
                Ok::<_, FlowError>(seen)
            };
            let (group, seen) = futures_util::join!(group, look);
            Ok((group?.0, seen?))
        });
        let mut harness = renews(ground, code).await;
        let id = begin(&harness, ()).await;
        if let Some((point, nth)) = crash {
            harness.crash_at::<Script>("run", point, nth);
        }
        let mut commits = 0;
        let mut crashes = 0;
        let mut note = |report: RunReport| {
            commits += report.steps;
            crashes += report.crashes;
        };
        note(harness.run().await);
        let child = children(&harness, id).await[0].id;
        for _ in 0..3 {
            go(&harness, id.get(), 1).await;
            note(harness.run().await);
            go(&harness, child, 1).await;
            harness.run().await;
        }
        harness.client().signal(child, Halt(1)).await.unwrap();
        note(harness.run().await);
        assert_eq!(crashes, u32::from(crash.is_some()), "{crash:?}");
        let row = get(&harness, id).await;
        let recorded = history(&harness, id, 1).await;
        assert_eq!(count(&recorded, EventKind::ReplayBlocked), 0, "{crash:?}");
        (output(&row), runs(&recorded, 2), commits)
    }
    let (usual, recorded, commits) = once(&ground, None).await;
    let seen = ["true Some(1)", "true Some(2)", "true Some(3)"];
    assert_eq!(usual, json!([4, seen]));
    assert_eq!(recorded, [1, 2, 3, 4]);
    for point in [Point::BeforeCommit, Point::AfterCommit] {
        // The last of them are commits of the child.
        for nth in 1..commits.min(8) {
            let again = once(&ground, Some((point, nth))).await;
            assert_eq!((again.0, again.1), (usual.clone(), recorded.clone()));
        }
    }
}

/// A group beside a signal. A step after the signal is named by the known ids.
fn depends_on_ids() -> Script {
    script(|flow, _| async move {
        let look = async {
            flow.signal::<Halt>().await?;
            let known = flow.children().iter().any(|it| it.id().is_some());
            flow.step(&format!("known {known}"), async || Ok::<_, String>(()))
                .await?;
            flow.signal::<Halt>().await?;
            Ok::<_, FlowError>(known)
        };
        let (group, known) = futures_util::join!(flow.all(two_kids(&flow)), look);
        Ok((group?, known?))
    })
}

/// Makes the history of a workflow one that a build without starts of grouped children has
/// written: it has no starts, and the code knew no ids.
async fn forget_starts(ground: &Ground, harness: &Harness, id: Scripted) -> Vec<Event> {
    let events = history(harness, id, 1).await;
    let starts = events
        .iter()
        .filter(|it| it.kind == EventKind::ChildStarted);
    let places: Vec<_> = starts.map(|it| it.seq).collect();
    let [first, .., last] = places[..] else {
        panic!("several starts, not {places:?}");
    };
    let many = last - first + 1;
    assert_eq!(many as usize, places.len(), "they are in a row");
    let id = id.get();
    let sql = format!(
        "delete from events where instance_id = {id} and kind = 'child_started'; \
         update events set seq = seq + 100000 where instance_id = {id} and seq > {last}; \
         update events set seq = seq - 100000 - {many} where instance_id = {id} and seq > 100000; \
         update events set name = 'known false' where instance_id = {id} and name = 'known true'; \
         update instances set events = events - {many} where id = {id};"
    );
    ground.tamper(&sql).await;
    history(harness, id, 1).await
}

async fn a_history_without_starts_goes_on_where_it_ended(ground: Ground) {
    for wakes_before_the_end in [false, true] {
        let mut harness = ground.runs(depends_on_ids()).await;
        let id = begin_and_run(&mut harness, ()).await;
        harness.client().signal(id, Halt(1)).await.unwrap();
        harness.run().await;
        let old = forget_starts(&ground, &harness, id).await;
        let kids = children(&harness, id).await;
        if wakes_before_the_end {
            harness.client().signal(id, Halt(1)).await.unwrap();
            harness.run().await;
        }
        for kid in kids {
            go(&harness, kid.id, 1).await;
        }
        harness.run().await;
        if !wakes_before_the_end {
            harness.client().signal(id, Halt(1)).await.unwrap();
        }
        // The code runs once more from its first line.
        harness.crash_at::<Script>("run", Point::BeforeCommit, 1);
        harness.run().await;
        let row = get(&harness, id).await;
        assert_eq!(output(&row), json!([[1, 1], false]));
        let new = history(&harness, id, 1).await;
        assert_eq!(new[..old.len()], old);
        assert_eq!(count(&new, EventKind::ReplayBlocked), 0);
        let added = &words(&new)[old.len()..];
        assert_eq!(
            added[..2],
            ["child_started 2 kid", "child_started 3 kid"],
            "{added:?}"
        );
    }
}

async fn an_exported_history_without_starts_replays_beside_one_with_starts(ground: Ground) {
    let export = async |harness: &Harness, id: Scripted| {
        let run = harness.client().admin().export(id, None).await.unwrap();
        serde_json::to_string(&run.unwrap()).unwrap()
    };
    let mut harness = ground.runs(depends_on_ids()).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness.client().signal(id, Halt(1)).await.unwrap();
    harness.run().await;
    let new = export(&harness, id).await;
    assert!(new.contains("known true") && new.contains("child_started"));
    forget_starts(&ground, &harness, id).await;
    let old = export(&harness, id).await;
    assert!(old.contains("known false") && !old.contains("child_started"));
    for history in [&new, &old] {
        Replay::of(depends_on_ids()).check(history).unwrap();
    }
}

async fn views_name_the_child_and_the_run_of_a_group_before_and_after_it_is_recorded(
    ground: Ground,
) {
    let mut harness = renews(&ground, watches()).await;
    let id = begin_and_run(&mut harness, ()).await;
    let child = children(&harness, id).await[0].id;
    let is_recorded = async |harness: &Harness| {
        let events = history(harness, id, 1).await;
        count(&events, EventKind::ChildStarted) > 0
    };
    for wakes in [false, true] {
        go(&harness, child, 1).await;
        harness.run().await;
        if wakes {
            go(&harness, id.get(), 1).await;
            harness.run().await;
        }
        assert_eq!(is_recorded(&harness).await, wakes);
        let row = get(&harness, id).await;
        let run = Some(get(&harness, child).await.run);
        let admin = harness.client().admin();
        let waits = admin.waits(&row).await.unwrap();
        let wait = waits.open.iter().find(|it| it.kind == "child").unwrap();
        assert_eq!((wait.child, wait.child_run), (Some(child), run));
        let calls = admin.child_calls(&row, 1, 0, 10).await.unwrap();
        assert_eq!((calls[0].child, calls[0].run), (Some(child), run));
        let export = admin.export(id, None).await.unwrap().unwrap();
        let [exported] = &export.children[..] else {
            panic!("one child, not {:?}", export.children);
        };
        assert_eq!((exported.call, exported.child), (2, child));
        assert_eq!(Some(exported.run), run);
        let origin = admin.origin(&get(&harness, child).await).await.unwrap();
        assert_eq!(origin.map(|it| (it.run, it.call)), Some((1, 2)));
    }
    // The history says it even without the row.
    let sql = format!("delete from instances where id = {child}");
    ground.tamper(&sql).await;
    let row = get(&harness, id).await;
    let admin = harness.client().admin();
    let calls = admin.child_calls(&row, 1, 0, 10).await.unwrap();
    assert_eq!((calls[0].child, calls[0].run), (Some(child), Some(3)));
    assert_eq!(calls[0].status, None);
}
