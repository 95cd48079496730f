//! The repairs of the reconciler. No verb causes these faults, so the tests make them by hand.

use crate::support::work::{claim, commit, done, get, insert, request, running, task, worker};
use crate::support::{drop_schema, options, raw, unique_schema};
use outlast_core::{Join, Json, ManualClock, Outcome, ReconcileRequest, Status, Store};
use outlast_postgres::Postgres;

async fn open() -> (Postgres, String) {
    let (schema, clock) = (unique_schema(), ManualClock::default());
    let store = options(&schema, &clock).connect().await.unwrap();
    (store, schema)
}

async fn close(store: Postgres, schema: &str) {
    store.close().await;
    drop_schema(schema).await;
}

const PAGE: ReconcileRequest = ReconcileRequest {
    after: None,
    max: 10,
};

/// Defect 6 (docs/protocol.md).
#[tokio::test]
async fn reconcile_mends_a_join_that_miscounts() {
    let (store, schema) = open().await;
    let parent = running(&store).await;
    let fan_out = Outcome::FanOut {
        children: vec![task(), task()],
        join: Join::default(),
        step: "joined".into(),
        state: Json::null(),
    };
    commit(&store, &parent, fan_out).await;
    let worker = worker(&store).await;
    let miscount = async |pending: i32| {
        let sql = format!(
            "update {schema}.instances set status = 'awaiting_children', children_pending = {pending} where id = {}",
            parent.id
        );
        raw().await.batch_execute(&sql).await.unwrap();
    };
    miscount(7).await;
    assert_eq!(store.reconcile(PAGE).await.unwrap().joins, [parent.id]);
    let row = get(&store, parent.id).await;
    assert_eq!(
        (row.status, row.children_pending),
        (Status::AwaitingChildren, 2)
    );
    for _ in 0..2 {
        let child = claim(&store, worker).await;
        commit(&store, &child, done()).await;
    }
    miscount(1).await;
    let reconciled = store.reconcile(PAGE).await.unwrap();
    assert_eq!(reconciled.joins, [parent.id]);
    assert!(reconciled.woken.contains("default"));
    let row = get(&store, parent.id).await;
    assert_eq!((row.status, row.children_pending), (Status::Runnable, 0));
    assert_eq!(store.reconcile(PAGE).await.unwrap().joins, []);
    close(store, &schema).await;
}

#[tokio::test]
async fn reconcile_frees_an_instance_blocked_behind_an_unused_partition_key() {
    let (store, schema) = open().await;
    let id = insert(&store, task().partition_key("key")).await;
    let sql = format!("update {schema}.instances set blocked = true");
    raw().await.batch_execute(&sql).await.unwrap();
    let worker = worker(&store).await;
    assert_eq!(store.claim(request(worker, 1)).await.unwrap().claims, []);
    let reconciled = store.reconcile(PAGE).await.unwrap();
    assert_eq!(reconciled.holds, [id]);
    assert!(reconciled.woken.contains("default"));
    assert_eq!(claim(&store, worker).await.id, id);
    close(store, &schema).await;
}
