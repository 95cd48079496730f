//! Bulk operations on all instances that a filter matches.

use crate::support::{ApiClient, on_both_stores};
use outlast_core::{Inspect, Json, NewInstance, Store};
use serde_json::json;

on_both_stores![
    a_dry_run_counts_and_changes_nothing,
    a_bulk_verb_changes_each_instance_once_page_by_page,
    a_repeated_bulk_cancel_counts_no_instance_as_changed,
    a_bulk_verb_skips_instances_that_it_does_not_apply_to,
];

async fn a_dry_run_counts_and_changes_nothing<S: Store + Inspect + Clone>(store: S) {
    let api = ApiClient::new(store);
    for machine in ["a", "a", "b"] {
        api.insert(machine, "default").await;
    }
    let body =
        json!({"filter": {"machine": "a", "status": ["runnable"], "version": 1}, "dry_run": true});
    let counted = api.post("/v1/bulk/cancel", body).await.ok();
    assert_eq!(counted, json!({"count": 2, "exact": true, "next": null}));
    assert_eq!(
        api.get("/v1/instances/count?status=runnable").await.ok()["count"],
        3
    );
}

async fn a_bulk_verb_changes_each_instance_once_page_by_page<S: Store + Inspect + Clone>(store: S) {
    let api = ApiClient::new(store);
    let rows = (0..1200).map(|_| NewInstance::new("m", "s", Json::null()));
    api.client
        .admin()
        .insert_rows(rows.collect())
        .await
        .unwrap();
    for (verb, status) in [
        // Without an engine no machine answers the cancel, so the instances stay runnable.
        ("cancel", "runnable"),
        ("terminate", "cancelled"),
        ("retry", "runnable"),
        ("terminate", "cancelled"),
    ] {
        let (mut cursor, mut changed, mut pages) = (json!(null), 0, 0);
        loop {
            let mut filter = json!({"machine": "m"});
            if verb == "retry" {
                filter["status"] = json!(["cancelled"]);
            }
            let body = json!({"filter": filter, "cursor": cursor, "reason": "test"});
            let answer = api.post(&format!("/v1/bulk/{verb}"), body).await.ok();
            assert!(answer["matched"].as_u64().unwrap() <= 500);
            changed += answer["changed"].as_u64().unwrap();
            cursor = answer["next"].clone();
            pages += 1;
            if cursor.is_null() {
                break;
            }
        }
        assert_eq!(changed, 1200, "{verb}");
        assert!(pages >= 3);
        let counted = api
            .get(&format!("/v1/instances/count?status={status}"))
            .await
            .ok();
        assert_eq!(counted["count"], 1200);
    }
    let body = json!({"filter": {}, "cursor": "AAAA"});
    assert_eq!(
        api.post("/v1/bulk/delete", body).await.code(),
        "invalid_request"
    );
}

async fn a_repeated_bulk_cancel_counts_no_instance_as_changed<S: Store + Inspect + Clone>(
    store: S,
) {
    let api = ApiClient::new(store);
    for _ in 0..3 {
        api.insert("m", "default").await;
    }
    for changed in [3, 0] {
        let all = json!({"filter": {}, "reason": "test"});
        let asked = api.post("/v1/bulk/cancel", all).await.ok();
        assert_eq!(
            asked,
            json!({"matched": 3, "changed": changed, "next": null})
        );
    }
}

async fn a_bulk_verb_skips_instances_that_it_does_not_apply_to<S: Store + Inspect + Clone>(
    store: S,
) {
    let api = ApiClient::new(store);
    let (live, ended) = (
        api.insert("m", "default").await,
        api.insert("m", "default").await,
    );
    api.post(&format!("/v1/instances/{ended}/terminate"), json!({}))
        .await
        .ok();
    // A cancelled instance is retried only when the filter asks for it.
    let retried = api.post("/v1/bulk/retry", json!({"filter": {}})).await.ok();
    assert_eq!(retried["matched"], 0);
    let deleted = api
        .post("/v1/bulk/delete", json!({"filter": {}}))
        .await
        .ok();
    assert_eq!(
        (&deleted["matched"], &deleted["changed"]),
        (&json!(1), &json!(1))
    );
    let nothing = api
        .post(
            "/v1/bulk/retry",
            json!({"filter": {"status": ["runnable"]}}),
        )
        .await
        .ok();
    assert_eq!(nothing, json!({"matched": 0, "changed": 0, "next": null}));
    api.get(&format!("/v1/instances/{live}")).await.ok();
}
