//! Updates: signals that want a reply.

use crate::support::{ApiClient, on_both_stores, running};
use outlast_core::{Inspect, Store};
use outlast_http::{Limits, Settings};
use serde_json::{Value, json};

on_both_stores![
    an_update_is_sent_and_its_reply_is_answered,
    a_rejection_and_a_failure_are_replies_with_a_reason,
    an_update_without_a_reply_is_pending_and_can_be_waited_on,
    an_update_that_is_sent_again_has_the_same_reply,
    an_update_by_key_goes_to_the_holder,
    an_update_whose_instance_ended_first_has_ended,
    an_update_without_a_target_is_refused,
    an_update_is_marked_among_the_signals,
    the_history_names_the_update_and_its_reply,
    wrong_updates_are_refused_and_leave_nothing_behind,
];

/// Starts a shelf, and returns its id.
async fn shelf(api: &ApiClient) -> String {
    let new = json!({"machine": "shelf", "step": "run", "key": "shelf/1"});
    let started = api.post("/v1/instances", new).await.ok();
    started["id"].as_str().unwrap().to_owned()
}

async fn an_update_is_sent_and_its_reply_is_answered<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let id = shelf(&api).await;
    let path = format!("/v1/instances/{id}/updates");
    let sent = api
        .post(&format!("{path}/take_books?id=u-1"), json!({"books": 3}))
        .await
        .ok();
    let replied_at = sent["replied_at"].clone();
    assert!(replied_at.is_string(), "{sent}");
    let expected = json!({
        "update": "u-1", "instance": id, "name": "take_books", "state": "replied",
        "kind": "done", "reply": 3, "reason": null, "replied_at": replied_at,
    });
    assert_eq!(sent, expected);
    assert_eq!(api.get(&format!("{path}/u-1")).await.ok(), expected);
    // Without an id, each is an update of its own.
    let send = async || {
        let path = format!("{path}/take_books");
        let sent = api.post(&path, json!({"books": 1})).await;
        sent.ok()["update"].clone()
    };
    assert_ne!(send().await, send().await);
    engine.shutdown().await.unwrap();
}

async fn a_rejection_and_a_failure_are_replies_with_a_reason<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let id = shelf(&api).await;
    let path = format!("/v1/instances/{id}/updates/take_books");
    for (payload, kind, reason) in [
        (json!({"books": 0}), "rejected", "no book is given"),
        (json!({"books": 11}), "failed", "the shelf is full"),
        (json!("three"), "rejected", "its payload does not fit"),
        (Value::Null, "rejected", "its payload does not fit"),
    ] {
        let sent = api.post(&path, payload).await.ok();
        assert_eq!(sent["state"], "replied", "{sent}");
        assert_eq!(sent["kind"], kind, "{sent}");
        assert_eq!(sent["reply"], Value::Null, "{sent}");
        let told = sent["reason"].as_str().unwrap();
        assert!(told.contains(reason), "{told}");
    }
    // The workflow goes on.
    let sent = api.post(&path, json!({"books": 2})).await.ok();
    assert_eq!(sent["reply"], 2, "{sent}");
    engine.shutdown().await.unwrap();
}

async fn an_update_without_a_reply_is_pending_and_can_be_waited_on<S: Store + Inspect + Clone>(
    store: S,
) {
    let api = ApiClient::new(store.clone());
    let id = shelf(&api).await;
    let path = format!("/v1/instances/{id}/updates");
    let sending = format!("{path}/take_books?id=u-1&timeout_ms=20");
    let sent = api.post(&sending, json!({"books": 4})).await;
    assert_eq!(sent.status, 202);
    let sent = sent.json();
    assert_eq!(sent["state"], "pending");
    for absent in ["kind", "reply", "reason", "replied_at"] {
        assert_eq!(sent[absent], Value::Null, "{absent}");
    }
    // A read answers at once, and is no failure.
    assert_eq!(api.get(&format!("{path}/u-1")).await.ok(), sent);
    let waited = api.get(&format!("{path}/u-1?timeout_ms=20")).await;
    assert_eq!(waited.status, 200);
    let waiting = format!("{path}/u-1?timeout_ms=30000");
    let (waited, engine) = tokio::join!(api.get(&waiting), running(store));
    assert_eq!(waited.ok()["reply"], 4);
    engine.shutdown().await.unwrap();
}

async fn an_update_that_is_sent_again_has_the_same_reply<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let id = shelf(&api).await;
    let path = format!("/v1/instances/{id}/updates");
    let send = async |id: &str, books: u32| {
        let path = format!("{path}/take_books?{id}");
        api.post(&path, json!({"books": books})).await.ok()
    };
    let first = send("id=u-1", 3).await;
    assert_eq!(send("id=u-1", 5).await, first);
    assert_eq!(send("id=u-2", 5).await["reply"], 8);
    // An id of any bytes is in hexadecimal.
    let odd = send("id_hex=00ff", 1).await;
    assert_eq!(odd["update_hex"], "00ff");
    assert_eq!(odd["update"], "\\x00ff");
    let read = api.get(&format!("{path}/00ff?hex=true")).await.ok();
    assert_eq!(read, odd);
    // Also after the end.
    let approved = json!({"name": "approved", "payload": {"by": "Ada"}});
    let signals = format!("/v1/instances/{id}/signals");
    api.post(&signals, approved).await.ok();
    let ended = api.get(&format!("/v1/instances/{id}/wait")).await.ok();
    assert_eq!(ended["instance"]["result"], 9);
    assert_eq!(send("id=u-1", 3).await, first);
    engine.shutdown().await.unwrap();
}

