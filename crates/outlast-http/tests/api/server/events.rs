//! The event stream, over a real connection.

use crate::server::standalone::{Server, read_until};
use crate::support::{ApiClient, eventually, on_both_stores};
use outlast_core::{Inspect, Store};
use outlast_http::{Limits, Role, ServeLimits, Settings, Token};
use serde_json::json;
use std::time::Duration;

on_both_stores![
    a_stream_begins_with_current_instances_and_continues_with_changes,
    a_stream_by_ids_reports_only_these_instances,
    a_stream_reports_an_unanswered_cancel,
    a_stream_leaves_out_instances_outside_the_token_scope,
    the_number_of_open_streams_is_limited,
];

fn quick() -> Settings {
    let limits = Limits {
        look_every: Duration::from_millis(20),
        ..Limits::default()
    };
    Settings::new().limits(limits)
}

async fn a_stream_begins_with_current_instances_and_continues_with_changes<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let server = Server::start(ApiClient::new(store), quick(), ServeLimits::default()).await;
    let first = server.api.insert("m", "default").await;
    let mut stream = server.ask("/v1/events?machine=m&limit=2", "").await;
    let begun = read_until(&mut stream, &format!("\"id\":\"{first}\"")).await;
    assert!(begun.contains("content-type: text/event-stream"), "{begun}");
    assert!(begun.contains("event: instance"), "{begun}");
    server.api.insert("other", "default").await;
    let second = server.api.insert("m", "default").await;
    let next = read_until(&mut stream, &format!("\"id\":\"{second}\"")).await;
    assert!(!next.contains("\"machine\":\"other\""), "{next}");
    server
        .api
        .post(&format!("/v1/instances/{second}/terminate"), json!({}))
        .await
        .ok();
    read_until(&mut stream, "\"status\":\"cancelled\"").await;
    server
        .api
        .delete(&format!("/v1/instances/{second}"))
        .await
        .ok();
    read_until(
        &mut stream,
        &format!("event: gone\ndata: {{\"id\":\"{second}\"}}"),
    )
    .await;
    read_until(&mut stream, "event: overview").await;
    drop(stream);
    server.stop().await;
}

async fn a_stream_by_ids_reports_only_these_instances<S: Store + Inspect + Clone>(store: S) {
    let server = Server::start(ApiClient::new(store), quick(), ServeLimits::default()).await;
    let (one, two) = (
        server.api.insert("m", "default").await,
        server.api.insert("m", "default").await,
    );
    let silent = server.api.insert("silent", "default").await;
    let mut stream = server
        .ask(&format!("/v1/events?id={one}&id={two}&id=999999"), "")
        .await;
    read_until(&mut stream, &format!("\"id\":\"{two}\"")).await;
    server
        .api
        .post(&format!("/v1/instances/{silent}/terminate"), json!({}))
        .await
        .ok();
    server
        .api
        .post(&format!("/v1/instances/{one}/terminate"), json!({}))
        .await
        .ok();
    let received = read_until(&mut stream, "\"status\":\"cancelled\"").await;
    assert!(!received.contains("\"machine\":\"silent\""), "{received}");
    drop(stream);
    for query in [
        "id=x",
        "id=1&machine=m",
        "limit=0",
        "cursor=x",
        "machin=m",
        "status=odd",
    ] {
        assert_eq!(
            server.api.get(&format!("/v1/events?{query}")).await.code(),
            "invalid_request",
            "{query}"
        );
    }
    let many = (0..201)
        .map(|n| format!("id={n}"))
        .collect::<Vec<_>>()
        .join("&");
    assert_eq!(
        server.api.get(&format!("/v1/events?{many}")).await.code(),
        "invalid_request"
    );
    server.stop().await;
}

async fn a_stream_reports_an_unanswered_cancel<S: Store + Inspect + Clone>(store: S) {
    let server = Server::start(ApiClient::new(store), quick(), ServeLimits::default()).await;
    let id = server.api.insert("m", "default").await;
    let mut stream = server.ask(&format!("/v1/events?id={id}"), "").await;
    read_until(&mut stream, "\"cancel\":null").await;
    let path = format!("/v1/instances/{id}/cancel");
    server.api.post(&path, json!({})).await.ok();
    // A cancel does not change the revision.
    let received = read_until(&mut stream, "\"answered\":false").await;
    assert!(received.contains("\"revision\":0"), "{received}");
    drop(stream);
    server.stop().await;
}

async fn a_stream_leaves_out_instances_outside_the_token_scope<S: Store + Inspect + Clone>(
    store: S,
) {
    let (secret, token) = Token::generate("a", Role::Read).unwrap();
    let settings = quick().token(token.machines(["a"]));
    let server = Server::start(ApiClient::new(store), settings, ServeLimits::default()).await;
    let foreign = server.api.insert("b", "default").await;
    let mine = server.api.insert("a", "default").await;
    let header = format!("authorization: Bearer {secret}\r\n");
    for path in [
        format!("/v1/events?id={foreign}&id={mine}"),
        "/v1/events?limit=10".to_owned(),
    ] {
        let mut stream = server.ask(&path, &header).await;
        let mut received = read_until(&mut stream, &format!("\"id\":\"{mine}\"")).await;
        received.push_str(&read_until(&mut stream, "event: overview").await);
        assert!(!received.contains("\"machine\":\"b\""), "{received}");
        assert!(
            !received.contains(&format!("\"id\":\"{foreign}\"")),
            "{received}"
        );
    }
    let mut refused = server.ask("/v1/events", "").await;
    read_until(&mut refused, "unauthorized").await;
    server.stop().await;
}

async fn the_number_of_open_streams_is_limited<S: Store + Inspect + Clone>(store: S) {
    let limits = Limits {
        streams: 1,
        ..Limits::default()
    };
    let server = Server::start(
        ApiClient::new(store),
        Settings::new().limits(limits),
        ServeLimits::default(),
    )
    .await;
    let mut first = server.ask("/v1/events", "").await;
    read_until(&mut first, "event: overview").await;
    let mut second = server.ask("/v1/events", "").await;
    let refused = read_until(&mut second, "}").await;
    assert!(
        refused.starts_with("HTTP/1.1 503") && refused.contains("too_many_streams"),
        "{refused}"
    );
    drop(first);
    eventually("a stream can be opened again", async || {
        let mut third = server.ask("/v1/events", "").await;
        read_until(&mut third, "\r\n")
            .await
            .starts_with("HTTP/1.1 200")
    })
    .await;
    server.stop().await;
}
