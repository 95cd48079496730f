//! Long polls.

use crate::support::{Asking, on_both_stores, running};
use outlast_core::{Inspect, Store};
use outlast_http::{Limits, Settings};
use serde_json::json;

on_both_stores![
    a_wait_ends_when_the_instance_does,
    a_wait_whose_time_is_up_says_how_it_stands,
    there_is_an_end_to_how_many_may_wait,
];

async fn a_wait_ends_when_the_instance_does<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = Asking::new(store);
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
    engine.shutdown().await;
}

async fn a_wait_whose_time_is_up_says_how_it_stands<S: Store + Inspect + Clone>(store: S) {
    let api = Asking::new(store);
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

async fn there_is_an_end_to_how_many_may_wait<S: Store + Inspect + Clone>(store: S) {
    let limits = Limits {
        waits: 1,
        ..Limits::default()
    };
    let api = Asking::with(store, Settings::new().limits(limits));
    let id = api.insert("m", "default").await;
    let (path, other) = (
        format!("/v1/instances/{id}/wait?timeout_ms=30000"),
        format!("/v1/instances/{id}/wait?timeout_ms=1"),
    );
    // The second may have the place when the first asks for it.
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
    crate::support::eventually("there is room again", async || {
        api.get(&other).await.status == 200
    })
    .await;
}
