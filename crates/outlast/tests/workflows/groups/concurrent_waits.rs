//! Concurrent waits: replay takes the same branches as the first execution.

use crate::support::*;
use futures_util::future::{Either, select};
use futures_util::{FutureExt, join, pin_mut, try_join};
use outlast::Status;
use outlast::store::EventKind;
use outlast::testing::Point;

on_both_stores!(
    concurrent_waits_are_one_park,
    concurrent_steps_run_at_the_same_time,
    code_that_branches_on_the_first_arrival_takes_the_same_branch_on_replay,
    signals_are_given_to_waiting_calls_in_the_order_of_the_calls,
    a_dropped_branch_stays_dropped_on_replay,
    a_signal_for_a_dropped_branch_stays_in_the_inbox,
    a_failure_in_one_branch_ends_the_other_with_try_join,
    branches_that_start_children_concurrently_lose_none,
    the_end_of_a_child_wakes_the_branch_that_started_it,
    a_thousand_children_beside_a_single_child_wake_their_parent_once,
    concurrent_groups_wake_their_parent_once_each,
);

async fn concurrent_waits_are_one_park(ground: Ground) {
    let code = script(|flow, _| async move {
        let child = async { flow.run(Kid::with(Say::Wait)).await };
        let signal = async { flow.signal::<Go>().await };
        let timer = async { flow.sleep(SECOND).await };
        let (child, signal, timer) = join!(child, signal, timer);
        timer?;
        Ok((child?, signal?.0))
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
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

async fn concurrent_steps_run_at_the_same_time(ground: Ground) {
    let code = script(|flow, _| async move {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let first = flow.step("receive", async move || {
            receiver.await.map_err(|_| "the sender is gone")
        });
        let second = flow.step("send", async move || {
            sender.send(7).map_err(|_| "the receiver is gone")
        });
        let (received, sent) = join!(first.into_future(), second.into_future());
        sent?;
        received
    });
    assert_eq!(result_of(&ground, code, ()).await, json!(7));
}

/// A workflow that notes the order in which its branches go on, and makes another call for each
/// order.
fn branches() -> Script {
    script(|flow, _| async move {
        let order = std::sync::Mutex::new(Vec::new());
        let note = |name: &'static str| order.lock().unwrap().push(name);
        let child = async {
            flow.run(Kid::with(Say::Wait)).await?;
            note("child");
            number(&flow, "after child", 1).await
        };
        let signal = async {
            flow.signal::<Go>().await?;
            note("signal");
            flow.run(double::with(1)).await
        };
        let timer = async {
            flow.sleep(SECOND).await?;
            note("timer");
            number(&flow, "after timer", 3).await
        };
        let results = try_join!(child, signal, timer)?;
        let order = order.into_inner().unwrap();
        // Each order has a step of its own, so a replay in another order would be blocked.
        let way = order.join("-");
        flow.step(&way, async || Ok::<_, String>(())).await?;
        flow.sleep(SECOND).await?;
        Ok((results, way))
    })
}

async fn code_that_branches_on_the_first_arrival_takes_the_same_branch_on_replay(ground: Ground) {
    let orders = [
        ["child", "signal", "timer"],
        ["child", "timer", "signal"],
        ["signal", "child", "timer"],
        ["signal", "timer", "child"],
        ["timer", "child", "signal"],
        ["timer", "signal", "child"],
    ];
    for order in orders {
        // The workflow runs after each arrival, or only after the last.
        for at_once in [false, true] {
            let mut harness = ground.runs(branches()).await;
            let id = begin_and_run(&mut harness, ()).await;
            let kid = children(&harness, id).await[0].id;
            let mut others = ground.runs_children().await;
            for (turn, what) in order.iter().enumerate() {
                // The timer is due after one second, so arrivals before it come earlier.
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
                    harness.crash::<Script>("run", Point::BeforeCommit);
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

async fn signals_are_given_to_waiting_calls_in_the_order_of_the_calls(ground: Ground) {
    let code = script(|flow, _| async move {
        let (a, b, c) = join!(
            flow.signal::<Go>().into_future(),
            flow.signal::<Go>().into_future(),
            flow.signal::<Go>().into_future(),
        );
        Ok([a?.0, b?.0, c?.0])
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    for n in [7, 8, 9] {
        go(&harness, id.get(), n).await;
    }
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([7, 8, 9]));
}

async fn a_dropped_branch_stays_dropped_on_replay(ground: Ground) {
    let code = script(|flow, _| async move {
        let seen = {
            let child = async { flow.run(Kid::with(Say::Wait)).await }.fuse();
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
    let id = begin_and_run(&mut harness, ()).await;
    go(&harness, id.get(), 5).await;
    harness.run().await;
    go(&harness, children(&harness, id).await[0].id, 6).await;
    harness.run_all().await;
    assert_eq!(output(&get(&harness, id).await), json!(5));
}

async fn a_signal_for_a_dropped_branch_stays_in_the_inbox(ground: Ground) {
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
    let id = begin_and_run(&mut harness, ()).await;
    harness.client().signal(id, Halt(0)).await.unwrap();
    harness.run().await;
    // The workflow waits only for the timer.
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
                flow.run(Kid::with(Say::Wait)).into_future(),
                flow.run(fails::with("broken".into())).into_future(),
            )
        };
        let error = both.await.unwrap_err();
        flow.sleep(SECOND).await?;
        Ok(error.to_string())
    });
    let seen = result_of(&ground, code, ()).await;
    assert_eq!(seen, "fails failed: broken");
}

async fn branches_that_start_children_concurrently_lose_none(ground: Ground) {
    let code = script(|flow, _| async move {
        let pair = |n| {
            let flow = &flow;
            async move {
                flow.all((flow.run(double::with(n)), flow.run(Kid::with(Say::Give(n)))))
                    .await
            }
        };
        let (a, b, c) = join!(pair(1), pair(2), flow.spawn(Kid::with(Say::Give(3))));
        Ok((a?, b?, c?.join().await?))
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let expected = json!([[2, 1], [4, 2], 3]);
    assert_eq!(output(&get(&harness, id).await), expected);
    assert_eq!(children(&harness, id).await.len(), 5);
    let history = history(&harness, id, 1).await;
    assert_eq!(count(&history, EventKind::GroupResolved), 2);
}

/// This holds for each child, although all branches begin to wait at the same moment.
async fn the_end_of_a_child_wakes_the_branch_that_started_it(ground: Ground) {
    for first in 0..3 {
        let code = script(|flow, _| async move {
            let branch = |name: &'static str| {
                let flow = &flow;
                async move {
                    let pair = (flow.run(Kid::with(Say::Wait)), flow.run(double::with(1)));
                    let (n, _) = flow.all(pair).await?;
                    number(flow, name, n).await
                }
            };
            try_join!(branch("0"), branch("1"), branch("2"))
        });
        let mut harness = ground.runs(code).await;
        let id = begin_and_run(&mut harness, ()).await;
        let kids: Vec<_> = children(&harness, id)
            .await
            .into_iter()
            .filter(|child| child.status == Status::AwaitingSignal)
            .collect();
        assert_eq!(kids.len(), 3);
        go(&harness, kids[first].id, 7).await;
        harness.run().await;
        let events = history_words(&harness, id).await;
        let steps: Vec<&String> = events.iter().filter(|it| it.starts_with("step_")).collect();
        assert_eq!(steps.len(), 1, "{events:?}");
        let is_its_own =
            steps[0].starts_with("step_completed") && steps[0].ends_with(&format!(" {first}"));
        assert!(is_its_own, "{first}: {events:?}");
        for kid in kids.iter().filter(|kid| kid.id != kids[first].id) {
            go(&harness, kid.id, 8).await;
        }
        harness.run().await;
        let mut expected = [8; 3];
        expected[first] = 7;
        assert_eq!(output(&get(&harness, id).await), json!(expected));
    }
}

async fn a_thousand_children_beside_a_single_child_wake_their_parent_once(ground: Ground) {
    let code = script(|flow, _| async move {
        let jobs = (0..1_000).map(|n| flow.run(double::with(n)));
        let jobs = flow.all(jobs.collect::<Vec<_>>());
        let lone = flow.run(Kid::with(Say::Wait));
        let (jobs, lone) = try_join!(jobs.into_future(), lone.into_future())?;
        Ok((jobs.iter().sum::<u64>(), lone))
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    let report = harness.run().await;
    assert_eq!(report.done, 1_000);
    assert!(
        report.flows <= 4,
        "two starts, a park after the group, and the park of the single child: {report:?}"
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

async fn concurrent_groups_wake_their_parent_once_each(ground: Ground) {
    let code = script(|flow, _| async move {
        let group = |n: u64| {
            let flow = &flow;
            async move {
                let jobs = (0..n).map(|n| flow.run(double::with(n)));
                flow.all(jobs.collect::<Vec<_>>()).await
            }
        };
        let (a, b, c) = try_join!(group(300), group(200), group(100))?;
        Ok((a.len(), b.len(), c.len()))
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    let report = harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([300, 200, 100]));
    assert!(
        report.flows <= 6,
        "three starts, and one park for each group: {report:?}"
    );
}
