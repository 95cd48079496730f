//! Trees and tokens that reach some of it: what descends from an instance may be anywhere.

use crate::support::{Asking, eventually, on_both_stores, running};
use outlast_core::{Inspect, Store};
use outlast_http::{Role, Settings, Token};
use serde_json::{Value, json};

on_both_stores![
    a_tree_is_for_tokens_without_bounds,
    what_was_done_to_children_is_shown_as_far_as_they_are_within_reach,
];

/// A team with three children, and somebody who reaches the team alone.
async fn bounded_parent<S: Store + Inspect + Clone>(
    store: S,
    plan: Value,
) -> (Asking, Asking, String) {
    let (all, bound) = (
        Token::generate("all", Role::Admin).unwrap(),
        Token::generate("team", Role::Admin).unwrap(),
    );
    let settings = Settings::new()
        .token(all.1)
        .token(bound.1.machines(["team"]));
    let api = Asking::with(store, settings);
    let (all, bound) = (api.token(&all.0), api.token(&bound.0));
    let new = json!({"machine": "team", "step": "begin", "state": plan});
    let id = bound.post("/v1/instances", new).await.ok()["id"].clone();
    let path = format!("/v1/instances/{}", id.as_str().unwrap());
    (all, bound, path)
}

async fn a_tree_is_for_tokens_without_bounds<S: Store + Inspect + Clone>(store: S) {
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
    // What is its own it may end; the children go on, as their policies say.
    let ended = bound.post(&format!("{path}/terminate"), json!({})).await;
    assert_eq!(ended.ok()["answer"], "terminated");
    assert_eq!(all.get(&family).await.ok()["live"], 3);
    engine.shutdown().await;
}

async fn what_was_done_to_children_is_shown_as_far_as_they_are_within_reach<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store.clone()).await;
    let plan = json!({"children": ["wait", "done", "wait"], "quorum": 1, "on_close": "terminate"});
    let (all, bound, path) = bounded_parent(store, plan).await;
    let close_actions = format!("{path}/close_actions");
    let seen = async |api: &Asking| api.get(&close_actions).await.ok()["close_actions"].clone();
    eventually("the children were told", async || {
        seen(&all).await.as_array().unwrap().len() == 2
    })
    .await;
    assert_eq!(seen(&bound).await, json!([]));
    engine.shutdown().await;
}
