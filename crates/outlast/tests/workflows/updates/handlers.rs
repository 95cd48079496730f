//! Handlers: code that runs beside the main code when an update arrives.

use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

on_both_stores!(
    a_handler_replies_while_the_code_waits_for_something_else,
    a_handler_makes_calls_of_its_own,
    a_handler_signals_the_child_that_the_code_waits_for,
    a_handler_shares_its_state_with_the_code,
    handlers_start_in_the_order_of_arrival,
    several_handlers_run_beside_each_other,
    an_update_wakes_a_workflow_whatever_it_waits_for,
    an_update_that_came_before_the_first_claim_is_handled,
    the_same_id_gets_the_same_reply_and_runs_the_handler_once,
    an_error_of_a_handler_is_the_reply_and_the_workflow_goes_on,
    a_panic_of_a_handler_is_the_reply_and_the_workflow_goes_on,
    a_handler_that_continues_as_new_fails,
    a_plain_signal_runs_a_handler_without_a_reply,
    a_condition_ends_when_a_handler_makes_it_true,
    a_condition_ends_when_its_time_is_up,
    a_condition_that_nothing_can_make_true_blocks_the_workflow,
    a_cancel_interrupts_a_handler_and_its_reply_says_so,
    code_without_the_handler_of_its_history_blocks,
    a_later_handler_replaces_an_earlier_one,
    a_query_sees_what_updates_have_changed_and_replies_to_none,
);

/// Adds to a total, and replies with the sum.
fn adding(flow: &Flow, total: &Arc<AtomicU64>) -> FlowResult<()> {
    let total = total.clone();
    flow.on_update(move |_flow, Add(n)| {
        let sum = total.fetch_add(n, Ordering::Relaxed) + n;
        async move { Ok(sum) }
    })?;
    Ok(())
}

/// A workflow that adds what it is asked to, until [`Go`] comes.
fn sums() -> Script {
    script(|flow, _| async move {
        let total = Arc::new(AtomicU64::new(100));
        adding(&flow, &total)?;
        flow.signal::<Go>().await?;
        Ok(total.load(Ordering::Relaxed))
    })
}

async fn a_handler_replies_while_the_code_waits_for_something_else(ground: Ground) {
    let code = script(|flow, _| async move {
        adding(&flow, &Arc::default())?;
        flow.sleep(DAY).await?;
        Ok("slept")
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-1", Add(3)).await;
    harness.run().await;
    assert_eq!(reply(&harness, id, "u-1").await.unwrap(), 3);
    assert!(!get(&harness, id).await.status.is_terminal());
    let words = history_words(&harness, id).await;
    let expected = [
        "run_started",
        "timer_scheduled 1",
        "update_accepted add",
        "update_completed add",
    ];
    assert_eq!(words, expected);
    harness.advance(DAY).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), "slept");
}

async fn a_handler_makes_calls_of_its_own(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.on_update(|flow: Flow, Add(n)| async move {
            let doubled = flow.run(double::with(n)).await?;
            let more = number(&flow, "more", 1).await?;
            flow.sleep(SECOND).await?;
            Ok(doubled + more)
        })?;
        flow.signal::<Go>().await?;
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-1", Add(20)).await;
    harness.run().await;
    assert_eq!(state(&harness, id, "u-1").await, UpdateState::Pending);
    harness.advance(SECOND).await;
    harness.run().await;
    assert_eq!(reply(&harness, id, "u-1").await.unwrap(), 41);
    assert!(!get(&harness, id).await.status.is_terminal());
    go(&harness, id.get(), 1).await;
    harness.run().await;
    assert_eq!(get(&harness, id).await.status, Status::Done);
}

async fn a_handler_signals_the_child_that_the_code_waits_for(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.on_update(|flow: Flow, approve: ApproveChild| async move {
            let Some(child) = flow.last_child() else {
                return flow.fail("there is no child yet");
            };
            child.signal(Go(7)).await?;
            Ok(format!("approved by {}", approve.by))
        })?;
        flow.run(Kid::with(Say::Wait)).await
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let sent = harness
        .client()
        .update(id, ApproveChild { by: "Ada".into() })
        .id("u");
    let unanswered = sent.timeout(Duration::ZERO).await;
    assert!(matches!(unanswered, Err(RequestError::TimedOut { .. })));
    harness.run().await;
    let again = harness
        .client()
        .update(id, ApproveChild { by: "Bob".into() })
        .id("u");
    assert_eq!(again.await.unwrap(), "approved by Ada");
    assert_eq!(output(&get(&harness, id).await), 7);
}

