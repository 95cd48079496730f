//! Readiness: the server is ready when the database accepts writes.

use crate::support::ApiClient;
use outlast::Sqlite;
use outlast_core::{Json, NewInstance, Store};
use outlast_testbed::small_disk::SmallDisk;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_database_on_a_full_disk_is_not_ready_until_space_is_free() {
    let Some(disk) = SmallDisk::mount(16) else {
        return;
    };
    let store = Sqlite::open(disk.path().join("shop.db")).unwrap();
    // A router caches its last answer for a while, so each check uses a new router.
    let ready = async || ApiClient::new(store.clone()).get("/readyz").await;
    assert_eq!(ready().await.ok(), json!({"status": "ok", "writes": true}));
    disk.fill(0);
    let full = ready().await;
    assert_eq!(
        (full.status.as_u16(), full.code()),
        (503, "unavailable".into())
    );
    assert!(
        full.text.contains("the database's disk is full"),
        "{full:?}"
    );
    let path = disk.path().display().to_string();
    assert!(!full.text.contains(&path), "{full:?}");
    disk.free();
    assert_eq!(ready().await.ok(), json!({"status": "ok", "writes": true}));
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_at_its_size_limit_is_not_ready() {
    let folder = tempfile::tempdir().unwrap();
    let options = Sqlite::options().size_max_bytes(1024 * 1024);
    let store = options.open(folder.path().join("shop.db")).unwrap();
    let row = NewInstance::new("m", "s", Json::of(&"x".repeat(10_000)).unwrap());
    while store.insert(vec![row.clone()], None).await.is_ok() {}
    let answer = ApiClient::new(store.clone()).get("/readyz").await;
    assert_eq!(answer.code(), "unavailable");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frequent_readiness_checks_write_only_once_in_a_while() {
    let store = Sqlite::in_memory().unwrap();
    let api = ApiClient::new(store.clone());
    let before = store.transactions();
    for _ in 0..50 {
        api.get("/readyz").await.ok();
    }
    let written = store.transactions() - before;
    assert!((1..=3).contains(&written), "{written} transactions");
    store.close().await;
    let closed = ApiClient::new(store).get("/readyz").await;
    assert_eq!(closed.code(), "unavailable");
}
