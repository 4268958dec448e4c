//! Several runs at once: all of them or none.

use axum::Json;
use hier_core::runs::{NewRun, Run};
use uuid::Uuid;

use super::runs::{Follower, checked, kept_of};
use crate::app::{App, Caller};
use crate::body::Body;
use crate::error::{ApiError, ApiResult};
use crate::fault::refused;
use crate::wire::object::RunObject;
use crate::wire::row::run as run_json;
use crate::wire::run::RunCreate;

/// Adds runs, each with a thread of its own. They are checked before any is added; if the database fails in between, those that were
/// added are deleted again. A client that goes away before it is answered leaves all of them or none, too.
pub(crate) async fn create(caller: Caller, Body(bodies): Body<Vec<RunCreate>>) -> ApiResult<Json<Vec<RunObject>>> {
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
    // With the connection, and with the time that an answer may take, this handler is dropped wherever it is, and the task is not.
    let app = caller.app.clone();
    let adding = caller.app.tasks.spawn(async move { add_all(&app, all).await });
    let made = adding.await.map_err(|error| ApiError::internal(&error))??;
    Ok(Json(made.iter().map(run_json).collect()))
}

/// Adds all of them, or deletes those again that it has added.
async fn add_all(app: &App, all: Vec<NewRun>) -> ApiResult<Vec<Run>> {
    let mut made = Vec::with_capacity(all.len());
    for (number, mut new) in all.into_iter().enumerate() {
        let (thread, id) = (new.thread.clone(), *new.id.get_or_insert_with(Uuid::now_v7));
        match app.create_run(new).await {
            Ok(run) => made.push(run),
            Err(error) => {
                let error = refused(error);
                // The answer of a run that was added may have been lost.
                let unknown = match app.runs.remove_thread(&thread).await {
                    Ok(_) => None,
                    Err(lost) => {
                        tracing::warn!(thread, error = %lost, "whether a run of a batch was added is not known");
                        Some(id)
                    }
                };
                let stay = take_back(app, &made).await;
                return Err(if stay.is_empty() && unknown.is_none() {
                    of_batch(number, &error)
                } else {
                    in_part(number, &error, &stay, unknown)
                });
            }
        }
    }
    Ok(made)
}

fn of_batch(number: usize, error: &ApiError) -> ApiError {
    let detail = format!("run {number} of the batch: {}; no run of the batch was added", error.detail);
    ApiError::new(error.status, detail)
}

fn in_part(number: usize, error: &ApiError, stay: &[String], unknown: Option<Uuid>) -> ApiError {
    let before = match stay {
        [] => "no run before it was added".to_owned(),
        stay => format!(
            "runs before it were added and could not be deleted again: cancel them if they are not wanted ({})",
            stay.join(", ")
        ),
    };
    let itself = unknown.map_or_else(String::new, |id| {
        format!("; whether it was added itself is not known: cancel it if it is there and not wanted ({id})")
    });
    ApiError::new(error.status, format!("run {number} of the batch: {}; {before}{itself}", error.detail))
}

/// Deletes runs with the threads that were made for them, and returns the ids of those that stay.
async fn take_back(app: &App, made: &[Run]) -> Vec<String> {
    let mut stay = Vec::new();
    for run in made {
        if let Err(error) = app.runs.remove_thread(&run.thread).await {
            tracing::warn!(run = %run.id, %error, "a run of a batch that could not be added whole stays");
            stay.push(run.id.to_string());
        }
    }
    stay
}