async fn a_handler_shares_its_state_with_the_code(ground: Ground) {
    let mut harness = ground.runs(sums()).await;
    let id = begin_and_run(&mut harness, ()).await;
    for (n, sum) in [(1, 101), (2, 103), (3, 106)] {
        let update = format!("u-{n}");
        send(&harness, id, &update, Add(n)).await;
        harness.run().await;
        assert_eq!(reply(&harness, id, &update).await.unwrap(), sum);
    }
    go(&harness, id.get(), 1).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), 106);
}

async fn handlers_start_in_the_order_of_arrival(ground: Ground) {
    let mut harness = ground.runs(sums()).await;
    let id = begin_and_run(&mut harness, ()).await;
    for n in 1..=5 {
        send(&harness, id, &format!("u-{n}"), Add(n)).await;
    }
    harness.run().await;
    let mut sums = Vec::new();
    for n in 1..=5 {
        sums.push(reply(&harness, id, &format!("u-{n}")).await.unwrap());
    }
    assert_eq!(sums, [101, 103, 106, 110, 115]);
}

async fn several_handlers_run_beside_each_other(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.on_update(|flow: Flow, Add(n)| async move {
            // The first update waits longest.
            flow.sleep(SECOND * (10 - n as u32)).await?;
            Ok(n)
        })?;
        flow.signal::<Go>().await?;
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    for n in 1..=3 {
        send(&harness, id, &format!("u-{n}"), Add(n)).await;
    }
    harness.run().await;
    for n in [3, 2, 1] {
        let update = format!("u-{n}");
        assert_eq!(state(&harness, id, &update).await, UpdateState::Pending);
        harness
            .set_time(harness.time() + SECOND * if n == 3 { 7 } else { 1 })
            .await;
        harness.run().await;
        assert_eq!(reply(&harness, id, &update).await.unwrap(), n);
    }
}

async fn an_update_wakes_a_workflow_whatever_it_waits_for(ground: Ground) {
    let code = script(|flow, how: Value| async move {
        adding(&flow, &Arc::default())?;
        match how.as_str().unwrap() {
            "child" => drop(flow.run(Kid::with(Say::Wait)).await?),
            "group" => {
                let group = (
                    flow.run(Kid::with(Say::Wait)),
                    flow.sleep(DAY),
                    flow.signal::<Go>(),
                );
                flow.all(group).await?;
            }
            "selection" => {
                let choices = (flow.run(Kid::with(Say::Wait)), flow.signal::<Go>());
                flow.select(choices).await?;
            }
            "timer" => flow.sleep(DAY).await?,
            _ => {
                flow.signal::<Halt>().await?;
            }
        }
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    for how in ["child", "group", "selection", "timer", "signal"] {
        let id = begin_and_run(&mut harness, how).await;
        send(&harness, id, "u-1", Add(1)).await;
        harness.run().await;
        assert_eq!(reply(&harness, id, "u-1").await.unwrap(), 1, "{how}");
        assert!(!get(&harness, id).await.status.is_terminal(), "{how}");
    }
}

async fn an_update_that_came_before_the_first_claim_is_handled(ground: Ground) {
    let mut harness = ground.runs(sums()).await;
    let id = begin(&harness, ()).await;
    send(&harness, id, "u-1", Add(1)).await;
    harness.run().await;
    assert_eq!(reply(&harness, id, "u-1").await.unwrap(), 101);
}

async fn the_same_id_gets_the_same_reply_and_runs_the_handler_once(ground: Ground) {
    let mut harness = ground.runs(sums()).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-1", Add(1)).await;
    send(&harness, id, "u-1", Add(50)).await;
    harness.run().await;
    assert_eq!(reply(&harness, id, "u-1").await.unwrap(), 101);
    send(&harness, id, "u-2", Add(0)).await;
    harness.run().await;
    assert_eq!(reply(&harness, id, "u-2").await.unwrap(), 101);
    assert_eq!(reply(&harness, id, "u-1").await.unwrap(), 101);
    let kinds = [EventKind::UpdateAccepted, EventKind::UpdateCompleted];
    assert_eq!(counts(&harness, id, kinds).await, [2, 2]);
}

async fn an_error_of_a_handler_is_the_reply_and_the_workflow_goes_on(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.on_update(|flow: Flow, Add(n)| async move {
            match n {
                0 => flow.fail("nothing to add"),
                _ => flow.run(fails::with("no paper".to_owned())).await,
            }
        })?;
        flow.signal::<Go>().await?;
        Ok("well")
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-0", Add(0)).await;
    send(&harness, id, "u-1", Add(1)).await;
    harness.run().await;
    for (update, part) in [("u-0", "nothing to add"), ("u-1", "no paper")] {
        let failed = reply(&harness, id, update).await.unwrap_err();
        assert!(
            matches!(&failed, RequestError::Failed { error, .. } if error.contains(part)),
            "{failed}"
        );
    }
    go(&harness, id.get(), 1).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), "well");
}

