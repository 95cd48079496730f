//! Workflows on engines, with the clock of the store.

use crate::support::*;
use outlast::Inspect;
use outlast::Store;
use outlast::prelude::*;
use std::sync::Arc;
use tokio::sync::Notify;

on_both_stores_in_real_time!(
    a_workflow_runs_on_an_engine,
    a_timer_is_never_early_by_the_clock_of_the_store,
    a_timeout_interrupts_a_step_on_an_engine,
    a_cancel_reaches_a_workflow_whose_step_runs,
    a_terminate_drops_a_step_that_runs,
    a_workflow_goes_on_with_another_engine_after_a_shutdown,
    a_blocked_workflow_goes_on_with_an_engine_that_fits_its_history,
);

/// Longer than any wait of these tests takes. A wait of this length has failed.
const LONG: Duration = Duration::from_secs(20);

async fn engine(store: impl Store + Inspect, code: Script) -> Engine {
    let engine = Engine::builder(store).workflow(code).workflow(Kid);
    let engine = engine.machine(Double).machine(Fails).machine(Turnstile);
    engine.queue("default", 10).start().await.unwrap()
}

async fn a_workflow_runs_on_an_engine<S: Store + Inspect + Clone>(store: S) {
    let code = script(|flow, _| async move {
        let one = number(&flow, "one", 1).await?;
        let kids = (0..20).map(|n| flow.child::<Kid>(Say::Sleep(n, n)));
        let kids = flow.all(kids.collect::<Vec<_>>()).window(5).await?;
        let machine = flow
            .machine(New::<Turnstile>(Turn::Wait(1)))
            .start()
            .await?;
        machine.child().signal(Go(2)).await?;
        let raced = flow
            .child::<Kid>(Say::Wait)
            .timeout(Duration::from_millis(5));
        let raced = raced.cancel_rest().await?;
        let Go(go) = flow.signal::<Go>().await?;
        Ok((
            one,
            kids.iter().sum::<u64>(),
            machine.join().await?,
            raced,
            go,
        ))
    });
    let engine = engine(store, code).await;
    let id = begin(&engine, ()).await;
    go(&engine, id.get(), 7).await;
    let seen = engine.wait(id, LONG).await.unwrap();
    assert_eq!(seen, json!([1, 190, 3, null, 7]));
    engine.shutdown().await;
}

async fn a_timer_is_never_early_by_the_clock_of_the_store<S: Store + Inspect + Clone>(store: S) {
    let clock = Client::new(store.clone());
    let code = script(move |flow, _| {
        let clock = clock.clone();
        async move {
            let mut early = 0;
            for ms in [1, 7, 20, 33] {
                let clock = clock.clone();
                number(&flow, "before", 1).await?;
                let begun = flow.timestamp();
                flow.sleep(Duration::from_millis(ms)).await?;
                let woken = flow.step("woken", async move || clock.now().await).await?;
                let slept = woken.since(begun);
                early += u32::from(slept < Duration::from_millis(ms));
                early += u32::from(flow.timestamp() < begun + Duration::from_millis(ms));
            }
            Ok(early)
        }
    });
    let engine = engine(store, code).await;
    let id = begin(&engine, ()).await;
    assert_eq!(engine.wait(id, LONG).await.unwrap(), json!(0));
    engine.shutdown().await;
}

async fn a_timeout_interrupts_a_step_on_an_engine<S: Store + Inspect + Clone>(store: S) {
    let code = script(|flow, _| async move {
        let hangs = flow.step("hangs", std::future::pending::<Result<u64, String>>);
        hangs.timeout(Duration::from_millis(20)).await
    });
    let engine = engine(store, code).await;
    let id = begin(&engine, ()).await;
    assert_eq!(engine.wait(id, LONG).await.unwrap(), json!(null));
    engine.shutdown().await;
}

/// A workflow whose step notifies `begun` and then waits for `release`.
fn held(begun: &Arc<Notify>, release: &Arc<Notify>) -> Script {
    let (begun, release) = (begun.clone(), release.clone());
    script(move |flow, _| {
        let (begun, release) = (begun.clone(), release.clone());
        async move {
            let held = flow.step("held", async move || {
                begun.notify_one();
                release.notified().await;
                Ok::<_, String>(1)
            });
            let held = held.await?;
            let next = number(&flow, "next", 2).await;
            Ok((held, next.is_err_and(|error| error.is_cancelled())))
        }
    })
}

async fn a_cancel_reaches_a_workflow_whose_step_runs<S: Store + Inspect + Clone>(store: S) {
    let (begun, release) = (Arc::default(), Arc::default());
    let engine = engine(store, held(&begun, &release)).await;
    let id = begin(&engine, ()).await;
    begun.notified().await;
    engine.cancel(id, Note::by("ada")).await.unwrap();
    release.notify_one();
    assert_eq!(engine.wait(id, LONG).await.unwrap(), json!([1, true]));
    engine.shutdown().await;
}

async fn a_terminate_drops_a_step_that_runs<S: Store + Inspect + Clone>(store: S) {
    let (begun, release) = (Arc::default(), Arc::default());
    let engine = engine(store, held(&begun, &release)).await;
    let id = begin(&engine, ()).await;
    begun.notified().await;
    engine.terminate(id, Note::by("ada")).await.unwrap();
    let ended = engine.wait(id, LONG).await.unwrap_err();
    assert!(matches!(ended, WaitError::Ended { .. }), "{ended:?}");
    assert!(
        history_words(&engine, id).await.is_empty(),
        "no event was written"
    );
    // The shutdown does not wait for the step, which is never released.
    engine.shutdown().await;
}

async fn a_workflow_goes_on_with_another_engine_after_a_shutdown<S: Store + Inspect + Clone>(
    store: S,
) {
    let log = Log::default();
    let written = log.clone();
    let code = script(move |flow, _| {
        let log = written.clone();
        async move {
            log.step(&flow, "before", 1).await?;
            flow.signal::<Go>().await?;
            log.step(&flow, "after", 2).await
        }
    });
    let first = engine(store.clone(), code.clone()).await;
    let id = begin(&first, ()).await;
    let parked = async || get(&first, id).await.status == Status::AwaitingSignal;
    while !parked().await {
        tokio::task::yield_now().await;
    }
    first.shutdown().await;
    let second = engine(store, code).await;
    go(&second, id.get(), 1).await;
    assert_eq!(second.wait(id, LONG).await.unwrap(), json!(2));
    assert_eq!(log.entries(), ["before", "after"]);
    second.shutdown().await;
}

async fn a_blocked_workflow_goes_on_with_an_engine_that_fits_its_history<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let build = |name: &'static str| {
        script(move |flow, _| async move {
            number(&flow, name, 1).await?;
            flow.signal::<Go>().await?;
            Ok(name)
        })
    };
    let old = engine(store.clone(), build("old")).await;
    let id = begin(&old, ()).await;
    while get(&old, id).await.status != Status::AwaitingSignal {
        tokio::task::yield_now().await;
    }
    old.shutdown().await;
    let new = engine(store.clone(), build("new")).await;
    go(&new, id.get(), 1).await;
    while get(&new, id).await.last_error.is_none() {
        tokio::task::yield_now().await;
    }
    new.shutdown().await;
    let old = engine(store, build("old")).await;
    assert_eq!(old.wait(id, LONG).await.unwrap(), json!("old"));
    old.shutdown().await;
}
