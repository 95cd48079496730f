//! Workflows on engines, with the clock of the store.

use crate::support::*;
use outlast::prelude::*;
use outlast::store::{Inspect, Instance, Store};
use outlast::{Client, Handle, Status, WaitError};
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
    let engine = Engine::builder(store).register(code).register(Kid);
    let engine = engine.register(double).register(fails).register(Turnstile);
    engine.queue("default", 10).start().await.unwrap()
}

/// Starts the workflow of the test.
async fn start(engine: &Engine) -> Handle<Script> {
    engine.start(Script::with(json!(null))).await.unwrap()
}

async fn a_workflow_runs_on_an_engine<S: Store + Inspect + Clone>(store: S) {
    let code = script(|flow, _| async move {
        let one = number(&flow, "one", 1).await?;
        let kids = (0..20).map(|n| flow.run(Kid::with(Say::Sleep(n, n))));
        let kids = flow.all(kids.collect::<Vec<_>>()).window(5).await?;
        let machine = flow.spawn(Turnstile::with(Turn::Wait(1))).await?;
        machine.child().signal(Go(2)).await?;
        let raced = flow
            .run(Kid::with(Say::Wait))
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
    let started = start(&engine).await;
    started.signal(Go(7)).await.unwrap();
    let seen = started.output().timeout(LONG).await.unwrap();
    assert_eq!(seen, json!([1, 190, 3, null, 7]));
    engine.shutdown().await.unwrap();
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
                let woken = flow
                    .step("woken", async move || clock.admin().now().await)
                    .await?;
                let slept = woken.since(begun);
                early += u32::from(slept < Duration::from_millis(ms));
                early += u32::from(flow.timestamp() < begun + Duration::from_millis(ms));
            }
            Ok(early)
        }
    });
    let engine = engine(store, code).await;
    let seen = start(&engine).await.output().timeout(LONG).await.unwrap();
    assert_eq!(seen, json!(0));
    engine.shutdown().await.unwrap();
}

async fn a_timeout_interrupts_a_step_on_an_engine<S: Store + Inspect + Clone>(store: S) {
    let code = script(|flow, _| async move {
        let hangs = flow.step("hangs", std::future::pending::<Result<u64, String>>);
        hangs.timeout(Duration::from_millis(20)).await
    });
    let engine = engine(store, code).await;
    let seen = start(&engine).await.output().timeout(LONG).await.unwrap();
    assert_eq!(seen, json!(null));
    engine.shutdown().await.unwrap();
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
    let started = start(&engine).await;
    begun.notified().await;
    started.cancel(ada()).await.unwrap();
    release.notify_one();
    let seen = started.output().timeout(LONG).await.unwrap();
    assert_eq!(seen, json!([1, true]));
    engine.shutdown().await.unwrap();
}

async fn a_terminate_drops_a_step_that_runs<S: Store + Inspect + Clone>(store: S) {
    let (begun, release) = (Arc::default(), Arc::default());
    let engine = engine(store, held(&begun, &release)).await;
    let started = start(&engine).await;
    begun.notified().await;
    started.terminate(ada()).await.unwrap();
    let ended = started.output().timeout(LONG).await.unwrap_err();
    assert!(matches!(ended, WaitError::Ended { .. }), "{ended:?}");
    assert!(
        history_words(&engine, &started).await.is_empty(),
        "no event was written"
    );
    // The shutdown does not wait for the step, which is never released.
    engine.shutdown().await.unwrap();
}

/// Waits until the row is as `is_reached` says.
async fn until(started: &Handle<Script>, is_reached: impl Fn(&Instance) -> bool) {
    while !is_reached(&started.instance().await.unwrap()) {
        tokio::task::yield_now().await;
    }
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
    let started = start(&first).await;
    until(&started, |row| row.status == Status::AwaitingSignal).await;
    first.shutdown().await.unwrap();
    let second = engine(store, code).await;
    let goes_on = second.handle::<Script>(&started).await.unwrap();
    goes_on.signal(Go(1)).await.unwrap();
    let seen = goes_on.output().timeout(LONG).await.unwrap();
    assert_eq!(seen, json!(2));
    assert_eq!(log.entries(), ["before", "after"]);
    second.shutdown().await.unwrap();
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
    let started = start(&old).await;
    until(&started, |row| row.status == Status::AwaitingSignal).await;
    old.shutdown().await.unwrap();
    let new = engine(store.clone(), build("new")).await;
    let goes_on = new.handle::<Script>(&started).await.unwrap();
    goes_on.signal(Go(1)).await.unwrap();
    until(&goes_on, |row| row.last_error.is_some()).await;
    new.shutdown().await.unwrap();
    let old = engine(store, build("old")).await;
    let goes_on = old.handle::<Script>(&started).await.unwrap();
    let seen = goes_on.output().timeout(LONG).await.unwrap();
    assert_eq!(seen, json!("old"));
    old.shutdown().await.unwrap();
}
