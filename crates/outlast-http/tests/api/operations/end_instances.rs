//! Cancel and terminate: of one instance, of a tree, and of children whose parent has ended.

use crate::support::{ApiClient, eventually, on_both_stores, running};
use outlast_core::{Inspect, Store};
use serde_json::{Value, json};

on_both_stores![
    a_cancel_is_a_request_that_the_machine_answers,
    an_unanswered_cancel_is_shown,
    terminate_ends_a_running_instance,
    a_tree_is_counted_and_then_cancelled,
    a_tree_is_terminated_even_when_its_root_has_ended,
    the_end_of_a_parent_applies_the_close_policies_of_its_children,
    a_child_held_by_a_window_is_cancelled_at_once,
    an_ended_parent_is_not_deleted_before_its_cascade_is_done,
];

/// Inserts an instance of a machine and returns its path.
async fn start(api: &ApiClient, machine: &str, state: Value) -> String {
    let new = json!({"machine": machine, "step": "begin", "state": state});
    let id = api.post("/v1/instances", new).await.ok()["id"].clone();
    format!("/v1/instances/{}", id.as_str().unwrap())
}

async fn becomes(api: &ApiClient, path: &str, status: &str) -> Value {
    eventually(status, async || {
        api.get(path).await.ok()["status"] == status
    })
    .await;
    api.get(path).await.ok()
}

/// Returns the children of an instance by position.
async fn children(api: &ApiClient, path: &str) -> Vec<Value> {
    let page = api.get(&format!("{path}/children?limit=200")).await.ok();
    let mut children = page["children"].as_array().unwrap().clone();
    children.sort_by_key(|child| child["position"].as_i64());
    children
}

fn path_of(instance: &Value) -> String {
    format!("/v1/instances/{}", instance["id"].as_str().unwrap())
}

async fn a_cancel_is_a_request_that_the_machine_answers<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let path = start(&api, "piece", json!({"what": "careful"})).await;
    becomes(&api, &path, "awaiting_signal").await;

    let cancel = format!("{path}/cancel");
    let asked = api.post(&cancel, json!({"reason": "ordered twice"})).await;
    let expected = json!({"answer": "requested", "status_before": "awaiting_signal"});
    assert_eq!(asked.ok(), expected);
    eventually("the machine has answered", async || {
        api.get(&path).await.ok()["awaits"] == json!(["undone"])
    })
    .await;
    let undoing = api.get(&path).await.ok();
    assert_eq!(undoing["status"], "awaiting_signal");
    assert_eq!(undoing["cancel"]["answered"], true);
    let reason = undoing["cancel"]["reason"].as_str().unwrap();
    assert!(reason.contains("ordered twice"), "{reason}");
    let again = api.post(&cancel, json!({})).await.ok();
    assert_eq!(again["answer"], "already_requested");

    let undone = json!({"name": "undone", "payload": {}});
    api.post(&format!("{path}/signals"), undone).await.ok();
    let ended = becomes(&api, &path, "cancelled").await;
    assert_eq!(ended["last_error"], "everything is undone");
    assert_eq!(api.post(&cancel, json!({})).await.code(), "already_ended");
    let operations = api.get(&format!("{path}/operations")).await.ok();
    let operations = operations["operations"].as_array().unwrap().clone();
    assert_eq!(operations.len(), 1, "{operations:?}");
    assert_eq!(operations[0]["verb"], "cancel");
    assert_eq!(operations[0]["cause"], Value::Null);
    engine.shutdown().await.unwrap();
}

