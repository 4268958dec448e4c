//! What happens on a thread, as the studio follows it: the log without what is large, from any number on.

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
use crate::feed::{self, Feed};
use crate::follow::Follow;
use crate::query::Query;
use crate::stream::sse::frame;
use crate::wire::message;
use crate::wire::places::Places;

/// What is told of an event is not larger than this; the state itself can be asked for.
const LARGE: u64 = 32 << 10;

/// Which events are told.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct EventsQuery {
    /// Those after this number.
    after: u64,
}

/// The events after the number in `Last-Event-ID`, or in `after`. The body ends with the connection, or with the thread.
pub(super) async fn events(
    caller: Caller,
    Path(thread): Path<String>,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let found = find(&caller, &thread, Action::Read).await?;
    let known = headers.get("last-event-id").and_then(|id| id.to_str().ok()).filter(|id| !id.is_empty());
    let after = match known {
        Some(id) => id.parse().map_err(|_| ApiError::invalid("`Last-Event-ID` is no number of an event"))?,
        None => query.after,
    };
    let places = found.row.as_ref().map(|row| caller.app.places_of(row)).unwrap_or_default();
    let log = Log(found.row.map(|row| Follow::of_thread(caller.app.clone(), &row, after)), places);
    Ok(feed::feed(&caller.app, log))
}

/// The log of a thread; none if it has only checkpoints, and so no events.
struct Log(Option<Follow>, Places);

impl Feed for Log {
    type Item = EventRow;

    async fn next(&mut self) -> ApiResult<Option<EventRow>> {
        match &mut self.0 {
            Some(follow) => follow.next().await,
            None => std::future::pending().await,
        }
    }

    async fn tell(&mut self, row: EventRow, told: &mut feed::Told) -> ControlFlow<()> {
        told.push_back(frame("event", &data_of(&row, &self.1), Some(&row.number.to_string())));
        ControlFlow::Continue(())
    }
}

/// A task without its input, which is the state and told by the checkpoints, and without its result, which is told by the update.
fn without_state(task: &TaskEvent) -> Value {
    let mut task = task.to_json();
    if let Some(fields) = task.as_object_mut() {
        fields.retain(|name, _| !matches!(name.as_str(), "input" | "result"));
    }
    task
}

fn data_of(row: &EventRow, places: &Places) -> Value {
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
        _ => (places.event(event).data(), false),
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
