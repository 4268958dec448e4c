//! `POST /agui/{graph}`: a run and what happens in it, as server-sent events.

use std::ops::ControlFlow;
use std::sync::Arc;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use hier_core::runs::{EventRow, LogEvent, Run, StreamMode, ThreadStatus};
use serde_json::Value;

use super::input::RunAgentInput;
use super::translate::Translator;
use crate::answer::Streamed;
use crate::app::{App, Caller};
use crate::auth::Action;
use crate::body::Body;
use crate::error::{ApiError, ApiResult};
use crate::fault::refused;
use crate::feed::{self, End, Feed, answer};
use crate::follow::Follow;
use crate::routes::runs::{Kept, add_keeping};
use crate::routes::streams::{Guard, Leaves};
use crate::wire::run::IfNotExists;

/// The modes of the engine that the events are made of.
const MODES: [StreamMode; 5] =
    [StreamMode::Values, StreamMode::Updates, StreamMode::Messages, StreamMode::Custom, StreamMode::Tasks];

pub(crate) async fn run(
    caller: Caller,
    Path(graph): Path<String>,
    Body(input): Body<RunAgentInput>,
) -> ApiResult<Streamed> {
    let assistant = caller.assistant_or_graph(&graph).await?;
    let served = caller.app.graph(&assistant.graph)?;
    let (thread, id) = (input.thread(&caller.user.identity).to_string(), input.run(&caller.user.identity));
    let row = match caller.thread(&thread, Action::CreateRun).await {
        Ok(row) => Some(row),
        Err(error) if error.status == StatusCode::NOT_FOUND => None,
        Err(error) => return Err(error),
    };
    let mut translator =
        Translator::new(&input.thread_id, &input.run_id, input.parent_run_id.clone(), served.places.clone());
    // What is sent again, since its answer was lost, is told again.
    if let Some(run) =
        caller.app.runs.run(id).await.map_err(refused)?.filter(|run| row.is_some() && run.thread == thread)
    {
        return Ok(Streamed(told(&caller, &run, translator)));
    }
    let asks = row.as_ref().filter(|row| row.status == ThreadStatus::Interrupted && !row.interrupts.is_empty());
    if asks.is_some() && !input.is_resume() {
        let text = "the thread waits for answers: send `resume` with an entry for each interrupt of its last run";
        return Ok(Streamed(at_once(&translator.failed("INTERRUPT_PENDING", text))));
    }
    let mut body = input.body(&assistant.id, served, row.as_ref()).map_err(ApiError::invalid)?;
    body.if_not_exists = Some(if input.may_create() { IfNotExists::Create } else { IfNotExists::Reject });
    body.run_id = Some(id);
    let kept = Kept { modes: MODES.to_vec(), subgraphs: false };
    let run = add_keeping(&caller, Some(&thread), body, kept, false).await?;
    Ok(Streamed(told(&caller, &run, translator)))
}

fn at_once(events: &[Value]) -> Response {
    answer(futures_util::stream::iter(events.iter().map(frame).map(Ok).collect::<Vec<_>>()))
}

/// An event has no name but that in its data.
fn frame(event: &Value) -> String {
    format!("data: {event}\n\n")
}

/// The events of one run.
struct Telling {
    app: Arc<App>,
    run: Run,
    follow: Follow,
    translator: Translator,
    guard: Guard,
}

fn told(caller: &Caller, run: &Run, translator: Translator) -> Response {
    let telling = Telling {
        app: caller.app.clone(),
        run: run.clone(),
        follow: Follow::of_run(caller.app.clone(), run),
        translator,
        // That a client goes away is how it stops a run: the protocol has no other word for it.
        guard: Guard::new(&caller.app, run, Leaves::as_said(run)),
    };
    feed::feed(&caller.app, telling)
}

impl Feed for Telling {
    type Item = EventRow;

    async fn next(&mut self) -> ApiResult<Option<EventRow>> {
        self.follow.next().await
    }

    async fn tell(&mut self, row: EventRow, told: &mut feed::Told) -> ControlFlow<()> {
        let is_end = matches!(row.event.body, LogEvent::End { .. });
        let ended = if is_end { self.app.same_run(&self.run).await } else { None };
        told.extend(self.translator.event(&row, ended.as_ref()).iter().map(frame));
        if !is_end {
            return ControlFlow::Continue(());
        }
        self.guard.has_ended();
        ControlFlow::Break(())
    }

    fn end(&mut self, why: End, told: &mut feed::Told) {
        self.guard.has_ended();
        let events = match why {
            End::Over => self.translator.failed("GONE", "the events of the run are gone"),
            End::Failed(error) => self.translator.failed("HTTPException", &error.detail),
            End::Stopping => self.translator.failed("HTTPException", "the server stops"),
        };
        told.extend(events.iter().map(frame));
    }
}
