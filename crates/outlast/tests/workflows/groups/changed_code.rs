//! Workflows that wait in a group or a selection, and builds whose code has another one in its
//! place.

use crate::support::*;
use outlast::Status;
use outlast::prelude::*;
use outlast::store::EventKind;
use outlast::testing::{Harness, Replay, ReplayError};
use outlast::workflow::{BLOCKED, Call, Starting};

on_both_stores!(
    code_that_changes_an_open_group_of_children_is_blocked,
    code_that_changes_an_open_group_of_started_children_is_blocked,
    code_that_changes_an_open_group_of_signals_and_timers_is_blocked,
    code_that_changes_an_open_group_of_steps_and_signals_to_children_is_blocked,
    code_that_changes_an_awaited_child_into_a_started_one_is_blocked,
    code_that_changes_an_awaited_job_into_a_started_one_is_blocked,
    the_error_of_a_changed_open_group_names_both_sides,
    the_error_of_a_changed_group_of_started_children_names_both_sides,
    an_open_group_in_an_equivalent_notation_goes_on,
    a_history_of_an_earlier_build_without_group_members_replays,
    a_history_of_an_earlier_build_with_a_grown_group_replays,
);

type Variants = Vec<(&'static str, Script)>;

/// Parks a workflow with each variant of the code. Checks that each other variant is blocked.
async fn each_blocks_the_others(ground: &Ground, variants: Variants) {
    for (was, old) in &variants {
        for (is, new) in variants.iter().filter(|(is, _)| is != was) {
            blocks(ground, (was, old), (is, new)).await;
        }
    }
}

/// Checks that a build with `new` writes only the block, and that a build with `old` goes on after
/// it.
async fn blocks(ground: &Ground, (was, old): (&str, &Script), (is, new): (&str, &Script)) {
    let pair = format!("{was} became {is}");
    let mut before = ground.runs(old.clone()).await;
    let id = begin_and_run(&mut before, ()).await;
    let recorded = history(&before, id, 1).await;
    let kids = children(&before, id).await.len();
    replays_only_its_own_code(&before, id, (old, new), &pair).await;
    wake(ground, &before, id).await;

    let mut after = ground.runs(new.clone()).await;
    after.advance(HOUR).await;
    after.run().await;
    let row = get(&after, id).await;
    let error = row.last_error.clone().unwrap_or_default();
    assert_eq!(row.status, Status::Runnable, "{pair}: {error}");
    assert!(error.starts_with(BLOCKED), "{pair}: {error}");
    let events = history(&after, id, 1).await;
    assert_eq!(events[..recorded.len()], recorded, "{pair}");
    assert_eq!(events.len(), recorded.len() + 1, "{pair}");
    let last = events.last().unwrap();
    assert_eq!(last.kind, EventKind::ReplayBlocked, "{pair}");
    assert_eq!(children(&after, id).await.len(), kids, "{pair}");

    before.advance(HOUR).await;
    before.run_all().await;
    let row = get(&before, id).await;
    let error = row.last_error.clone().unwrap_or_default();
    assert_eq!(row.status, Status::Done, "{pair} and back: {error}");
}

/// Checks that the exported history fits the code that wrote it, and not the other.
async fn replays_only_its_own_code(
    harness: &Harness,
    id: Scripted,
    (old, new): (&Script, &Script),
    pair: &str,
) {
    let exported = exported(harness, id).await.to_string();
    Replay::of(old.clone()).check(&exported).unwrap();
    let differs = Replay::of(new.clone()).check(&exported);
    let is_refused = matches!(differs, Err(ReplayError::Differs { .. }));
    assert!(is_refused, "{pair}: {differs:?}");
}

/// Delivers everything that a variant may wait for.
async fn wake(ground: &Ground, harness: &Harness, id: Scripted) {
    harness.client().signal(id, Go(1)).await.unwrap();
    harness.client().signal(id, Halt(1)).await.unwrap();
    for kid in children(harness, id).await {
        if !kid.status.is_terminal() {
            go(harness, kid.id, 1).await;
        }
    }
    ground.runs_children().await.run().await;
}

fn kid(flow: &Flow) -> Call<'static, u64> {
    flow.run(Kid::with(Say::Wait))
}

