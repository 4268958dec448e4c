//! Streams the events of all runs of a thread.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use axum::extract::Path;
use hier_core::runs::{EventRow, LogEvent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use super::streams::{EventPosition, StreamStart};
use crate::answer::Streamed;
use crate::app::{App, Caller};
use crate::auth::Action;
use crate::error::ApiResult;
use crate::event_tail::EventTail;
use crate::query::Query;
use crate::sse::{self, SseFrames, SseSource, frame};
use crate::stream::translate::{SseEvent, StreamTranslator};

/// The number of the event `run_done`, which follows the events of [`StreamTranslator::end`]. Their count depends on the
/// modes.
const RUN_DONE: usize = u32::MAX as usize;

#[derive(Clone, Copy, Debug)]
struct EventKinds {
    runs: bool,
    lifecycle: bool,
    states: bool,
}

/// Options of the stream of a thread.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct ThreadStreamQuery {
    /// Kinds of events to send. Defaults to `run_modes`.
    stream_modes: Vec<ThreadStreamMode>,
    /// Another name of `stream_modes`, used by the Python client.
    stream_mode: Vec<ThreadStreamMode>,
}

/// A kind of event on a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ThreadStreamMode")]
enum ThreadStreamMode {
    RunModes,
    Lifecycle,
    StateUpdate,
}

impl EventKinds {
    fn new(query: &ThreadStreamQuery) -> Self {
        let named: Vec<ThreadStreamMode> = query.stream_modes.iter().chain(&query.stream_mode).copied().collect();
        let has = |kind| named.contains(&kind);
        Self {
            runs: named.is_empty() || has(ThreadStreamMode::RunModes),
            lifecycle: has(ThreadStreamMode::Lifecycle),
            states: has(ThreadStreamMode::StateUpdate),
        }
    }
}

/// The events of a thread. The stream ends when the client disconnects or the thread is deleted.
struct ThreadStream {
    app: Arc<App>,
    thread: String,
    tail: EventTail,
    kinds: EventKinds,
    runs: HashMap<Uuid, StreamTranslator>,
    after: EventPosition,
}

impl SseSource for ThreadStream {
    type Item = EventRow;

    async fn next(&mut self) -> ApiResult<Option<EventRow>> {
        self.tail.next().await
    }

    async fn push(&mut self, row: EventRow, frames: &mut SseFrames) -> ControlFlow<()> {
        // After an error, the client reconnects.
        let Ok(events) = self.events(&row).await else { return ControlFlow::Break(()) };
        for (part, SseEvent { event, data }) in events {
            let position = EventPosition(row.number, part);
            if position > self.after {
                frames.push_back(frame(&event, &data, Some(&position.id())));
            }
        }
        ControlFlow::Continue(())
    }
}

impl ThreadStream {
    /// Returns the events for a log event, with their numbers.
    async fn events(&mut self, row: &EventRow) -> ApiResult<Vec<(usize, SseEvent)>> {
        let Some(run) = row.event.run else {
            let event = match &row.event.body {
                LogEvent::StateUpdate { .. } if self.kinds.states => {
                    SseEvent::new(row.event.mode(), row.event.body.data())
                }
                LogEvent::Lagged { missed } => StreamTranslator::gap(*missed),
                _ => return Ok(Vec::new()),
            };
            return Ok(vec![(1, event)]);
        };
        if !self.runs.contains_key(&run) {
            // The run was deleted. If it was rolled back before it started, its only event is the end.
            let Some(found) = self.app.run_of(&self.thread, run).await? else {
                return Ok(self.run_done(row, run).into_iter().collect());
            };
            let message_paths = self.app.message_paths(&found.graph);
            let options = found.request.options.clone();
            let translator = StreamTranslator::new(found, message_paths, options.stream_mode, options.stream_subgraphs);
            self.runs.insert(run, translator);
        }
        let Some(translator) = self.runs.get_mut(&run) else { return Ok(Vec::new()) };
        let mut events: Vec<_> = translator.event(row).into_iter().collect();
        let is_wanted = self.kinds.runs || (self.kinds.lifecycle && matches!(row.event.body, LogEvent::Start { .. }));
        if !is_wanted {
            events.clear();
        }
        if matches!(row.event.body, LogEvent::End { .. }) {
            if self.kinds.runs
                && let Some(run) = self.app.run_of(&self.thread, run).await?
            {
                events.extend(translator.end(&run));
            }
            self.runs.remove(&run);
        }
        events.extend(self.run_done(row, run));
        Ok(events)
    }

    /// Returns the event `run_done` if this log event ends a run, and if the client wants to know.
    fn run_done(&self, row: &EventRow, run: Uuid) -> Option<(usize, SseEvent)> {
        let is_end = matches!(row.event.body, LogEvent::End { .. });
        let done = || SseEvent::new("metadata", json!({ "status": "run_done", "run_id": run }));
        (is_end && (self.kinds.runs || self.kinds.lifecycle)).then(|| (RUN_DONE, done()))
    }
}

pub(crate) async fn follow(
    caller: Caller,
    Path(thread): Path<String>,
    Query(query): Query<ThreadStreamQuery>,
    start: StreamStart,
) -> ApiResult<Streamed> {
    let row = caller.thread(&thread, Action::Read).await?;
    let after = match start {
        StreamStart::After(position) => position,
        StreamStart::Now => EventPosition(row.last_event, usize::MAX),
        StreamStart::Unknown => EventPosition(u64::MAX, 0),
    };
    let stream = ThreadStream {
        app: caller.app.clone(),
        thread: row.id.clone(),
        tail: EventTail::of_thread(caller.app.clone(), &row, 0).known_until(after.0),
        kinds: EventKinds::new(&query),
        runs: HashMap::new(),
        after,
    };
    Ok(Streamed(sse::respond(&caller.app, stream)))
}
