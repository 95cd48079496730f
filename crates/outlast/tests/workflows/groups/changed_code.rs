//! A workflow that waits in a group or a selection, and a build whose code has another one in its place.

use crate::support::*;
use outlast::EventKind;
use outlast::prelude::*;
use outlast::testing::{Harness, ReplayError, replay_with};
use outlast::workflow::{BLOCKED, Call, Child};

on_both_stores!(
    an_open_group_of_children_blocks_code_with_another_one,
    an_open_group_of_started_children_blocks_code_with_another_one,
    an_open_group_of_signals_and_timers_blocks_code_with_another_one,
    an_open_group_of_steps_and_signals_to_children_blocks_code_with_another_one,
    a_child_that_is_awaited_is_not_one_that_was_started,
    both_sides_of_an_open_group_are_named,
    both_sides_of_an_open_group_of_started_children_are_named,
    an_open_group_in_another_notation_is_the_same,
    a_group_that_an_earlier_build_has_recorded_goes_on,
    a_group_that_an_earlier_build_has_let_grow_goes_on,
);

type Forms = Vec<(&'static str, Script)>;

/// Runs every form to where it waits, and holds every other one against that.
async fn each_blocks_the_others(ground: &Ground, forms: Forms) {
    for (was, old) in &forms {
        for (is, new) in forms.iter().filter(|(is, _)| is != was) {
            blocks(ground, (was, old), (is, new)).await;
        }
    }
}

/// A build with `new` neither starts nor writes anything but the block, and a build with `old` goes on afterwards.
async fn blocks(ground: &Ground, (was, old): (&str, &Script), (is, new): (&str, &Script)) {
    let pair = format!("{was} became {is}");
    let mut before = ground.runs(old.clone()).await;
    let id = ran(&mut before, ()).await;
    let recorded = history(&before, id, 1).await;
    let kids = children(&before, id).await.len();
    holds_against(&before, id, (old, new), &pair).await;
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

/// The exported history fits the code that wrote it, and no other.
async fn holds_against(client: &Client, id: Scripted, (old, new): (&Script, &Script), pair: &str) {
    let exported = client.export(id, None).await.unwrap().unwrap();
    let exported = serde_json::to_string(&exported).unwrap();
    replay_with(old.clone(), &exported).unwrap();
    let differs = replay_with(new.clone(), &exported);
    let is_held = matches!(differs, Err(ReplayError::Differs { .. }));
    assert!(is_held, "{pair}: {differs:?}");
}

/// Whatever a form waits for comes.
async fn wake(ground: &Ground, harness: &Harness, id: Scripted) {
    harness.signal(id, Go(1)).await.unwrap();
    harness.signal(id, Halt(1)).await.unwrap();
    for kid in children(harness, id).await {
        if !kid.status.is_terminal() {
            go(harness, kid.id, 1).await;
        }
    }
    ground.runs_children().await.run().await;
}

fn kid(flow: &Flow) -> Call<'static, u64, Child> {
    flow.child::<Kid>(Say::Wait)
}

/// A form that comes to nothing, in the end.
macro_rules! form {
    (|$flow:ident| $code:expr) => {
        script(|$flow, _| async move {
            $code.await?;
            Ok(())
        })
    };
}

async fn an_open_group_of_children_blocks_code_with_another_one(ground: Ground) {
    let forms: Forms = vec![
        ("all of 2", form!(|flow| flow.all((kid(&flow), kid(&flow))))),
        (
            "all of 3",
            form!(|flow| flow.all((kid(&flow), kid(&flow), kid(&flow)))),
        ),
        (
            "select of 2",
            form!(|flow| flow.select((kid(&flow), kid(&flow)))),
        ),
        (
            "select of 3",
            form!(|flow| flow.select((kid(&flow), kid(&flow), kid(&flow)))),
        ),
        (
            "2 within 1",
            form!(|flow| flow.all((flow.all((kid(&flow), kid(&flow))),))),
        ),
        (
            "1 and 1 within",
            form!(|flow| flow.all((kid(&flow), flow.all((kid(&flow),))))),
        ),
        (
            "1 within and 1",
            form!(|flow| flow.all((flow.all((kid(&flow),)), kid(&flow)))),
        ),
        (
            "2 before 1",
            form!(|flow| flow.select((vec![kid(&flow), kid(&flow)], kid(&flow)))),
        ),
        (
            "1 before 2",
            form!(|flow| flow.select((kid(&flow), vec![kid(&flow), kid(&flow)]))),
        ),
        (
            "none",
            form!(|flow| async {
                futures_util::try_join!(kid(&flow).into_future(), kid(&flow).into_future())
            }),
        ),
    ];
    each_blocks_the_others(&ground, forms).await;
}

async fn an_open_group_of_started_children_blocks_code_with_another_one(ground: Ground) {
    macro_rules! started {
        (|$flow:ident, $a:ident, $b:ident, $c:ident| $code:expr) => {
            script(|$flow, _| async move {
                let $a = kid(&$flow).start().await?;
                let $b = kid(&$flow).start().await?;
                let $c = kid(&$flow).start().await?;
                $code.await?;
                // Each of them is used in each form.
                let _ = (&$a, &$b, &$c);
                Ok(())
            })
        };
    }
    let forms: Forms = vec![
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
    each_blocks_the_others(&ground, forms).await;
}

async fn an_open_group_of_signals_and_timers_blocks_code_with_another_one(ground: Ground) {
    let forms: Forms = vec![
        (
            "all",
            form!(|flow| flow.all((flow.signal::<Go>(), flow.signal::<Halt>()))),
        ),
        (
            "select",
            form!(|flow| flow.select((flow.signal::<Go>(), flow.signal::<Halt>()))),
        ),
        (
            "another order",
            form!(|flow| flow.select((flow.signal::<Halt>(), flow.signal::<Go>()))),
        ),
        ("a timeout", form!(|flow| flow.signal::<Go>().timeout(HOUR))),
        (
            "a timer more",
            form!(|flow| {
                let signals = (flow.signal::<Go>(), flow.signal::<Halt>());
                flow.select((signals.0, signals.1, flow.sleep(HOUR)))
            }),
        ),
        ("a timer", form!(|flow| flow.sleep(HOUR))),
        (
            "a timer alone in a group",
            form!(|flow| flow.all((flow.sleep(HOUR),))),
        ),
        ("a signal", form!(|flow| flow.signal::<Go>())),
    ];
    each_blocks_the_others(&ground, forms).await;
}

/// Steps and signals to children have come to their answers when the rest of their group is waited for.
async fn an_open_group_of_steps_and_signals_to_children_blocks_code_with_another_one(
    ground: Ground,
) {
    macro_rules! beside {
        (|$flow:ident, $a:ident| $code:expr) => {
            script(|$flow, _| async move {
                let $a = kid(&$flow).start().await?;
                $code.await?;
                Ok(())
            })
        };
    }
    let forms: Forms = vec![
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
                let told = (a.child().signal(Halt(1)), a.child().signal(Halt(2)));
                flow.all((told.0, told.1, a.join()))
            }),
        ),
    ];
    each_blocks_the_others(&ground, forms).await;
}

