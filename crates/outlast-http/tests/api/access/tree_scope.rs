//! Trees and scoped tokens: descendants of an instance may be outside the scope.

use crate::support::{ApiClient, eventually, on_both_stores, running};
use outlast_core::{Inspect, Store};
use outlast_http::{Role, Settings, Token};
use serde_json::{Value, json};

on_both_stores![
    a_scoped_token_cannot_read_or_end_a_whole_family,
    close_actions_are_shown_only_for_children_in_the_token_scope,
];

/// Starts a team. Returns a client without a scope, one whose scope is machine `team`, and the
/// path of the team.
async fn bounded_parent<S: Store + Inspect + Clone>(
    store: S,
    plan: Value,
) -> (ApiClient, ApiClient, String) {
    let (all, bound) = (
        Token::generate("all", Role::Admin).unwrap(),
        Token::generate("team", Role::Admin).unwrap(),
    );
    let settings = Settings::new()
        .token(all.1)
        .token(bound.1.machines(["team"]));
    let api = ApiClient::with(store, settings);
    let (all, bound) = (api.token(&all.0), api.token(&bound.0));
    let new = json!({"machine": "team", "step": "begin", "state": plan});
    let id = bound.post("/v1/instances", new).await.ok()["id"].clone();
    let path = format!("/v1/instances/{}", id.as_str().unwrap());
    (all, bound, path)
}

async fn a_scoped_token_cannot_read_or_end_a_whole_family<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let plan = json!({"children": ["wait", "wait", "wait"]});
    let (all, bound, path) = bounded_parent(store, plan).await;
    let family = format!("{path}/family");
    eventually("all have begun", async || {
        all.get(&family).await.ok()["members"]["awaiting_signal"] == 3
    })
    .await;
    assert_eq!(bound.get(&family).await.code(), "forbidden");
    for verb in ["cancel", "terminate"] {
        let tree = json!({"tree": true});
        let refused = bound.post(&format!("{path}/{verb}"), tree).await;
        assert_eq!(refused.code(), "forbidden", "{verb}");
    }
    assert_eq!(all.get(&family).await.ok()["live"], 4);
    // The scoped token may end the team itself. The children continue, as their close policy says.
    let ended = bound.post(&format!("{path}/terminate"), json!({})).await;
    assert_eq!(ended.ok()["answer"], "terminated");
    assert_eq!(all.get(&family).await.ok()["live"], 3);
    engine.shutdown().await.unwrap();
}

async fn close_actions_are_shown_only_for_children_in_the_token_scope<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store.clone()).await;
    let plan = json!({"children": ["wait", "done", "wait"], "quorum": 1, "on_close": "terminate"});
    let (all, bound, path) = bounded_parent(store, plan).await;
    let close_actions = format!("{path}/close_actions");
    let seen = async |api: &ApiClient| api.get(&close_actions).await.ok()["close_actions"].clone();
    eventually("the children have close actions", async || {
        seen(&all).await.as_array().unwrap().len() == 2
    })
    .await;
    assert_eq!(seen(&bound).await, json!([]));
    engine.shutdown().await.unwrap();
}
