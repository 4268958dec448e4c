//! Answers that take as long as a run: streams of its events, and bodies that wait for its end.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;

use axum::body::Body as HttpBody;
use axum::extract::{FromRequestParts, Path};
use axum::http::header;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use hier_core::runs::{Cancel, ClientMode, EventRow, LogEvent, OnDisconnect, Run};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::runs::{Follower, add, final_body, located};
use crate::answer::{As, Streamed};
use crate::app::{App, Caller};
use crate::auth::Action;
use crate::body::Body;
use crate::error::ApiResult;
use crate::fault::refused;
use crate::feed::{self, End, Feed, HEARTBEAT_EVERY};
use crate::follow::{Ending, Follow};
use crate::query::Query;
use crate::stream::sse::frame;
use crate::stream::translate::{Told, Translator};
use crate::wire::object::RunOutput;
use crate::wire::run::RunCreate;

/// What happens to a run when whoever follows it goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// It goes on.
    Continue,
    /// It is cancelled.
    Cancel,
}

impl Leaves {
    /// Returns `Cancel` if the client asks for it. Fails if the caller may not cancel the run.
    pub(crate) async fn asked(caller: &Caller, run: &Run, cancels: bool) -> ApiResult<Self> {
        if !cancels {
            return Ok(Self::Continue);
        }
        caller.thread(&run.thread, Action::CreateRun).await?;
        Ok(Self::Cancel)
    }

    /// As the run says.
    pub(crate) fn as_said(run: &Run) -> Self {
        if run.on_disconnect == OnDisconnect::Cancel { Self::Cancel } else { Self::Continue }
    }
}

/// Cancels a run unless it is told that the run has ended.
pub(crate) struct Guard {
    app: Arc<App>,
    run: Option<Run>,
}

impl Guard {
    pub(crate) fn new(app: &Arc<App>, run: &Run, leaves: Leaves) -> Self {
        Self { app: app.clone(), run: (leaves == Leaves::Cancel).then(|| run.clone()) }
    }

    pub(crate) fn has_ended(&mut self) {
        self.run = None;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Where the server stops, no client has gone: the run is handed back.
        let Some(run) = self.run.take().filter(|_| !self.app.stopping.is_cancelled()) else { return };
        let app = self.app.clone();
        tokio::spawn(async move {
            // A later run with the same id is another one.
            if app.same_run(&run).await.is_none_or(|now| !now.status.is_live()) {
                return;
            }
            if let Err(error) = app.runs.cancel_runs(&run.thread, &[run.id], Cancel::Interrupt).await {
                tracing::warn!(%error, run = %run.id, "a run whose client has gone could not be cancelled");
            }
        });
    }
}

/// Waits for the end of a run. A line break every few seconds shows that the connection lives; JSON may begin with them.
struct Waiting {
    app: Arc<App>,
    run: Run,
    ending: Ending,
    guard: Guard,
    is_done: bool,
}

impl Waiting {
    async fn next(&mut self) -> Option<String> {
        if self.is_done {
            return None;
        }
        let body = tokio::select! {
            ended = self.ending.wait(&self.app, &self.run) => match ended {
                Ok(Some(run)) => final_body(&self.app, &run),
                Ok(None) => json!({}),
                Err(error) => json!({ "__error__": { "error": "HTTPException", "message": error.to_string() } }),
            },
            () = tokio::time::sleep(HEARTBEAT_EVERY) => return Some("\n".to_owned()),
            () = self.app.stopping.cancelled() => {
                json!({ "__error__": { "error": "ServerStopping", "message": "the server stops: join the run again" } })
            }
        };
        self.is_done = true;
        self.guard.has_ended();
        Some(body.to_string())
    }
}

/// The answer of `wait` and `join`.
pub(crate) fn until_end(caller: &Caller, run: &Run, leaves: Leaves, ending: Ending) -> As<RunOutput> {
    let guard = Guard::new(&caller.app, run, leaves);
    let waiting = Waiting { app: caller.app.clone(), run: run.clone(), ending, guard, is_done: false };
    let body = futures_util::stream::unfold(waiting, |mut waiting| async move {
        waiting.next().await.map(|text| (Ok::<_, Infallible>(text), waiting))
    });
    As::of(([(header::CONTENT_TYPE, "application/json")], HttpBody::from_stream(body)).into_response())
}

/// The place of an event in a stream: the number in the log, and which of the events that were made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(pub(super) u64, pub(super) usize);

impl Place {
    /// Everything is after it.
    const START: Self = Self(0, 0);

    pub(super) fn id(self) -> String {
        format!("{}-{}", self.0, self.1)
    }

    /// `-1` is the start, as `0` is, which comes before every number. None for what no stream has ever sent.
    fn parse(text: &str) -> Option<Self> {
        if matches!(text, "-1" | "0") {
            return Some(Self::START);
        }
        let (number, part) = text.split_once('-')?;
        Some(Self(number.parse().ok()?, part.parse().ok()?))
    }
}