async fn an_unanswered_cancel_is_shown<S: Store + Inspect + Clone>(store: S) {
    let api = ApiClient::new(store);
    let id = api.insert("m", "default").await;
    let path = format!("/v1/instances/{id}");
    let asked = api.post(&format!("{path}/cancel"), json!({})).await.ok();
    let expected = json!({"answer": "requested", "status_before": "runnable"});
    assert_eq!(asked, expected);
    let one = api.get(&path).await.ok();
    let listed = api.get("/v1/instances").await.ok()["instances"][0].clone();
    for seen in [&one, &listed] {
        assert_eq!(seen["status"], "runnable");
        assert_eq!(seen["cancel"]["answered"], false);
        assert_eq!(seen["cancel"]["reason"], "cancelled by http");
        assert!(seen["cancel"]["requested_at"].is_string());
        assert_eq!(seen["revision"], 0);
    }
    // Without an engine no machine answers the cancel, but the instance can be terminated.
    let ended = api.post(&format!("{path}/terminate"), json!({})).await.ok();
    let expected = json!({"answer": "terminated", "status_before": "runnable"});
    assert_eq!(ended, expected);
    assert_eq!(api.get(&path).await.ok()["status"], "cancelled");
    for verb in ["cancel", "terminate"] {
        let again = api.post(&format!("{path}/{verb}"), json!({})).await;
        assert_eq!(again.code(), "already_ended", "{verb}");
    }
}

async fn terminate_ends_a_running_instance<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let path = start(&api, "piece", json!({"what": "run"})).await;
    becomes(&api, &path, "executing").await;
    let because = json!({"reason": "it never ends"});
    let ended = api.post(&format!("{path}/terminate"), because).await.ok();
    let expected = json!({"answer": "terminated", "status_before": "executing"});
    assert_eq!(ended, expected);
    let seen = api.get(&path).await.ok();
    assert_eq!(seen["status"], "cancelled");
    assert_eq!(seen["last_error"], "terminated by http: it never ends");
    engine.shutdown().await.unwrap();
}

async fn a_tree_is_counted_and_then_cancelled<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let plan = json!({"children": ["wait", "done", "wait", "wait"]});
    let root = start(&api, "team", plan).await;
    becomes(&api, &root, "awaiting_children").await;
    let family = format!("{root}/family");
    eventually("all have begun", async || {
        let members = api.get(&family).await.ok()["members"].clone();
        members["awaiting_signal"] == 3 && members["done"] == 1
    })
    .await;
    let counted = api.get(&family).await.ok();
    assert_eq!(
        (&counted["live"], &counted["complete"]),
        (&json!(4), &json!(true))
    );
    assert_eq!(counted["members"]["awaiting_children"], 1);
    assert_eq!(counted["members"]["failed"], 0);

    let tree = json!({"reason": "no longer wanted", "tree": true});
    let asked = api.post(&format!("{root}/cancel"), tree).await.ok();
    let expected = json!({"answer": "requested", "status_before": "awaiting_children"});
    assert_eq!(asked, expected);
    eventually("the tree has ended", async || {
        api.get(&family).await.ok()["live"] == 0
    })
    .await;
    let counted = api.get(&family).await.ok();
    assert_eq!(counted["members"]["cancelled"], 4);
    assert_eq!(counted["members"]["done"], 1);

    // The pages of the close actions have no gaps.
    let id = root.strip_prefix("/v1/instances/").unwrap();
    let (mut actions, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = format!("{root}/close_actions?limit=2{cursor}");
        let page = api.get(&page).await.ok();
        actions.extend(page["close_actions"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else {
            break;
        };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(actions.len(), 3, "{actions:?}");
    for action in &actions {
        assert_eq!(
            (&action["verb"], &action["cause"], &action["reason"]),
            (&json!("cancel"), &json!(id), &json!("no longer wanted"))
        );
        let child = action["instance"].as_str().unwrap();
        let operations = format!("/v1/instances/{child}/operations");
        let operations = api.get(&operations).await.ok();
        assert_eq!(operations["operations"][0]["cause"], json!(id));
    }
    engine.shutdown().await.unwrap();
}

async fn a_tree_is_terminated_even_when_its_root_has_ended<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let plan = json!({"children": ["done", "careful", "run"], "quorum": 1});
    let root = start(&api, "team", plan).await;
    becomes(&api, &root, "done").await;
    let live = async || api.get(&format!("{root}/family")).await.ok()["live"].clone();
    assert_eq!(
        live().await,
        2,
        "the children continue without their parent"
    );
    let alone = api.post(&format!("{root}/terminate"), json!({})).await;
    assert_eq!(alone.code(), "already_ended");
    assert_eq!(live().await, 2);
    let tree = json!({"tree": true});
    let ended = api.post(&format!("{root}/terminate"), tree).await.ok();
    let expected = json!({"answer": "already_ended", "status_before": "done"});
    assert_eq!(ended, expected);
    eventually("the tree has ended", async || live().await == 0).await;
    for child in &children(&api, &root).await[1..] {
        assert_eq!(child["last_error"], "terminated by http");
    }
    engine.shutdown().await.unwrap();
}

async fn the_end_of_a_parent_applies_the_close_policies_of_its_children<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    for (policy, verb) in [("terminate", "terminate"), ("request_cancel", "cancel")] {
        let plan = json!({"children": ["done", "wait"], "quorum": 1, "on_close": policy});
        let root = start(&api, "team", plan).await;
        becomes(&api, &root, "done").await;
        let child = children(&api, &root).await[1].clone();
        assert_eq!(child["on_parent_close"], policy);
        becomes(&api, &path_of(&child), "cancelled").await;
        let close_actions = api.get(&format!("{root}/close_actions")).await.ok();
        let actions = close_actions["close_actions"].as_array().unwrap();
        assert_eq!(actions.len(), 1, "{close_actions}");
        assert_eq!(actions[0]["verb"], verb);
        assert_eq!(actions[0]["instance"], child["id"]);
        assert_eq!(actions[0]["by"], "parent");
        let reason = actions[0]["reason"].as_str().unwrap();
        assert!(reason.ends_with("ended as done"), "{reason}");
    }
    let plan = json!({"children": ["done", "wait"], "quorum": 1});
    let root = start(&api, "team", plan).await;
    becomes(&api, &root, "done").await;
    let child = children(&api, &root).await[1].clone();
    assert_eq!(child["on_parent_close"], "abandon");
    let close_actions = api.get(&format!("{root}/close_actions")).await.ok();
    assert_eq!(close_actions, json!({"close_actions": [], "next": null}));
    engine.shutdown().await.unwrap();
}

