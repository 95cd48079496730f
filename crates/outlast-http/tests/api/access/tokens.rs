//! Tokens and their roles.

use crate::support::ApiClient;
use axum::body::Body;
use axum::http::Method;
use outlast::Sqlite;
use outlast_http::{Role, Settings, Token};
use serde_json::json;

fn api_client(role: Role) -> (ApiClient, String) {
    let (secret, token) = Token::generate("tester", role).unwrap();
    let settings = Settings::new().token(token);
    (
        ApiClient::with(Sqlite::in_memory().unwrap(), settings),
        secret,
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_a_valid_secret_is_refused() {
    let (api, secret) = api_client(Role::Admin);
    let hostile = [
        String::new(),
        "Bearer".into(),
        "Bearer ".into(),
        format!("Basic {secret}"),
        secret.clone(),
        format!("Bearer {secret}x"),
        format!("Bearer {}", &secret[..secret.len() - 1]),
        format!("Bearer {}", secret.to_uppercase()),
        format!("Bearer {secret} {secret}"),
        "Bearer outlast_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".into(),
        "Bearer ' or 1=1 --".into(),
        format!("Bearer {}", "x".repeat(4000)),
    ];
    for given in hostile {
        let mut request = api.request(Method::GET, "/v1/instances", Body::empty());
        request
            .headers_mut()
            .insert("authorization", given.parse().unwrap());
        let answer = api.send(request).await;
        assert_eq!(answer.code(), "unauthorized", "{given}");
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
    }
    assert_eq!(api.get("/v1/instances").await.code(), "unauthorized");
    // A header that is not valid UTF-8.
    let mut request = api.request(Method::GET, "/v1/instances", Body::empty());
    let bytes = axum::http::HeaderValue::from_bytes(b"Bearer \xff\xfe").unwrap();
    request.headers_mut().insert("authorization", bytes);
    assert_eq!(api.send(request).await.code(), "unauthorized");
    api.token(&secret).get("/v1/instances").await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_asks_for_the_role_it_needs() {
    let routes: [(Role, Method, &str); 31] = [
        (Role::Read, Method::GET, "/v1/instances"),
        (Role::Read, Method::GET, "/v1/instances/count"),
        (Role::Read, Method::GET, "/v1/instances/1"),
        (Role::Read, Method::GET, "/v1/instances/1/signals"),
        (Role::Read, Method::GET, "/v1/instances/1/wait?timeout_ms=1"),
        (Role::Read, Method::GET, "/v1/instances/1/updates/u"),
        (Role::Read, Method::GET, "/v1/instances/1/tree"),
        (Role::Read, Method::GET, "/v1/instances/1/family"),
        (Role::Read, Method::GET, "/v1/instances/1/close_actions"),
        (Role::Read, Method::GET, "/v1/machines/m/keys/k"),
        (
            Role::Read,
            Method::GET,
            "/v1/machines/m/keys/k/wait?timeout_ms=1",
        ),
        (Role::Read, Method::GET, "/v1/queues"),
        (Role::Read, Method::GET, "/v1/overview"),
        (Role::Signal, Method::POST, "/v1/instances"),
        (Role::Signal, Method::POST, "/v1/instances/batch"),
        (Role::Signal, Method::POST, "/v1/instances/1/signals"),
        (Role::Signal, Method::POST, "/v1/machines/m/keys/k/signals"),
        (Role::Signal, Method::POST, "/v1/instances/1/updates/n"),
        (
            Role::Signal,
            Method::POST,
            "/v1/machines/m/keys/k/updates/n",
        ),
        (Role::Operate, Method::POST, "/v1/instances/1/retry"),
        (Role::Operate, Method::POST, "/v1/instances/1/repair"),
        (Role::Operate, Method::POST, "/v1/instances/1/cancel"),
        (Role::Operate, Method::POST, "/v1/instances/1/terminate"),
        (Role::Operate, Method::POST, "/v1/machines/m/keys/k/cancel"),
        (
            Role::Operate,
            Method::POST,
            "/v1/machines/m/keys/k/terminate",
        ),
        (Role::Operate, Method::DELETE, "/v1/instances/1"),
        (Role::Operate, Method::POST, "/v1/bulk/retry"),
        (Role::Operate, Method::POST, "/v1/bulk/delete"),
        (Role::Operate, Method::POST, "/v1/bulk/repair"),
        (Role::Operate, Method::POST, "/v1/queues/q/pause"),
        (Role::Operate, Method::POST, "/v1/queues/q/resume"),
    ];
    for role in Role::ALL {
        let (api, secret) = api_client(role);
        let api = api.token(&secret);
        for (needed, method, path) in &routes {
            let mut request = api.request(method.clone(), path, Body::from("{}"));
            request
                .headers_mut()
                .insert("content-type", "application/json".parse().unwrap());
            let answer = api.send(request).await;
            let is_forbidden = answer.status == 403;
            assert_eq!(
                is_forbidden,
                role < *needed,
                "{role} {method} {path}: {answer:?}"
            );
            if is_forbidden {
                assert_eq!(answer.code(), "forbidden");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_checks_the_document_and_the_page_need_no_token() {
    let (api, _) = api_client(Role::Read);
    for path in ["/healthz", "/readyz", "/v1/openapi.json", "/ui/"] {
        assert_eq!(api.get(path).await.status, 200, "{path}");
    }
    assert_eq!(api.get("/metrics").await.code(), "unauthorized");
    assert_eq!(api.get("/v1/events").await.code(), "unauthorized");
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_are_recorded_under_the_name_of_the_token() {
    let (api, secret) = api_client(Role::Admin);
    let id = api.insert("m", "default").await;
    let api = api.token(&secret);
    api.post(&format!("/v1/instances/{id}/cancel"), json!({}))
        .await
        .ok();
    let operations = api
        .get(&format!("/v1/instances/{id}/operations"))
        .await
        .ok();
    assert_eq!(operations["operations"][0]["by"], "tester");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_metrics_route_serves_the_metrics_of_the_program() {
    let (secret, token) = Token::generate("prometheus", Role::Read).unwrap();
    let settings = Settings::new()
        .token(token)
        .metrics(|| "outlast_steps_total 1\n".into());
    let api = ApiClient::with(Sqlite::in_memory().unwrap(), settings).token(&secret);
    let answer = api.get("/metrics").await;
    assert_eq!(answer.text, "outlast_steps_total 1\n");
    assert!(
        answer.headers["content-type"]
            .to_str()
            .unwrap()
            .starts_with("text/plain")
    );
}