/// From where a client wants to be told.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Since {
    /// After this place.
    Place(Place),
    /// From now on.
    Now,
    /// From a place that is none: nothing is told, as in the reference.
    Nowhere,
}

impl<S: Send + Sync> FromRequestParts<S> for Since {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let id = parts.headers.get("last-event-id").and_then(|id| id.to_str().ok()).filter(|id| !id.is_empty());
        Ok(id.map_or(Self::Now, |id| Place::parse(id).map_or(Self::Nowhere, Self::Place)))
    }
}

/// The events of one run.
struct RunStream {
    app: Arc<App>,
    run: Run,
    follow: Follow,
    translator: Translator,
    after: Place,
    with_ids: bool,
    guard: Guard,
}

impl Feed for RunStream {
    type Item = EventRow;

    async fn next(&mut self) -> ApiResult<Option<EventRow>> {
        self.follow.next().await
    }

    async fn tell(&mut self, row: EventRow, told: &mut feed::Told) -> ControlFlow<()> {
        let events = self.translator.event(&row);
        self.put(row.number, events, told);
        if !matches!(row.event.body, LogEvent::End { .. }) {
            return ControlFlow::Continue(());
        }
        // The status is in the database before the stream ends: clients look at it then.
        if let Some(run) = self.app.same_run(&self.run).await {
            let events = self.translator.end(&run);
            self.put(row.number, events, told);
        }
        self.guard.has_ended();
        ControlFlow::Break(())
    }

    fn end(&mut self, why: End, told: &mut feed::Told) {
        match why {
            End::Over => self.guard.has_ended(),
            End::Failed(error) => {
                let data = json!({ "error": "HTTPException", "message": error.to_string() });
                told.push_back(frame("error", &data, None));
                self.guard.has_ended();
            }
            End::Stopping => {}
        }
    }
}

impl RunStream {
    fn put(&self, number: u64, events: Vec<Told>, told: &mut feed::Told) {
        for (part, Told { event, data }) in events.into_iter().enumerate() {
            let place = Place(number, part.saturating_add(1));
            if place > self.after {
                let id = self.with_ids.then(|| place.id());
                told.push_back(frame(&event, &data, id.as_deref()));
            }
        }
    }
}

fn run_stream(caller: &Caller, run: &Run, modes: Vec<ClientMode>, since: Since, leaves: Leaves) -> Response {
    let options = &run.request.options;
    let after = match since {
        Since::Place(place) => place,
        Since::Now | Since::Nowhere => Place(u64::MAX, 0),
    };
    let stream = RunStream {
        app: caller.app.clone(),
        run: run.clone(),
        follow: Follow::of_run(caller.app.clone(), run),
        translator: Translator::new(run.clone(), caller.app.places(&run.graph), modes, options.stream_subgraphs),
        after,
        with_ids: options.resumable,
        guard: Guard::new(&caller.app, run, leaves),
    };
    feed::feed(&caller.app, stream)
}

async fn streamed(caller: Caller, thread: Option<String>, body: RunCreate) -> ApiResult<Streamed> {
    let run = add(&caller, thread.as_deref(), body, Follower::Stream).await?;
    let leaves = Leaves::as_said(&run);
    let mut response =
        run_stream(&caller, &run, run.request.options.stream_mode.clone(), Since::Place(Place::START), leaves);
    located(&mut response, &run, thread.is_some(), Some("stream"));
    Ok(Streamed(response))
}

pub(crate) async fn stream(
    caller: Caller,
    Path(thread): Path<String>,
    Body(body): Body<RunCreate>,
) -> ApiResult<Streamed> {
    streamed(caller, Some(thread), body).await
}

pub(crate) async fn stream_stateless(caller: Caller, Body(body): Body<RunCreate>) -> ApiResult<Streamed> {
    streamed(caller, None, body).await
}

/// What is told of a run.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct StreamQuery {
    /// In which modes; in those that the run was asked for if none is named.
    stream_mode: Vec<ClientMode>,
    /// Whether the run is cancelled if the client goes away.
    cancel_on_disconnect: bool,
}

/// Joins the stream of a run: from an event on, or live.
pub(crate) async fn join(
    caller: Caller,
    Path((thread, run)): Path<(String, String)>,
    Query(query): Query<StreamQuery>,
    since: Since,
) -> ApiResult<Streamed> {
    let run = caller.run(&thread, &run, Action::Read).await?;
    let leaves = Leaves::asked(&caller, &run, query.cancel_on_disconnect).await?;
    let asked = &run.request.options.stream_mode;
    let modes = if query.stream_mode.is_empty() { asked.clone() } else { query.stream_mode };
    let since = match since {
        // Live: after the last event that is there now.
        Since::Now => {
            let row = caller.app.runs.thread(&run.thread).await.map_err(refused)?;
            Since::Place(Place(row.map_or(0, |row| row.last_event), usize::MAX))
        }
        other => other,
    };
    let mut response = run_stream(&caller, &run, modes, since, leaves);
    located(&mut response, &run, true, Some("stream"));
    Ok(Streamed(response))
}
