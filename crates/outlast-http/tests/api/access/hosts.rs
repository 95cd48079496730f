//! Which hosts, origins and peers the router answers.

use crate::support::{Answer, ApiClient};
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Method, Request};
use outlast::Sqlite;
use outlast_http::{Role, Settings, Token};
use std::net::SocketAddr;

fn api_client(settings: Settings) -> ApiClient {
    ApiClient::with(Sqlite::in_memory().unwrap(), settings)
}

async fn ask(
    api: &ApiClient,
    method: Method,
    headers: &[(&str, &str)],
    peer: Option<[u8; 4]>,
) -> Answer {
    let path = if method == Method::GET {
        "/v1/instances"
    } else {
        "/v1/queues/default/pause"
    };
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    if let Some(peer) = peer {
        request = request.extension(ConnectInfo(SocketAddr::from((peer, 1234))));
    }
    api.send(request.body(Body::empty()).unwrap()).await
}

const HERE: Option<[u8; 4]> = Some([127, 0, 0, 1]);

#[tokio::test(flavor = "multi_thread")]
async fn without_tokens_only_requests_from_this_machine_are_answered() {
    let api = api_client(Settings::new());
    let host = ("host", "localhost:7001");
    assert_eq!(ask(&api, Method::GET, &[host], HERE).await.status, 200);
    for (headers, peer) in [
        (vec![host], Some([10, 0, 0, 1])),
        (vec![host], None),
        (vec![host, ("x-forwarded-for", "10.0.0.1")], HERE),
        (vec![host, ("forwarded", "for=10.0.0.1")], HERE),
        (vec![host, ("via", "1.1 proxy")], HERE),
    ] {
        assert_eq!(
            ask(&api, Method::GET, &headers, peer).await.code(),
            "unauthorized",
            "{headers:?} {peer:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_host_name_that_resolves_to_this_machine_is_refused() {
    let api = api_client(Settings::new());
    for host in [
        "evil.example",
        "evil.example:7001",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "10.0.0.1",
        "0.0.0.0:7001",
    ] {
        assert_eq!(
            ask(&api, Method::GET, &[("host", host)], HERE).await.code(),
            "forbidden_host",
            "{host}"
        );
    }
    assert_eq!(
        ask(&api, Method::GET, &[], HERE).await.code(),
        "forbidden_host"
    );
    for host in ["localhost", "LOCALHOST:80", "127.0.0.1:7001", "[::1]:7001"] {
        assert_eq!(
            ask(&api, Method::GET, &[("host", host)], HERE).await.status,
            200,
            "{host}"
        );
    }
    // The dashboard's files are refused too: a page under such a name would count as ours.
    let mut request = api.request(Method::GET, "/ui/", Body::empty());
    request
        .headers_mut()
        .insert("host", "evil.example".parse().unwrap());
    assert_eq!(api.send(request).await.code(), "forbidden_host");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_allowed_hosts_are_served() {
    let (secret, token) = Token::generate("t", Role::Admin).unwrap();
    let bearer = format!("Bearer {secret}");
    let settings = Settings::new()
        .token(token)
        .allow_host("outlast.example.com");
    let api = api_client(settings);
    let authorization = ("authorization", bearer.as_str());
    for (host, status) in [
        ("outlast.example.com", 200),
        ("Outlast.Example.Com:8443", 200),
        ("other.example.com", 403),
    ] {
        assert_eq!(
            ask(
                &api,
                Method::GET,
                &[("host", host), authorization],
                Some([10, 0, 0, 1])
            )
            .await
            .status,
            status,
            "{host}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_from_pages_of_other_origins_are_refused() {
    let api = api_client(Settings::new().allow_origin("https://ops.example.com/"));
    let host = ("host", "localhost:7001");
    for headers in [
        vec![("origin", "https://evil.example")],
        vec![("origin", "null")],
        vec![("origin", "http://localhost:9999")],
        vec![("sec-fetch-site", "cross-site")],
        vec![("sec-fetch-site", "same-site")],
        vec![
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
        ],
        vec![
            ("sec-fetch-site", "cross-site"),
            ("origin", "http://localhost:7001"),
        ],
    ] {
        let headers = [vec![host], headers].concat();
        assert_eq!(
            ask(&api, Method::POST, &headers, HERE).await.code(),
            "forbidden_origin",
            "{headers:?}"
        );
    }
    for headers in [
        vec![],
        vec![("origin", "http://localhost:7001")],
        vec![
            ("sec-fetch-site", "same-origin"),
            ("origin", "http://localhost:7001"),
        ],
        vec![("sec-fetch-site", "none")],
        vec![
            ("sec-fetch-site", "cross-site"),
            ("origin", "https://ops.example.com"),
        ],
    ] {
        let headers = [vec![host], headers].concat();
        assert_eq!(
            ask(&api, Method::POST, &headers, HERE).await.status,
            200,
            "{headers:?}"
        );
    }
    // A link from another site may open a page here. A script of another site may not even read.
    let link = [
        host,
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
    ];
    assert_eq!(ask(&api, Method::GET, &link, HERE).await.status, 200);
    let script = [
        host,
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "no-cors"),
    ];
    assert_eq!(
        ask(&api, Method::GET, &script, HERE).await.code(),
        "forbidden_origin"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_can_authenticate_its_callers_itself() {
    let api = api_client(Settings::new().authentication_is_the_hosts());
    let answer = ask(
        &api,
        Method::POST,
        &[("host", "admin.example.com")],
        Some([10, 0, 0, 1]),
    )
    .await;
    assert_eq!(answer.status, 200);
    let foreign = [
        ("host", "admin.example.com"),
        ("origin", "https://evil.example"),
    ];
    assert_eq!(
        ask(&api, Method::POST, &foreign, None).await.code(),
        "forbidden_origin"
    );
}
