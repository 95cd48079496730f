//! Serves a router on a listener, with a bound on every wait and a graceful shutdown.

use crate::problem::{Code, Problem};
use crate::server::connections::{ConnectionSlot, Connections};
use crate::server::write_timeout::WriteTimeoutStream;
use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// Bounds of a server.
#[derive(Clone, Debug)]
pub struct ServeLimits {
    /// Concurrent connections. A further one replaces the oldest idle connection. When none is
    /// idle, a few more are accepted for health checks alone and the rest are closed. Default:
    /// 1,024.
    pub connections: usize,
    /// Idle connections of one address; a further one replaces the oldest of these. Callers behind
    /// one proxy share an address. Default: 512.
    pub idle_per_peer: usize,
    /// How long a request head may take, from the start of the connection or from its last
    /// response.
    pub header_timeout: Duration,
    /// How long a client may leave its response or event stream unread before the connection is
    /// closed. A slow client gets more time while it reads faster than 16 KiB/s. Default: 20 s.
    pub write_timeout: Duration,
    /// How long requests may continue after a shutdown.
    pub grace: Duration,
}

impl Default for ServeLimits {
    fn default() -> ServeLimits {
        ServeLimits {
            connections: 1024,
            idle_per_peer: 512,
            header_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(20),
            grace: Duration::from_secs(10),
        }
    }
}

/// Serves `router` until `shutdown` completes. Then it accepts no more connections, ends event
/// streams and long polls, and answers the other requests. It closes the remaining connections
/// after [`grace`](ServeLimits::grace).
///
/// Call [`check_address`](crate::check_address) before listening where other machines can connect.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ServeLimits,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let connections = Connections::new(limits.connections, limits.idle_per_peer);
    let graceful = GracefulShutdown::new();
    let stopping = Shutdown::default();
    let cut = CancellationToken::new();
    // Closes the connections also when this future is dropped.
    let _cut = cut.clone().drop_guard();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let (stream, peer) = tokio::select! {
            () = &mut shutdown => break,
            accepted = accept(&listener) => accepted,
        };
        let Some(slot) = connections.open(peer.ip()) else {
            continue;
        };
        let closed = slot.closed();
        let slot = Arc::new(slot);
        let connection = connection(stream, peer, slot, router.clone(), &limits, &stopping);
        let connection = graceful.watch(connection);
        let cut = cut.clone();
        tokio::spawn(async move {
            let served = tokio::select! {
                served = connection => served,
                () = closed.cancelled() => return,
                () = cut.cancelled() => return,
            };
            if let Err(error) = served {
                tracing::debug!(%error, %peer, "connection failed");
            }
        });
    }
    drop(listener);
    stopping.0.cancel();
    let ended = tokio::time::timeout(limits.grace, graceful.shutdown()).await;
    if ended.is_err() {
        tracing::warn!(grace = ?limits.grace, "closed connections that did not finish within the grace period");
    }
    Ok(())
}

/// Accepts the next connection.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                // Usually no file descriptor is free, until another connection closes.
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

type HttpConnection = http1::Connection<
    TokioIo<WriteTimeoutStream>,
    hyper_util::service::TowerToHyperService<Service>,
>;
type Service = tower::util::BoxCloneSyncService<
    hyper::Request<Incoming>,
    axum::response::Response,
    Infallible,
>;

fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    slot: Arc<ConnectionSlot>,
    router: Router,
    limits: &ServeLimits,
    stopping: &Shutdown,
) -> HttpConnection {
    let stopping = stopping.clone();
    let service = tower::service_fn(move |request: hyper::Request<Incoming>| {
        let mut request: Request = request.map(axum::body::Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        request.extensions_mut().insert(stopping.clone());
        answer(router.clone(), request, slot.clone())
    });
    let service = tower::util::BoxCloneSyncService::new(service);
    let service = hyper_util::service::TowerToHyperService::new(service);
    // Responses are small and callers wait for them.
    let _ = stream.set_nodelay(true);
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(64 * 1024)
        .serve_connection(
            TokioIo::new(WriteTimeoutStream::new(stream, limits.write_timeout)),
            service,
        )
}

/// Answers a request. The connection is busy until the response is sent. After a refusal it is
/// closed, so that unauthorized callers hold no connection.
async fn answer(
    router: Router,
    request: Request,
    slot: Arc<ConnectionSlot>,
) -> Result<Response, Infallible> {
    let busy = slot.request();
    let is_health = matches!(request.uri().path(), "/healthz" | "/readyz");
    let mut response = match slot.is_for_health && !is_health {
        true => {
            let detail = "too many connections are open; try again later";
            Problem::new(Code::Unavailable, detail).into_response()
        }
        false => router.oneshot(request).await?,
    };
    let is_refused = matches!(
        response.status(),
        StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::REQUEST_TIMEOUT
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::SERVICE_UNAVAILABLE
    );
    if is_refused || slot.is_for_health {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    Ok(response.map(|body| {
        axum::body::Body::new(body.map_frame(move |frame| {
            let _ = &busy;
            frame
        }))
    }))
}

/// Notifies event streams and long polls that the server shuts down.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shutdown(CancellationToken);

impl Shutdown {
    pub(crate) async fn stopped(&self) {
        self.0.cancelled().await;
    }
}
