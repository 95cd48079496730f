//! Where requests come from: this machine, a host that is served, a page of our own.

use crate::support::{Answer, Asking};
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Method, Request};
use outlast::Sqlite;
use outlast_http::{Role, Settings, Token};
use std::net::SocketAddr;

fn asking(settings: Settings) -> Asking {
    Asking::with(Sqlite::in_memory().unwrap(), settings)
}

async fn ask(
    api: &Asking,
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
async fn without_tokens_only_this_machine_is_answered() {
    let api = asking(Settings::new());
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
async fn a_name_that_was_bound_anew_to_this_machine_is_not_served() {
    let api = asking(Settings::new());
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
    // The files and the document too: a page of such a name would be ours.
    let mut request = api.request(Method::GET, "/ui/", Body::empty());
    request
        .headers_mut()
        .insert("host", "evil.example".parse().unwrap());
    assert_eq!(api.send(request).await.code(), "forbidden_host");
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_that_are_named_are_served_and_then_no_others() {
    let (secret, token) = Token::generate("t", Role::Admin).unwrap();
    let bearer = format!("Bearer {secret}");
    let settings = Settings::new()
        .token(token)
        .allow_host("outlast.example.com");
    let api = asking(settings);
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
async fn pages_of_other_origins_change_nothing() {
    let api = asking(Settings::new().allow_origin("https://ops.example.com/"));
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
    // A link may lead here; a script elsewhere may not even ask.
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
async fn an_application_may_decide_by_itself_who_comes_in() {
    let api = asking(Settings::new().authentication_is_the_hosts());
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