fn spawn(flow: &Flow) -> Starting<u64> {
    flow.spawn(Kid::with(Say::Wait))
}

/// Makes a variant of the code that returns nothing.
macro_rules! variant {
    (|$flow:ident| $code:expr) => {
        script(|$flow, _| async move {
            $code.await?;
            Ok(())
        })
    };
}

async fn code_that_changes_an_open_group_of_children_is_blocked(ground: Ground) {
    let variants: Variants = vec![
        (
            "all of 2",
            variant!(|flow| flow.all((kid(&flow), kid(&flow)))),
        ),
        (
            "all of 3",
            variant!(|flow| flow.all((kid(&flow), kid(&flow), kid(&flow)))),
        ),
        (
            "select of 2",
            variant!(|flow| flow.select((kid(&flow), kid(&flow)))),
        ),
        (
            "select of 3",
            variant!(|flow| flow.select((kid(&flow), kid(&flow), kid(&flow)))),
        ),
        (
            "2 within 1",
            variant!(|flow| flow.all((flow.all((kid(&flow), kid(&flow))),))),
        ),
        (
            "1 and 1 within",
            variant!(|flow| flow.all((kid(&flow), flow.all((kid(&flow),))))),
        ),
        (
            "1 within and 1",
            variant!(|flow| flow.all((flow.all((kid(&flow),)), kid(&flow)))),
        ),
        (
            "2 before 1",
            variant!(|flow| flow.select((vec![kid(&flow), kid(&flow)], kid(&flow)))),
        ),
        (
            "1 before 2",
            variant!(|flow| flow.select((kid(&flow), vec![kid(&flow), kid(&flow)]))),
        ),
        (
            "none",
            variant!(|flow| async {
                futures_util::try_join!(kid(&flow).into_future(), kid(&flow).into_future())
            }),
        ),
    ];
    each_blocks_the_others(&ground, variants).await;
}

async fn code_that_changes_an_open_group_of_started_children_is_blocked(ground: Ground) {
    macro_rules! started {
        (|$flow:ident, $a:ident, $b:ident, $c:ident| $code:expr) => {
            script(|$flow, _| async move {
                let $a = spawn(&$flow).await?;
                let $b = spawn(&$flow).await?;
                let $c = spawn(&$flow).await?;
                $code.await?;
                // Each variant uses each of the children.
                let _ = (&$a, &$b, &$c);
                Ok(())
            })
        };
    }
    let variants: Variants = vec![
        (
            "all of a, b",
            started!(|flow, a, b, c| flow.all((a.join(), b.join()))),
        ),
        (
            "all of b, a",
            started!(|flow, a, b, c| flow.all((b.join(), a.join()))),
        ),
        (
            "all of a, b, c",
            started!(|flow, a, b, c| flow.all((a.join(), b.join(), c.join()))),
        ),
        (
            "select of a, b",
            started!(|flow, a, b, c| flow.select((a.join(), b.join()))),
        ),
        (
            "select of b, a",
            started!(|flow, a, b, c| flow.select((b.join(), a.join()))),
        ),
        (
            "select of a, c",
            started!(|flow, a, b, c| flow.select((a.join(), c.join()))),
        ),
        (
            "select of a, b, c",
            started!(|flow, a, b, c| flow.select((a.join(), b.join(), c.join()))),
        ),
        (
            "select of a, b before c",
            started!(|flow, a, b, c| flow.select((vec![a.join(), b.join()], c.join()))),
        ),
        (
            "select of a, b and a timer",
            started!(|flow, a, b, c| flow.select((a.join(), b.join(), flow.sleep(HOUR)))),
        ),
        (
            "select of b, a and a timer",
            started!(|flow, a, b, c| flow.select((b.join(), a.join(), flow.sleep(HOUR)))),
        ),
    ];
    each_blocks_the_others(&ground, variants).await;
}

