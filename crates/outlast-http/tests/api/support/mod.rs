//! Runs each test on both stores, and sends requests to a router.

pub(crate) mod api_client;
pub(crate) mod machines;

use crate::flow_machines::{crowd, fulfil, insure, label, pack, shelf, stuck};
use crate::team::{Piece, Team};
use futures_util::FutureExt;
use outlast::store::{
    ChildRange, ClaimRequest, Commit, Flowing, Inspect, JoinSet, JoinSets, Json, MachineVersion,
    NewInstance, NewWorker, Outcome, Park, Store,
};
use outlast::{Engine, InstanceId, Postgres, Sqlite};
use outlast_testbed::shared::{return_schema, take_schema, url};
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

pub(crate) use api_client::{Answer, ApiClient};
pub(crate) use machines::*;

/// Longer than any step of these tests takes. A wait of this length has failed.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// Defines one test per store for each named function. Each function takes the store:
/// `async fn a_sentence<S: Store + Inspect + Clone>(store: S)`.
macro_rules! on_both_stores {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    crate::support::on_sqlite(super::$name).await;
                }
            )+
        }

        mod postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    crate::support::on_postgres(super::$name).await;
                }
            )+
        }
    };
}
pub(crate) use on_both_stores;

/// Runs a test on SQLite in memory.
pub(crate) async fn on_sqlite<T: Future<Output = ()>>(test: impl FnOnce(Sqlite) -> T) {
    let store = Sqlite::in_memory().expect("a store in memory can be opened");
    test(store.clone()).await;
    store.close().await;
}

/// Runs a test in its own schema, and drops the schema afterwards, even when the test panics.
pub(crate) async fn on_postgres<T: Future<Output = ()>>(test: impl FnOnce(Postgres) -> T) {
    let schema = take_schema();
    let store = Postgres::options(&url())
        .expect("the URL can be read")
        .schema(&schema)
        .connect()
        .await
        .expect("the test server can be used");
    let tested = AssertUnwindSafe(test(store.clone())).catch_unwind().await;
    store.close().await;
    return_schema(&schema).await;
    if let Err(panic) = tested {
        std::panic::resume_unwind(panic);
    }
}

/// The number of machines of the engine that [`running`] starts.
pub(crate) const MACHINES: usize = 12;

/// Starts an engine with every machine of these tests.
pub(crate) async fn running(store: impl Store + Inspect) -> Engine {
    Engine::builder(store)
        .register(Checkout)
        .register(Parcel)
        .register(fails)
        .register(Team)
        .register(Piece)
        .register(fulfil)
        .register(label)
        .register(crowd)
        .register(shelf)
        .register(stuck)
        .register(insure)
        .register(pack)
        .start()
        .await
        .unwrap()
}

/// Repeats the question until the answer is true, for changes that give no notification.
pub(crate) async fn eventually(what: &str, mut ask: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !ask().await {
        assert!(begun.elapsed() < LONG, "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Makes an instance that nothing would wake: it waits for a child that it has not started.
pub(crate) async fn lost(store: &impl Store) -> InstanceId {
    let worker = NewWorker {
        name: "loser".into(),
        host: "here".into(),
        version: "1".into(),
        queues: vec!["lost".into()],
        machines: Vec::new(),
        lease: LONG,
    };
    let worker = store.register(worker).await.unwrap();
    let row = NewInstance::new("lost", "run", Json::null()).queue("lost");
    store.insert(vec![row], None).await.unwrap();
    let request = ClaimRequest {
        worker,
        queue: "lost".into(),
        machines: [MachineVersion::new("lost", 1)].into(),
        max: 1,
    };
    let claim = store.claim(request).await.unwrap().claims.remove(0);
    let set = JoinSet {
        ranges: vec![ChildRange::whole(1)],
        children: Vec::new(),
        count: 1,
    };
    let park = Park {
        join_sets: Some(JoinSets::one(set)),
        ..Park::default()
    };
    let waits = Outcome::Flow {
        children: Vec::new(),
        window: None,
        then: Flowing::Park(park),
    };
    let commits = vec![Commit::of(&claim, waits)];
    store.commit(commits.into()).await.unwrap();
    store.deregister(worker).await.unwrap();
    claim.id
}
