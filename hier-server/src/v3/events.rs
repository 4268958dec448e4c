use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::Path;
use hier_core::runs::{EventRow, LogEvent};
use serde_json::Value;
use tokio::time::Instant;
use uuid::Uuid;

use super::filter::EventFilter;
use super::translate::{V3Event, V3Translator, log_number, position};
use crate::answer::Streamed;
use crate::app::{App, Caller};
use crate::auth::{Action, Resource};
use crate::body::{JsonBody, id};
use crate::error::{ApiError, ApiResult};
use crate::event_tail::{EventTail, ThreadArrival};
use crate::sse::{self, SseFrames, SseSource, frame};
use crate::time::millis;

/// Delay before a question is sent. A client that receives a question stops reading its other connections, so earlier
/// events must reach them first. On a WebSocket, the end of a run has the same delay, so that a client can first
/// subscribe to a run that it has just started.
const HOLD: Duration = Duration::from_millis(40);

/// Reads the events of a thread from the first one on, and translates them.
pub(crate) struct Events {
    app: Arc<App>,
    thread: String,
    arrival: ThreadArrival,
    /// `None` until the thread exists and the client may read it.
    tail: Option<EventTail>,
    translator: V3Translator,
    graphs: HashMap<Uuid, String>,
    /// The log event whose translation is in progress.
    taken: Option<EventRow>,
    ready: VecDeque<V3Event>,
    /// Time at which the delayed event at the front of `ready` is sent.
    release: Option<Instant>,
    holds_ends: bool,
    since: u64,
}

impl Events {
    /// Reads the events of a thread with a number greater than `since`. The thread may not exist yet.
    pub(crate) fn new(caller: &Caller, thread: &str, since: u64) -> Self {
        let (app, arrival) = (caller.app.clone(), ThreadArrival::new(caller.clone(), thread));
        let (translator, graphs, ready) = (V3Translator::default(), HashMap::new(), VecDeque::new());
        let thread = thread.to_owned();
        let (tail, taken, release) = (None, None, None);
        Self { app, thread, arrival, tail, translator, graphs, taken, ready, release, holds_ends: false, since }
    }

    /// Delays the events that end a run.
    pub(crate) fn holding_ends(self) -> Self {
        Self { holds_ends: true, ..self }
    }

    /// Returns the next event, or `None` if the thread was deleted. Cancel safe.
    pub(crate) async fn next(&mut self) -> ApiResult<Option<V3Event>> {
        loop {
            if let Some(first) = self.ready.front() {
                if let Some(hold) = self.hold(first) {
                    let release = *self.release.get_or_insert_with(|| Instant::now() + hold);
                    tokio::time::sleep_until(release).await;
                }
                let first = self.ready.pop_front();
                // The events of one log event are released together.
                self.release = self.release.filter(|_| !self.ready.is_empty());
                return Ok(first);
            }
            if self.taken.is_none() {
                let tail = match &mut self.tail {
                    Some(tail) => tail,
                    none => {
                        let row = self.arrival.wait().await?;
                        let tail = EventTail::of_thread(self.app.clone(), &row, 0);
                        none.insert(tail.known_until(log_number(self.since)))
                    }
                };
                self.taken = tail.next().await?;
            }
            let Some(row) = self.taken.clone() else { return Ok(None) };
            self.translate(&row).await?;
            // Cleared last: if this future is dropped while it waits, the row is translated again.
            self.taken = None;
        }
    }

    fn hold(&self, event: &V3Event) -> Option<Duration> {
        if event.method == "input.requested" {
            return Some(HOLD);
        }
        let is_held = self.holds_ends && event.ends_run();
        is_held.then(|| HOLD.saturating_sub(Duration::from_millis(millis(SystemTime::now()).saturating_sub(event.at))))
    }

    async fn translate(&mut self, row: &EventRow) -> ApiResult<()> {
        let events = match row.event.run {
            // A gap, or a change of the state, which the protocol does not report.
            None => self.translator.event(row, None, Default::default),
            Some(run) => self.events_of(run, row).await?,
        };
        self.ready.extend(events.into_iter().filter(|event| event.seq > self.since));
        Ok(())
    }

    async fn events_of(&mut self, run: Uuid, row: &EventRow) -> ApiResult<Vec<V3Event>> {
        let is_end = matches!(row.event.body, LogEvent::End { .. });
        let is_known = self.graphs.contains_key(&run);
        // The row is read at the first and at the last event of a run. The events of a deleted run are sent without its
        // row.
        let found = if is_end || !is_known { self.app.run_of(&self.thread, run).await? } else { None };
        if let Some(found) = found.as_ref().filter(|_| !is_known) {
            self.graphs.insert(run, found.graph.clone());
        }
        let graph = self.graphs.get(&run).cloned().unwrap_or_default();
        let app = &self.app;
        Ok(self.translator.event(row, found.as_ref(), || (graph.clone(), app.message_paths(&graph))))
    }
}

/// Reads the number after which the client requests events.
pub(crate) fn since(request: &Value) -> Result<u64, String> {
    match request.get("since").filter(|since| !since.is_null()) {
        None => Ok(0),
        Some(since) => since.as_u64().map(position).ok_or_else(|| "since must be a non-negative integer".to_owned()),
    }
}

struct V3EventStream {
    events: Events,
    filter: EventFilter,
}

impl SseSource for V3EventStream {
    type Item = V3Event;

    async fn next(&mut self) -> ApiResult<Option<V3Event>> {
        self.events.next().await
    }

    async fn push(&mut self, event: V3Event, frames: &mut SseFrames) -> ControlFlow<()> {
        if self.filter.wants(&event) {
            frames.push_back(frame(event.method, &event.json(), Some(&event.seq.to_string())));
        }
        ControlFlow::Continue(())
    }
}

/// Streams the events of a thread. The stream sends no events until the thread exists and the client may read it.
pub(crate) async fn stream(
    caller: Caller,
    Path(thread): Path<String>,
    JsonBody(request): JsonBody<Value>,
) -> ApiResult<Streamed> {
    let filter = EventFilter::parse(&request).map_err(ApiError::bad_request)?;
    let since = since(&request).map_err(ApiError::bad_request)?;
    let thread = id("thread", &thread)?.to_string();
    caller.may(Resource::Threads, Action::Read).await?;
    let events = Events::new(&caller, &thread, since);
    Ok(Streamed(sse::respond(&caller.app, V3EventStream { events, filter })))
}
