//! Server-sent events: their text, and responses that send them as they occur.
//!
//! A response sends heartbeats while its source is silent. The response ends when its source ends or the server stops.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::error::{ApiError, ApiResult};

pub(crate) const HEARTBEAT_EVERY: Duration = Duration::from_secs(5);

/// A comment, which clients ignore. It keeps proxies from closing an idle connection.
const HEARTBEAT: &str = ": heartbeat\n\n";

pub(crate) type SseFrames = VecDeque<String>;

/// A source of server-sent events.
pub(crate) trait SseSource: Send + 'static {
    type Item: Send;

    /// Returns the next item once it exists, or `None` at the end. Cancel safe.
    fn next(&mut self) -> impl Future<Output = ApiResult<Option<Self::Item>>> + Send;

    /// Appends the frames of an item. Breaks if the item is the last one.
    fn push(&mut self, item: Self::Item, frames: &mut SseFrames) -> impl Future<Output = ControlFlow<()>> + Send;

    /// Appends the frames that close the stream.
    fn end(&mut self, _end: SourceEnd, _frames: &mut SseFrames) {}
}

/// The reason why a source has no more items.
pub(crate) enum SourceEnd {
    Complete,
    Failed(ApiError),
    Stopping,
}

struct SseBody<S> {
    source: S,
    frames: SseFrames,
    is_done: bool,
    stopping: CancellationToken,
    heartbeat_every: Duration,
}

impl<S: SseSource> SseBody<S> {
    async fn next(&mut self) -> Option<String> {
        // The interval counts from the last frame, because many items produce no frame.
        let heartbeat = tokio::time::sleep(self.heartbeat_every);
        tokio::pin!(heartbeat);
        loop {
            if let Some(text) = self.frames.pop_front() {
                return Some(text);
            }
            if self.is_done {
                return None;
            }
            let next = tokio::select! {
                next = self.source.next() => {
                    next.map_err(SourceEnd::Failed).and_then(|next| next.ok_or(SourceEnd::Complete))
                }
                () = &mut heartbeat => return Some(HEARTBEAT.to_owned()),
                () = self.stopping.cancelled() => Err(SourceEnd::Stopping),
            };
            match next {
                Ok(item) => self.is_done = self.source.push(item, &mut self.frames).await.is_break(),
                Err(end) => {
                    self.source.end(end, &mut self.frames);
                    self.is_done = true;
                }
            }
        }
    }
}

pub(crate) fn respond<S: SseSource>(app: &App, source: S) -> Response {
    let (frames, stopping) = (SseFrames::new(), app.stopping.clone());
    let body = SseBody { source, frames, is_done: false, stopping, heartbeat_every: HEARTBEAT_EVERY };
    response(futures_util::stream::unfold(
        body,
        |mut body| async move { body.next().await.map(|text| (Ok(text), body)) },
    ))
}

pub(crate) fn response<S>(frames: S) -> Response
where
    S: futures_core::Stream<Item = Result<String, Infallible>> + Send + 'static,
{
    let mut response = Body::from_stream(frames).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Returns the text of an event. The data is compact JSON, which contains no line breaks.
pub(crate) fn frame(event: &str, data: &impl Serialize, id: Option<&str>) -> String {
    let data = serde_json::to_string(data).unwrap_or_else(|_| "null".to_owned());
    let mut text = String::with_capacity(event.len() + data.len() + 32);
    // Event names contain node names, and a line break would end the line.
    let event = event.replace(['\n', '\r'], " ");
    let _ = write!(text, "event: {event}\ndata: {data}\n");
    if let Some(id) = id {
        let _ = writeln!(text, "id: {id}");
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A source with endless items that add no frames.
    struct SilentSource;

    impl SseSource for SilentSource {
        type Item = ();

        async fn next(&mut self) -> ApiResult<Option<()>> {
            tokio::task::yield_now().await;
            Ok(Some(()))
        }

        async fn push(&mut self, (): (), _frames: &mut SseFrames) -> ControlFlow<()> {
            ControlFlow::Continue(())
        }

        fn end(&mut self, end: SourceEnd, frames: &mut SseFrames) {
            if matches!(end, SourceEnd::Stopping) {
                frames.push_back("it stops".to_owned());
            }
        }
    }

    fn silent_body(heartbeat_every: Duration) -> SseBody<SilentSource> {
        let (frames, stopping) = (SseFrames::new(), CancellationToken::new());
        SseBody { source: SilentSource, frames, is_done: false, stopping, heartbeat_every }
    }

    #[tokio::test]
    async fn items_without_frames_do_not_delay_heartbeats() {
        let mut body = silent_body(Duration::from_millis(100));
        assert_eq!(body.next().await.as_deref(), Some(HEARTBEAT));
    }

    #[tokio::test]
    async fn frames_of_the_end_are_the_last() {
        let mut body = silent_body(Duration::from_hours(1));
        body.stopping.cancel();
        assert_eq!(body.next().await.as_deref(), Some("it stops"));
        assert_eq!(body.next().await, None);
    }

    #[test]
    fn frame_has_name_data_and_id_in_order() {
        assert_eq!(frame("values", &json!({ "n": 1 }), None), "event: values\ndata: {\"n\":1}\n\n");
        assert_eq!(frame("values", &1, Some("3-0")), "event: values\ndata: 1\nid: 3-0\n\n");
    }

    #[test]
    fn line_breaks_cannot_end_a_frame_early() {
        assert_eq!(frame("a\ndata: x", &"b\nc", None), "event: a data: x\ndata: \"b\\nc\"\n\n");
    }
}
