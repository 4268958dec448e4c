//! Streams the log of a thread to the studio, without large values.

use std::ops::ControlFlow;
use std::time::UNIX_EPOCH;

use axum::extract::Path;
use axum::http::HeaderMap;
use axum::response::Response;
use hier_core::runs::{EventRow, LogEvent, TaskEvent};
use serde::Deserialize;
use serde_json::{Value, json};

use super::threads::find;
use crate::app::Caller;
use crate::auth::Action;
use crate::error::{ApiError, ApiResult};
use crate::event_tail::EventTail;
use crate::query::Query;
use crate::sse::{self, SseFrames, SseSource, frame};
use crate::wire::message;
use crate::wire::message_paths::MessagePaths;

/// Size of an event above which the data is omitted, in bytes. The studio then requests the state.
const LARGE: u64 = 32 << 10;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct EventsQuery {
    /// The number after which events are sent.
    after: u64,
}

/// Streams the events after the number in the header `Last-Event-ID`, or else in `after`. The stream ends when the
/// client disconnects or the thread is deleted.
pub(super) async fn events(
    caller: Caller,
    Path(thread): Path<String>,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let found = find(&caller, &thread, Action::Read).await?;
    let known = headers.get("last-event-id").and_then(|id| id.to_str().ok()).filter(|id| !id.is_empty());
    let after = match known {
        Some(id) => id.parse().map_err(|_| {
            ApiError::invalid("`Last-Event-ID` is not the number of an event: send the `id` of the last event")
        })?,
        None => query.after,
    };
    let message_paths = found.row.as_ref().map(|row| caller.app.message_paths_of(row)).unwrap_or_default();
    let log = StudioLog(found.row.map(|row| EventTail::of_thread(caller.app.clone(), &row, after)), message_paths);
    Ok(sse::respond(&caller.app, log))
}

/// The log of a thread. `None` for a thread without a row, which has checkpoints but no events.
struct StudioLog(Option<EventTail>, MessagePaths);

impl SseSource for StudioLog {
    type Item = EventRow;

    async fn next(&mut self) -> ApiResult<Option<EventRow>> {
        match &mut self.0 {
            Some(tail) => tail.next().await,
            None => std::future::pending().await,
        }
    }

    async fn push(&mut self, row: EventRow, frames: &mut SseFrames) -> ControlFlow<()> {
        frames.push_back(frame("event", &data_of(&row, &self.1), Some(&row.number.to_string())));
        ControlFlow::Continue(())
    }
}

/// Formats a task without its input and result, because checkpoints and updates contain them.
fn without_state(task: &TaskEvent) -> Value {
    let mut task = task.to_json();
    if let Some(fields) = task.as_object_mut() {
        fields.retain(|name, _| !matches!(name.as_str(), "input" | "result"));
    }
    task
}

fn data_of(row: &EventRow, message_paths: &MessagePaths) -> Value {
    let event = &row.event;
    let (data, is_cut) = match &event.body {
        LogEvent::Task(task) => (without_state(task), true),
        LogEvent::Debug { timestamp, task } => {
            (json!({ "timestamp": timestamp, "payload": without_state(task) }), true)
        }
        _ if event.bytes() > LARGE => (Value::Null, true),
        LogEvent::Message(_) => {
            let mut data = event.body.data();
            data.get_mut("message").into_iter().for_each(message::outward);
            (data, false)
        }
        _ => (message_paths.event(event).data(), false),
    };
    let node = match &event.body {
        LogEvent::Custom { node, .. } => Some(node),
        LogEvent::Message(message) => Some(&message.agent),
        _ => None,
    };
    let at = row.at.duration_since(UNIX_EPOCH).unwrap_or_default();
    json!({
        "n": row.number,
        "at": u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
        "run": event.run,
        "mode": event.mode(),
        "ns": event.namespace,
        "node": node,
        "data": data,
        "cut": is_cut,
    })
}
