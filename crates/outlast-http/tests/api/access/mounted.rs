//! The router inside another application.

use crate::support::ApiClient;
use axum::Router;
use axum::routing::get;
use outlast::Sqlite;
use outlast_http::{Role, Settings, Token, router};
use serde_json::json;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[tokio::test(flavor = "multi_thread")]
async fn a_router_under_a_prefix_serves_and_links_below_the_prefix() {
    let api = ApiClient::new(Sqlite::in_memory().unwrap());
    let inner = router(api.client.clone(), Settings::new());
    let app = Router::new()
        .route("/", get(async || "the shop"))
        .nest("/admin/outlast", inner);
    let api = api.through(app);
    assert_eq!(api.get("/").await.text, "the shop");
    let id = api
        .post(
            "/admin/outlast/v1/instances",
            json!({"machine": "m", "step": "s"}),
        )
        .await
        .ok();
    let found = api
        .get(&format!(
            "/admin/outlast/v1/instances/{}",
            id["id"].as_str().unwrap()
        ))
        .await
        .ok();
    assert_eq!(found["machine"], "m");
    assert_eq!(
        api.get("/admin/outlast/v1/nothing").await.code(),
        "not_found"
    );
    assert_eq!(api.get("/v1/instances").await.status, 404);

    let root = api.get("/admin/outlast").await;
    assert_eq!(
        (root.status.as_u16(), &root.headers["location"]),
        (307, &"/admin/outlast/ui/".parse().unwrap())
    );
    for path in [
        "/admin/outlast/ui/",
        "/admin/outlast/ui/instances/42",
        "/admin/outlast/ui/machines/a/b?x=1",
    ] {
        let page = api.get(path).await;
        assert!(
            page.text.contains("<base href=\"/admin/outlast/ui/\">"),
            "{path}: {}",
            page.text
        );
    }
    let document = api.get("/admin/outlast/v1/openapi.json").await.ok();
    assert_eq!(document["servers"][0]["url"], "/admin/outlast");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_base_path_setting_adds_the_prefix_that_a_proxy_removes() {
    let settings = Settings::new().base_path("/tools/outlast/");
    let api = ApiClient::with(Sqlite::in_memory().unwrap(), settings);
    assert_eq!(api.get("/").await.headers["location"], "/tools/outlast/ui/");
    assert!(
        api.get("/ui/")
            .await
            .text
            .contains("<base href=\"/tools/outlast/ui/\">")
    );
}

/// Sends a request over a real connection from this machine, and returns the head and the body of
/// the answer.
async fn ask(address: SocketAddr, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "GET /admin/outlast/v1/instances HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

fn mounted(settings: Settings) -> Router {
    let client = outlast::Client::new(Sqlite::in_memory().unwrap());
    Router::new().nest("/admin/outlast", router(client, settings))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_router_mounted_as_documented_answers_this_machine_without_a_token() {
    for page in [
        include_str!("../../../../../docs/http.md"),
        include_str!("../../../../../docs/guides/http-and-webhooks.md"),
        include_str!("../../../src/lib.rs"),
        include_str!("../../../README.md"),
    ] {
        let page = page.replace("//! ", "");
        assert!(
            page.contains("app.into_make_service_with_connect_info::<SocketAddr>()")
                && page.contains("axum::serve(listener, app)"),
            "{page}"
        );
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = mounted(Settings::new()).into_make_service_with_connect_info::<SocketAddr>();
    let serving = tokio::spawn(async move { axum::serve(listener, app).await });
    let answer = ask(address, "").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let forwarded = ask(address, "x-forwarded-for: 10.0.0.1\r\n").await;
    assert!(forwarded.starts_with("HTTP/1.1 401 "), "{forwarded}");
    assert!(!forwarded.contains("connect_info"), "{forwarded}");
    serving.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_router_without_peer_addresses_explains_its_refusal_and_accepts_tokens() {
    let (secret, token) = Token::generate("test", Role::Read).unwrap();
    for (settings, headers, status) in [
        (Settings::new(), String::new(), "401"),
        (
            Settings::new().token(token),
            format!("authorization: Bearer {secret}\r\n"),
            "200",
        ),
        (
            Settings::new().authentication_is_the_hosts(),
            String::new(),
            "200",
        ),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = mounted(settings);
        let serving = tokio::spawn(async move { axum::serve(listener, app).await });
        let answer = ask(address, &headers).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
        let explains = answer.contains("into_make_service_with_connect_info::<SocketAddr>()");
        assert_eq!(explains, status == "401", "{answer}");
        serving.abort();
    }
}
