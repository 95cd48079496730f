//! Response bodies that keep their reserved memory until they are sent.

use crate::api::KIB;
use crate::problem::{Code, Problem};
use axum::body::Bytes;
use axum::response::Response;
use hyper::body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::OwnedSemaphorePermit;

/// The size of a chunk handed to the connection.
const PIECE: usize = 64 * 1024;

/// A body that is sent in chunks. Each chunk is a copy, because the connection keeps a few chunks
/// after it took the last one. They must not keep the whole response alive after its memory is
/// released.
pub(crate) struct BudgetedBody {
    rest: Bytes,
    _room: OwnedSemaphorePermit,
}

impl BudgetedBody {
    /// Returns the response and releases the part of the reservation that it does not need.
    pub(crate) async fn answer(
        made: Response,
        mut room: OwnedSemaphorePermit,
    ) -> Result<Response, Problem> {
        let (head, body) = made.into_parts();
        let rest = axum::body::to_bytes(body, usize::MAX).await;
        let rest = rest.map_err(|error| Problem::new(Code::Internal, error.to_string()))?;
        // A buffer that grows by doubling is up to twice as large as its content.
        let needed = 2 * rest.len() / KIB + 1;
        drop(room.split(room.num_permits().saturating_sub(needed)));
        let body = axum::body::Body::new(BudgetedBody { rest, _room: room });
        Ok(Response::from_parts(head, body))
    }
}

impl Body for BudgetedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if this.rest.is_empty() {
            return Poll::Ready(None);
        }
        let piece = this.rest.split_to(this.rest.len().min(PIECE));
        let piece = Bytes::copy_from_slice(&piece);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}
