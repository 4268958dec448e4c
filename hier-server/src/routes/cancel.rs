//! Runs are cancelled: one, those that are named, or all with a status.

use axum::extract::Path;
use axum::response::NoContent;
use hier_core::runs::{Cancel, Run, RunQuery, RunStatus, RunsError, ThreadIs, ThreadRow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::runs::located;
use super::streams::{self, Leaves};
use crate::answer::MayWait;
use crate::app::Caller;
use crate::auth::{Action, Resource};
use crate::body::{MaybeBody, id};
use crate::error::{ApiError, ApiResult};
use crate::fault::refused;
use crate::follow::Ending;
use crate::query::Query;
use crate::wire::object::RunOutput;

/// What becomes of the checkpoints of a run that is cancelled.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "CancelAction")]
enum How {
    /// They stay.
    #[default]
    Interrupt,
    /// They are deleted with the run.
    Rollback,
}

impl From<How> for Cancel {
    fn from(how: How) -> Self {
        match how {
            How::Interrupt => Self::Interrupt,
            How::Rollback => Self::Rollback,
        }
    }
}

/// How a run is cancelled.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct CancelQuery {
    /// Whether its checkpoints stay (`interrupt`), or are deleted with it (`rollback`).
    action: How,
    /// Whether the answer comes when the run has ended, and is what the run returned.
    wait: bool,
}

/// How runs are cancelled.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct CancelsQuery {
    /// Whether their checkpoints stay (`interrupt`), or are deleted with them (`rollback`).
    action: How,
}

const NONE_TO_CANCEL: &str = "No matching runs to cancel. Please verify the thread ID and run IDs are correct, and the \
                              runs haven't been deleted or completed.";

/// Cancels runs of this thread. None are cancelled if it was deleted meanwhile.
async fn cancelled(caller: &Caller, thread: &ThreadRow, runs: &[Uuid], action: Cancel) -> ApiResult<Vec<Run>> {
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
    let cancelled = cancelled(&caller, &thread, &[run], query.action.into()).await?;
    let Some(run) = cancelled.into_iter().next() else { return Err(ApiError::not_found(NONE_TO_CANCEL)) };
    if !query.wait {
        return Ok(MayWait::Accepted);
    }
    let ending = Ending::of(&caller.app, &run.thread);
    let mut response = streams::until_end(&caller, &run, Leaves::Continue, ending);
    located(&mut response.0, &run, true, Some("join"));
    Ok(MayWait::Ended(response))
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
    Query(CancelsQuery { action }): Query<CancelsQuery>,
    MaybeBody(body): MaybeBody<CancelBody>,
) -> ApiResult<NoContent> {
    caller.may(Resource::Threads, Action::CreateRun).await?;
    let action = action.into();
    let mut cancelled = 0;
    match (&body.status, body.thread_id, &body.run_ids) {
        (None, Some(thread), Some(runs)) => {
            let thread = caller.thread(&thread.to_string(), Action::CreateRun).await?;
            cancelled += self::cancelled(&caller, &thread, runs, action).await?.len();
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
                if let Ok(thread) = caller.thread(&run.thread, Action::CreateRun).await {
                    cancelled += self::cancelled(&caller, &thread, &[run.id], action).await?.len();
                }
            }
        }
        _ => return Err(ApiError::invalid("give either `status`, or `thread_id` and `run_ids`")),
    }
    if cancelled == 0 {
        return Err(ApiError::not_found("No runs found to cancel."));
    }
    Ok(NoContent)
}
