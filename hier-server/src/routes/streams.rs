//! Responses that last as long as a run: streams of the run's events, and bodies that wait for the run's end.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;

use axum::body::Body as HttpBody;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use hier_core::runs::{ClientMode, EventRow, LogEvent, OnDisconnect, Run};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::disconnect::DisconnectGuard;
use super::run_plan::{ResponseMode, RunPlan};
use crate::answer::{As, Streamed};
use crate::app::{App, Caller, matches};
use crate::auth::{Action, Resource};
use crate::body::{JsonBody, id};
use crate::error::{ApiError, ApiResult};
use crate::event_tail::{EventTail, RunWaiter};
use crate::fault::refused;
use crate::query::Query;
use crate::sse::{self, HEARTBEAT_EVERY, SourceEnd, SseFrames, SseSource, frame};
use crate::stream::translate::{NumberedEvents, SseEvent, StreamTranslator};
use crate::wire::object::RunOutput;
use crate::wire::row;
use crate::wire::run::RunCreate;

/// Adds the headers from which clients read the paths of a run. `below` is the part of `Location` after the path of the
/// run.
pub(super) fn add_location(response: &mut Response, run: &Run, on_thread: bool, below: Option<&str>) {
    let mut set = |name, value: String| {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    };
    let path = format!("/threads/{}/runs/{}", run.thread, run.id);
    if let Some(below) = below {
        set(header::LOCATION, format!("{path}/{below}"));
    }
    set(header::CONTENT_LOCATION, if on_thread { path } else { format!("/runs/{}", run.id) });
}

/// Returns the guard for a client that joins an existing run. If `cancels` is true, fails if the caller may not cancel
/// the run.
pub(super) async fn guard(caller: &Caller, run: &Run, cancels: bool) -> ApiResult<DisconnectGuard> {
    let mut on_disconnect = OnDisconnect::Continue;
    if cancels {
        caller.thread(&run.thread, Action::CreateRun).await?;
        on_disconnect = OnDisconnect::Cancel;
    }
    Ok(DisconnectGuard::new(&caller.app, run, on_disconnect))
}

/// The body of a response that waits for the end of a run. While it waits, it sends a line break every few seconds to
/// keep the connection open. JSON may begin with line breaks.
struct RunEndBody {
    app: Arc<App>,
    run: Run,
    waiter: RunWaiter,
    guard: DisconnectGuard,
    is_done: bool,
}

impl RunEndBody {
    async fn next(&mut self) -> Option<String> {
        if self.is_done {
            return None;
        }
        let body = tokio::select! {
            ended = self.waiter.wait(&self.app, &self.run) => match ended {
                Ok(Some(run)) => row::output(&self.app.message_paths(&run.graph), &run),
                Ok(None) => json!({}),
                Err(error) => json!({ "__error__": { "error": "HTTPException", "message": error.to_string() } }),
            },
            () = tokio::time::sleep(HEARTBEAT_EVERY) => return Some("\n".to_owned()),
            () = self.app.stopping.cancelled() => {
                json!({ "__error__": { "error": "ServerStopping", "message": "the server is shutting down: join the run again" } })
            }
        };
        self.is_done = true;
        self.guard.disarm();
        Some(body.to_string())
    }
}

/// Responds with the output of a run once the run has ended.
pub(super) fn respond_at_end(caller: &Caller, run: &Run, guard: DisconnectGuard, waiter: RunWaiter) -> As<RunOutput> {
    let body = RunEndBody { app: caller.app.clone(), run: run.clone(), waiter, guard, is_done: false };
    let body = futures_util::stream::unfold(body, |mut body| async move {
        body.next().await.map(|text| (Ok::<_, Infallible>(text), body))
    });
    let response = ([(header::CONTENT_TYPE, "application/json")], HttpBody::from_stream(body));
    let mut response = response.into_response();
    add_location(&mut response, run, true, Some("join"));
    As::of(response)
}

/// The position of an event in a stream: the number of the log event, and the number among the events for that log
/// event. The position does not depend on the modes of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventPosition(pub(super) u64, pub(super) usize);

impl EventPosition {
    const START: Self = Self(0, 0);

    pub(super) fn id(self) -> String {
        format!("{}-{}", self.0, self.1)
    }

    /// Parses an event id. `-1` and `0` are the start of the stream. Returns `None` if the text is not an event id.
    fn parse(text: &str) -> Option<Self> {
        if matches!(text, "-1" | "0") {
            return Some(Self::START);
        }
        let (number, part) = text.split_once('-')?;
        Some(Self(number.parse().ok()?, part.parse().ok()?))
    }
}

/// The point after which a client reads a stream, from the header `Last-Event-ID`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StreamStart {
    After(EventPosition),
    /// After the newest event, if the request does not have the header.
    Now,
    /// After an unknown event id. The stream sends nothing, as in LangGraph.
    Unknown,
}

impl<S: Send + Sync> FromRequestParts<S> for StreamStart {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let id = parts.headers.get("last-event-id").and_then(|id| id.to_str().ok()).filter(|id| !id.is_empty());
        Ok(id.map_or(Self::Now, |id| EventPosition::parse(id).map_or(Self::Unknown, Self::After)))
    }
}

struct RunStream {
    app: Arc<App>,
    run: Run,
    tail: EventTail,
    translator: StreamTranslator,
    after: EventPosition,
    with_ids: bool,
    guard: DisconnectGuard,
}

impl SseSource for RunStream {
    type Item = EventRow;

    async fn next(&mut self) -> ApiResult<Option<EventRow>> {
        let next = self.tail.next().await?;
        if next.is_none() && self.app.same_run(&self.run).await?.is_none() {
            return Err(deleted());
        }
        Ok(next)
    }

