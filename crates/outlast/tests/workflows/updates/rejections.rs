//! Updates that are rejected before anything is recorded.

use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

on_both_stores!(
    a_validator_rejects_before_anything_is_recorded,
    a_validator_does_not_run_again_on_replay,
    a_payload_that_does_not_fit_is_rejected_by_a_handler,
    a_payload_that_does_not_fit_is_rejected_by_a_call_that_waits_on,
    a_rejection_is_written_before_the_next_step_runs,
    a_validator_that_panics_rejects,
    an_update_that_the_code_takes_as_a_signal_fails,
);

/// Rejects numbers above ten.
fn picky(checked: Arc<AtomicUsize>) -> Script {
    script(move |flow, _| {
        let checked = checked.clone();
        async move {
            flow.on_update(|_flow, Add(n)| async move { Ok(n) })?
                .validate(move |Add(n)| {
                    checked.fetch_add(1, Ordering::Relaxed);
                    match n {
                        0..=10 => Ok(()),
                        11 => panic!("eleven"),
                        _ => Err(format!("{n} is too much")),
                    }
                });
            flow.signal::<Go>().await?;
            flow.signal::<Go>().await.map(|_| ())
        }
    })
}

async fn a_validator_rejects_before_anything_is_recorded(ground: Ground) {
    let mut harness = ground.runs(picky(Arc::default())).await;
    let id = begin_and_run(&mut harness, ()).await;
    let before = history_words(&harness, id).await;
    send(&harness, id, "u-1", Add(12)).await;
    harness.run().await;
    let rejected = reply(&harness, id, "u-1").await.unwrap_err();
    assert_eq!(rejected.to_string(), "add was rejected: 12 is too much");
    assert_eq!(history_words(&harness, id).await, before);
    assert!(
        harness
            .client()
            .admin()
            .signals(id.get(), None)
            .await
            .unwrap()
            .iter()
            .all(|it| it.consumed_at.is_some())
    );
    send(&harness, id, "u-2", Add(10)).await;
    harness.run().await;
    assert_eq!(reply(&harness, id, "u-2").await.unwrap(), 10);
}

async fn a_validator_does_not_run_again_on_replay(ground: Ground) {
    let checked = Arc::<AtomicUsize>::default();
    let mut harness = ground.runs(picky(checked.clone())).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-1", Add(1)).await;
    harness.run().await;
    assert_eq!(checked.load(Ordering::Relaxed), 1);
    go(&harness, id.get(), 1).await;
    let mut other = ground.runs(picky(checked.clone())).await;
    other.run().await;
    assert_eq!(checked.load(Ordering::Relaxed), 1);
    assert_eq!(reply(&other, id, "u-1").await.unwrap(), 1);
}

async fn a_payload_that_does_not_fit_is_rejected_by_a_handler(ground: Ground) {
    let mut harness = ground.runs(picky(Arc::default())).await;
    let id = begin_and_run(&mut harness, ()).await;
    send_raw(&harness, id, "add", "u-1", json!("one")).await;
    harness.run().await;
    let rejected = reply(&harness, id, "u-1").await.unwrap_err().to_string();
    assert!(
        rejected.starts_with("add was rejected: its payload does not fit"),
        "{rejected}"
    );
    assert_eq!(get(&harness, id).await.last_error, None);
}

async fn a_payload_that_does_not_fit_is_rejected_by_a_call_that_waits_on(ground: Ground) {
    let code = script(|flow, _| async move {
        let update = flow.update::<Add>().await?;
        Ok(update.reply(5)?.0)
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    send_raw(&harness, id, "add", "u-1", json!("one")).await;
    harness.run().await;
    let rejected = reply(&harness, id, "u-1").await.unwrap_err().to_string();
    assert!(rejected.contains("its payload does not fit"), "{rejected}");
    assert_eq!(get(&harness, id).await.status, Status::AwaitingSignal);
    // Both are in the inbox at the same claim.
    send_raw(&harness, id, "add", "u-2", json!("two")).await;
    send(&harness, id, "u-3", Add(3)).await;
    harness.run().await;
    assert!(reply(&harness, id, "u-2").await.is_err());
    assert_eq!(reply(&harness, id, "u-3").await.unwrap(), 5);
    assert_eq!(output(&get(&harness, id).await), 3);
}

async fn a_rejection_is_written_before_the_next_step_runs(ground: Ground) {
    let client = ground.client.clone();
    let code = script(move |flow, _| {
        let client = client.clone();
        async move {
            flow.on_update(|_flow, Add(n)| async move { Ok(n) })?
                .validate(|Add(n)| match n {
                    0 => Err("nothing"),
                    _ => Ok(()),
                });
            flow.signal::<Go>().await?;
            let id = flow.id();
            let seen = flow.step("look", async move || {
                let rejected = client.admin().update(id, "u-0", Duration::ZERO).await?;
                let done = client.admin().update(id, "u-1", Duration::ZERO).await?;
                let is_answered =
                    |it: Option<SentUpdate>| it.unwrap().state != UpdateState::Pending;
                Ok::<_, outlast::workflow::StepFailure>(is_answered(rejected) && is_answered(done))
            });
            seen.await
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-0", Add(0)).await;
    send(&harness, id, "u-1", Add(1)).await;
    go(&harness, id.get(), 1).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), true);
}

async fn a_validator_that_panics_rejects(ground: Ground) {
    let mut harness = ground.runs(picky(Arc::default())).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-1", Add(11)).await;
    harness.run().await;
    let rejected = reply(&harness, id, "u-1").await.unwrap_err().to_string();
    assert_eq!(rejected, "add was rejected: its validator panicked: eleven");
}

async fn an_update_that_the_code_takes_as_a_signal_fails(ground: Ground) {
    let code = script(|flow, _| async move { flow.signal::<Add>().await.map(|it| it.0) });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-1", Add(4)).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), 4);
    let failed = reply(&harness, id, "u-1").await.unwrap_err().to_string();
    assert!(failed.contains("took it as a signal"), "{failed}");
}
