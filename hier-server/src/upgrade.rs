//! Keeps the permit of a request that was upgraded, such as one for a WebSocket, until its connection closes.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::sync::OwnedSemaphorePermit;

/// The place for the permit of an upgraded request. The connection and its requests share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionPermit(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl ConnectionPermit {
    pub(crate) fn keep(&self, permit: OwnedSemaphorePermit) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(permit);
    }
}

/// A connection with a place for a permit. The handler of an upgraded connection owns this value.
#[derive(Debug)]
pub(crate) struct Connection<C> {
    stream: C,
    _permit: ConnectionPermit,
}

impl<C> Connection<C> {
    pub(crate) fn new(stream: C, permit: ConnectionPermit) -> Self {
        Self { stream, _permit: permit }
    }
}

impl<C: Read + Unpin> Read for Connection<C> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: ReadBufCursor<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<C: Write + Unpin> Write for Connection<C> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }
}