async fn a_child_that_is_awaited_is_not_one_that_was_started(ground: Ground) {
    let forms: Forms = vec![
        ("awaited", form!(|flow| kid(&flow))),
        (
            "started",
            script(|flow, _| async move {
                kid(&flow).start().await?;
                flow.signal::<Go>().await?;
                Ok(())
            }),
        ),
    ];
    each_blocks_the_others(&ground, forms).await;
}

/// What the history says of a group of this form, and the code of that one.
async fn sides(ground: &Ground, old: Script, new: Script) -> (String, String) {
    let mut harness = ground.runs(old).await;
    let id = ran(&mut harness, ()).await;
    match replay_with(new, &exported(&harness, id).await.to_string()) {
        Err(ReplayError::Differs { expected, found }) => (expected, found),
        other => panic!("it differs, and the answer is {other:?}"),
    }
}

async fn exported(client: &Client, id: Scripted) -> Value {
    let exported = client.export(id, None).await.unwrap().unwrap();
    serde_json::to_value(&exported).unwrap()
}

async fn both_sides_of_an_open_group_are_named(ground: Ground) {
    let two = form!(|flow| flow.all((kid(&flow), kid(&flow))));
    let three = form!(|flow| flow.select((kid(&flow), kid(&flow), kid(&flow))));
    let (expected, found) = sides(&ground, two, three).await;
    let event = "event 2: child_scheduled \"kid\" of call 2";
    assert_eq!(
        expected,
        format!("{event}, number 1 of 2 in all, calls [1]")
    );
    let place = "number 1 of 3 in select, calls [1], member 1";
    assert_eq!(found, format!("call 2: child \"kid\", {place}"));
}

async fn both_sides_of_an_open_group_of_started_children_are_named(ground: Ground) {
    let joined = |more: bool| {
        script(move |flow, _| async move {
            let first = kid(&flow).start().await?;
            let second = kid(&flow).start().await?;
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

async fn an_open_group_in_another_notation_is_the_same(ground: Ground) {
    let tuple = form!(|flow| flow.all((kid(&flow), kid(&flow))));
    let vector = form!(|flow| flow.all(vec![kid(&flow), kid(&flow)]).window(2));
    let within = form!(|flow| flow.select((kid(&flow), flow.sleep(HOUR))));
    let timeout = form!(|flow| kid(&flow).timeout(HOUR).cancel_rest());
    for (old, new) in [(tuple, vector), (within, timeout)] {
        let mut harness = ground.runs(old).await;
        let id = ran(&mut harness, ()).await;
        let exported = exported(&harness, id).await;
        replay_with(new.clone(), &exported.to_string()).unwrap();
        wake(&ground, &harness, id).await;
        let mut harness = ground.runs(new).await;
        harness.run_all().await;
        harness.expect(id).await.is_done();
    }
}

/// Histories have recorded neither the members of selections nor groups of started children.
async fn a_group_that_an_earlier_build_has_recorded_goes_on(ground: Ground) {
    let code = script(|flow, _| async move {
        let first = kid(&flow).start().await?;
        kid(&flow).start().await?;
        flow.select((vec![kid(&flow), kid(&flow)], first.join()))
            .await?;
        Ok(())
    });
    let mut harness = ground.runs(code.clone()).await;
    let id = ran(&mut harness, ()).await;
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
    replay_with(code, &history.to_string()).unwrap();
}

async fn a_group_that_an_earlier_build_has_let_grow_goes_on(ground: Ground) {
    let of = |size: u64| {
        script(move |flow, _| async move {
            flow.all((0..size).map(|_| kid(&flow)).collect::<Vec<_>>())
                .await?;
            Ok(())
        })
    };
    let mut harness = ground.runs(of(3)).await;
    let id = ran(&mut harness, ()).await;
    let mut history = exported(&harness, id).await;
    for event in &mut history["events"].as_array_mut().unwrap()[1..3] {
        event["data"]["group"]["size"] = json!(2);
    }
    replay_with(of(3), &history.to_string()).unwrap();
    let differs = replay_with(of(2), &history.to_string());
    assert!(differs.is_err());
}
