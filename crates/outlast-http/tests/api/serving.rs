//! A server on its own: its timeouts, its places, its stop.

use crate::support::{Asking, LONG};
use outlast::Sqlite;
use outlast_http::{Limits, ServeLimits, Settings, check_address, router, serve};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// A server on this machine.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) api: Asking,
    stop: oneshot::Sender<()>,
    served: JoinHandle<std::io::Result<()>>,
}

impl Server {
    pub(crate) async fn start(api: Asking, settings: Settings, limits: ServeLimits) -> Server {
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

    /// Sends a request and leaves the connection open.
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

/// Reads until `wanted` has come, and gives all of it.
pub(crate) async fn read_until(stream: &mut TcpStream, wanted: &str) -> String {
    let mut text = String::new();
    timeout(LONG, async {
        let mut bytes = [0; 16 * 1024];
        while !text.contains(wanted) {
            let read = stream.read(&mut bytes).await.unwrap();
            assert!(read > 0, "it ended before {wanted:?}: {text}");
            text.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    })
    .await
    .unwrap_or_else(|_| panic!("{wanted:?} never came"));
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
    let api = Asking::new(Sqlite::in_memory().unwrap());
    Server::start(api, Settings::new(), limits).await
}

#[tokio::test(flavor = "multi_thread")]
async fn it_answers_and_stops() {
    let server = server(ServeLimits::default()).await;
    let mut stream = server.ask("/v1/instances", "connection: close\r\n").await;
    let answer = read_to_end(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let address = server.address;
    server.stop().await;
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_other_hosts_are_not_served_over_the_wire() {
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
async fn who_does_not_say_what_they_want_is_not_waited_for() {
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
async fn a_body_that_never_ends_is_not_waited_for() {
    let api = Asking::new(Sqlite::in_memory().unwrap());
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
async fn further_connections_wait_until_there_is_a_place() {
    let limits = ServeLimits {
        connections: 1,
        ..ServeLimits::default()
    };
    let server = server(limits).await;
    let mut first = server.ask("/healthz", "").await;
    read_until(&mut first, "ok").await;
    let mut second = server.ask("/healthz", "").await;
    let mut byte = [0];
    let early = timeout(Duration::from_millis(100), second.read(&mut byte)).await;
    assert!(
        early.is_err(),
        "it was answered while the only place was taken"
    );
    drop(first);
    read_until(&mut second, "ok").await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_streams_and_answers_who_waits() {
    let api = Asking::new(Sqlite::in_memory().unwrap());
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
    // It has been answered: one that was not even taken yet is reset.
    let mut idle = server.ask("/healthz", "").await;
    read_until(&mut idle, "}").await;
    let begun = std::time::Instant::now();
    server.stop().await;
    assert!(
        begun.elapsed() < Duration::from_secs(8),
        "nobody had to be cut"
    );
    read_to_end(&mut stream).await;
    let answer = read_to_end(&mut waiting).await;
    assert!(answer.contains("\"reached\":false"), "{answer}");
    assert_eq!(read_to_end(&mut idle).await, "");
}

/// A long poll that has the only place there is for them.
async fn a_wait_under_way(server: &Server, id: &str) -> TcpStream {
    loop {
        let waiting = server.ask(&format!("/v1/instances/{id}/wait"), "").await;
        for _ in 0..100 {
            let path = format!("/v1/instances/{id}/wait?timeout_ms=1");
            let mut other = server.ask(&path, "connection: close\r\n").await;
            if !read_to_end(&mut other).await.starts_with("HTTP/1.1 503") {
                continue;
            }
            // It is full: by the first, unless that was refused itself before.
            let mut byte = [0];
            match timeout(Duration::from_millis(20), waiting.peek(&mut byte)).await {
                Err(_) => return waiting,
                Ok(_) => break,
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_come_to_an_end_is_cut_after_the_grace() {
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
    // Its request is under way once another one behind it has been answered.
    let mut other = server.ask("/healthz", "connection: close\r\n").await;
    read_to_end(&mut other).await;
    let begun = std::time::Instant::now();
    server.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(8));
    let mut rest = Vec::new();
    let _ = timeout(LONG, slow.read_to_end(&mut rest)).await.unwrap();
    assert_eq!(rest, b"");
}