async fn an_update_by_key_goes_to_the_holder<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let id = shelf(&api).await;
    for path in [
        "/v1/machines/shelf/keys/shelf%2F1/updates/take_books?id=u-1",
        "/v1/machines/shelf/keys/7368656c662f31/updates/take_books?id=u-1&hex=true",
    ] {
        let sent = api.post(path, json!({"books": 3})).await.ok();
        assert_eq!(sent["instance"], json!(id));
        assert_eq!(sent["reply"], 3);
    }
    engine.shutdown().await.unwrap();
}

async fn an_update_whose_instance_ended_first_has_ended<S: Store + Inspect + Clone>(store: S) {
    let api = ApiClient::new(store);
    let id = shelf(&api).await;
    let path = format!("/v1/instances/{id}/updates");
    let sending = format!("{path}/take_books?id=u-1");
    let terminate = format!("/v1/instances/{id}/terminate");
    let sent = api
        .post(&format!("{sending}&timeout_ms=0"), json!({"books": 4}))
        .await;
    assert_eq!(sent.status, 202);
    api.post(&terminate, json!({})).await.ok();
    for ended in [
        api.get(&format!("{path}/u-1")).await,
        api.post(&sending, json!({"books": 4})).await,
    ] {
        let ended = ended.ok();
        assert_eq!(ended["state"], "ended");
        assert_eq!(ended["kind"], Value::Null);
    }
    // A new update is not stored.
    let late = api.post(&format!("{path}/take_books"), json!({})).await;
    assert_eq!(
        (late.status.as_u16(), late.code()),
        (404, "no_target".into())
    );
}

async fn an_update_without_a_target_is_refused<S: Store + Inspect + Clone>(store: S) {
    let api = ApiClient::new(store);
    for path in [
        "/v1/instances/77/updates/x",
        "/v1/machines/shelf/keys/none/updates/x",
    ] {
        let refused = api.post(path, json!({})).await;
        assert_eq!(refused.status, 404);
        assert_eq!(refused.code(), "no_target", "{path}");
    }
    let id = shelf(&api).await;
    for path in [
        format!("/v1/instances/{id}/updates/none"),
        format!("/v1/instances/{id}/updates/none?timeout_ms=10"),
        "/v1/instances/77/updates/u-1".into(),
    ] {
        let refused = api.get(&path).await;
        assert_eq!(refused.status, 404);
        assert_eq!(refused.code(), "not_found", "{path}");
    }
}

async fn an_update_is_marked_among_the_signals<S: Store + Inspect + Clone>(store: S) {
    let api = ApiClient::new(store);
    let id = shelf(&api).await;
    let signals = format!("/v1/instances/{id}/signals");
    let plain = json!({"name": "approved", "dedup_key": "evt-1"});
    api.post(&signals, plain).await.ok();
    let path = format!("/v1/instances/{id}/updates/take_books?id=u-1&timeout_ms=0");
    api.post(&path, json!({"books": 1})).await;
    let inbox = api.get(&signals).await.ok()["signals"].clone();
    let marks = |index: usize| (&inbox[index]["dedup_key"], &inbox[index]["wants_reply"]);
    assert_eq!(marks(0), (&json!("evt-1"), &json!(false)));
    assert_eq!(marks(1), (&json!("u-1"), &json!(true)));
    // The key of a signal is no id of an update.
    let plain = format!("/v1/instances/{id}/updates/evt-1");
    assert_eq!(api.get(&plain).await.code(), "not_found");
    let taken = format!("/v1/instances/{id}/updates/take_books?id=evt-1");
    let refused = api.post(&taken, json!({})).await;
    assert_eq!(refused.status, 409);
    assert_eq!(refused.code(), "conflict");
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("choose another id"), "{detail}");
}

async fn the_history_names_the_update_and_its_reply<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let id = shelf(&api).await;
    let path = format!("/v1/instances/{id}/updates/take_books?id=u-1");
    api.post(&path, json!({"books": 11})).await.ok();
    let history = api.get(&format!("/v1/instances/{id}/history")).await.ok();
    let events = history["events"].as_array().unwrap();
    let event = |kind: &str| events.iter().find(|it| it["kind"] == kind).unwrap();
    assert_eq!(event("update_accepted")["update"], "u-1");
    let answered = event("update_completed");
    assert_eq!(answered["update"], "u-1");
    assert_eq!(answered["reply"], "failed");
    assert_eq!(answered["reason"], "the shelf is full");
    engine.shutdown().await.unwrap();
}

async fn wrong_updates_are_refused_and_leave_nothing_behind<S: Store + Inspect + Clone>(store: S) {
    let settings = Settings::new().limits(Limits {
        waits: 0,
        ..Limits::default()
    });
    let busy = ApiClient::with(store.clone(), settings);
    let api = ApiClient::new(store);
    let id = shelf(&api).await;
    let path = format!("/v1/instances/{id}/updates");
    for (query, code) in [
        ("x?id=a&id_hex=00", "invalid_request"),
        ("x?id=a%00b", "invalid_request"),
        ("x?id_hex=0", "invalid_request"),
        ("x?timeout_ms=30001", "invalid_request"),
        ("x?timeout=1", "invalid_request"),
        ("%E2%80%AE", "invalid_request"),
    ] {
        let refused = api.post(&format!("{path}/{query}"), json!({})).await;
        assert_eq!(refused.code(), code, "{query}: {refused:?}");
    }
    let half = api.post_text(&format!("{path}/x"), "{").await;
    assert_eq!(half.code(), "invalid_json");
    let full = busy.post(&format!("{path}/x"), json!({})).await;
    assert_eq!(full.code(), "too_many_streams");
    let inbox = api.get(&format!("/v1/instances/{id}/signals")).await.ok();
    assert_eq!(inbox["signals"], json!([]));
}
