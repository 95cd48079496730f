//! The standalone server: timeouts, connection limits and the stop.

use crate::support::{ApiClient, LONG};
use outlast::Sqlite;
use outlast::store::{Json, NewInstance};
use outlast_http::{Limits, ServeLimits, Settings, check_address, router, serve};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// A server on a port of this machine.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) api: ApiClient,
    stop: oneshot::Sender<()>,
    served: JoinHandle<std::io::Result<()>>,
}

impl Server {
    pub(crate) async fn start(api: ApiClient, settings: Settings, limits: ServeLimits) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        check_address(address, &settings).unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let router = router(api.client.clone(), settings);
        let served = tokio::spawn(serve(listener, router, limits, async move {
            let _ = stopped.await;
        }));
        Server {
            address,
            api,
            stop,
            served,
        }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends a request, and returns the open connection.
    pub(crate) async fn ask(&self, path: &str, headers: &str) -> TcpStream {
        let mut stream = self.connect().await;
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {}\r\n{headers}\r\n",
            self.address
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        timeout(LONG, self.served).await.unwrap().unwrap().unwrap();
    }
}

/// Reads until `wanted` has arrived, and returns all text read so far.
pub(crate) async fn read_until(stream: &mut TcpStream, wanted: &str) -> String {
    let mut text = String::new();
    timeout(LONG, async {
        let mut bytes = [0; 16 * 1024];
        while !text.contains(wanted) {
            let read = stream.read(&mut bytes).await.unwrap();
            assert!(read > 0, "the stream ended before {wanted:?}: {text}");
            text.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    })
    .await
    .unwrap_or_else(|_| panic!("{wanted:?} never arrived"));
    text
}

async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    timeout(LONG, stream.read_to_string(&mut text))
        .await
        .unwrap()
        .unwrap();
    text
}

