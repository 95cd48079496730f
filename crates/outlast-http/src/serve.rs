//! Serving a router by itself: every wait bounded, and a stop that lets what runs come to its end.

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// Bounds of a server.
#[derive(Clone, Debug)]
pub struct ServeLimits {
    /// Connections at once; further ones wait until one is closed.
    pub connections: usize,
    /// How long a connection may take to say what it wants, from when it is opened or from its last answer.
    pub header_timeout: Duration,
    /// How long requests have to come to their end at a stop.
    pub grace: Duration,
}

impl Default for ServeLimits {
    fn default() -> ServeLimits {
        ServeLimits {
            connections: 1024,
            header_timeout: Duration::from_secs(30),
            grace: Duration::from_secs(10),
        }
    }
}

/// Serves `router` until `shutdown` comes: then no connection is taken any more, event streams and long polls end, other
/// requests are answered, and after [`grace`](ServeLimits::grace) whatever is left is cut.
///
/// Ask [`check_address`](crate::check_address) before listening where others can reach.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ServeLimits,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(limits.connections));
    let graceful = GracefulShutdown::new();
    let stopping = Stopping::default();
    let cut = CancellationToken::new();
    // However this ends: also when it is dropped.
    let _cut = cut.clone().drop_guard();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let (stream, peer, place) = accepted;
        let connection = connection(stream, peer, router.clone(), &limits, &stopping);
        let connection = graceful.watch(connection);
        let cut = cut.clone();
        tokio::spawn(async move {
            let _place = place;
            let served = tokio::select! {
                served = connection => served,
                () = cut.cancelled() => return,
            };
            if let Err(error) = served {
                tracing::debug!(%error, %peer, "a connection broke");
            }
        });
    }
    drop(listener);
    stopping.0.cancel();
    let ended = tokio::time::timeout(limits.grace, graceful.shutdown()).await;
    if ended.is_err() {
        tracing::warn!(grace = ?limits.grace, "connections that did not come to an end are cut");
    }
    Ok(())
}

/// The next connection, when there is a place for it.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
    loop {
        let Ok(place) = places.clone().acquire_owned().await else {
            return std::future::pending().await;
        };
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer, place),
            Err(error) => {
                // Out of files, most often: others have to close first.
                tracing::warn!(%error, "a connection could not be taken");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

type Connection =
    http1::Connection<TokioIo<TcpStream>, hyper_util::service::TowerToHyperService<Service>>;
type Service = tower::util::BoxCloneSyncService<
    hyper::Request<Incoming>,
    axum::response::Response,
    std::convert::Infallible,
>;

fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    limits: &ServeLimits,
    stopping: &Stopping,
) -> Connection {
    let stopping = stopping.clone();
    let service = tower::service_fn(move |request: hyper::Request<Incoming>| {
        let mut request: Request = request.map(axum::body::Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        request.extensions_mut().insert(stopping.clone());
        router.clone().oneshot(request)
    });
    let service = tower::util::BoxCloneSyncService::new(service);
    let service = hyper_util::service::TowerToHyperService::new(service);
    // Answers are small and somebody waits for each.
    let _ = stream.set_nodelay(true);
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(64 * 1024)
        .serve_connection(TokioIo::new(stream), service)
}

/// Says to what goes on without end that the server stops.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stopping(CancellationToken);

impl Stopping {
    pub(crate) async fn stopped(&self) {
        self.0.cancelled().await;
    }
}