async fn a_panic_of_a_handler_is_the_reply_and_the_workflow_goes_on(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.on_update(|_flow, Add(n)| async move {
            assert!(n > 0, "nothing to add");
            Ok(n)
        })?;
        flow.signal::<Go>().await?;
        Ok("well")
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-1", Add(0)).await;
    harness.run().await;
    let failed = reply(&harness, id, "u-1").await.unwrap_err();
    assert_eq!(failed.to_string(), "add failed: panicked: nothing to add");
    go(&harness, id.get(), 1).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), "well");
}

async fn a_handler_that_continues_as_new_fails(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.on_update(|flow: Flow, Add(_)| async move { flow.continue_as_new(()) })?;
        flow.signal::<Go>().await?;
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-1", Add(0)).await;
    harness.run().await;
    let failed = reply(&harness, id, "u-1").await.unwrap_err().to_string();
    assert!(failed.contains("cannot continue as new"), "{failed}");
    assert_eq!(get(&harness, id).await.run, 1);
}

async fn a_plain_signal_runs_a_handler_without_a_reply(ground: Ground) {
    let mut harness = ground.runs(sums()).await;
    let id = begin_and_run(&mut harness, ()).await;
    harness
        .client()
        .signal(id, Add(5))
        .dedup("s-1")
        .await
        .unwrap();
    harness.run().await;
    let found = harness
        .client()
        .admin()
        .update(id, "s-1", Duration::ZERO)
        .await
        .unwrap();
    assert_eq!(found, None);
    let taken = reply(&harness, id, "s-1").await.unwrap_err();
    assert!(matches!(taken, RequestError::IdTaken { .. }), "{taken}");
    send(&harness, id, "u-1", Add(0)).await;
    harness.run().await;
    assert_eq!(reply(&harness, id, "u-1").await.unwrap(), 105);
}

/// Waits until the total is at least ten, and returns whether that was in time.
fn until_ten() -> Script {
    script(|flow, _| async move {
        let total = Arc::new(AtomicU64::new(0));
        adding(&flow, &total)?;
        let is_ten = || total.load(Ordering::Relaxed) >= 10;
        let came = flow.until(is_ten).timeout(DAY).await?;
        flow.until(is_ten).await?;
        let known = flow.history_length();
        Ok((came, known))
    })
}

async fn a_condition_ends_when_a_handler_makes_it_true(ground: Ground) {
    let mut harness = ground.runs(until_ten()).await;
    let id = begin_and_run(&mut harness, ()).await;
    for n in 1..=3 {
        send(&harness, id, &format!("u-{n}"), Add(2 * n)).await;
        harness.run().await;
        assert_eq!(get(&harness, id).await.status.is_terminal(), n == 3);
    }
    // The code went on in the same turn as the handler: the last event that it knew is the
    // acceptance.
    let (came, known): (bool, usize) =
        serde_json::from_value(output(&get(&harness, id).await)).unwrap();
    assert!(came);
    let words = history_words(&harness, id).await;
    assert_eq!(words[known - 1], "update_accepted add", "{words:?}");
}