async fn server(limits: ServeLimits) -> Server {
    let api = ApiClient::new(Sqlite::in_memory().unwrap());
    Server::start(api, Settings::new(), limits).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_answers_a_request_and_stops() {
    let server = server(ServeLimits::default()).await;
    let mut stream = server.ask("/v1/instances", "connection: close\r\n").await;
    let answer = read_to_end(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let address = server.address;
    server.stop().await;
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_with_a_foreign_host_name_is_refused() {
    let server = server(ServeLimits::default()).await;
    let mut stream = server.connect().await;
    stream
        .write_all(b"GET /v1/instances HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let answer = read_to_end(&mut stream).await;
    assert!(
        answer.starts_with("HTTP/1.1 403") && answer.contains("forbidden_host"),
        "{answer}"
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_with_an_incomplete_request_head_is_closed() {
    let limits = ServeLimits {
        header_timeout: Duration::from_millis(100),
        ..ServeLimits::default()
    };
    let server = server(limits).await;
    let mut slow = server.connect().await;
    slow.write_all(b"GET /v1/instances HTTP/1.1\r\nhost: loc")
        .await
        .unwrap();
    let answer = read_to_end(&mut slow).await;
    assert!(!answer.contains("200 OK"), "{answer}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_an_incomplete_body_times_out() {
    let api = ApiClient::new(Sqlite::in_memory().unwrap());
    let limits = Limits {
        request_timeout: Duration::from_millis(200),
        ..Limits::default()
    };
    let server = Server::start(api, Settings::new().limits(limits), ServeLimits::default()).await;
    let mut slow = server.connect().await;
    let request = format!(
        "POST /v1/instances HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{{",
        server.address
    );
    slow.write_all(request.as_bytes()).await.unwrap();
    let answer = read_until(&mut slow, "}").await;
    assert!(
        answer.starts_with("HTTP/1.1 504") && answer.contains("\"timeout\""),
        "{answer}"
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_connection_replaces_an_idle_one_at_the_limit() {
    let limits = ServeLimits {
        connections: 1,
        ..ServeLimits::default()
    };
    let server = server(limits).await;
    let mut first = server.ask("/healthz", "").await;
    read_until(&mut first, "ok").await;
    let mut second = server.ask("/healthz", "").await;
    read_until(&mut second, "ok").await;
    assert_eq!(
        read_to_end(&mut first).await,
        "",
        "the idle connection was closed"
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_open_connections_block_neither_health_checks_nor_callers() {
    let server = server(ServeLimits::default()).await;
    let mut silent = Vec::new();
    for n in 0..1_100 {
        let mut stream = server.connect().await;
        if n % 2 == 0 {
            // Every second connection sends an incomplete request head.
            let head = b"GET /v1/instances HTTP/1.1\r\nx: ";
            let _ = stream.write_all(head).await;
        }
        silent.push(stream);
        if n % 100 == 99 {
            for path in ["/healthz", "/readyz", "/v1/instances"] {
                let mut asked = server.ask(path, "connection: close\r\n").await;
                let answer = read_to_end(&mut asked).await;
                assert!(
                    answer.starts_with("HTTP/1.1 200"),
                    "{path} at {n}: {answer}"
                );
            }
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_answered_while_every_connection_is_busy() {
    let limits = ServeLimits {
        connections: 2,
        ..ServeLimits::default()
    };
    let server = server(limits).await;
    let mut streams = Vec::new();
    for _ in 0..2 {
        let mut stream = server.ask("/v1/events", "").await;
        read_until(&mut stream, "event: overview").await;
        streams.push(stream);
    }
    let mut health = server.ask("/healthz", "").await;
    let answer = read_to_end(&mut health).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let mut other = server.ask("/v1/instances", "").await;
    let answer = read_to_end(&mut other).await;
    assert!(
        answer.starts_with("HTTP/1.1 503") && answer.contains("retry-after"),
        "{answer}"
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_closes_its_connection() {
    let api = ApiClient::new(Sqlite::in_memory().unwrap());
    let limits = Limits {
        streams: 1,
        ..Limits::default()
    };
    let settings = Settings::new().limits(limits);
    let server = Server::start(api, settings, ServeLimits::default()).await;
    let mut stream = server.ask("/v1/events", "").await;
    read_until(&mut stream, "event: overview").await;
    let cases = [
        ("/v1/events", "", "503"),
        ("/v1/instances", "x-forwarded-for: 1.2.3.4\r\n", "401"),
        ("/v1/instances", "sec-fetch-site: cross-site\r\n", "403"),
    ];
    for (path, headers, status) in cases {
        let mut refused = server.ask(path, headers).await;
        let answer = read_to_end(&mut refused).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
        assert!(answer.contains("connection: close"), "{answer}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_its_answer_is_dropped() {
    let limits = ServeLimits {
        connections: 1,
        write_timeout: Duration::from_millis(200),
        ..ServeLimits::default()
    };
    let server = server(limits).await;
    let row = |n: usize| {
        let state = Json::of(&format!("{n}{}", "x".repeat(1_000_000))).unwrap();
        NewInstance::new("m", "s", state)
    };
    let rows = (0..4).map(row).collect();
    server.api.client.admin().insert_rows(rows).await.unwrap();
    let mut slow = Vec::new();
    for _ in 0..2 {
        let head = "GET /v1/instances?full=true HTTP/1.1\r\nhost: localhost\r\n\r\n";
        let mut stream = server.connect().await;
        // The answers are larger than the buffers of both sides.
        stream.write_all(head.repeat(10).as_bytes()).await.unwrap();
        slow.push(stream);
    }
    // The slot of the dropped client is free again, and other clients are answered.
    timeout(LONG, async {
        loop {
            let mut asked = server
                .ask("/v1/instances/count", "connection: close\r\n")
                .await;
            if read_to_end(&mut asked).await.starts_with("HTTP/1.1 200") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("a client that does not read is dropped in time");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_streams_and_answers_long_polls() {
    let api = ApiClient::new(Sqlite::in_memory().unwrap());
    let limits = Limits {
        waits: 1,
        ..Limits::default()
    };
    let settings = Settings::new().limits(limits);
    let server = Server::start(api, settings, ServeLimits::default()).await;
    let id = server.api.insert("m", "default").await;
    let mut stream = server.ask("/v1/events", "").await;
    read_until(&mut stream, "event: overview").await;
    let mut waiting = a_wait_under_way(&server, &id).await;
    // The idle connection has been answered once. An unaccepted one would be reset at the stop.
    let mut idle = server.ask("/healthz", "").await;
    read_until(&mut idle, "}").await;
    let begun = std::time::Instant::now();
    server.stop().await;
    assert!(
        begun.elapsed() < Duration::from_secs(8),
        "no connection had to be cut off"
    );
    read_to_end(&mut stream).await;
    let answer = read_to_end(&mut waiting).await;
    assert!(answer.contains("\"reached\":false"), "{answer}");
    assert_eq!(read_to_end(&mut idle).await, "");
}

/// Returns a long poll that holds the only slot for long polls.
async fn a_wait_under_way(server: &Server, id: &str) -> TcpStream {
    loop {
        let waiting = server.ask(&format!("/v1/instances/{id}/wait"), "").await;
        for _ in 0..100 {
            let path = format!("/v1/instances/{id}/wait?timeout_ms=1");
            let mut other = server.ask(&path, "connection: close\r\n").await;
            if !read_to_end(&mut other).await.starts_with("HTTP/1.1 503") {
                continue;
            }
            // The slot is taken: by the first poll, unless that poll itself was refused before.
            let mut byte = [0];
            match timeout(Duration::from_millis(20), waiting.peek(&mut byte)).await {
                Err(_) => return waiting,
                Ok(_) => break,
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_request_is_cut_off_after_the_grace_period() {
    let limits = ServeLimits {
        grace: Duration::from_millis(100),
        ..ServeLimits::default()
    };
    let server = server(limits).await;
    let mut slow = server.connect().await;
    let request = format!(
        "POST /v1/instances HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{{",
        server.address
    );
    slow.write_all(request.as_bytes()).await.unwrap();
    // The request is under way once a later request has been answered.
    let mut other = server.ask("/healthz", "connection: close\r\n").await;
    read_to_end(&mut other).await;
    let begun = std::time::Instant::now();
    server.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(8));
    let mut rest = Vec::new();
    let _ = timeout(LONG, slow.read_to_end(&mut rest)).await.unwrap();
    assert_eq!(rest, b"");
}