async fn code_that_changes_an_open_group_of_signals_and_timers_is_blocked(ground: Ground) {
    let variants: Variants = vec![
        (
            "all",
            variant!(|flow| flow.all((flow.signal::<Go>(), flow.signal::<Halt>()))),
        ),
        (
            "select",
            variant!(|flow| flow.select((flow.signal::<Go>(), flow.signal::<Halt>()))),
        ),
        (
            "another order",
            variant!(|flow| flow.select((flow.signal::<Halt>(), flow.signal::<Go>()))),
        ),
        (
            "a timeout",
            variant!(|flow| flow.signal::<Go>().timeout(HOUR)),
        ),
        (
            "a timer more",
            variant!(|flow| {
                let signals = (flow.signal::<Go>(), flow.signal::<Halt>());
                flow.select((signals.0, signals.1, flow.sleep(HOUR)))
            }),
        ),
        ("a timer", variant!(|flow| flow.sleep(HOUR))),
        (
            "a timer alone in a group",
            variant!(|flow| flow.all((flow.sleep(HOUR),))),
        ),
        ("a signal", variant!(|flow| flow.signal::<Go>())),
    ];
    each_blocks_the_others(&ground, variants).await;
}

/// Steps and signals to children are complete while the rest of their group is awaited.
async fn code_that_changes_an_open_group_of_steps_and_signals_to_children_is_blocked(
    ground: Ground,
) {
    macro_rules! beside {
        (|$flow:ident, $a:ident| $code:expr) => {
            script(|$flow, _| async move {
                let $a = spawn(&$flow).await?;
                $code.await?;
                Ok(())
            })
        };
    }
    let variants: Variants = vec![
        (
            "a step",
            beside!(|flow, a| flow.all((number(&flow, "one", 1), a.join()))),
        ),
        (
            "two steps",
            beside!(|flow, a| {
                flow.all((number(&flow, "one", 1), number(&flow, "two", 2), a.join()))
            }),
        ),
        (
            "behind",
            beside!(|flow, a| flow.all((a.join(), number(&flow, "one", 1)))),
        ),
        (
            "a signal",
            beside!(|flow, a| flow.all((a.child().signal(Halt(1)), a.join()))),
        ),
        (
            "two signals",
            beside!(|flow, a| {
                let signals = (a.child().signal(Halt(1)), a.child().signal(Halt(2)));
                flow.all((signals.0, signals.1, a.join()))
            }),
        ),
    ];
    each_blocks_the_others(&ground, variants).await;
}

async fn code_that_changes_an_awaited_child_into_a_started_one_is_blocked(ground: Ground) {
    let variants: Variants = vec![
        ("awaited", variant!(|flow| kid(&flow))),
        (
            "started",
            script(|flow, _| async move {
                spawn(&flow).await?;
                flow.signal::<Go>().await?;
                Ok(())
            }),
        ),
    ];
    each_blocks_the_others(&ground, variants).await;
}

async fn code_that_changes_an_awaited_job_into_a_started_one_is_blocked(ground: Ground) {
    let awaited = variant!(|flow| flow.run(double::with(1)));
    let started = script(|flow, _| async move {
        let job = flow.spawn(double::with(1)).await?;
        flow.signal::<Go>().await?;
        job.join().await?;
        Ok(())
    });
    for (old, new) in [(&awaited, &started), (&started, &awaited)] {
        // No worker runs the job yet.
        let mut before = ground.runs_only(old.clone()).await;
        let id = begin_and_run(&mut before, ()).await;
        replays_only_its_own_code(&before, id, (old, new), "a job").await;
        go(&before, id.get(), 1).await;
        ground.runs_children().await.run().await;
        let mut after = ground.runs_only(new.clone()).await;
        after.run().await;
        let row = get(&after, id).await;
        let error = row.last_error.unwrap_or_default();
        assert_eq!(row.status, Status::Runnable, "{error}");
        assert!(error.starts_with(BLOCKED), "{error}");
        before.advance(HOUR).await;
        before.run().await;
        before.expect(id).await.is_done();
    }
}

/// Returns how the error names the history of `old` and the code of `new`.
async fn sides(ground: &Ground, old: Script, new: Script) -> (String, String) {
    let mut harness = ground.runs(old).await;
    let id = begin_and_run(&mut harness, ()).await;
    match Replay::of(new).check(&exported(&harness, id).await.to_string()) {
        Err(ReplayError::Differs { expected, found }) => (expected, found),
        other => panic!("it differs, and the answer is {other:?}"),
    }
}

