//! The guard of savers and stores: a panic in one of them becomes [`SaverError::Panicked`].

use std::any::Any;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::future::BoxFuture;

use super::error::SaverError;
use crate::panics;

/// A call of a saver or a store, as a future. If the call panics, the future returns the panic as an error. The guard
/// does not allocate, because each superstep of a durable run makes such calls.
pub enum GuardedCall<'a, T, E> {
    Running(BoxFuture<'a, Result<T, E>>),
    /// The result of a call that returned without a future. `None` after the result was returned.
    Ready(Option<Result<T, E>>),
}

impl<'a, T, E: From<SaverError>> GuardedCall<'a, T, E> {
    /// Calls `call`, and guards the future that it returns. A panic of `call` itself also becomes an error.
    #[inline]
    pub fn new(call: impl FnOnce() -> BoxFuture<'a, Result<T, E>>) -> Self {
        Self::or_ready(|| Ok(call()))
    }

    /// Calls `call`, and guards the future that it returns as `Ok`. `call` returns `Err` with the result if it needs no
    /// future.
    #[inline]
    pub fn or_ready(call: impl FnOnce() -> Result<BoxFuture<'a, Result<T, E>>, Result<T, E>>) -> Self {
        match panics::catch(call) {
            Ok(Ok(running)) => Self::Running(running),
            Ok(Err(ready)) => Self::Ready(Some(ready)),
            Err(payload) => Self::Ready(Some(Err(panicked(&*payload).into()))),
        }
    }
}

// The values of a ready call are never pinned.
impl<T, E> Unpin for GuardedCall<'_, T, E> {}

impl<T, E: From<SaverError>> Future for GuardedCall<'_, T, E> {
    type Output = Result<T, E>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Running(call) => panics::catch(|| call.as_mut().poll(context))
                .unwrap_or_else(|payload| Poll::Ready(Err(panicked(&*payload).into()))),
            Self::Ready(result) => result.take().map_or(Poll::Pending, Poll::Ready),
        }
    }
}

/// Runs a future that calls a saver or a store, once or several times. Returns a panic as [`SaverError::Panicked`].
pub async fn guarded<T, E: From<SaverError>>(calls: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    panics::caught(calls).await.unwrap_or_else(|payload| Err(panicked(&*payload).into()))
}

/// Runs a future that calls a store of runs, once or several times. Logs a panic under the name `call`, and returns it
/// as [`SaverError::Panicked`].
pub async fn reported<T, E: From<SaverError>>(
    call: &'static str,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    panics::caught(work).await.unwrap_or_else(|payload| Err(report(call, &*payload).into()))
}

/// Logs a panic of a store of runs under the name `call`, and converts the panic to [`SaverError::Panicked`].
pub fn report(call: &'static str, payload: &(dyn Any + Send)) -> SaverError {
    let error = panicked(payload);
    tracing::error!(
        call,
        %error,
        "a call of the store of runs panicked and returned an error: fix the panic in the `RunBackend`"
    );
    error
}

pub fn panicked(payload: &(dyn Any + Send)) -> SaverError {
    SaverError::Panicked { message: panics::text(payload) }
}
