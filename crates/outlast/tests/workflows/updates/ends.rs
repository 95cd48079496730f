//! Updates and the end of a run.

use super::*;
use outlast::store::CancelAnswer;

on_both_stores!(
    a_run_ends_after_its_handlers,
    a_failed_run_ends_after_its_handlers,
    an_update_after_the_end_of_the_code_is_not_accepted,
    an_update_without_a_handler_ends_with_its_instance,
    an_update_to_an_ended_instance_answers_that_it_has_ended,
    an_update_to_no_instance_is_not_found,
    an_update_that_ended_stays_ended_when_an_operator_retries_the_instance,
    a_terminated_instance_answers_no_update,
    continue_as_new_carries_pending_updates_on,
    continue_as_new_waits_for_running_handlers,
    a_reply_stays_through_new_runs_and_the_end,
    a_cancel_while_handlers_run_after_the_code_reaches_them,
);

/// A workflow whose code ends with [`Go`], and whose handler ends with [`Halt`].
fn handles_until_halt(end: fn(&Flow) -> FlowResult<&'static str>) -> Script {
    script(move |flow, _| async move {
        flow.on_update(|flow: Flow, Add(n)| async move {
            let more = number(&flow, "more", 1).await?;
            flow.signal::<Halt>().await?;
            Ok(n + more)
        })?;
        flow.signal::<Go>().await?;
        end(&flow)
    })
}

async fn a_run_ends_after_its_handlers(ground: Ground) {
    let mut harness = ground.runs(handles_until_halt(|_| Ok("done"))).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-1", Add(1)).await;
    harness.run().await;
    go(&harness, id.get(), 1).await;
    harness.run().await;
    let waiting = get(&harness, id).await;
    assert_eq!(waiting.status, Status::AwaitingSignal);
    assert_eq!(
        waiting.awaits,
        Some(vec!["halt".to_owned()]),
        "it accepts no further update"
    );
    harness.client().signal(id, Halt(1)).await.unwrap();
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), "done");
    assert_eq!(reply(&harness, id, "u-1").await.unwrap(), 2);
}

async fn a_failed_run_ends_after_its_handlers(ground: Ground) {
    let mut harness = ground
        .runs(handles_until_halt(|flow| flow.fail("no luck")))
        .await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-1", Add(1)).await;
    go(&harness, id.get(), 1).await;
    harness.run().await;
    assert_eq!(state(&harness, id, "u-1").await, UpdateState::Pending);
    harness.client().signal(id, Halt(1)).await.unwrap();
    harness.run().await;
    assert_eq!(reason(&get(&harness, id).await), "no luck");
    assert_eq!(reply(&harness, id, "u-1").await.unwrap(), 2);
}

async fn an_update_after_the_end_of_the_code_is_not_accepted(ground: Ground) {
    let mut harness = ground.runs(handles_until_halt(|_| Ok("done"))).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-1", Add(1)).await;
    go(&harness, id.get(), 1).await;
    harness.run().await;
    send(&harness, id, "u-2", Add(1)).await;
    harness.run().await;
    assert_eq!(state(&harness, id, "u-2").await, UpdateState::Pending);
    harness.client().signal(id, Halt(1)).await.unwrap();
    harness.run().await;
    assert_eq!(reply(&harness, id, "u-1").await.unwrap(), 2);
    assert_eq!(state(&harness, id, "u-2").await, UpdateState::Ended);
    let ended = reply(&harness, id, "u-2").await.unwrap_err();
    assert!(matches!(ended, RequestError::Ended { .. }), "{ended}");
}

async fn an_update_without_a_handler_ends_with_its_instance(ground: Ground) {
    let code = script(|flow, _| async move { flow.signal::<Go>().await.map(|_| ()) });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-1", Add(1)).await;
    harness.run().await;
    assert_eq!(state(&harness, id, "u-1").await, UpdateState::Pending);
    go(&harness, id.get(), 1).await;
    harness.run().await;
    assert_eq!(state(&harness, id, "u-1").await, UpdateState::Ended);
}

async fn an_update_to_an_ended_instance_answers_that_it_has_ended(ground: Ground) {
    let code = script(|_, _| async move { Ok(()) });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let ended = harness.client().update(id, Add(1)).await.unwrap_err();
    let instance = id.get();
    assert!(
        matches!(ended, RequestError::Ended { instance: it, .. } if it == instance),
        "{ended}"
    );
}

async fn an_update_to_no_instance_is_not_found(ground: Ground) {
    let unknown = outlast::InstanceId(77);
    let lost = ground.client.update(unknown, Add(1)).await.unwrap_err();
    assert!(matches!(lost, RequestError::Lookup(_)), "{lost}");
    let lost = ground
        .client
        .update(Script::key("nobody"), Add(1))
        .await
        .unwrap_err();
    assert!(matches!(lost, RequestError::Lookup(_)), "{lost}");
}

