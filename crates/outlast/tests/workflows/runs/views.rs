//! Views of a workflow: its open waits, its handled failures, and the calls of its children.

use crate::support::*;
use outlast::Status;
use outlast::prelude::*;
use outlast::store::ClosePolicy;
use outlast::testing::Harness;
use outlast::workflow::{ChildCall, GroupWait, OpenWait, Waits, WindowWait};

on_both_stores!(
    the_view_of_a_window_counts_running_and_held_children,
    the_view_of_a_group_names_the_kind_of_its_calls,
    the_view_of_a_selection_has_its_deadline,
    the_view_lists_handled_failures_with_their_reasons,
    the_origin_of_a_child_is_the_call_that_started_it,
    the_origin_of_a_child_is_found_in_a_long_history,
    an_open_wait_names_the_newest_run_of_its_child,
    child_calls_are_listed_in_order_and_outlive_the_rows_of_the_children,
);

async fn waits(harness: &Harness, id: Scripted) -> Waits {
    let row = get(harness, id).await;
    harness.client().admin().waits(&row).await.unwrap()
}

fn only(groups: &[GroupWait]) -> &GroupWait {
    let [group] = groups else {
        panic!("one group, not {groups:?}");
    };
    group
}

async fn the_view_of_a_window_counts_running_and_held_children(ground: Ground) {
    let code = script(|flow, _| async move {
        let kids = (0..5).map(|_| flow.run(Kid::with(Say::Wait)));
        flow.all(kids.collect::<Vec<_>>()).window(2).await
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    for (ended, running, held) in [(0, 2, 3), (1, 2, 2), (4, 1, 0)] {
        while children(&harness, id)
            .await
            .iter()
            .filter(|it| it.status == Status::Done)
            .count()
            < ended
        {
            let kids = children(&harness, id).await;
            let first = kids.iter().find(|it| it.status == Status::AwaitingSignal);
            go(&harness, first.unwrap().id, 1).await;
            harness.run().await;
        }
        let seen = waits(&harness, id).await;
        let group = only(&seen.groups);
        assert_eq!((group.size, group.open), (5, 5 - ended));
        assert_eq!(group.window, Some(WindowWait { running, held }));
        let is_held = |it: &&OpenWait| it.is_held == Some(true);
        assert_eq!(seen.open.iter().filter(is_held).count(), held);
        let row = get(&harness, id).await;
        let sentence = harness.client().admin().explain(&row).await.unwrap();
        let expected = format!("of which {running} have a place and {held} wait for one");
        assert_eq!(sentence.contains(&expected), held > 0, "{sentence}");
    }
}

async fn the_view_of_a_group_names_the_kind_of_its_calls(ground: Ground) {
    let code = script(|flow, input: Value| async move {
        let kid = || flow.run(Kid::with(Say::Wait));
        match input.as_str().unwrap() {
            "children" => {
                flow.all((kid(), flow.all((kid(),)))).await?;
            }
            "signals" => {
                flow.all((flow.signal::<Go>(), flow.signal::<Halt>()))
                    .await?;
            }
            _ => {
                flow.all((flow.run(double::with(1)), flow.all((kid(),))))
                    .await?;
            }
        }
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    for kind in ["children", "signals", "mixed"] {
        let id = begin_and_run(&mut harness, kind).await;
        let seen = waits(&harness, id).await;
        assert_eq!(only(&seen.groups).members, kind);
        assert_eq!(only(&seen.groups).window, None);
        for wait in &seen.open {
            let place = wait.group.as_ref().unwrap();
            assert_eq!(place.members, Some(kind));
        }
        // The members of a nested group have the path of groups, from the outermost one.
        let deepest = seen.open.iter().filter_map(|it| it.group.as_ref());
        let deepest = deepest.max_by_key(|place| place.path.len()).unwrap();
        assert_eq!(deepest.path.len(), if kind == "signals" { 1 } else { 2 });
        assert_eq!((deepest.size, deepest.index), (2, 1));
        assert_eq!(deepest.path[0], only(&seen.groups).call);
    }
}

async fn the_view_of_a_selection_has_its_deadline(ground: Ground) {
    let code = script(|flow, _| async move {
        let kid = flow.run(Kid::with(Say::Wait));
        flow.all((kid,)).timeout(Duration::from_secs(60)).await?;
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let seen = waits(&harness, id).await;
    let timer = seen.open.iter().find(|it| it.kind == "timer").unwrap();
    let group = only(&seen.groups);
    assert!(group.is_selection);
    assert_eq!(group.deadline, timer.deadline);
    assert!(group.deadline.is_some());
}

async fn the_view_lists_handled_failures_with_their_reasons(ground: Ground) {
    let code = script(|flow, _| async move {
        for what in ["broken", "lost"] {
            let kid = flow.run(Kid::with(Say::Fail(what.into())));
            if kid.await.is_ok() {
                return flow.fail("it should have failed");
            }
        }
        flow.signal::<Halt>().await?;
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let handled = |seen: &Waits| {
        let failures = seen.handled.iter();
        let failures = failures.map(|it| (it.call, it.name.clone(), it.reason.clone()));
        failures.collect::<Vec<_>>()
    };
    let expected = [(1, "broken"), (2, "lost")];
    let expected = expected.map(|(call, why)| (Some(call), "kid".to_owned(), why.to_owned()));
    assert_eq!(handled(&waits(&harness, id).await), expected);
    harness.client().signal(id, Halt(0)).await.unwrap();
    harness.run().await;
    // An ended workflow waits for nothing, and keeps its handled failures.
    let seen = waits(&harness, id).await;
    assert_eq!(handled(&seen), expected);
    assert!(seen.open.is_empty() && seen.groups.is_empty());
}

async fn the_origin_of_a_child_is_the_call_that_started_it(ground: Ground) {
    let code = script(|flow, input: Value| async move {
        number(&flow, "one", 1).await?;
        flow.spawn(Kid::with(Say::Wait)).await?;
        if input.as_u64() == Some(1) {
            return flow.continue_as_new(0);
        }
        let kids = flow.all([
            flow.run(Kid::with(Say::Wait)),
            flow.run(Kid::with(Say::Wait)),
        ]);
        flow.all((flow.run(double::with(1)), kids)).await?;
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, 1).await;
    let mut seen = Vec::new();
    for child in children(&harness, id).await {
        let child = get(&harness, child.id).await;
        let origin = harness
            .client()
            .admin()
            .origin(&child)
            .await
            .unwrap()
            .unwrap();
        let events = history(&harness, id, origin.run).await;
        let scheduled = events.iter().find(|it| it.seq == origin.seq).unwrap();
        assert_eq!(scheduled.call, Some(origin.call));
        assert_eq!((&scheduled.name, scheduled.at), (&origin.name, origin.at));
        let index = origin.group.map(|place| place.index);
        seen.push((origin.run, origin.kind, origin.call, index));
    }
    let calls: Vec<_> = seen.iter().map(|(run, kind, ..)| (*run, *kind)).collect();
    let expected = [
        (1, "child"),
        (2, "child"),
        (2, "activity"),
        (2, "child"),
        (2, "child"),
    ];
    assert_eq!(calls, expected);
    let places: Vec<_> = seen.iter().map(|(.., index)| *index).collect();
    assert_eq!(places, [None, None, Some(0), Some(1), Some(2)]);
    let mut numbers: Vec<_> = seen[1..].iter().map(|(.., call, _)| *call).collect();
    numbers.dedup();
    assert_eq!(numbers.len(), 4, "each has a call of its own");
    // No call has started the parent.
    let parent = get(&harness, id).await;
    assert_eq!(
        harness.client().admin().origin(&parent).await.unwrap(),
        None
    );
}

/// The history has several pages, some of them without a child, and groups that span two pages.
async fn the_origin_of_a_child_is_found_in_a_long_history(ground: Ground) {
    let code = script(|flow, _| async move {
        for size in [70, 1, 90] {
            for _ in 0..130 {
                number(&flow, "one", 1).await?;
            }
            let kids = (0..size).map(|_| flow.run(double::with(1)));
            flow.all(kids.collect::<Vec<_>>()).await?;
        }
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    assert!(history(&harness, id, 1).await.len() > 700);
    let kids = children(&harness, id).await;
    assert_eq!(kids.len(), 161);
    let mut calls = Vec::new();
    for index in [0, 1, 35, 68, 69, 70, 71, 72, 100, 159, 160] {
        let child = get(&harness, kids[index].id).await;
        let origin = harness
            .client()
            .admin()
            .origin(&child)
            .await
            .unwrap()
            .unwrap();
        let place = (child.parent.unwrap().round, child.position.unwrap());
        let events = history(&harness, id, 1).await;
        let scheduled = events.iter().find(|it| it.seq == origin.seq).unwrap();
        let scheduled = data(scheduled);
        assert_eq!(
            json!([scheduled["round"], scheduled["position"]]),
            json!(place)
        );
        calls.push(origin.call);
    }
    assert!(calls.is_sorted_by(|a, b| a < b), "{calls:?}");
}

async fn an_open_wait_names_the_newest_run_of_its_child(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.run(Kid::with(Say::ContinueAsNew(2))).await?;
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let seen = waits(&harness, id).await;
    let [wait] = &seen.open[..] else {
        panic!("one wait, not {:?}", seen.open);
    };
    let child = &children(&harness, id).await[0];
    assert!(child.run > 1);
    assert_eq!((wait.call, wait.child), (1, Some(child.id)));
    assert_eq!(wait.child_run, Some(child.run));
}

async fn child_calls_are_listed_in_order_and_outlive_the_rows_of_the_children(ground: Ground) {
    let code = script(|flow, _| async move {
        let renewed = Kid::with(Say::ContinueAsNew(2)).on_parent_close(ClosePolicy::Terminate);
        let renewed = flow.run(renewed);
        let failing = flow.run(Kid::with(Say::WaitThenFail("broken".into())));
        let _ = flow.all((renewed, flow.run(double::with(1)))).await?;
        let _ = failing.await;
        flow.spawn(Kid::with(Say::Wait)).await?;
        flow.signal::<Halt>().await?;
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let kids = children(&harness, id).await;
    go(&harness, kids[0].id, 1).await;
    harness.run().await;
    let kids = children(&harness, id).await;
    go(&harness, kids[2].id, 1).await;
    harness.run().await;
    let row = get(&harness, id).await;
    let before = harness
        .client()
        .admin()
        .child_calls(&row, 1, 0, 100)
        .await
        .unwrap();
    let states: Vec<_> = before
        .iter()
        .map(|it| (it.status.unwrap(), it.run, it.is_recorded))
        .collect();
    let expected = [
        (Status::Done, Some(3), true),
        (Status::Failed, Some(1), true),
        (Status::Done, Some(1), true),
        (Status::AwaitingSignal, Some(1), false),
    ];
    let mut sorted = states.clone();
    sorted.sort_by_key(|(status, run, _)| (*status, *run));
    let mut wanted = expected.to_vec();
    wanted.sort_by_key(|(status, run, _)| (*status, *run));
    assert_eq!(sorted, wanted);
    assert!(before.is_sorted_by_key(|it| it.call));
    let policies: Vec<_> = before.iter().map(|it| it.on_parent_close).collect();
    assert_eq!(
        policies
            .iter()
            .filter(|it| **it == ClosePolicy::Terminate)
            .count(),
        1
    );
    assert!(
        before
            .iter()
            .any(|it| it.reason.as_deref() == Some("broken"))
    );
    // The rows are deleted, and the records of the parent stay.
    let sql = format!("delete from instances where parent_id = {}", id.get());
    ground.tamper(&sql).await;
    let after = harness
        .client()
        .admin()
        .child_calls(&row, 1, 0, 100)
        .await
        .unwrap();
    let kept = |calls: &[ChildCall]| {
        let kept = calls.iter().filter(|it| it.is_recorded).cloned();
        kept.collect::<Vec<_>>()
    };
    assert_eq!(kept(&after), kept(&before));
    let gone = after.iter().find(|it| !it.is_recorded).unwrap();
    assert_eq!((gone.status, &*gone.machine), (None, "kid"));
}
