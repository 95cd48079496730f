//! Inserting, reading, listing and counting instances.

use crate::support::{ApiClient, on_both_stores};
use axum::body::Body;
use axum::http::{Method, StatusCode};
use outlast_core::{Inspect, Store};
use serde_json::{Value, json};

on_both_stores![
    an_instance_is_inserted_and_found_again,
    payloads_are_stored_unchanged,
    a_key_is_held_until_its_instance_ends,
    an_idempotency_key_makes_sending_again_harmless,
    a_batch_insert_answers_for_each_instance,
    a_list_is_read_page_by_page,
    filters_select_and_count_instances,
    a_list_shows_states_only_when_asked,
    an_omitted_queue_and_version_come_from_the_registered_machine,
    keys_of_any_bytes_are_given_and_shown_in_hexadecimal,
    a_typed_key_has_no_invisible_characters,
];

async fn keys_of_any_bytes_are_given_and_shown_in_hexadecimal<S: Store + Inspect + Clone>(
    store: S,
) {
    let api = ApiClient::new(store);
    let new = json!({
        "machine": "checkout", "step": "start", "key_hex": "00FF", "partition_key_hex": "0a",
    });
    let inserted = api.post("/v1/instances", new.clone()).await;
    assert_eq!(inserted.status, StatusCode::CREATED);
    let id = inserted.ok()["id"].clone();
    let again = api.post("/v1/instances", new).await;
    assert_eq!(again.status, StatusCode::OK);
    assert_eq!(again.ok()["id"], id);
    // A text that looks the same is another key.
    let text = json!({"machine": "checkout", "step": "start", "key": r"\x00ff"});
    let other = api.post("/v1/instances", text).await.ok();
    assert_eq!(other["created"], true);

    let holder = "/v1/machines/checkout/keys/00ff";
    let found = api.get(&format!("{holder}?hex=true")).await.ok();
    for (field, value) in [
        ("id", id.clone()),
        ("key", json!(r"\x00ff")),
        ("key_hex", json!("00ff")),
        ("partition_key", json!(r"\x0a")),
        ("partition_key_hex", json!("0a")),
    ] {
        assert_eq!(found[field], value, "{field}");
    }
    assert_eq!(api.get(holder).await.code(), "not_found");
    let found = api.get(r"/v1/machines/checkout/keys/%5Cx00ff").await.ok();
    assert_eq!(found["id"], other["id"]);
    assert!(found.get("key_hex").is_none());

    for filter in ["key_hex=00ff", "partition_key_hex=0a"] {
        let page = api.get(&format!("/v1/instances?{filter}")).await.ok();
        assert_eq!(page["instances"].as_array().unwrap().len(), 1, "{filter}");
        assert_eq!(page["instances"][0]["id"], id);
    }

    let go = json!({"name": "go", "dedup_key_hex": "ff"});
    for delivery in ["delivered", "duplicate"] {
        let sent = api
            .post(&format!("{holder}/signals?hex=true"), go.clone())
            .await;
        assert_eq!(sent.ok()["delivery"], delivery);
    }
    let inbox = format!("/v1/instances/{}/signals", id.as_str().unwrap());
    let inbox = api.get(&inbox).await.ok();
    let signal = &inbox["signals"][0];
    assert_eq!(signal["dedup_key"], r"\xff");
    assert_eq!(signal["dedup_key_hex"], "ff");
    let waited = api
        .get(&format!("{holder}/wait?hex=true&timeout_ms=0"))
        .await;
    assert_eq!(waited.ok()["reached"], false);
    let cancelled = api
        .post(&format!("{holder}/cancel?hex=true"), json!({}))
        .await;
    assert_eq!(cancelled.ok()["answer"], "requested");
    let ended = api
        .post(&format!("{holder}/terminate?hex=true"), json!({}))
        .await;
    assert_eq!(ended.ok()["answer"], "terminated");
}

