//! The stream of events of a thread.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::Path;
use hier_core::runs::{EventRow, LogEvent};
use serde_json::Value;
use tokio::time::Instant;
use uuid::Uuid;

use super::filter::Filter;
use super::translate::{Frame, Translator, position};
use crate::answer::Streamed;
use crate::app::{App, Caller};
use crate::auth::{Action, Resource};
use crate::body::{Body, id};
use crate::error::{ApiError, ApiResult};
use crate::feed::{self, Feed};
use crate::follow::{Arrival, Follow};
use crate::stream::sse::frame;
use crate::time::millis;

/// Delay of a question, so that earlier events first reach every connection of the client. A client that learns of a question stops
/// reading its other connections. On a WebSocket, the end of a run is delayed as long, so that subscriptions that follow the start of the
/// run come before it.
const HOLD: Duration = Duration::from_millis(40);

/// Reads a thread's events from the beginning.
pub(crate) struct Events {
    app: Arc<App>,
    thread: String,
    arrival: Arrival,
    /// None until a thread exists that the client may read.
    follow: Option<Follow>,
    translator: Translator,
    graphs: HashMap<Uuid, String>,
    /// An event of the log that is being translated.
    taken: Option<EventRow>,
    ready: VecDeque<Frame>,
    /// Release time of the held event at the front of `ready`.
    release: Option<Instant>,
    holds_ends: bool,
    since: u64,
}

impl Events {
    /// The events with a greater number of a thread that may not exist yet.
    pub(crate) fn new(caller: &Caller, thread: &str, since: u64) -> Self {
        let (app, arrival) = (caller.app.clone(), Arrival::new(caller.clone(), thread));
        let (translator, graphs, ready) = (Translator::default(), HashMap::new(), VecDeque::new());
        let thread = thread.to_owned();
        let (follow, taken, release) = (None, None, None);
        Self { app, thread, arrival, follow, translator, graphs, taken, ready, release, holds_ends: false, since }
    }

    /// Delays the events that end a run.
    pub(crate) fn holding_ends(self) -> Self {
        Self { holds_ends: true, ..self }
    }

    /// The next event; none if the thread was deleted. Cancel safe.
    pub(crate) async fn next(&mut self) -> ApiResult<Option<Frame>> {
        loop {
            if let Some(first) = self.ready.front() {
                if let Some(hold) = self.hold(first) {
                    let release = *self.release.get_or_insert_with(|| Instant::now() + hold);
                    tokio::time::sleep_until(release).await;
                }
                let first = self.ready.pop_front();
                // The events of one row of the log are held back together.
                self.release = self.release.filter(|_| !self.ready.is_empty());
                return Ok(first);
            }
            if self.taken.is_none() {
                let follow = match &mut self.follow {
                    Some(follow) => follow,
                    none => {
                        let row = self.arrival.wait().await?;
                        none.insert(Follow::of_thread(self.app.clone(), &row, 0))
                    }
                };
                self.taken = follow.next().await?;
            }
            let Some(row) = self.taken.clone() else { return Ok(None) };
            self.take(&row).await;
            // Only now: what is given up while it waits is taken again.
            self.taken = None;
        }
    }

    fn hold(&self, frame: &Frame) -> Option<Duration> {
        if frame.method == "input.requested" {
            return Some(HOLD);
        }
        let is_held = self.holds_ends && frame.ends_run();
        is_held.then(|| HOLD.saturating_sub(Duration::from_millis(millis(SystemTime::now()).saturating_sub(frame.at))))
    }

    async fn take(&mut self, row: &EventRow) {
        let Some(run) = row.event.run else { return };
        let is_end = matches!(row.event.body, LogEvent::End { .. });
        let is_known = self.graphs.contains_key(&run);
        // Looked up at the first event and at the last; a run that was deleted is told of as the log has it.
        let found = if is_end || !is_known { self.app.run_of(&self.thread, run).await } else { None };
        if let Some(found) = found.as_ref().filter(|_| !is_known) {
            self.graphs.insert(run, found.graph.clone());
        }
        let graph = self.graphs.get(&run).cloned().unwrap_or_default();
        let app = &self.app;
        let frames = self.translator.event(row, found.as_ref(), || (graph.clone(), app.places(&graph)));
        self.ready.extend(frames.into_iter().filter(|frame| frame.seq > self.since));
    }
}

/// Reads what a client asks to be told.
pub(crate) fn since(request: &Value) -> Result<u64, String> {
    match request.get("since").filter(|since| !since.is_null()) {
        None => Ok(0),
        Some(since) => since.as_u64().map(position).ok_or_else(|| "since must be a number from 0 on".to_owned()),
    }
}

/// A stream of server-sent events.
struct Stream {
    events: Events,
    filter: Filter,
}

impl Feed for Stream {
    type Item = Frame;

    async fn next(&mut self) -> ApiResult<Option<Frame>> {
        self.events.next().await
    }

    async fn tell(&mut self, found: Frame, told: &mut feed::Told) -> ControlFlow<()> {
        if self.filter.wants(&found) {
            told.push_back(frame(found.method, &found.json(), Some(&found.seq.to_string())));
        }
        ControlFlow::Continue(())
    }
}

/// The events of a thread. The stream stays silent until a thread with this id exists that the client may read.
pub(crate) async fn stream(
    caller: Caller,
    Path(thread): Path<String>,
    Body(request): Body<Value>,
) -> ApiResult<Streamed> {
    let filter = Filter::parse(&request).map_err(ApiError::bad_request)?;
    let since = since(&request).map_err(ApiError::bad_request)?;
    let thread = id("thread", &thread)?.to_string();
    caller.may(Resource::Threads, Action::Read).await?;
    let events = Events::new(&caller, &thread, since);
    Ok(Streamed(feed::feed(&caller.app, Stream { events, filter })))
}
