//! Detecting whether a connection is direct, or goes through a pooler in transaction mode.
//!
//! A direct connection has one server process for its whole life. A pooler may use another process
//! for each transaction.
//!
//! At the start of a connection the peer names a process, for cancel requests. A server names its
//! own process. A pooler makes up a number, because the process changes later. So this file
//! compares that number with `pg_backend_pid()`. A pooler would have to guess one number in four
//! billion.
//!
//! A wrong "direct" would be dangerous: settings would reach other programs, and a statement name
//! could mean another program's statement (docs/decisions/0010). A wrong "pooler" costs messages.

use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_postgres::{CancelToken, Client, Error, SimpleQueryMessage};

/// Returns whether this connection has a server process for itself.
pub(crate) async fn is_direct(client: &Client) -> Result<bool, Error> {
    let answer = client.simple_query("select pg_backend_pid()").await?;
    let serving = answer.iter().find_map(|message| {
        let SimpleQueryMessage::Row(row) = message else {
            return None;
        };
        row.get(0)?.parse().ok()
    });
    // A process that cannot be read counts as a pooler's.
    let named = named_process(client.cancel_token()).await;
    Ok(serving.is_some() && named.ok() == serving)
}

/// Returns the process that the peer named at the start of the connection.
///
/// The driver reveals it only in a cancel request. So this writes one into a stream without a
/// peer.
async fn named_process(token: CancelToken) -> io::Result<i32> {
    const SSL_REQUEST: i32 = 80_877_103;
    let (near, mut far) = tokio::io::duplex(64);
    let sending = token.cancel_query_raw(near, InClear);
    let reading = async {
        loop {
            // The length and the request code come first, then the process and its secret.
            let (_, request) = (far.read_i32().await?, far.read_i32().await?);
            if request != SSL_REQUEST {
                return far.read_i32().await;
            }
            // The driver asks for TLS first, unless the URL turns it off. The answer is yes, and
            // `InClear` goes on without.
            far.write_all(b"S").await?;
        }
    };
    // The request can be dropped half-way: the process number is all that is needed.
    tokio::select! {
        biased;
        named = reading => named,
        failed = async {
            match sending.await {
                // The request is written. The reading side ends the select.
                Ok(()) => std::future::pending().await,
                Err(error) => io::Error::other(error),
            }
        } => Err(failed),
    }
}

/// A connector without TLS, for a stream that stays inside the process.
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
