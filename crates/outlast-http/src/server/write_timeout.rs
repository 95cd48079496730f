//! A socket with a bound on its writes: a client that does not read its response is disconnected.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

/// A client that reads more slowly than this times out eventually.
const BYTES_PER_SECOND: u64 = 16 * 1024;

pub(crate) struct WriteTimeoutStream {
    stream: TcpStream,
    patience: Duration,
    /// When the client must have read on. Each read extends it, never beyond the timeout.
    until: Instant,
    /// Present while a write waits for the client.
    waiting: Option<Pin<Box<Sleep>>>,
    /// Whether the previous write had to wait: its deadline then still applies.
    is_behind: bool,
}

impl WriteTimeoutStream {
    pub(crate) fn new(stream: TcpStream, patience: Duration) -> WriteTimeoutStream {
        WriteTimeoutStream {
            stream,
            patience,
            until: Instant::now() + patience,
            waiting: None,
            is_behind: false,
        }
    }

    fn written(&mut self, bytes: usize) {
        let latest = Instant::now() + self.patience;
        let bought = Duration::from_secs_f64(bytes as f64 / BYTES_PER_SECOND as f64);
        self.until = match self.is_behind {
            true => latest.min(self.until + bought),
            false => latest,
        };
        self.is_behind = self.waiting.take().is_some();
    }

    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if !self.is_behind && self.waiting.is_none() {
            self.until = Instant::now() + self.patience;
        }
        let until = self.until;
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        match waiting.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_written(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(bytes)) => {
                self.written(bytes);
                Poll::Ready(Ok(bytes))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => self.poll_late(cx),
        }
    }
}

impl AsyncRead for WriteTimeoutStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for WriteTimeoutStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.poll_written(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.poll_written(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