async fn a_condition_ends_when_its_time_is_up(ground: Ground) {
    let code = script(|flow, _| async move {
        let total = Arc::new(AtomicU64::new(0));
        adding(&flow, &total)?;
        let is_ten = || total.load(Ordering::Relaxed) >= 10;
        flow.until(is_ten).timeout(DAY).await
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-1", Add(2)).await;
    harness.run().await;
    harness.advance(DAY).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), false);
}

async fn a_condition_that_nothing_can_make_true_blocks_the_workflow(ground: Ground) {
    let code = script(|flow, _| async move { flow.until(|| false).await });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let error = get(&harness, id).await.last_error.unwrap();
    assert!(error.starts_with(outlast::workflow::BLOCKED), "{error}");
}

async fn a_cancel_interrupts_a_handler_and_its_reply_says_so(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.on_update(|flow: Flow, Add(n)| async move {
            flow.sleep(DAY).await?;
            Ok(n)
        })?;
        flow.signal::<Go>().await?;
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-1", Add(0)).await;
    harness.run().await;
    harness.client().admin().cancel(id, ada()).await.unwrap();
    harness.run().await;
    assert_eq!(get(&harness, id).await.status, Status::Cancelled);
    let failed = reply(&harness, id, "u-1").await.unwrap_err().to_string();
    assert!(failed.contains("cancelled by ada"), "{failed}");
}

async fn code_without_the_handler_of_its_history_blocks(ground: Ground) {
    let mut harness = ground.runs(sums()).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-1", Add(1)).await;
    harness.run().await;
    let without = script(|flow, _| async move { flow.signal::<Go>().await.map(|it| it.0) });
    let mut other = ground.runs(without).await;
    go(&harness, id.get(), 1).await;
    other.run().await;
    let error = get(&other, id).await.last_error.unwrap();
    assert!(error.contains("update_accepted \"add\""), "{error}");
    assert!(
        error.contains("no handler of the update \"add\""),
        "{error}"
    );
    // The build that has the handler goes on.
    harness.advance(SECOND * 60).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), 101);
}

async fn a_later_handler_replaces_an_earlier_one(ground: Ground) {
    let code = script(|flow, _| async move {
        for answer in [1, 2] {
            flow.on_update(move |_flow, Add(_)| async move { Ok(answer) })?;
        }
        flow.signal::<Go>().await?;
        flow.on_update(|_flow, Add(_)| async move { Ok(3) })?;
        flow.signal::<Go>().await.map(|_| ())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-1", Add(0)).await;
    harness.run().await;
    go(&harness, id.get(), 1).await;
    harness.advance(SECOND).await;
    send(&harness, id, "u-2", Add(0)).await;
    harness.run().await;
    let before = reply(&harness, id, "u-1").await.unwrap();
    let after = reply(&harness, id, "u-2").await.unwrap();
    assert_eq!((before, after), (2, 3));
}

/// Asks for the total.
#[derive(Signal, Serialize, Deserialize)]
#[signal(reply = u64)]
struct Total;

async fn a_query_sees_what_updates_have_changed_and_replies_to_none(ground: Ground) {
    let code = script(|flow, _| async move {
        let total = Arc::new(AtomicU64::new(0));
        let asked = total.clone();
        flow.on_query(move |_: Total| Ok(asked.load(Ordering::Relaxed)))?;
        flow.on_update(move |flow: Flow, Add(n)| {
            let total = total.clone();
            async move {
                total.fetch_add(n, Ordering::Relaxed);
                flow.signal::<Halt>().await?;
                Ok(total.fetch_add(100, Ordering::Relaxed) + 100)
            }
        })?;
        flow.signal::<Go>().await.map(|_| ())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-1", Add(3)).await;
    harness.run().await;
    // One more is in the inbox, and not accepted: the query does not see it.
    send(&harness, id, "u-2", Add(50)).await;
    let handle = harness.handle(id).await.unwrap();
    assert_eq!(handle.query(Total).await.unwrap(), 3);
    assert_eq!(state(&harness, id, "u-1").await, UpdateState::Pending);
    assert_eq!(state(&harness, id, "u-2").await, UpdateState::Pending);
    harness.client().signal(id, Halt(1)).await.unwrap();
    harness.run().await;
    assert_eq!(handle.query(Total).await.unwrap(), 153);
    assert_eq!(reply(&harness, id, "u-1").await.unwrap(), 153);
}
