//! Invalid requests are refused with an error code and change nothing.

use crate::support::{ApiClient, on_sqlite};
use axum::body::Body;
use axum::http::{Method, StatusCode};
use outlast::Sqlite;
use serde_json::json;

/// The router refuses these requests before they reach a store, so one store is enough.
async fn api_client() -> ApiClient {
    ApiClient::new(Sqlite::in_memory().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_makes_no_sense_is_refused() {
    let api = api_client().await;
    for query in [
        "machin=a",
        "version=x",
        "version=99999999999",
        "status=finished",
        "status=done,",
        "machine=",
        "machine=a&machine=b",
        "key=%00",
        "parent=x",
        "parent=-1",
        "inserted_from=yesterday",
        "ended_from=yesterday",
        "ended_until=%2B200000-01-01T00:00:00Z",
        "inserted_from=%2B200000-01-01T00:00:00Z",
        "attempts_from=many",
        "deadline=soon",
        "limit=0",
        "limit=201",
        "limit=-1",
        "limit=ten",
        "full=perhaps",
        "cursor=",
        "cursor=AAAA",
        "cursor=%F0%9F%92%A9",
        "error=",
    ] {
        let answer = api.get(&format!("/v1/instances?{query}")).await;
        assert_eq!(answer.code(), "invalid_request", "{query}: {}", answer.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_of_another_filter_is_refused() {
    let api = api_client().await;
    for _ in 0..3 {
        api.insert("m", "default").await;
    }
    let page = api.get("/v1/instances?limit=1").await.ok();
    let cursor = page["next"].as_str().unwrap();
    let other = api
        .get(&format!("/v1/instances?machine=m&cursor={cursor}"))
        .await;
    assert_eq!(other.code(), "invalid_request");
    assert!(other.text.contains("another"), "{}", other.text);
    api.get(&format!("/v1/instances?cursor={cursor}"))
        .await
        .ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_makes_no_sense_is_refused() {
    let api = api_client().await;
    for (body, code) in [
        ("", "invalid_json"),
        ("{", "invalid_json"),
        ("[]", "invalid_json"),
        (r#" ["m","s"]"#, "invalid_json"),
        (
            r#"["m",1,"s",null,"default",0,null,null,null,null,null]"#,
            "invalid_json",
        ),
        ("null", "invalid_json"),
        (r#"{"machine":"m"}"#, "invalid_json"),
        (
            r#"{"machine":"m","step":"s","colour":"red"}"#,
            "invalid_json",
        ),
        (
            r#"{"machine":"m","step":"s","machine":"n"}"#,
            "invalid_json",
        ),
        (r#"{"machine":1,"step":"s"}"#, "invalid_json"),
        (
            r#"{"machine":"m","step":"s","priority":99999}"#,
            "invalid_json",
        ),
        (
            r#"{"machine":"m","step":"s","state":"\u0000"}"#,
            "invalid_json",
        ),
        (
            r#"{"machine":"m","step":"s","state":"\ud800"}"#,
            "invalid_json",
        ),
        (
            r#"{"machine":"m","step":"s","unique_in":["sometimes"],"key":"k"}"#,
            "invalid_json",
        ),
        (r#"{"machine":"","step":"s"}"#, "invalid_request"),
        (r#"{"machine":"a/b","step":"s"}"#, "invalid_request"),
        (
            r#"{"machine":"m","step":"s","version":0}"#,
            "invalid_request",
        ),
        (
            r#"{"machine":"m","step":"s","unique_in":["runnable"]}"#,
            "invalid_request",
        ),
        (
            r#"{"machine":"m","step":"s","delay_ms":1,"eligible_at":"2026-01-01T00:00:00Z"}"#,
            "invalid_request",
        ),
        (
            r#"{"machine":"m","step":"s","delay_ms":18446744073709551615}"#,
            "invalid_request",
        ),
        (
            r#"{"machine":"m","step":"s","eligible_at":"soon"}"#,
            "invalid_request",
        ),
        (
            r#"{"machine":"m","step":"s","key":"a\u0007b"}"#,
            "invalid_request",
        ),
    ] {
        let answer = api.post_text("/v1/instances", body).await;
        assert_eq!(answer.code(), code, "{body}: {}", answer.text);
    }
    assert_eq!(api.get("/v1/instances/count").await.ok()["count"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_too_large_or_too_deep_is_refused() {
    let api = api_client().await;
    let large = format!(
        r#"{{"machine":"m","step":"s","state":"{}"}}"#,
        "x".repeat(1024 * 1024)
    );
    assert_eq!(
        api.post_text("/v1/instances", large).await.code(),
        "too_large"
    );
    let deep = |n: usize| {
        format!(
            r#"{{"machine":"m","step":"s","state":{}{}}}"#,
            "[".repeat(n),
            "]".repeat(n)
        )
    };
    assert_eq!(
        api.post_text("/v1/instances", deep(64)).await.code(),
        "too_deep"
    );
    assert_eq!(
        api.post_text("/v1/instances", "[".repeat(500_000))
            .await
            .code(),
        "too_deep"
    );
    api.post_text("/v1/instances", deep(63)).await.ok();
    let many: Vec<_> = (0..1001)
        .map(|_| json!({"machine": "m", "step": "s"}))
        .collect();
    let many = api
        .post("/v1/instances/batch", json!({ "instances": many }))
        .await;
    assert_eq!(many.code(), "invalid_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_without_the_json_content_type_is_refused() {
    let api = api_client().await;
    let body = json!({"machine": "m", "step": "s"}).to_string();
    for declared in [
        None,
        Some("text/plain"),
        Some("application/x-www-form-urlencoded"),
        Some("application/jsonp"),
    ] {
        let mut request = api.request(Method::POST, "/v1/instances", Body::from(body.clone()));
        if let Some(declared) = declared {
            request
                .headers_mut()
                .insert("content-type", declared.parse().unwrap());
        }
        assert_eq!(
            api.send(request).await.code(),
            "unsupported_media_type",
            "{declared:?}"
        );
    }
    let mut request = api.request(Method::POST, "/v1/instances", Body::from(body));
    request.headers_mut().insert(
        "content-type",
        "Application/JSON; charset=utf-8".parse().unwrap(),
    );
    assert_eq!(api.send(request).await.status, StatusCode::CREATED);
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_that_make_no_sense_are_refused() {
    let api = api_client().await;
    for (path, code) in [
        ("/v1/instances/x", "invalid_request"),
        ("/v1/instances/-1", "invalid_request"),
        ("/v1/instances/+1", "invalid_request"),
        ("/v1/instances/99999999999999999999", "invalid_request"),
        ("/v1/instances/%FF", "invalid_request"),
        ("/v1/instances/1/wait?timeout_ms=30001", "invalid_request"),
        ("/v1/instances/1/wait?until=never", "invalid_request"),
        ("/v1/instances/1/tree?depth=6", "invalid_request"),
        ("/v1/instances/1/children?round=first", "invalid_request"),
        ("/v1/instances/1/signals?cursor=x", "invalid_request"),
        ("/v1/instances/1/wait", "not_found"),
        ("/v1/instances/1/tree", "not_found"),
        ("/v1/instances/1/children", "not_found"),
        ("/v1/instances/1/signals", "not_found"),
        ("/v1/instances/1/operations", "not_found"),
        ("/v1/machines/nobody", "not_found"),
        ("/v1/machines/a%00b/keys/k", "invalid_request"),
        ("/v1", "not_found"),
        ("/v2/instances", "not_found"),
        ("/metrics", "not_found"),
    ] {
        let answer = api.get(path).await;
        assert_eq!(answer.code(), code, "{path}: {}", answer.text);
    }
    assert_eq!(api.delete("/v1/queues").await.code(), "method_not_allowed");
    assert_eq!(
        api.post("/v1/overview", json!({})).await.code(),
        "method_not_allowed"
    );
    assert_eq!(
        api.post("/v1/bulk/forget", json!({"filter": {}}))
            .await
            .code(),
        "not_found"
    );
    assert_eq!(
        api.post("/v1/bulk/retry", json!({"filter": {"machin": "x"}}))
            .await
            .code(),
        "invalid_request"
    );
    assert_eq!(
        api.post("/v1/bulk/retry", json!({})).await.code(),
        "invalid_json"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_store_is_unavailable_and_its_name_is_not_revealed() {
    on_sqlite(async |store| {
        let api = ApiClient::new(store.clone());
        outlast_core::Store::close(&store).await;
        for path in [
            "/v1/instances",
            "/v1/instances/1",
            "/v1/queues",
            "/v1/workers",
            "/readyz",
        ] {
            let answer = api.get(path).await;
            assert_eq!(answer.code(), "unavailable", "{path}");
            assert_eq!(answer.headers["retry-after"], "1");
            assert!(!answer.text.contains("sqlite"), "{}", answer.text);
        }
        assert_eq!(api.get("/healthz").await.status, StatusCode::OK);
    })
    .await;
}