async fn a_child_held_by_a_window_is_cancelled_at_once<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let plan = json!({"children": ["wait", "wait", "wait"], "window": 1});
    let root = start(&api, "team", plan).await;
    becomes(&api, &root, "awaiting_children").await;
    let started = children(&api, &root).await;
    let held: Vec<_> = started.iter().map(|child| child["held"].clone()).collect();
    assert_eq!(held, [json!(false), json!(true), json!(true)]);
    let first = path_of(&started[0]);
    becomes(&api, &first, "awaiting_signal").await;

    let second = path_of(&started[1]);
    let asked = api.post(&format!("{second}/cancel"), json!({})).await.ok();
    let expected = json!({"answer": "never_started", "status_before": "runnable"});
    assert_eq!(asked, expected);
    assert_eq!(api.get(&second).await.ok()["status"], "cancelled");
    let third = path_of(&started[2]);
    assert_eq!(api.get(&third).await.ok()["held"], true);

    let go = json!({"name": "go", "payload": {}});
    api.post(&format!("{first}/signals"), go).await.ok();
    let admitted = becomes(&api, &third, "awaiting_signal").await;
    assert_eq!(admitted["held"], false);
    engine.shutdown().await.unwrap();
}

async fn an_ended_parent_is_not_deleted_before_its_cascade_is_done<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let root = start(&api, "team", json!({"children": ["wait"]})).await;
    becomes(&api, &root, "awaiting_children").await;
    // Without an engine the cascade is not carried out.
    engine.shutdown().await.unwrap();
    let tree = json!({"tree": true});
    api.post(&format!("{root}/terminate"), tree).await.ok();
    assert_eq!(api.delete(&root).await.code(), "conflict");
}
