//! `POST /agui/{graph}`: starts a run and streams its events.

use std::ops::ControlFlow;
use std::sync::Arc;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use hier_core::runs::{EventRow, LogEvent, Run, StreamMode, ThreadStatus};
use serde_json::Value;

use super::client_tools::pending_questions;
use super::input::RunAgentInput;
use super::translate::AguiTranslator;
use crate::answer::Streamed;
use crate::app::{App, Caller};
use crate::auth::Action;
use crate::body::JsonBody;
use crate::error::{ApiError, ApiResult};
use crate::event_tail::EventTail;
use crate::fault::refused;
use crate::routes::disconnect::DisconnectGuard;
use crate::routes::run_plan::{Recording, RunPlan};
use crate::sse::{self, SourceEnd, SseFrames, SseSource};
use crate::wire::run::IfNotExists;

/// The modes of the engine that provide the events.
const MODES: [StreamMode; 5] =
    [StreamMode::Values, StreamMode::Updates, StreamMode::Messages, StreamMode::Custom, StreamMode::Tasks];

pub(crate) async fn run(
    caller: Caller,
    Path(graph): Path<String>,
    JsonBody(input): JsonBody<RunAgentInput>,
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
        AguiTranslator::new(&input.thread_id, &input.run_id, input.parent_run_id.clone(), served.message_paths.clone())
            .sent_results(input.results());
    // A client that lost the response sends the request again, and gets the same events.
    if let Some(run) =
        caller.app.runs.run(id).await.map_err(refused)?.filter(|run| row.is_some() && run.thread == thread)
    {
        let guard = DisconnectGuard::new(&caller.app, &run, run.on_disconnect);
        return Ok(Streamed(respond(&caller, &run, translator, guard)));
    }
    input.check_resume().map_err(ApiError::invalid)?;
    let open = pending_questions(row.as_ref());
    let values = row.as_ref().and_then(|row| row.values.clone()).unwrap_or_default();
    let status = row.as_ref().map(|row| row.status);
    let mut sorted = input.sorted(&values, &open, status).map_err(ApiError::invalid)?;
    sorted.drop_misfits(&open, |question, answer| served.graph.check_answer(question, answer).is_ok());
    // After a failed run, clients send the same request again.
    let may_repeat = input.is_resume() || status == Some(ThreadStatus::Error);
    if let Some(text) = sorted.unexpected(&open).filter(|_| !may_repeat) {
        return Ok(Streamed(respond_at_once(&translator.failed("TOOL_RESULT_UNEXPECTED", &text))));
    }
    if !open.is_empty() && !input.is_resume() && !sorted.may_continue(&open) {
        let text = "the thread waits for answers: send `resume` with an entry for each interrupt of its last run, and a \
                    tool message for each call of a client tool";
        return Ok(Streamed(respond_at_once(&translator.failed("INTERRUPT_PENDING", text))));
    }
    let mut body = input.body(&assistant.id, served, &values, &sorted);
    body.if_not_exists = Some(if input.may_create() { IfNotExists::Create } else { IfNotExists::Reject });
    body.run_id = Some(id);
    let recording = Recording { modes: MODES.to_vec(), subgraphs: false };
    // The protocol has no request to stop a run, so clients disconnect to stop it.
    let (run, guard) = RunPlan::recording(&thread, &body, recording).start_guarded(&caller).await?;
    Ok(Streamed(respond(&caller, &run, translator, guard)))
}

fn respond_at_once(events: &[Value]) -> Response {
    sse::response(futures_util::stream::iter(events.iter().map(frame).map(Ok).collect::<Vec<_>>()))
}

/// Formats an event. The frame has no name, because the data contains it.
fn frame(event: &Value) -> String {
    format!("data: {event}\n\n")
}

struct AguiStream {
    app: Arc<App>,
    run: Run,
    tail: EventTail,
    translator: AguiTranslator,
    guard: DisconnectGuard,
}

fn respond(caller: &Caller, run: &Run, translator: AguiTranslator, guard: DisconnectGuard) -> Response {
    let stream = AguiStream {
        app: caller.app.clone(),
        run: run.clone(),
        tail: EventTail::of_run(caller.app.clone(), run),
        translator,
        guard,
    };
    sse::respond(&caller.app, stream)
}

impl SseSource for AguiStream {
    type Item = EventRow;

    async fn next(&mut self) -> ApiResult<Option<EventRow>> {
        self.tail.next().await
    }

    async fn push(&mut self, row: EventRow, frames: &mut SseFrames) -> ControlFlow<()> {
        let LogEvent::End { rollback, .. } = row.event.body else {
            frames.extend(self.translator.event(&row, None).iter().map(frame));
            return ControlFlow::Continue(());
        };
        match self.app.same_run(&self.run).await {
            Ok(None) if !rollback => self.end(SourceEnd::Complete, frames),
            Ok(ended) => {
                frames.extend(self.translator.event(&row, ended.as_ref()).iter().map(frame));
                self.guard.disarm();
            }
            Err(error) => self.end(SourceEnd::Failed(error), frames),
        }
        ControlFlow::Break(())
    }

    fn end(&mut self, end: SourceEnd, frames: &mut SseFrames) {
        self.guard.disarm();
        let events = match end {
            SourceEnd::Complete => self
                .translator
                .failed("GONE", "the server has deleted the events of the run: read the state of the thread"),
            SourceEnd::Failed(error) => self.translator.failed("HTTPException", &error.detail),
            SourceEnd::Stopping => self.translator.failed("HTTPException", "the server stops"),
        };
        frames.extend(events.iter().map(frame));
    }
}
