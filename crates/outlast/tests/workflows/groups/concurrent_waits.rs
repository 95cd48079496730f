//! Several waits at once, polled side by side: replay takes the same way as the first time.

use crate::support::*;
use futures_util::future::{Either, select};
use futures_util::{FutureExt, join, pin_mut, try_join};
use outlast::EventKind;
use outlast::prelude::*;
use outlast::testing::Point;
use outlast::workflow::Running;

on_both_stores!(
    waits_side_by_side_are_one_park,
    steps_side_by_side_run_at_once,
    code_that_branches_on_what_came_first_takes_the_same_way_again,
    signals_go_to_those_who_wait_in_the_order_of_the_calls,
    a_branch_that_is_dropped_stays_dropped_over_reruns,
    a_signal_for_a_branch_that_was_dropped_stays_in_the_inbox,
    a_failure_in_one_branch_ends_the_other_with_try_join,
    branches_that_start_children_at_once_lose_none,
    each_of_the_children_that_branches_start_at_once_wakes_its_branch,
    a_thousand_children_beside_a_lone_child_wake_their_parent_once_for_all,
    groups_side_by_side_wake_their_parent_once_each,
);

async fn waits_side_by_side_are_one_park(ground: Ground) {
    let code = script(|flow, _| async move {
        let child = async { flow.child::<Kid>(Say::Wait).await };
        let signal = async { flow.signal::<Go>().await };
        let timer = async { flow.sleep(SECOND).await };
        let (child, signal, timer) = join!(child, signal, timer);
        timer?;
        Ok((child?, signal?.0))
    });
    let mut harness = ground.runs(code).await;
    let id = ran(&mut harness, ()).await;
    let parked = get(&harness, id).await;
    assert_eq!(parked.status, Status::AwaitingChildren);
    assert_eq!(parked.awaits.as_deref(), Some(&["go".to_owned()][..]));
    assert_eq!(parked.await_deadline, Some(harness.time() + SECOND));
    assert_eq!(parked.children_pending, 1);
    go(&harness, id.get(), 2).await;
    harness.run().await;
    harness.advance(SECOND).await;
    harness.run().await;
    harness.expect(id).await.awaits_children();
    go(&harness, children(&harness, id).await[0].id, 1).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([1, 2]));
}

async fn steps_side_by_side_run_at_once(ground: Ground) {
    let code = script(|flow, _| async move {
        let (told, hears) = tokio::sync::oneshot::channel();
        let first = flow.step("hears", async move || {
            hears.await.map_err(|_| "nobody told")
        });
        let second = flow.step("tells", async move || {
            told.send(7).map_err(|_| "nobody hears")
        });
        let (heard, told) = join!(first.into_future(), second.into_future());
        told?;
        heard
    });
    assert_eq!(result_of(&ground, code, ()).await, json!(7));
}

/// Notes the order in which its branches came on, and does something else for each order.
fn branches() -> Script {
    script(|flow, _| async move {
        let order = std::sync::Mutex::new(Vec::new());
        let note = |name: &'static str| order.lock().unwrap().push(name);
        let child = async {
            flow.child::<Kid>(Say::Wait).await?;
            note("child");
            number(&flow, "after child", 1).await
        };
        let signal = async {
            flow.signal::<Go>().await?;
            note("signal");
            flow.activity(Double, 1).await
        };
        let timer = async {
            flow.sleep(SECOND).await?;
            note("timer");
            number(&flow, "after timer", 3).await
        };
        let results = try_join!(child, signal, timer)?;
        let order = order.into_inner().unwrap();
        // Another call for each order: a rerun that went another way would be blocked.
        let way = order.join("-");
        flow.step(&way, async || Ok::<_, String>(())).await?;
        flow.sleep(SECOND).await?;
        Ok((results, way))
    })
}