async fn a_typed_key_has_no_invisible_characters<S: Store + Inspect + Clone>(store: S) {
    let api = ApiClient::new(store);
    let new = |member: &str, key: &str| {
        let mut new = json!({"machine": "checkout", "step": "start"});
        new[member] = json!(key);
        new
    };
    for (new, says) in [
        (new("key", "a\nb"), "in hexadecimal"),
        (new("partition_key", "a\u{7f}"), "in hexadecimal"),
        (new("key", "a\u{200b}b"), "format character"),
        (new("key_hex", "0"), "two digits for each byte"),
        (new("partition_key_hex", "0g"), "two digits for each byte"),
        (new("key_hex", ""), "is empty"),
        (new("key_hex", &"00".repeat(513)), "513 bytes"),
    ] {
        let refused = api.post("/v1/instances", new.clone()).await;
        assert_eq!(refused.code(), "invalid_request", "{new}");
        let body = refused.json();
        assert!(body["detail"].as_str().unwrap().contains(says), "{body}");
    }
    let both = json!({"machine": "checkout", "step": "start", "key": "a", "key_hex": "00"});
    let refused = api.post("/v1/instances", both).await.json();
    assert!(refused["detail"].as_str().unwrap().contains("not both"));
    let looked_up = api.get("/v1/machines/checkout/keys/a%0Ab").await;
    assert_eq!(looked_up.code(), "invalid_request");
}

async fn an_instance_is_inserted_and_found_again<S: Store + Inspect + Clone>(store: S) {
    let api = ApiClient::new(store);
    let new = json!({
        "machine": "checkout", "step": "start", "version": 3, "state": {"number": 1}, "queue": "shop", "priority": -5,
        "delay_ms": 60_000, "key": "order:1", "partition_key": "customer:7",
        "timeout_ms": 7_200_000, "run_timeout_ms": 3_600_000,
    });
    let inserted = api.post("/v1/instances", new).await;
    assert_eq!(inserted.status, StatusCode::CREATED);
    let inserted = inserted.ok();
    assert_eq!(inserted["created"], true);
    let id = inserted["id"].as_str().unwrap();

    let found = api.get(&format!("/v1/instances/{id}")).await.ok();
    assert_eq!(found["id"], id);
    for (field, value) in [
        ("machine", json!("checkout")),
        ("version", json!(3)),
        ("step", json!("start")),
        ("status", json!("runnable")),
        ("queue", json!("shop")),
        ("priority", json!(-5)),
        ("key", json!("order:1")),
        ("holds_key", json!(true)),
        ("partition_key", json!("customer:7")),
        ("state", json!({"number": 1})),
        ("result", Value::Null),
        ("worker", Value::Null),
        ("parent", Value::Null),
    ] {
        assert_eq!(found[field], value, "{field}");
    }
    let waiting = found["waiting"].as_str().unwrap();
    assert!(
        waiting.contains("it fails as timed out at "),
        "the time of the run is up first: {waiting}"
    );
    assert!(found["timeout_at"].as_str() > found["run_timeout_at"].as_str());
    let none = json!({"machine": "checkout", "step": "start", "timeout_ms": 0});
    let refused = api.post("/v1/instances", none).await;
    assert_eq!(refused.code(), "invalid_request");
    let by_key = api.get("/v1/machines/checkout/keys/order:1").await.ok();
    assert_eq!(by_key["id"], id);
    assert_eq!(
        api.get("/v1/machines/checkout/keys/order:2").await.code(),
        "not_found"
    );
    assert_eq!(api.get("/v1/instances/999999").await.code(), "not_found");

    // The key finds the instance after its end, too.
    let key = "/v1/machines/checkout/keys/order:1";
    let (terminate, cancel) = (format!("{key}/terminate"), format!("{key}/cancel"));
    let asked = api.post(&cancel, json!({})).await.ok();
    assert_eq!(asked["answer"], "requested");
    let ended = api.post(&terminate, json!({})).await.ok();
    assert_eq!(ended["answer"], "terminated");
    let found = api.get(key).await.ok();
    assert_eq!(
        (&found["id"], &found["status"]),
        (&json!(id), &json!("cancelled"))
    );
    let waited = api.get(&format!("{key}/wait?timeout_ms=1")).await.ok();
    assert_eq!(waited["reached"], true);
    for path in [&terminate, &cancel] {
        assert_eq!(api.post(path, json!({})).await.code(), "already_ended");
    }
    let missing = "/v1/machines/checkout/keys/order:2/cancel";
    assert_eq!(api.post(missing, json!({})).await.code(), "not_found");
}

