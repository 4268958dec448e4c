//! Runs are cancelled: one, those that are named, or all with a status.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hier_core::runs::{Cancel, RunQuery, RunStatus};
use schemars::JsonSchema;
use serde::Deserialize;
use uuid::Uuid;

use super::runs::located;
use super::streams::{self, Leaves};
use crate::app::Caller;
use crate::auth::Action;
use crate::body::{MaybeBody, Query, id};
use crate::error::{ApiError, ApiResult};
use crate::fault::refused;

fn action(query: &Query) -> ApiResult<Cancel> {
    match query.get("action").unwrap_or("interrupt") {
        "interrupt" => Ok(Cancel::Interrupt),
        "rollback" => Ok(Cancel::Rollback),
        other => Err(ApiError::invalid(format!("`action`: `{other}` is neither interrupt nor rollback"))),
    }
}

const NONE_TO_CANCEL: &str = "No matching runs to cancel. Please verify the thread ID and run IDs are correct, and the \
                              runs haven't been deleted or completed.";

pub(crate) async fn run(
    caller: Caller,
    Path((thread, run)): Path<(String, String)>,
    query: Query,
) -> ApiResult<Response> {
    let action = action(&query)?;
    let waits = query.flag("wait")?;
    let thread = caller.thread(&thread, Action::CreateRun).await?;
    let run = id("run", &run)?;
    let cancelled = caller.app.runs.cancel_runs(&thread.id, &[run], action).await.map_err(refused)?;
    let Some(run) = cancelled.into_iter().next() else { return Err(ApiError::not_found(NONE_TO_CANCEL)) };
    if !waits {
        return Ok(StatusCode::ACCEPTED.into_response());
    }
    let mut response = streams::until_end(&caller, &run, Leaves::Continue);
    located(&mut response, &run, true, Some("join"));
    Ok(response)
}

/// Which runs to cancel.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "RunsCancel")]
pub(crate) struct CancelBody {
    status: Option<String>,
    thread_id: Option<Uuid>,
    run_ids: Option<Vec<Uuid>>,
}

pub(crate) async fn runs(
    caller: Caller,
    query: Query,
    MaybeBody(body): MaybeBody<CancelBody>,
) -> ApiResult<StatusCode> {
    let action = action(&query)?;
    let mut cancelled = 0;
    match (&body.status, body.thread_id, &body.run_ids) {
        (None, Some(thread), Some(runs)) => {
            let thread = caller.thread(&thread.to_string(), Action::CreateRun).await?;
            cancelled += caller.app.runs.cancel_runs(&thread.id, runs, action).await.map_err(refused)?.len();
        }
        (Some(word), None, None) => {
            let mut live = RunQuery::default().live();
            match word.as_str() {
                "pending" => live.status = vec![RunStatus::Pending],
                "running" => live.status = vec![RunStatus::Running],
                "all" => {}
                other => {
                    return Err(ApiError::invalid(format!("`status`: `{other}` is none of pending, running, all")));
                }
            }
            live.limit = usize::MAX;
            for run in caller.app.runs.runs(live).await.map_err(refused)? {
                if caller.thread(&run.thread, Action::CreateRun).await.is_ok() {
                    let runs = caller.app.runs.cancel_runs(&run.thread, &[run.id], action).await;
                    cancelled += runs.map_err(refused)?.len();
                }
            }
        }
        _ => return Err(ApiError::invalid("give either `status`, or `thread_id` and `run_ids`")),
    }
    if cancelled == 0 {
        return Err(ApiError::not_found("No runs found to cancel."));
    }
    Ok(StatusCode::NO_CONTENT)
}