async fn an_update_that_ended_stays_ended_when_an_operator_retries_the_instance(ground: Ground) {
    let mut harness = ground
        .runs(handles_until_halt(|flow| flow.fail("no luck")))
        .await;
    let id = begin_and_run(&mut harness, ()).await;
    go(&harness, id.get(), 1).await;
    send(&harness, id, "u-1", Add(1)).await;
    send(&harness, id, "u-2", Add(1)).await;
    harness.run().await;
    // Both are accepted, and their handlers wait.
    harness.client().admin().terminate(id, ada()).await.unwrap();
    assert_eq!(state(&harness, id, "u-1").await, UpdateState::Ended);
    harness.client().admin().retry(id, ada()).await.unwrap();
    harness.run().await;
    assert!(!get(&harness, id).await.status.is_terminal());
    assert_eq!(state(&harness, id, "u-1").await, UpdateState::Ended);
    // The handlers of the history run on, but their replies come too late.
    for n in [1, 2] {
        harness.client().signal(id, Halt(n)).await.unwrap();
        harness.run().await;
    }
    assert_eq!(reason(&get(&harness, id).await), "no luck");
    // The next retry begins a run, which handles what comes then.
    harness.client().admin().retry(id, ada()).await.unwrap();
    harness.run().await;
    assert_eq!(get(&harness, id).await.run, 2);
    send(&harness, id, "u-3", Add(5)).await;
    harness.run().await;
    harness.client().signal(id, Halt(3)).await.unwrap();
    harness.run().await;
    assert_eq!(reply(&harness, id, "u-3").await.unwrap(), 6);
    for update in ["u-1", "u-2"] {
        assert_eq!(state(&harness, id, update).await, UpdateState::Ended);
    }
}

async fn a_terminated_instance_answers_no_update(ground: Ground) {
    let mut harness = ground.runs(handles_until_halt(|_| Ok("done"))).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-1", Add(1)).await;
    harness.client().admin().terminate(id, ada()).await.unwrap();
    harness.run().await;
    assert_eq!(state(&harness, id, "u-1").await, UpdateState::Ended);
}

async fn continue_as_new_carries_pending_updates_on(ground: Ground) {
    let code = script(|flow, run: Value| async move {
        let run = run.as_u64().unwrap();
        flow.signal::<Go>().await?;
        if run == 0 {
            return flow.continue_as_new(json!(1));
        }
        let update = flow.update::<Add>().await?;
        let sum = update.0 + run;
        update.reply(sum)?;
        Ok(sum)
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, 0).await;
    send(&harness, id, "u-1", Add(4)).await;
    for n in [1, 2] {
        go(&harness, id.get(), n).await;
        harness.run().await;
    }
    assert_eq!(get(&harness, id).await.run, 2);
    assert_eq!(reply(&harness, id, "u-1").await.unwrap(), 5);
}

async fn continue_as_new_waits_for_running_handlers(ground: Ground) {
    let code = script(|flow, run: Value| async move {
        let run = run.as_u64().unwrap();
        flow.on_update(move |flow: Flow, Add(n)| async move {
            flow.signal::<Halt>().await?;
            Ok(100 * run + n)
        })?;
        flow.signal::<Go>().await?;
        match run {
            0 => flow.continue_as_new(json!(1)),
            _ => Ok(()),
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, 0).await;
    send(&harness, id, "u-1", Add(1)).await;
    harness.run().await;
    go(&harness, id.get(), 1).await;
    harness.run().await;
    // It came after the end of the code, so the next run handles it.
    send(&harness, id, "u-2", Add(2)).await;
    harness.run().await;
    assert_eq!(get(&harness, id).await.run, 1);
    for n in [1, 2] {
        harness.client().signal(id, Halt(n)).await.unwrap();
        harness.run().await;
    }
    assert_eq!(get(&harness, id).await.run, 2);
    assert_eq!(reply(&harness, id, "u-1").await.unwrap(), 1);
    assert_eq!(reply(&harness, id, "u-2").await.unwrap(), 102);
}

async fn a_reply_stays_through_new_runs_and_the_end(ground: Ground) {
    let code = script(|flow, run: Value| async move {
        let update = flow.update::<Add>().await?;
        update.reply(1)?;
        match run.as_u64() {
            Some(0) => flow.continue_as_new(json!(1)),
            _ => Ok(()),
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, 0).await;
    for update in ["u-1", "u-2"] {
        send(&harness, id, update, Add(1)).await;
        harness.run().await;
        assert_eq!(reply(&harness, id, "u-1").await.unwrap(), 1);
    }
    assert_eq!(get(&harness, id).await.status, Status::Done);
    assert_eq!(reply(&harness, id, "u-2").await.unwrap(), 1);
}

async fn a_cancel_while_handlers_run_after_the_code_reaches_them(ground: Ground) {
    let mut harness = ground.runs(handles_until_halt(|_| Ok("done"))).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-1", Add(1)).await;
    go(&harness, id.get(), 1).await;
    harness.run().await;
    let cancelled = harness.client().admin().cancel(id, ada()).await.unwrap();
    assert!(
        matches!(cancelled, CancelAnswer::Requested(_)),
        "{cancelled:?}"
    );
    harness.run().await;
    // The code had ended before, so its result stands.
    assert_eq!(output(&get(&harness, id).await), "done");
    let failed = reply(&harness, id, "u-1").await.unwrap_err().to_string();
    assert!(failed.contains("cancelled by ada"), "{failed}");
}
