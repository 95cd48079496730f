//! Long polls.

use crate::support::{ApiClient, on_both_stores, running};
use outlast_core::{Inspect, Store};
use outlast_http::{Limits, Settings};
use serde_json::json;

on_both_stores![
    a_wait_ends_when_the_instance_does,
    a_wait_that_times_out_answers_the_current_status,
    the_number_of_long_polls_is_limited,
];

async fn a_wait_ends_when_the_instance_does<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let new = json!({"machine": "checkout", "step": "start", "state": {"number": 1}});
    let id = api.post("/v1/instances", new).await.ok()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let settled = api
        .get(&format!("/v1/instances/{id}/wait?until=settled"))
        .await
        .ok();
    assert_eq!(settled["reached"], true);
    assert_eq!(settled["instance"]["awaits"], json!(["paid"]));
    let waiting = format!("/v1/instances/{id}/wait");
    let (ended, sent) = tokio::join!(api.get(&waiting), async {
        let signal = json!({"name": "paid", "payload": {"amount": 3}});
        api.post(&format!("/v1/instances/{id}/signals"), signal)
            .await
    });
    sent.ok();
    assert_eq!(ended.ok()["instance"]["status"], "done");
    engine.shutdown().await.unwrap();
}

async fn a_wait_that_times_out_answers_the_current_status<S: Store + Inspect + Clone>(store: S) {
    let api = ApiClient::new(store);
    let id = api.insert("m", "default").await;
    let waited = api
        .get(&format!("/v1/instances/{id}/wait?timeout_ms=20"))
        .await
        .ok();
    assert_eq!(
        (&waited["reached"], &waited["instance"]["status"]),
        (&json!(false), &json!("runnable"))
    );
}

async fn the_number_of_long_polls_is_limited<S: Store + Inspect + Clone>(store: S) {
    let limits = Limits {
        waits: 1,
        ..Limits::default()
    };
    let api = ApiClient::with(store, Settings::new().limits(limits));
    let id = api.insert("m", "default").await;
    let (path, other) = (
        format!("/v1/instances/{id}/wait?timeout_ms=30000"),
        format!("/v1/instances/{id}/wait?timeout_ms=1"),
    );
    // The second poll may hold the only slot at the moment when the first one arrives.
    let first = tokio::spawn({
        let api = api.clone();
        async move { while api.get(&path).await.status == 503 {} }
    });
    crate::support::eventually("the second is refused", async || {
        let answer = api.get(&other).await;
        answer.status == 503 && answer.code() == "too_many_streams"
    })
    .await;
    first.abort();
    crate::support::eventually("the slot is free again", async || {
        api.get(&other).await.status == 200
    })
    .await;
}