    async fn push(&mut self, row: EventRow, frames: &mut SseFrames) -> ControlFlow<()> {
        let events = self.translator.event(&row);
        self.push_events(row.number, events, frames);
        let LogEvent::End { rollback, .. } = row.event.body else { return ControlFlow::Continue(()) };
        // Clients read the status of the run when the stream ends. The status is stored together with the last event.
        match self.app.same_run(&self.run).await {
            Ok(Some(run)) => {
                let events = self.translator.end(&run);
                self.push_events(row.number, events, frames);
            }
            Ok(None) if rollback => {}
            Ok(None) => self.end(SourceEnd::Failed(deleted()), frames),
            Err(error) => self.end(SourceEnd::Failed(error), frames),
        }
        self.guard.disarm();
        ControlFlow::Break(())
    }

    fn end(&mut self, end: SourceEnd, frames: &mut SseFrames) {
        match end {
            SourceEnd::Complete => self.guard.disarm(),
            SourceEnd::Failed(error) => {
                let data = json!({ "error": "HTTPException", "message": error.to_string() });
                frames.push_back(frame("error", &data, None));
                self.guard.disarm();
            }
            SourceEnd::Stopping => {}
        }
    }
}

fn deleted() -> ApiError {
    ApiError::not_found("the run was deleted, so the rest of its events is missing")
}

impl RunStream {
    fn push_events(&self, number: u64, events: NumberedEvents, frames: &mut SseFrames) {
        for (part, SseEvent { event, data }) in events {
            let position = EventPosition(number, part);
            if position > self.after {
                let id = self.with_ids.then(|| position.id());
                frames.push_back(frame(&event, &data, id.as_deref()));
            }
        }
    }
}

fn respond_with_events(
    caller: &Caller,
    run: &Run,
    modes: Vec<ClientMode>,
    start: StreamStart,
    guard: DisconnectGuard,
) -> Response {
    let options = &run.request.options;
    let after = match start {
        StreamStart::After(position) => position,
        StreamStart::Now | StreamStart::Unknown => EventPosition(u64::MAX, 0),
    };
    let stream = RunStream {
        app: caller.app.clone(),
        run: run.clone(),
        tail: EventTail::of_run(caller.app.clone(), run).known_until(after.0),
        translator: StreamTranslator::new(
            run.clone(),
            caller.app.message_paths(&run.graph),
            modes,
            options.stream_subgraphs,
        ),
        after,
        with_ids: options.resumable,
        guard,
    };
    sse::respond(&caller.app, stream)
}

async fn start_and_stream(caller: Caller, thread: Option<String>, body: RunCreate) -> ApiResult<Streamed> {
    let plan = RunPlan::for_client(thread.as_deref(), &body, ResponseMode::Stream);
    let (run, guard) = plan.start_guarded(&caller).await?;
    let (modes, start) = (run.request.options.stream_mode.clone(), StreamStart::After(EventPosition::START));
    let mut response = respond_with_events(&caller, &run, modes, start, guard);
    add_location(&mut response, &run, thread.is_some(), Some("stream"));
    Ok(Streamed(response))
}

pub(crate) async fn stream(
    caller: Caller,
    Path(thread): Path<String>,
    JsonBody(body): JsonBody<RunCreate>,
) -> ApiResult<Streamed> {
    start_and_stream(caller, Some(thread), body).await
}

pub(crate) async fn stream_stateless(caller: Caller, JsonBody(body): JsonBody<RunCreate>) -> ApiResult<Streamed> {
    start_and_stream(caller, None, body).await
}

/// Options of a request that joins the stream of a run.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct StreamQuery {
    /// Modes of the events to send. Defaults to the modes in the request that created the run.
    stream_mode: Vec<ClientMode>,
    /// If true, the server cancels the run when the client disconnects.
    cancel_on_disconnect: bool,
}

/// Joins the stream of a run, after an event or after the newest event.
pub(crate) async fn join(
    caller: Caller,
    Path((thread, run)): Path<(String, String)>,
    Query(query): Query<StreamQuery>,
    start: StreamStart,
) -> ApiResult<Streamed> {
    let run = caller.run(&thread, &run, Action::Read).await?;
    join_run(&caller, &run, query, start).await
}

/// Joins the stream of a run by the path in `Content-Location`, which names no thread if the run was started without
/// one.
pub(crate) async fn join_stateless(
    caller: Caller,
    Path(run): Path<String>,
    Query(query): Query<StreamQuery>,
    start: StreamStart,
) -> ApiResult<Streamed> {
    let (filter, run) = (caller.may(Resource::Threads, Action::Read).await?, id("run", &run)?);
    let missing = || ApiError::not_found("Not Found");
    let run = caller.app.runs.run(run).await.map_err(refused)?.ok_or_else(missing)?;
    let thread = caller.app.runs.thread(&run.thread).await.map_err(refused)?;
    thread.filter(|thread| matches(&thread.metadata, &filter)).ok_or_else(missing)?;
    join_run(&caller, &run, query, start).await
}

async fn join_run(caller: &Caller, run: &Run, query: StreamQuery, start: StreamStart) -> ApiResult<Streamed> {
    let guard = guard(caller, run, query.cancel_on_disconnect).await?;
    let created_with = &run.request.options.stream_mode;
    let modes = if query.stream_mode.is_empty() { created_with.clone() } else { query.stream_mode };
    let start = match start {
        StreamStart::Now => {
            let row = caller.app.runs.thread(&run.thread).await.map_err(refused)?;
            StreamStart::After(EventPosition(row.map_or(0, |row| row.last_event), usize::MAX))
        }
        other => other,
    };
    let mut response = respond_with_events(caller, run, modes, start, guard);
    add_location(&mut response, run, true, Some("stream"));
    Ok(Streamed(response))
}
