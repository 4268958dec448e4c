//! Several runs at once: all of them or none.

use axum::Json;
use hier_core::runs::Run;
use serde_json::Value;

use super::runs::{Follower, checked, kept_of};
use crate::app::Caller;
use crate::body::Body;
use crate::error::{ApiError, ApiResult};
use crate::fault::refused;
use crate::wire::row::run as run_json;
use crate::wire::run::RunCreate;

/// Adds runs, each with a thread of its own. They are checked before any is added; if the database fails in between, those that were
/// added are deleted again.
pub(crate) async fn create(caller: Caller, Body(bodies): Body<Vec<RunCreate>>) -> ApiResult<Json<Vec<Value>>> {
    let (most, count) = (caller.app.limits.page, bodies.len());
    if count > most {
        return Err(ApiError::invalid(format!("a batch has at most {most} runs, and this {count}")));
    }
    let mut all = Vec::with_capacity(count);
    for (number, body) in bodies.iter().enumerate() {
        let (kept, temporary) = kept_of(None, body, Follower::Nobody);
        let new = checked(&caller, None, body, kept, temporary).await;
        all.push(new.map_err(|error| of_batch(number, &error))?);
    }
    let mut made = Vec::with_capacity(count);
    for (number, new) in all.into_iter().enumerate() {
        let thread = new.thread.clone();
        match caller.app.runs.create_run(new).await {
            Ok(run) => made.push(run),
            Err(error) => {
                let error = refused(error);
                // The answer of a run that was added may have been lost.
                if let Err(lost) = caller.app.runs.remove_thread(&thread).await {
                    tracing::warn!(thread, error = %lost, "whether a run of a batch was added is not known");
                }
                let stay = take_back(&caller, &made).await;
                return Err(if stay.is_empty() { of_batch(number, &error) } else { in_part(number, &error, &stay) });
            }
        }
    }
    Ok(Json(made.iter().map(run_json).collect()))
}

fn of_batch(number: usize, error: &ApiError) -> ApiError {
    let detail = format!("run {number} of the batch: {}; no run of the batch was added", error.detail);
    ApiError::new(error.status, detail)
}

fn in_part(number: usize, error: &ApiError, stay: &[String]) -> ApiError {
    let detail = format!(
        "run {number} of the batch: {}; the runs before it were added and could not be deleted again: cancel them if they are \
         not wanted ({})",
        error.detail,
        stay.join(", ")
    );
    ApiError::new(error.status, detail)
}

/// Deletes runs with the threads that were made for them, and returns the ids of those that stay.
async fn take_back(caller: &Caller, made: &[Run]) -> Vec<String> {
    let mut stay = Vec::new();
    for run in made {
        if let Err(error) = caller.app.runs.remove_thread(&run.thread).await {
            tracing::warn!(run = %run.id, %error, "a run of a batch that could not be added whole stays");
            stay.push(run.id.to_string());
        }
    }
    stay
}
