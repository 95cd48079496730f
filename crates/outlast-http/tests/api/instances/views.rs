//! Views: what a workflow publishes, with and without waiting for it.

use super::flows::errand;
use crate::support::{ApiClient, on_both_stores, running};
use outlast_core::{Inspect, Store};
use serde_json::{Value, json};

on_both_stores![
    published_values_are_read_without_a_worker,
    a_request_waits_for_a_newer_value_or_the_end,
    wrong_parameters_are_refused,
];

async fn published_values_are_read_without_a_worker<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let id = errand(&api, &["done"], 0).await;
    engine.shutdown().await.unwrap();
    let path = format!("/v1/instances/{id}/views");
    let views = api.get(&path).await.ok()["views"].clone();
    assert_eq!(views.as_array().unwrap().len(), 1, "{views}");
    assert_eq!(views[0]["name"], "progress");
    assert_eq!(views[0]["data"], "packed 2");
    let one = api.get(&format!("{path}/progress")).await.ok();
    assert_eq!(one["view"], views[0]);
    let none = api.get(&format!("{path}/other")).await.ok();
    assert_eq!(none["view"], Value::Null);
    // A machine publishes nothing.
    let machine = api.insert("m", "default").await;
    let views = api.get(&format!("/v1/instances/{machine}/views")).await;
    assert_eq!(views.ok()["views"], json!([]));
}

async fn a_request_waits_for_a_newer_value_or_the_end<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let id = errand(&api, &["done"], 0).await;
    let path = format!("/v1/instances/{id}/views/progress");
    let packed = api.get(&path).await.ok()["view"].clone();
    let waiting = format!("{path}?wait_after={}", packed["revision"]);
    let none = api.get(&format!("{waiting}&timeout_ms=20")).await.ok();
    assert_eq!(none["view"], Value::Null, "nothing is newer");
    let (newer, sent) = tokio::join!(api.get(&waiting), async {
        let signal = json!({"name": "approved", "payload": {"by": "Ada"}});
        api.post(&format!("/v1/instances/{id}/signals"), signal)
            .await
    });
    sent.ok();
    let newer = newer.ok()["view"].clone();
    assert_eq!(newer["data"], "approved by Ada");
    assert!(newer["revision"].as_i64() > packed["revision"].as_i64());
    // It has ended, so nothing newer will come.
    let after = format!("{path}?wait_after={}", newer["revision"]);
    assert_eq!(api.get(&after).await.ok()["view"], Value::Null);
    engine.shutdown().await.unwrap();
}

async fn wrong_parameters_are_refused<S: Store + Inspect + Clone>(store: S) {
    let api = ApiClient::new(store);
    let id = api.insert("m", "default").await;
    let path = format!("/v1/instances/{id}/views/x");
    for wrong in ["wait_after=x", "wait_after=1&timeout_ms=30001"] {
        let refused = api.get(&format!("{path}?{wrong}")).await;
        assert_eq!(refused.code(), "invalid_request", "{wrong}");
    }
    let unknown = api.get("/v1/instances/99999/views/x?wait_after=1").await;
    assert_eq!(unknown.code(), "not_found");
    let no_id = api.get("/v1/instances/x/views/y").await;
    assert_eq!(no_id.code(), "invalid_request");
}
