//! Cancels one run, several runs, or all runs with a status.

use axum::extract::Path;
use axum::response::NoContent;
use hier_core::runs::{Cancel, OnDisconnect, Run, RunQuery, RunStatus, RunsError, ThreadIs, ThreadRow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::disconnect::DisconnectGuard;
use super::streams;
use crate::answer::MayWait;
use crate::app::Caller;
use crate::auth::{Action, Resource};
use crate::body::{OptionalBody, id};
use crate::error::{ApiError, ApiResult};
use crate::event_tail::RunWaiter;
use crate::fault::refused;
use crate::query::Query;
use crate::wire::object::RunOutput;

/// Determines what happens to the checkpoints of a cancelled run.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "CancelAction")]
enum CancelAction {
    /// The checkpoints stay.
    #[default]
    Interrupt,
    /// The checkpoints are deleted with the run.
    Rollback,
}

impl From<CancelAction> for Cancel {
    fn from(action: CancelAction) -> Self {
        match action {
            CancelAction::Interrupt => Self::Interrupt,
            CancelAction::Rollback => Self::Rollback,
        }
    }
}

/// Options of the cancellation of a run.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct CancelQuery {
    /// Keeps the checkpoints (`interrupt`) or deletes them with the run (`rollback`).
    action: CancelAction,
    /// If true, the response is sent when the run has ended, and contains the run's output.
    wait: bool,
}

/// Options of the cancellation of several runs.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct CancelsQuery {
    /// Keeps the checkpoints (`interrupt`) or deletes them with the runs (`rollback`).
    action: CancelAction,
}

const NONE_TO_CANCEL: &str = "No matching runs to cancel. Please verify the thread ID and run IDs are correct, and the \
                              runs haven't been deleted or completed.";

/// Cancels runs of a thread and returns them. Returns an empty list if the thread was deleted in the meantime.
async fn cancel(caller: &Caller, thread: &ThreadRow, runs: &[Uuid], action: Cancel) -> ApiResult<Vec<Run>> {
    match caller.app.runs.cancel_runs_if(&thread.id, ThreadIs::this(thread), runs, action).await {
        Err(RunsError::NoThread { .. }) => Ok(Vec::new()),
        cancelled => cancelled.map_err(refused),
    }
}

pub(crate) async fn run(
    caller: Caller,
    Path((thread, run)): Path<(String, String)>,
    Query(query): Query<CancelQuery>,
) -> ApiResult<MayWait<RunOutput>> {
    let thread = caller.thread(&thread, Action::CreateRun).await?;
    let run = id("run", &run)?;
    let cancelled = cancel(&caller, &thread, &[run], query.action.into()).await?;
    let Some(run) = cancelled.into_iter().next() else { return Err(ApiError::not_found(NONE_TO_CANCEL)) };
    if !query.wait {
        return Ok(MayWait::Accepted);
    }
    let waiter = RunWaiter::new(&caller.app, &run.thread);
    let guard = DisconnectGuard::new(&caller.app, &run, OnDisconnect::Continue);
    Ok(MayWait::Ended(streams::respond_at_end(&caller, &run, guard, waiter)))
}

/// The runs to cancel: those with a status, or runs of a thread.
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
    Query(CancelsQuery { action }): Query<CancelsQuery>,
    OptionalBody(body): OptionalBody<CancelBody>,
) -> ApiResult<NoContent> {
    caller.may(Resource::Threads, Action::CreateRun).await?;
    let action = action.into();
    let mut cancelled = 0;
    match (&body.status, body.thread_id, &body.run_ids) {
        (None, Some(thread), Some(runs)) => {
            let (most, count) = (caller.app.limits.page, runs.len());
            if count > most {
                return Err(ApiError::invalid(format!("`run_ids`: {count} runs are too many: send at most {most}")));
            }
            let thread = caller.thread(&thread.to_string(), Action::CreateRun).await?;
            cancelled += cancel(&caller, &thread, runs, action).await?.len();
        }
        (Some(word), None, None) => {
            let mut live = RunQuery::default().live();
            match word.as_str() {
                "pending" => live.status = vec![RunStatus::Pending],
                "running" => live.status = vec![RunStatus::Running],
                "all" => {}
                other => {
                    let known = "use `pending`, `running` or `all`";
                    return Err(ApiError::invalid(format!("`status`: `{other}` is unknown: {known}")));
                }
            }
            live.limit = usize::MAX;
            for run in caller.app.runs.runs(live).await.map_err(refused)? {
                if let Ok(thread) = caller.thread(&run.thread, Action::CreateRun).await {
                    cancelled += cancel(&caller, &thread, &[run.id], action).await?.len();
                }
            }
        }
        _ => return Err(ApiError::invalid("send either `status`, or `thread_id` and `run_ids`")),
    }
    if cancelled == 0 {
        return Err(ApiError::not_found("No runs found to cancel."));
    }
    Ok(NoContent)
}
