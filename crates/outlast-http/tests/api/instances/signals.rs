//! Signals by id and by key.

use crate::support::{ApiClient, on_both_stores, running};
use outlast_core::{Inspect, Store};
use serde_json::json;

on_both_stores![
    a_signal_reaches_an_inbox_once,
    a_signal_by_key_finishes_the_instance_that_waits_for_it,
    a_signal_without_a_target_or_a_name_is_refused,
];

async fn a_signal_reaches_an_inbox_once<S: Store + Inspect + Clone>(store: S) {
    let api = ApiClient::new(store);
    let id = api.insert("m", "default").await;
    let path = format!("/v1/instances/{id}/signals");
    let signal = json!({"name": "paid", "payload": {"amount": 5}, "dedup_key": "evt-1"});
    let first = api.post(&path, signal.clone()).await.ok();
    assert_eq!(
        (&first["delivery"], &first["instance"]),
        (&json!("delivered"), &json!(id))
    );
    let again = api.post(&path, signal).await.ok();
    assert_eq!(
        (&again["delivery"], &again["signal_id"]),
        (&json!("duplicate"), &json!(null))
    );
    let inbox = api.get(&path).await.ok();
    let inbox = inbox["signals"].as_array().unwrap();
    assert_eq!(inbox.len(), 1);
    assert_eq!(inbox[0]["id"], first["signal_id"]);
    assert_eq!(inbox[0]["payload"], json!({"amount": 5}));
    assert_eq!(inbox[0]["consumed_at"], json!(null));
}

async fn a_signal_by_key_finishes_the_instance_that_waits_for_it<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let new =
        json!({"machine": "checkout", "step": "start", "state": {"number": 42}, "key": "order/42"});
    let id = api.post("/v1/instances", new).await.ok()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    api.get(&format!("/v1/instances/{id}/wait?until=settled"))
        .await
        .ok();
    let sent = api
        .post(
            "/v1/machines/checkout/keys/order%2F42/signals",
            json!({"name": "paid", "payload": {"amount": 7}}),
        )
        .await
        .ok();
    assert_eq!(sent["woke"], true);
    let ended = api.get(&format!("/v1/instances/{id}/wait")).await.ok();
    assert_eq!(ended["reached"], true);
    assert_eq!(ended["instance"]["result"], "order 42, paid 7");
    let late = api
        .post(
            &format!("/v1/instances/{id}/signals"),
            json!({"name": "paid"}),
        )
        .await;
    assert_eq!(late.code(), "no_target");
    engine.shutdown().await.unwrap();
}

async fn a_signal_without_a_target_or_a_name_is_refused<S: Store + Inspect + Clone>(store: S) {
    let api = ApiClient::new(store);
    let signal = json!({"name": "paid"});
    assert_eq!(
        api.post("/v1/instances/77/signals", signal.clone())
            .await
            .code(),
        "no_target"
    );
    assert_eq!(
        api.post("/v1/machines/m/keys/k/signals", signal)
            .await
            .code(),
        "no_target"
    );
    let id = api.insert("m", "default").await;
    let path = format!("/v1/instances/{id}/signals");
    assert_eq!(
        api.post(&path, json!({"name": ""})).await.code(),
        "invalid_request"
    );
    assert_eq!(
        api.post(&path, json!({"payload": 1})).await.code(),
        "invalid_json"
    );
}
