//! Whether a connection leads to one process of the server for as long as it lives, or through a pooler that may
//! give it another with each transaction.
//!
//! When a connection begins, whoever answers names a process, for requests to cancel. A server names its own;
//! poolers make one up, since they must find out later whom they serve by then. So the two are compared: what was
//! named, and who says it serves. A pooler would have to guess one number of four thousand million.

use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_postgres::{CancelToken, Client, Error, SimpleQueryMessage};

/// Whether this connection has its process of the server for itself.
pub(crate) async fn is_direct(client: &Client) -> Result<bool, Error> {
    let answer = client.simple_query("select pg_backend_pid()").await?;
    let serving = answer.iter().find_map(|message| {
        let SimpleQueryMessage::Row(row) = message else {
            return None;
        };
        row.get(0)?.parse().ok()
    });
    let named = named_process(client.cancel_token()).await;
    Ok(serving.is_some() && named.ok() == serving)
}

/// The process that was named when the connection began. The driver tells it only in a request to cancel, so it
/// is given a stream that leads nowhere to write one to.
async fn named_process(token: CancelToken) -> io::Result<i32> {
    const SSL_REQUEST: i32 = 80_877_103;
    let (near, mut far) = tokio::io::duplex(64);
    let asking = token.cancel_query_raw(near, InClear);
    let hearing = async {
        loop {
            // Its length, what it is, and here: the process and its secret.
            let (_, request) = (far.read_i32().await?, far.read_i32().await?);
            if request != SSL_REQUEST {
                return far.read_i32().await;
            }
            far.write_all(b"S").await?;
        }
    };
    // Dropped half-way, asking has done what it is for.
    tokio::select! {
        biased;
        named = hearing => named,
        failed = async {
            match asking.await {
                // The request is written: it is for the other side to end this.
                Ok(()) => std::future::pending().await,
                Err(error) => io::Error::other(error),
            }
        } => Err(failed),
    }
}

/// What stands for TLS where nothing leaves the process.
struct InClear;

impl TlsConnect<DuplexStream> for InClear {
    type Stream = Clear;
    type Error = io::Error;
    type Future = Ready<io::Result<Clear>>;

    fn connect(self, stream: DuplexStream) -> Self::Future {
        ready(Ok(Clear(stream)))
    }
}

struct Clear(DuplexStream);

impl TlsStream for Clear {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Clear {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Clear {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