async fn payloads_are_stored_unchanged<S: Store + Inspect + Clone>(store: S) {
    let api = ApiClient::new(store);
    let state = r#"{"big":123456789012345678901234567890,"b":1.10,"a":-0.0,"e":1e400,"s":"<script>\u2028 é"}"#;
    let body = format!(r#"{{"machine":"m","step":"s","state":{state}}}"#);
    let id = api.post_text("/v1/instances", body).await.ok()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let found = api.get(&format!("/v1/instances/{id}")).await;
    assert!(
        found.text.contains(&format!("\"state\":{state}")),
        "{}",
        found.text
    );

    let body = format!(r#"{{"name":"hello","payload":{state}}}"#);
    api.post_text(&format!("/v1/instances/{id}/signals"), body)
        .await
        .ok();
    let inbox = api.get(&format!("/v1/instances/{id}/signals")).await;
    assert!(
        inbox.text.contains(&format!("\"payload\":{state}")),
        "{}",
        inbox.text
    );
}

async fn a_key_is_held_until_its_instance_ends<S: Store + Inspect + Clone>(store: S) {
    let api = ApiClient::new(store);
    let new = json!({"machine": "m", "step": "s", "key": "k"});
    let first = api.post("/v1/instances", new.clone()).await.ok();
    let again = api.post("/v1/instances", new.clone()).await;
    assert_eq!(again.status, StatusCode::OK);
    let again = again.ok();
    assert_eq!(
        (&again["created"], &again["id"]),
        (&json!(false), &first["id"])
    );

    let id = first["id"].as_str().unwrap();
    api.post(&format!("/v1/instances/{id}/terminate"), json!({}))
        .await
        .ok();
    let after = api.post("/v1/instances", new).await.ok();
    assert_eq!(after["created"], true);
}

async fn an_idempotency_key_makes_sending_again_harmless<S: Store + Inspect + Clone>(store: S) {
    let api = ApiClient::new(store);
    let send = async |body: Value| {
        let mut request = api.request(Method::POST, "/v1/instances", Body::from(body.to_string()));
        request
            .headers_mut()
            .insert("content-type", "application/json".parse().unwrap());
        request
            .headers_mut()
            .insert("idempotency-key", "req-1".parse().unwrap());
        api.send(request).await
    };
    let new = json!({"machine": "m", "step": "s"});
    let first = send(new.clone()).await.ok();
    let id = first["id"].as_str().unwrap();
    // The idempotency key counts even after the instance has ended.
    api.post(&format!("/v1/instances/{id}/terminate"), json!({}))
        .await
        .ok();
    let again = send(new).await.ok();
    assert_eq!(
        (&again["created"], &again["id"]),
        (&json!(false), &first["id"])
    );
    let both = send(json!({"machine": "m", "step": "s", "key": "k"})).await;
    assert_eq!(both.code(), "invalid_request");
}

async fn a_batch_insert_answers_for_each_instance<S: Store + Inspect + Clone>(store: S) {
    let api = ApiClient::new(store);
    let batch = json!({"instances": [
        {"machine": "m", "step": "s", "key": "a"},
        {"machine": "", "step": "s"},
        {"machine": "m", "step": "s", "key": "a"},
        {"machine": "m", "step": "s", "unique_in": ["done"], "key": "b"},
        {"machine": "m", "step": "s"},
    ]});
    let answers = api.post("/v1/instances/batch", batch).await.ok();
    let answers = answers["instances"].as_array().unwrap();
    assert_eq!(answers[0]["created"], true);
    assert_eq!(answers[1]["error"]["code"], "invalid_request");
    assert_eq!(
        (&answers[2]["created"], &answers[2]["id"]),
        (&json!(false), &answers[0]["id"])
    );
    assert_eq!(answers[3]["error"]["code"], "invalid_request");
    assert_eq!(answers[4]["created"], true);
    assert_eq!(api.get("/v1/instances/count").await.ok()["count"], 2);
}

async fn a_list_is_read_page_by_page<S: Store + Inspect + Clone>(store: S) {
    let api = ApiClient::new(store);
    let mut expected = Vec::new();
    for _ in 0..7 {
        expected.insert(0, api.insert("m", "default").await);
    }
    let (mut seen, mut path) = (Vec::new(), "/v1/instances?machine=m&limit=3".to_owned());
    loop {
        let page = api.get(&path).await.ok();
        assert!(page["instances"].as_array().unwrap().len() <= 3);
        let ids = page["instances"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["id"].as_str().unwrap().to_owned());
        seen.extend(ids);
        let Some(next) = page["next"].as_str() else {
            break;
        };
        path = format!("/v1/instances?machine=m&limit=3&cursor={next}");
    }
    assert_eq!(seen, expected);
}

async fn filters_select_and_count_instances<S: Store + Inspect + Clone>(store: S) {
    let api = ApiClient::new(store);
    let one = api
        .post(
            "/v1/instances",
            json!({"machine": "a", "step": "x", "queue": "q", "key": "k 1/ü"}),
        )
        .await
        .ok();
    api.post(
        "/v1/instances",
        json!({"machine": "b", "step": "x", "version": 2}),
    )
    .await
    .ok();
    let ended = api.insert("c", "default").await;
    api.post(
        &format!("/v1/instances/{ended}/terminate"),
        json!({"reason": "no longer wanted"}),
    )
    .await
    .ok();
    for (query, count) in [
        ("", 3),
        ("machine=a", 1),
        ("step=x", 2),
        ("version=2", 1),
        ("queue=q", 1),
        ("status=cancelled", 1),
        ("status=runnable,cancelled", 3),
        ("status=runnable&status=cancelled", 3),
        ("key=k%201%2F%C3%BC", 1),
        ("error=no+longer", 1),
        ("attempts_from=1", 0),
        ("deadline=none", 0),
        ("deadline=overdue", 0),
        ("inserted_from=2026-01-01T00:00:00Z", 3),
        ("inserted_until=2026-01-01T00:00:00%2B02:00", 0),
        ("ended_from=2026-01-01T00:00:00Z", 1),
        ("ended_until=2026-01-01T00:00:00Z", 0),
        ("ended_from=2026-01-01T00:00:00Z&status=runnable", 0),
        ("parent=1", 0),
    ] {
        let counted = api.get(&format!("/v1/instances/count?{query}")).await.ok();
        assert_eq!(counted, json!({"count": count, "exact": true}), "{query}");
        let listed = api.get(&format!("/v1/instances?{query}")).await.ok();
        assert_eq!(
            listed["instances"].as_array().unwrap().len(),
            count,
            "{query}"
        );
    }
    let listed = api.get("/v1/instances?machine=a").await.ok();
    assert_eq!(listed["instances"][0]["id"], one["id"]);
}

async fn a_list_shows_states_only_when_asked<S: Store + Inspect + Clone>(store: S) {
    let api = ApiClient::new(store);
    api.insert("m", "default").await;
    let short = api.get("/v1/instances").await.ok();
    assert_eq!(short["instances"][0].get("state"), None);
    let full = api.get("/v1/instances?full=true").await.ok();
    assert_eq!(full["instances"][0]["state"], json!({"number": 1}));
}

async fn an_omitted_queue_and_version_come_from_the_registered_machine<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = crate::support::running(store.clone()).await;
    let api = ApiClient::new(store);
    let inserted = api
        .post(
            "/v1/instances",
            json!({"machine": "fails", "step": "perform"}),
        )
        .await
        .ok();
    let id = inserted["id"].as_str().unwrap();
    let found = api.get(&format!("/v1/instances/{id}")).await.ok();
    assert_eq!(
        (&found["queue"], &found["version"]),
        (&json!("other"), &json!(1))
    );
    engine.shutdown().await.unwrap();
}
