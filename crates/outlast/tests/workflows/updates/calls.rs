//! Updates that the code takes as calls.

use super::*;
use outlast::machine::Update as Taken;
use outlast::workflow::OneOf2;

on_both_stores!(
    the_code_takes_an_update_and_replies,
    the_code_rejects_an_update,
    an_update_that_the_code_drops_has_failed,
    a_reply_can_be_given_after_further_calls,
    updates_are_taken_in_the_order_of_arrival,
    an_update_wins_or_loses_a_selection_and_a_deadline,
    an_update_is_a_member_of_a_group,
    the_id_of_an_update_is_known_to_the_code,
);

async fn the_code_takes_an_update_and_replies(ground: Ground) {
    let code = script(|flow, _| async move {
        let update = flow.update::<Add>().await?;
        let sum = update.0 + 1;
        let Add(n) = update.reply(sum)?;
        flow.signal::<Go>().await?;
        Ok(n)
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-1", Add(4)).await;
    harness.run().await;
    assert_eq!(reply(&harness, id, "u-1").await.unwrap(), 5);
    let words = history_words(&harness, id).await;
    let expected = [
        "run_started",
        "signal_awaited 1 add",
        "signal_consumed 1 add",
        "update_completed add",
        "signal_awaited 2 go",
    ];
    assert_eq!(words, expected);
    go(&harness, id.get(), 1).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), 4);
    let kinds = [EventKind::UpdateCompleted];
    assert_eq!(counts(&harness, id, kinds).await, [1]);
}

async fn the_code_rejects_an_update(ground: Ground) {
    let code = script(|flow, _| async move {
        let Add(n) = flow.update::<Add>().await?.reject("not on a Sunday");
        Ok(n)
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-1", Add(4)).await;
    harness.run().await;
    let rejected = reply(&harness, id, "u-1").await.unwrap_err();
    assert!(
        matches!(&rejected, RequestError::Rejected { reason, .. } if reason == "not on a Sunday")
    );
    assert_eq!(output(&get(&harness, id).await), 4);
}

async fn an_update_that_the_code_drops_has_failed(ground: Ground) {
    let code = script(|flow, _| async move {
        drop(flow.update::<Add>().await?);
        flow.signal::<Go>().await.map(|_| ())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-1", Add(4)).await;
    harness.run().await;
    let failed = reply(&harness, id, "u-1").await.unwrap_err();
    assert_eq!(failed.to_string(), "add failed: the code did not reply");
}

async fn a_reply_can_be_given_after_further_calls(ground: Ground) {
    let code = script(|flow, _| async move {
        let update = flow.update::<Add>().await?;
        let doubled = flow.run(double::with(update.0)).await?;
        flow.sleep(DAY).await?;
        update.reply(doubled)?;
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-1", Add(4)).await;
    harness.run().await;
    // The session that took it is gone, and its drop of the update is no reply.
    assert_eq!(state(&harness, id, "u-1").await, UpdateState::Pending);
    harness.advance(DAY).await;
    harness.run().await;
    assert_eq!(reply(&harness, id, "u-1").await.unwrap(), 8);
}

async fn updates_are_taken_in_the_order_of_arrival(ground: Ground) {
    let code = script(|flow, _| async move {
        let mut taken = Vec::new();
        for nth in 0..3 {
            let update = flow.update::<Add>().await?;
            taken.push(update.reply(nth)?.0);
        }
        Ok(taken)
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    for n in [5, 4, 6] {
        send(&harness, id, &format!("u-{n}"), Add(n)).await;
    }
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([5, 4, 6]));
    assert_eq!(reply(&harness, id, "u-4").await.unwrap(), 1);
}

async fn an_update_wins_or_loses_a_selection_and_a_deadline(ground: Ground) {
    let code = script(|flow, _| async move {
        let first = flow.select((flow.update::<Add>(), flow.sleep(DAY))).await?;
        let OneOf2::First(update) = first else {
            return flow.fail("the timer was first");
        };
        update.reply(1)?;
        let none: Option<Taken<Add>> = flow.update::<Add>().timeout(DAY).await?;
        let some = flow.update::<Add>().timeout(DAY).await?;
        let some = some.map(|it| it.reply(2)).transpose()?;
        Ok((none.is_none(), some.map(|it| it.0)))
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-1", Add(7)).await;
    harness.run().await;
    assert_eq!(reply(&harness, id, "u-1").await.unwrap(), 1);
    harness.advance(DAY).await;
    harness.run().await;
    send(&harness, id, "u-2", Add(8)).await;
    harness.run().await;
    assert_eq!(reply(&harness, id, "u-2").await.unwrap(), 2);
    assert_eq!(output(&get(&harness, id).await), json!([true, 8]));
}

async fn an_update_is_a_member_of_a_group(ground: Ground) {
    let code = script(|flow, _| async move {
        let group = (
            flow.update::<Add>(),
            flow.signal::<Go>(),
            vec![flow.update::<ApproveChild>()],
        );
        let (add, go, approvals) = flow.all(group).await?;
        let sum = add.0 + go.0;
        add.reply(sum)?;
        let mut by = Vec::new();
        for approval in approvals {
            by.push(approval.reply("thanks".into())?.by);
        }
        Ok((sum, by))
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-1", Add(1)).await;
    go(&harness, id.get(), 2).await;
    harness.run().await;
    assert_eq!(state(&harness, id, "u-1").await, UpdateState::Pending);
    send(&harness, id, "u-2", ApproveChild { by: "Ada".into() }).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([3, ["Ada"]]));
    assert_eq!(reply(&harness, id, "u-1").await.unwrap(), 3);
}

async fn the_id_of_an_update_is_known_to_the_code(ground: Ground) {
    let code = script(|flow, _| async move {
        let update = flow.update::<Add>().await?;
        let id = update.id().map(str::to_owned);
        update.reply(0)?;
        let signal = flow.update::<Add>().await?;
        let none = signal.id().map(str::to_owned);
        signal.reply(0)?;
        Ok((id, none))
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-1", Add(1)).await;
    harness
        .client()
        .signal(id, Add(2))
        .dedup("s-1")
        .await
        .unwrap();
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!(["u-1", null]));
}