async fn exported(harness: &Harness, id: Scripted) -> Value {
    let exported = harness.client().admin().export(id, None).await;
    let exported = exported.unwrap().unwrap();
    serde_json::to_value(&exported).unwrap()
}

async fn the_error_of_a_changed_open_group_names_both_sides(ground: Ground) {
    let two = variant!(|flow| flow.all((kid(&flow), kid(&flow))));
    let three = variant!(|flow| flow.select((kid(&flow), kid(&flow), kid(&flow))));
    let (expected, found) = sides(&ground, two, three).await;
    let event = "event 2: child_scheduled \"kid\" of call 2";
    assert_eq!(
        expected,
        format!("{event}, number 1 of 2 in all, calls [1]")
    );
    let place = "number 1 of 3 in select, calls [1], member 1";
    assert_eq!(found, format!("call 2: child \"kid\", {place}"));
}

async fn the_error_of_a_changed_group_of_started_children_names_both_sides(ground: Ground) {
    let joined = |more: bool| {
        script(move |flow, _| async move {
            let first = spawn(&flow).await?;
            let second = spawn(&flow).await?;
            let mut joins = vec![first.join()];
            joins.extend(more.then(|| second.join()));
            flow.all(joins).await?;
            Ok(())
        })
    };
    let (expected, found) = sides(&ground, joined(false), joined(true)).await;
    assert!(
        expected.ends_with("group_awaited of call 3, of 1, calls 1"),
        "{expected}"
    );
    assert_eq!(found, "call 3: all of 2, calls 1-2");
}

async fn an_open_group_in_an_equivalent_notation_goes_on(ground: Ground) {
    let tuple = variant!(|flow| flow.all((kid(&flow), kid(&flow))));
    let vector = variant!(|flow| flow.all(vec![kid(&flow), kid(&flow)]).window(2));
    let within = variant!(|flow| flow.select((kid(&flow), flow.sleep(HOUR))));
    let timeout = variant!(|flow| kid(&flow).timeout(HOUR).cancel_rest());
    for (old, new) in [(tuple, vector), (within, timeout)] {
        let mut harness = ground.runs(old).await;
        let id = begin_and_run(&mut harness, ()).await;
        let exported = exported(&harness, id).await;
        Replay::of(new.clone())
            .check(&exported.to_string())
            .unwrap();
        wake(&ground, &harness, id).await;
        let mut harness = ground.runs(new).await;
        harness.run_all().await;
        harness.expect(id).await.is_done();
    }
}

/// Earlier builds recorded neither members of selections nor groups of started children.
async fn a_history_of_an_earlier_build_without_group_members_replays(ground: Ground) {
    let code = script(|flow, _| async move {
        let first = spawn(&flow).await?;
        spawn(&flow).await?;
        flow.select((vec![kid(&flow), kid(&flow)], first.join()))
            .await?;
        Ok(())
    });
    let mut harness = ground.runs(code.clone()).await;
    let id = begin_and_run(&mut harness, ()).await;
    let mut history = exported(&harness, id).await;
    let events = history["events"].as_array_mut().unwrap();
    let with_all = events.len();
    events.retain(|event| event["kind"] != "selection_awaited");
    assert_eq!(events.len(), with_all - 1);
    for event in events {
        let data = event["data"].as_object_mut().unwrap();
        data.remove("launched");
        if let Some(group) = data.get_mut("group") {
            let member = group.as_object_mut().unwrap().remove("member");
            assert_eq!(member, Some(json!(0)));
        }
    }
    Replay::of(code).check(&history.to_string()).unwrap();
}

async fn a_history_of_an_earlier_build_with_a_grown_group_replays(ground: Ground) {
    let of = |size: u64| {
        script(move |flow, _| async move {
            flow.all((0..size).map(|_| kid(&flow)).collect::<Vec<_>>())
                .await?;
            Ok(())
        })
    };
    let mut harness = ground.runs(of(3)).await;
    let id = begin_and_run(&mut harness, ()).await;
    let mut history = exported(&harness, id).await;
    for event in &mut history["events"].as_array_mut().unwrap()[1..3] {
        event["data"]["group"]["size"] = json!(2);
    }
    Replay::of(of(3)).check(&history.to_string()).unwrap();
    let differs = Replay::of(of(2)).check(&history.to_string());
    assert!(differs.is_err());
}
