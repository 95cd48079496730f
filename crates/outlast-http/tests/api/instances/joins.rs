//! Joins of fan-outs, as instances and trees show them.

use crate::support::{ApiClient, eventually, on_both_stores, running};
use outlast_core::{Inspect, Store};
use serde_json::{Value, json};

on_both_stores![
    a_join_of_each_kind_is_shown_while_it_waits,
    a_joined_parent_shows_why_it_was_woken,
    a_tree_shows_close_policies_positions_and_held_children,
];

/// Starts a team with this plan and returns its path.
async fn team(api: &ApiClient, plan: Value) -> String {
    let new = json!({"machine": "team", "step": "begin", "state": plan});
    let id = api.post("/v1/instances", new).await.ok()["id"].clone();
    format!("/v1/instances/{}", id.as_str().unwrap())
}

/// Waits until a field of the barrier has this value, and returns the barrier.
async fn barrier(api: &ApiClient, path: &str, member: &str, value: Value) -> Value {
    eventually(member, async || {
        api.get(path).await.ok()["barrier"][member] == value
    })
    .await;
    api.get(path).await.ok()["barrier"].clone()
}

async fn a_join_of_each_kind_is_shown_while_it_waits<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let stray = api.insert("m", "nobody").await;
    let stray = api.get(&format!("/v1/instances/{stray}")).await.ok();
    for member in ["barrier", "cancel", "held", "on_parent_close", "position"] {
        assert_eq!(stray[member], Value::Null, "{member}");
    }

    let all = json!({"children": ["wait", "done", "fail"]});
    let all = barrier(&api, &team(&api, all).await, "pending", json!(1)).await;
    assert_eq!(
        (&all["until"], &all["needs"]),
        (&json!("all"), &Value::Null)
    );
    assert_eq!((&all["started"], &all["failed"]), (&json!(3), &json!(1)));
    assert!(all["first_failure"].is_string(), "{all}");
    assert_eq!(
        (&all["joined"], &all["deadline"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(
        (&all["window"], &all["rest"]),
        (&Value::Null, &json!("abandon"))
    );

    let fast = json!({"children": ["wait", "done"], "fail_fast": true, "cancel_rest": true});
    let fast = barrier(&api, &team(&api, fast).await, "pending", json!(1)).await;
    assert_eq!(
        (&fast["until"], &fast["rest"]),
        (&json!("fail_fast"), &json!("request_cancel"))
    );

    let quorum =
        json!({"children": ["wait", "done", "wait"], "quorum": 2, "deadline_ms": 3_600_000});
    let quorum = barrier(&api, &team(&api, quorum).await, "pending", json!(2)).await;
    assert_eq!(
        (&quorum["until"], &quorum["needs"]),
        (&json!("quorum"), &json!(2))
    );
    assert!(quorum["deadline"].is_string(), "{quorum}");

    let window = json!({"children": ["wait", "wait", "wait"], "window": 2});
    let window = barrier(&api, &team(&api, window).await, "window", json!(2)).await;
    assert_eq!(window["pending"], 3);
    engine.shutdown().await.unwrap();
}

async fn a_joined_parent_shows_why_it_was_woken<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    for (plan, joined) in [
        (json!({"children": ["done", "fail"]}), "all"),
        (
            json!({"children": ["wait", "fail"], "fail_fast": true}),
            "failure",
        ),
        (json!({"children": ["wait", "done"], "quorum": 1}), "quorum"),
        (
            json!({"children": ["wait", "fail"], "quorum": 2}),
            "impossible",
        ),
        (json!({"children": ["wait"], "deadline_ms": 1}), "deadline"),
    ] {
        let path = team(&api, plan).await;
        let barrier = barrier(&api, &path, "joined", json!(joined)).await;
        assert_eq!(
            barrier["deadline"],
            Value::Null,
            "a joined parent has no deadline"
        );
        let ended = api.get(&format!("{path}/wait")).await.ok();
        assert_eq!(ended["instance"]["result"], joined);
    }
    engine.shutdown().await.unwrap();
}

async fn a_tree_shows_close_policies_positions_and_held_children<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let plan =
        json!({"children": ["wait", "careful", "wait"], "window": 2, "on_close": "request_cancel"});
    let path = team(&api, plan).await;
    barrier(&api, &path, "started", json!(3)).await;
    let tree = api.get(&format!("{path}/tree")).await.ok();
    assert_eq!(tree["root"]["instance"]["barrier"]["window"], 2);
    let shown = tree["root"]["rounds"][0]["children"].as_array().unwrap();
    for (position, child) in shown.iter().enumerate() {
        let child = &child["instance"];
        assert_eq!(child["position"], position);
        assert_eq!(child["on_parent_close"], "request_cancel");
        assert_eq!(child["held"], position == 2);
    }
    assert_eq!(shown.len(), 3);
    engine.shutdown().await.unwrap();
}
