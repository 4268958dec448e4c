//! Server-sent events of what is followed: as soon as they are there, with heartbeats in between, until it ends or the server stops.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::error::{ApiError, ApiResult};
use crate::stream::sse::HEARTBEAT;

/// How long a delayed answer waits before it shows that it is alive.
pub(crate) const HEARTBEAT_EVERY: Duration = Duration::from_secs(5);

/// What is followed, and what a client is told of it.
pub(crate) trait Feed: Send + 'static {
    /// What is followed one by one.
    type Item: Send;

    /// The next one, once it is there; none at the end. Cancel safe.
    fn next(&mut self) -> impl Future<Output = ApiResult<Option<Self::Item>>> + Send;

    /// Tells of it, and whether more may come.
    fn tell(&mut self, item: Self::Item, told: &mut Told) -> impl Future<Output = ControlFlow<()>> + Send;

    /// Tells that no more come.
    fn end(&mut self, _why: End, _told: &mut Told) {}
}

/// The events that wait to be sent, each as the text of its frame.
pub(crate) type Told = VecDeque<String>;

/// Why nothing more comes.
pub(crate) enum End {
    /// Nothing is left to follow.
    Over,
    /// It cannot be followed any further.
    Failed(ApiError),
    /// The server stops.
    Stopping,
}

/// The body of a response.
struct Feeding<F> {
    feed: F,
    told: Told,
    is_done: bool,
    stopping: CancellationToken,
    heartbeat_every: Duration,
}

impl<F: Feed> Feeding<F> {
    /// The next piece of the body; none at its end.
    async fn next(&mut self) -> Option<String> {
        // Since the last piece, not since the last item: of many nothing is told.
        let heartbeat = tokio::time::sleep(self.heartbeat_every);
        tokio::pin!(heartbeat);
        loop {
            if let Some(text) = self.told.pop_front() {
                return Some(text);
            }
            if self.is_done {
                return None;
            }
            let next = tokio::select! {
                next = self.feed.next() => next.map_err(End::Failed).and_then(|next| next.ok_or(End::Over)),
                () = &mut heartbeat => return Some(HEARTBEAT.to_owned()),
                () = self.stopping.cancelled() => Err(End::Stopping),
            };
            match next {
                Ok(item) => self.is_done = self.feed.tell(item, &mut self.told).await.is_break(),
                Err(why) => {
                    self.feed.end(why, &mut self.told);
                    self.is_done = true;
                }
            }
        }
    }
}

/// A response that tells of a feed.
pub(crate) fn feed<F: Feed>(app: &App, feed: F) -> Response {
    let (told, stopping) = (Told::new(), app.stopping.clone());
    let feeding = Feeding { feed, told, is_done: false, stopping, heartbeat_every: HEARTBEAT_EVERY };
    answer(futures_util::stream::unfold(feeding, |mut feeding| async move {
        feeding.next().await.map(|text| (Ok(text), feeding))
    }))
}

/// A response of server-sent events.
pub(crate) fn answer<S>(stream: S) -> Response
where
    S: futures_core::Stream<Item = Result<String, Infallible>> + Send + 'static,
{
    let mut response = Body::from_stream(stream).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Items come without end, and nothing is told of them.
    struct Unwanted;

    impl Feed for Unwanted {
        type Item = ();

        async fn next(&mut self) -> ApiResult<Option<()>> {
            tokio::task::yield_now().await;
            Ok(Some(()))
        }

        async fn tell(&mut self, (): (), _told: &mut Told) -> ControlFlow<()> {
            ControlFlow::Continue(())
        }

        fn end(&mut self, why: End, told: &mut Told) {
            if matches!(why, End::Stopping) {
                told.push_back("it stops".to_owned());
            }
        }
    }

    fn unwanted(heartbeat_every: Duration) -> Feeding<Unwanted> {
        let (told, stopping) = (Told::new(), CancellationToken::new());
        Feeding { feed: Unwanted, told, is_done: false, stopping, heartbeat_every }
    }

    #[tokio::test]
    async fn heartbeats_come_though_items_come_of_which_nothing_is_told() {
        let mut feeding = unwanted(Duration::from_millis(100));
        assert_eq!(feeding.next().await.as_deref(), Some(HEARTBEAT));
    }

    #[tokio::test]
    async fn what_is_told_at_the_end_is_the_last() {
        let mut feeding = unwanted(Duration::from_hours(1));
        feeding.stopping.cancel();
        assert_eq!(feeding.next().await.as_deref(), Some("it stops"));
        assert_eq!(feeding.next().await, None);
    }
}