async fn code_that_branches_on_what_came_first_takes_the_same_way_again(ground: Ground) {
    let orders = [
        ["child", "signal", "timer"],
        ["child", "timer", "signal"],
        ["signal", "child", "timer"],
        ["signal", "timer", "child"],
        ["timer", "child", "signal"],
        ["timer", "signal", "child"],
    ];
    for order in orders {
        // One at a time, or all of them before anybody looks.
        for at_once in [false, true] {
            let mut harness = ground.runs(branches()).await;
            let id = ran(&mut harness, ()).await;
            let kid = children(&harness, id).await[0].id;
            let mut others = ground.runs_children().await;
            for (turn, what) in order.iter().enumerate() {
                // The timer is due at one second, so what comes before it comes earlier.
                let timer = order.iter().position(|it| *it == "timer").unwrap();
                match *what {
                    "timer" => others.advance(SECOND - timer as u32 * SECOND / 4).await,
                    "child" => {
                        others.advance(SECOND / 4).await;
                        go(&others, kid, 1).await;
                    }
                    _ => {
                        others.advance(SECOND / 4).await;
                        go(&others, id.get(), 1).await;
                    }
                }
                if !at_once || turn == 2 {
                    harness.crash::<Running<Script>>("run", Point::BeforeCommit);
                    harness.run().await;
                } else {
                    others.run().await;
                }
            }
            harness.run_all().await;
            let seen = output(&get(&harness, id).await);
            assert_eq!(seen[1], order.join("-"), "at once: {at_once}");
            assert_eq!(seen[0], json!([1, 2, 3]));
        }
    }
}

async fn signals_go_to_those_who_wait_in_the_order_of_the_calls(ground: Ground) {
    let code = script(|flow, _| async move {
        let (a, b, c) = join!(
            flow.signal::<Go>().into_future(),
            flow.signal::<Go>().into_future(),
            flow.signal::<Go>().into_future(),
        );
        Ok([a?.0, b?.0, c?.0])
    });
    let mut harness = ground.runs(code).await;
    let id = ran(&mut harness, ()).await;
    for n in [7, 8, 9] {
        go(&harness, id.get(), n).await;
    }
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([7, 8, 9]));
}

async fn a_branch_that_is_dropped_stays_dropped_over_reruns(ground: Ground) {
    let code = script(|flow, _| async move {
        let seen = {
            let child = async { flow.child::<Kid>(Say::Wait).await }.fuse();
            let signal = async { flow.signal::<Go>().await }.fuse();
            pin_mut!(child, signal);
            match select(child, signal).await {
                Either::Left((child, _)) => child?,
                Either::Right((signal, _)) => signal?.0,
            }
        };
        flow.sleep(SECOND).await?;
        Ok(seen)
    });
    let mut harness = ground.runs(code).await;
    let id = ran(&mut harness, ()).await;
    go(&harness, id.get(), 5).await;
    harness.run().await;
    go(&harness, children(&harness, id).await[0].id, 6).await;
    harness.run_all().await;
    assert_eq!(output(&get(&harness, id).await), json!(5));
}

async fn a_signal_for_a_branch_that_was_dropped_stays_in_the_inbox(ground: Ground) {
    let code = script(|flow, _| async move {
        let halted = {
            let go = async { flow.signal::<Go>().await };
            let halt = async { flow.signal::<Halt>().await };
            pin_mut!(go, halt);
            matches!(select(go, halt).await, Either::Right(_))
        };
        flow.sleep(SECOND).await?;
        let Go(n) = flow.signal::<Go>().await?;
        Ok((halted, n))
    });
    let mut harness = ground.runs(code).await;
    let id = ran(&mut harness, ()).await;
    harness.signal(id, Halt(0)).await.unwrap();
    harness.run().await;
    // Parked for the timer and for nothing else.
    harness.expect(id).await.sleeps();
    go(&harness, id.get(), 7).await;
    assert_eq!(harness.run().await.steps, 0);
    harness.run_all().await;
    assert_eq!(output(&get(&harness, id).await), json!([true, 7]));
}

async fn a_failure_in_one_branch_ends_the_other_with_try_join(ground: Ground) {
    let code = script(|flow, _| async move {
        let both = async {
            try_join!(
                flow.child::<Kid>(Say::Wait).into_future(),
                flow.activity(Fails, "broken".into()).into_future(),
            )
        };
        let error = both.await.unwrap_err();
        flow.sleep(SECOND).await?;
        Ok(error.to_string())
    });
    let seen = result_of(&ground, code, ()).await;
    assert_eq!(seen, "fails failed: broken");
}

