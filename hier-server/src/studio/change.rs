//! Copies, prunes and deletes threads for the studio. These changes need no graph.

use std::sync::Arc;

use axum::Json;
use axum::extract::Path;
use hier_core::checkpoint::{Checkpointer, Claim, Prune, Saved, Strategy, WhenRunning, background};
use hier_core::runs::{EventBuffering, NewThread, RunLog, ThreadIndex, ThreadStatus};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::threads::{StudioThread, find};
use crate::app::Caller;
use crate::auth::{Action, Resource};
use crate::body::JsonBody;
use crate::error::{ApiError, ApiResult};
use crate::fault::{refused, saver};
use crate::routes::run_plan::config_for;
use crate::routes::threads::{COPY_ELSEWHERE, PRUNE_ELSEWHERE};

#[derive(Debug, Deserialize)]
pub(super) struct ForkBody {
    /// The checkpoint from which the copy continues. Defaults to the latest one.
    checkpoint: Option<Uuid>,
}

/// Copies a thread with its history. The copy continues from the checkpoint that the body selects.
pub(super) async fn fork(
    caller: Caller,
    Path(thread): Path<String>,
    JsonBody(body): JsonBody<ForkBody>,
) -> ApiResult<Json<Value>> {
    let found = find(&caller, &thread, Action::Read).await?;
    if let Some(supervisor) = background::outer_of(&found.id) {
        return Err(ApiError::invalid(format!(
            "thread `{}` belongs to a background subagent of thread `{supervisor}`, and a copy would have no supervisor: fork \
             thread `{supervisor}` instead",
            found.id
        )));
    }
    if let Some(row) = &found.row {
        caller.app.check_own(row, "copy", COPY_ELSEWHERE)?;
    }
    let filter = caller.may(Resource::Threads, Action::Create).await?;
    let runs = &caller.app.runs;
    if let Some(id) = body.checkpoint
        && runs.get(&found.id, "", Some(id)).await.map_err(|error| saver(&error))?.is_none()
    {
        return Err(gone(id));
    }
    let copy = Uuid::now_v7().to_string();
    // If the id of the thread is not a UUID, the copy's id begins with it.
    let copy = if Uuid::try_parse(&found.id).is_ok() { copy } else { format!("{} {copy}", found.id) };
    match &found.row {
        Some(row) => {
            let mut new = NewThread::new(&copy);
            new.metadata = filter;
            new.config = Some(config_for(&caller.user, &row.config));
            runs.clone_thread(&found.id, new).await.map_err(refused)?;
        }
        // Without a row, the copy would have no owner.
        None if !filter.is_empty() => return Err(ApiError::forbidden()),
        None => {
            let admin = runs.admin().map_err(|error| saver(&error))?;
            admin.copy_thread(&found.id, &copy).await.map_err(|error| saver(&error))?;
        }
    }
    if let Some(from) = body.checkpoint
        && let Err(error) = branch_off(&caller, &found, &copy, from).await
    {
        // Without its checkpoint, the copy would continue from another one.
        if let Err(error) = runs.remove_thread(&copy).await {
            tracing::warn!(thread = copy, %error, "failed to delete the copy of a failed fork");
        }
        return Err(error);
    }
    Ok(Json(json!({ "thread_id": copy })))
}

fn gone(id: Uuid) -> ApiError {
    ApiError::not_found(format!("the thread has no checkpoint {id}: it may have been pruned"))
}

/// Adds a copy of a checkpoint as the latest checkpoint, and updates the row of the thread.
async fn branch_off(caller: &Caller, original: &StudioThread, copy: &str, from: Uuid) -> ApiResult<()> {
    let runs = &caller.app.runs;
    let holder = "a fork in the studio".to_owned();
    let claim = Claim { holder, when_running: WhenRunning::Reject, keeps_time_to_live: true, ..Claim::default() };
    let lease = runs.acquire(copy, claim).await.map_err(|error| saver(&error))?;
    let branched = if original.row.is_some() {
        let log = Arc::new(RunLog::new(runs.clone(), lease.clone(), None, EventBuffering::WithCommits));
        branch_off_and_index(log, copy, from).await
    } else {
        let plain: Arc<dyn Checkpointer> = runs.clone().as_checkpointer();
        hier_core::branch_off(&plain, &lease, from).await.map_err(|error| saver(&error)).map(|id| id.is_some())
    };
    // The lease is also released after an error, so that the thread is free again.
    runs.release(&lease).await.map_err(|error| saver(&error))?;
    if branched? { Ok(()) } else { Err(gone(from)) }
}

async fn branch_off_and_index(log: Arc<RunLog>, copy: &str, from: Uuid) -> ApiResult<bool> {
    let through: Arc<dyn Checkpointer> = log.clone();
    let branched = hier_core::branch_off(&through, log.lease(), from).await.map_err(|error| saver(&error))?;
    let saved = through.get(copy, "", branched).await.map_err(|error| saver(&error))?;
    let Some(saved) = saved.filter(|_| branched.is_some()) else { return Ok(false) };
    log.finish(Some(index(&saved)), None).await.map_err(refused)?;
    Ok(true)
}

/// Returns the row of a thread that has this latest checkpoint and no open questions.
fn index(saved: &Saved) -> ThreadIndex {
    let agenda = &saved.checkpoint.agenda;
    let waits = agenda.start || !agenda.ready.is_empty() || !agenda.sends.is_empty();
    let index = ThreadIndex::new(if waits { ThreadStatus::Interrupted } else { ThreadStatus::Idle });
    index.values(Value::Object(saved.json_values().0))
}

#[derive(Debug, Deserialize)]
pub(super) struct StudioPruneBody {
    /// The number of the newest checkpoints to keep. 0 deletes the thread.
    keep: usize,
}

/// Deletes the old checkpoints of a thread, or the whole thread.
pub(super) async fn prune(
    caller: Caller,
    Path(thread): Path<String>,
    JsonBody(body): JsonBody<StudioPruneBody>,
) -> ApiResult<Json<Value>> {
    let found = find(&caller, &thread, Action::Delete).await?;
    let runs = &caller.app.runs;
    if body.keep == 0 {
        match &found.row {
            Some(row) => drop(caller.app.remove_thread(row).await?),
            None => runs.delete_thread(&found.id).await.map_err(|error| saver(&error))?,
        }
        return Ok(Json(json!({ "deleted": true })));
    }
    if let Some(row) = &found.row {
        caller.app.check_own(row, "prune", PRUNE_ELSEWHERE)?;
    }
    let prune = Prune { threads: Some(vec![found.id]), strategy: Strategy::Keep(body.keep), older_than: None };
    let admin = runs.admin().map_err(|error| saver(&error))?;
    let pruned = admin.prune(prune).await.map_err(|error| saver(&error))?;
    Ok(Json(json!({ "pruned": pruned })))
}
