//! Retry, repair, terminate, delete, pause and resume.

use crate::support::{ApiClient, lost, on_both_stores, running};
use outlast_core::{Inspect, Store};
use serde_json::{Value, json};

on_both_stores![
    a_failed_instance_is_retried_and_the_retry_is_recorded,
    the_result_of_a_failed_instance_is_its_error_value_until_a_retry,
    a_lost_instance_is_shown_and_repaired,
    a_live_instance_is_terminated_and_then_deleted,
    a_paused_queue_runs_nothing_until_it_is_resumed,
];

async fn a_failed_instance_is_retried_and_the_retry_is_recorded<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let id = api
        .post(
            "/v1/instances",
            json!({"machine": "fails", "step": "perform"}),
        )
        .await
        .ok()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let ended = api.get(&format!("/v1/instances/{id}/wait")).await.ok();
    assert_eq!(ended["instance"]["status"], "failed");
    engine.shutdown().await.unwrap();
    let path = format!("/v1/instances/{id}");
    assert_eq!(
        api.post(&format!("{path}/retry"), json!({"reason": "mended"}))
            .await
            .ok()["answer"],
        "retried"
    );
    assert_eq!(
        api.post(&format!("{path}/retry"), json!({})).await.code(),
        "not_failed"
    );
    let operations = api.get(&format!("{path}/operations")).await.ok();
    let first = &operations["operations"][0];
    assert_eq!(
        (&first["verb"], &first["reason"], &first["by"]),
        (&json!("retry"), &json!("mended"), &json!("http"))
    );
    assert_eq!(first["status_before"], "failed");
}

async fn a_lost_instance_is_shown_and_repaired<S: Store + Inspect + Clone>(store: S) {
    let id = lost(&store).await;
    let api = ApiClient::new(store);
    let path = format!("/v1/instances/{id}");
    let shown = api.get(&path).await.ok();
    assert_eq!(shown["liveness"], "repair_needed");
    let waiting = shown["waiting"].as_str().unwrap();
    assert!(waiting.starts_with("needs a repair: "), "{waiting}");
    let listed = api.get("/v1/instances").await.ok();
    assert_eq!(listed["instances"][0].get("liveness"), None);
    let why = json!({"reason": "the row was edited"});
    let repaired = api.post(&format!("{path}/repair"), why).await.ok();
    let expected = json!({"answer": "repaired", "need": "children_finished"});
    assert_eq!(repaired, expected);
    let again = api.post(&format!("{path}/repair"), json!({})).await.ok();
    assert_eq!(again, json!({"answer": "not_needed", "need": null}));
    assert_eq!(api.get(&path).await.ok()["liveness"], "queued");
    let operations = api.get(&format!("{path}/operations")).await.ok();
    assert_eq!(operations["operations"].as_array().unwrap().len(), 1);
    let first = &operations["operations"][0];
    assert_eq!(
        (&first["verb"], &first["by"]),
        (&json!("repair"), &json!("http"))
    );
    assert_eq!(
        first["reason"],
        "an awaited child has ended without waking it: the row was edited"
    );
}

async fn the_result_of_a_failed_instance_is_its_error_value_until_a_retry<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let piece = json!({"machine": "piece", "step": "begin", "state": {"what": "fail"}});
    let inserted = api.post("/v1/instances", piece).await.ok();
    let path = format!("/v1/instances/{}", inserted["id"].as_str().unwrap());
    let ended = api.get(&format!("{path}/wait")).await.ok();
    let failed = &ended["instance"];
    assert_eq!(failed["status"], "failed");
    assert_eq!(failed["last_error"], "it cannot be done");
    assert_eq!(failed["result"], json!({"missing": ["screws"]}));
    engine.shutdown().await.unwrap();
    api.post(&format!("{path}/retry"), json!({})).await.ok();
    let retried = api.get(&path).await.ok();
    assert_eq!(
        (&retried["status"], &retried["result"]),
        (&json!("runnable"), &Value::Null)
    );
}

async fn a_live_instance_is_terminated_and_then_deleted<S: Store + Inspect + Clone>(store: S) {
    let api = ApiClient::new(store);
    let id = api.insert("m", "default").await;
    let path = format!("/v1/instances/{id}");
    assert_eq!(api.delete(&path).await.code(), "not_ended");
    // The body is optional.
    let request = api.request(
        axum::http::Method::POST,
        &format!("{path}/terminate"),
        axum::body::Body::empty(),
    );
    assert_eq!(api.send(request).await.ok()["answer"], "terminated");
    assert_eq!(
        api.post(&format!("{path}/terminate"), json!({}))
            .await
            .code(),
        "already_ended"
    );
    assert_eq!(
        api.delete(&format!("{path}?reason=tidy")).await.ok()["answer"],
        "deleted"
    );
    assert_eq!(api.delete(&path).await.code(), "not_found");
    assert_eq!(api.get(&path).await.code(), "not_found");
    for verb in ["cancel", "terminate", "retry"] {
        assert_eq!(
            api.post(&format!("{path}/{verb}"), json!({})).await.code(),
            "not_found"
        );
    }
}

async fn a_paused_queue_runs_nothing_until_it_is_resumed<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    assert_eq!(
        api.post("/v1/queues/default/pause", json!({"reason": "deploy"}))
            .await
            .ok()["changed"],
        true
    );
    assert_eq!(
        api.post("/v1/queues/default/pause", json!({})).await.ok()["changed"],
        false
    );
    let new = json!({"machine": "checkout", "step": "start", "state": {"number": 1}});
    let id = api.post("/v1/instances", new).await.ok()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let queues = api.get("/v1/queues").await.ok();
    let queue = &queues["queues"][0];
    assert_eq!(
        (&queue["name"], &queue["paused"]),
        (&json!("default"), &json!(true))
    );
    assert_eq!(queue["eligible"], json!({"count": 1, "exact": true}));
    assert!(queue["oldest_eligible_at"].is_string());
    let waited = api
        .get(&format!(
            "/v1/instances/{id}/wait?until=settled&timeout_ms=100"
        ))
        .await
        .ok();
    assert_eq!(waited["reached"], false);
    assert!(
        waited["instance"]["waiting"]
            .as_str()
            .unwrap()
            .contains("paused"),
        "{waited}"
    );
    assert_eq!(
        api.post("/v1/queues/default/resume", json!({})).await.ok()["changed"],
        true
    );
    let waited = api
        .get(&format!("/v1/instances/{id}/wait?until=settled"))
        .await
        .ok();
    assert_eq!(waited["reached"], true);
    engine.shutdown().await.unwrap();
}