async fn branches_that_start_children_at_once_lose_none(ground: Ground) {
    let code = script(|flow, _| async move {
        let pair = |n| {
            let flow = &flow;
            async move {
                flow.all((flow.activity(Double, n), flow.child::<Kid>(Say::Give(n))))
                    .await
            }
        };
        let (a, b, c) = join!(pair(1), pair(2), flow.start_child::<Kid>(Say::Give(3)));
        Ok((a?, b?, c?.join().await?))
    });
    let mut harness = ground.runs(code).await;
    let id = ran(&mut harness, ()).await;
    let expected = json!([[2, 1], [4, 2], 3]);
    assert_eq!(output(&get(&harness, id).await), expected);
    assert_eq!(children(&harness, id).await.len(), 5);
    let history = history(&harness, id, 1).await;
    assert_eq!(count(&history, EventKind::GroupResolved), 2);
}

/// Whichever ends first, and however many branches begin to wait in the same moment.
async fn each_of_the_children_that_branches_start_at_once_wakes_its_branch(ground: Ground) {
    for first in 0..3 {
        let code = script(|flow, _| async move {
            let branch = |name: &'static str| {
                let flow = &flow;
                async move {
                    let pair = (flow.child::<Kid>(Say::Wait), flow.activity(Double, 1));
                    let (n, _) = flow.all(pair).await?;
                    number(flow, name, n).await
                }
            };
            try_join!(branch("0"), branch("1"), branch("2"))
        });
        let mut harness = ground.runs(code).await;
        let id = ran(&mut harness, ()).await;
        let kids: Vec<_> = children(&harness, id)
            .await
            .into_iter()
            .filter(|child| child.status == Status::AwaitingSignal)
            .collect();
        assert_eq!(kids.len(), 3);
        go(&harness, kids[first].id, 7).await;
        harness.run().await;
        let heard = told(&harness, id).await;
        let steps: Vec<&String> = heard.iter().filter(|it| it.starts_with("step_")).collect();
        assert_eq!(steps.len(), 1, "{heard:?}");
        let is_its_own =
            steps[0].starts_with("step_completed") && steps[0].ends_with(&format!(" {first}"));
        assert!(is_its_own, "{first}: {heard:?}");
        for kid in kids.iter().filter(|kid| kid.id != kids[first].id) {
            go(&harness, kid.id, 8).await;
        }
        harness.run().await;
        let mut expected = [8; 3];
        expected[first] = 7;
        assert_eq!(output(&get(&harness, id).await), json!(expected));
    }
}

async fn a_thousand_children_beside_a_lone_child_wake_their_parent_once_for_all(ground: Ground) {
    let code = script(|flow, _| async move {
        let jobs = (0..1_000).map(|n| flow.activity(Double, n));
        let jobs = flow.all(jobs.collect::<Vec<_>>());
        let lone = flow.child::<Kid>(Say::Wait);
        let (jobs, lone) = try_join!(jobs.into_future(), lone.into_future())?;
        Ok((jobs.iter().sum::<u64>(), lone))
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    let tally = harness.run().await;
    assert_eq!(tally.done, 1_000);
    assert!(
        tally.flows <= 4,
        "its two beginnings, and a park more when the group is complete; the lone child's own park: {tally:?}"
    );
    let row = get(&harness, id).await;
    assert_eq!(
        (row.status, row.children_pending),
        (Status::AwaitingChildren, 1)
    );
    let kids = children(&harness, id).await;
    let lone = kids.iter().find(|kid| !kid.status.is_terminal()).unwrap();
    go(&harness, lone.id, 5).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([999_000, 5]));
}

async fn groups_side_by_side_wake_their_parent_once_each(ground: Ground) {
    let code = script(|flow, _| async move {
        let group = |n: u64| {
            let flow = &flow;
            async move {
                let jobs = (0..n).map(|n| flow.activity(Double, n));
                flow.all(jobs.collect::<Vec<_>>()).await
            }
        };
        let (a, b, c) = try_join!(group(300), group(200), group(100))?;
        Ok((a.len(), b.len(), c.len()))
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    let tally = harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([300, 200, 100]));
    assert!(
        tally.flows <= 6,
        "three beginnings, and one for each: {tally:?}"
    );
}
