//! Adds several runs with one request: either all runs or none of them.

use axum::Json;
use hier_core::runs::{NewRun, Run};
use uuid::Uuid;

use super::run_plan::{ResponseMode, RunPlan};
use crate::app::{App, Caller};
use crate::body::JsonBody;
use crate::error::{ApiError, ApiResult};
use crate::fault::refused;
use crate::wire::object::RunObject;
use crate::wire::run::RunCreate;

/// Adds runs, each with its own thread. Checks all runs before it adds the first one. If the database fails after some
/// runs were added, deletes these runs again. If the client disconnects, adds either all runs or none.
pub(crate) async fn create(
    caller: Caller,
    JsonBody(bodies): JsonBody<Vec<RunCreate>>,
) -> ApiResult<Json<Vec<RunObject>>> {
    let (most, count) = (caller.app.limits.page, bodies.len());
    if count > most {
        return Err(ApiError::invalid(format!("a batch of {count} runs is too large: send at most {most}")));
    }
    let mut all = Vec::with_capacity(count);
    for (number, body) in bodies.iter().enumerate() {
        let new = RunPlan::for_client(None, body, ResponseMode::Background).check(&caller).await;
        all.push(new.map_err(|error| none_added(number, &error))?);
    }
    // A separate task adds the runs even if this handler is dropped because the client disconnects or the request times
    // out.
    let app = caller.app.clone();
    let adding = caller.app.tasks.spawn(async move { add_all(&app, all).await });
    let made = adding.await.map_err(|error| ApiError::internal(&error))??;
    Ok(Json(made.iter().map(|run| caller.app.run_object(run)).collect()))
}

async fn add_all(app: &App, all: Vec<NewRun>) -> ApiResult<Vec<Run>> {
    let mut made = Vec::with_capacity(all.len());
    for (number, mut new) in all.into_iter().enumerate() {
        let (thread, graph, id) = (new.thread.clone(), new.graph.clone(), *new.id.get_or_insert_with(Uuid::now_v7));
        match app.create_run(new).await {
            Ok(run) => made.push(run),
            Err(error) => {
                let error = refused(error);
                // The run may have been added although its response was lost.
                let unknown = match delete_thread(app, &graph, &thread).await {
                    Ok(()) => None,
                    Err(lost) => {
                        tracing::warn!(
                            thread,
                            error = lost.detail,
                            "failed to delete a run of a batch that may have been added: cancel the run if it exists"
                        );
                        Some(id)
                    }
                };
                let stay = delete_runs(app, &made).await;
                return Err(if stay.is_empty() && unknown.is_none() {
                    none_added(number, &error)
                } else {
                    some_added(number, &error, &stay, unknown)
                });
            }
        }
    }
    Ok(made)
}

fn none_added(number: usize, error: &ApiError) -> ApiError {
    let detail = format!("run {number} of the batch: {}; no run of the batch was added", error.detail);
    ApiError::new(error.status, detail)
}

fn some_added(number: usize, error: &ApiError, stay: &[String], unknown: Option<Uuid>) -> ApiError {
    let before = match stay {
        [] => "the earlier runs were not added".to_owned(),
        stay => format!(
            "these earlier runs were added and could not be deleted again: cancel them if you do not want them ({})",
            stay.join(", ")
        ),
    };
    let itself = unknown.map_or_else(String::new, |id| {
        format!("; the run itself may have been added: cancel it if it exists and you do not want it ({id})")
    });
    ApiError::new(error.status, format!("run {number} of the batch: {}; {before}{itself}", error.detail))
}

async fn delete_thread(app: &App, graph: &str, thread: &str) -> ApiResult<()> {
    app.runs.remove_thread(thread).await.map_err(refused)?;
    app.forget(graph, thread).await
}

/// Deletes runs with their threads. Returns the ids of the runs that could not be deleted.
async fn delete_runs(app: &App, made: &[Run]) -> Vec<String> {
    let mut stay = Vec::new();
    for run in made {
        if let Err(error) = delete_thread(app, &run.graph, &run.thread).await {
            tracing::warn!(run = %run.id, error = error.detail, "failed to delete a run of an incomplete batch: cancel the run if it exists");
            stay.push(run.id.to_string());
        }
    }
    stay
}
