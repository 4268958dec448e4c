//! Converts errors of databases and graphs into responses.

use axum::http::StatusCode;
use hier_core::RunError;
use hier_core::checkpoint::SaverError;
use hier_core::runs::RunsError;
use hier_core::store::StoreError;

use crate::error::ApiError;

pub(crate) fn refused(error: RunsError) -> ApiError {
    match error {
        RunsError::Saver(error) => saver(&error),
        RunsError::NoThread { .. } => ApiError::not_found("Thread or assistant not found."),
        RunsError::NoRun { .. } => ApiError::not_found("Not Found"),
        RunsError::NoDocument { kind, id } if kind == "assistant" => ApiError::no_assistant(id),
        RunsError::NoDocument { kind, id } => ApiError::not_found(format!("There is no {kind} {id}")),
        RunsError::Exists { kind: "thread", id } => ApiError::conflict(format!("Thread with ID {id} already exists")),
        RunsError::Exists { kind: "assistant", id } => {
            ApiError::conflict(format!("Assistant with ID {id} already exists"))
        }
        RunsError::Busy { .. } => ApiError::conflict(
            "Thread is already running a task. Wait for it to finish or choose a different multitask strategy.",
        ),
        RunsError::QueueFull { .. } => ApiError::new(StatusCode::TOO_MANY_REQUESTS, error.to_string()),
        RunsError::Stale { .. } | RunsError::Answered { .. } => ApiError::conflict(error.to_string()),
        error @ (RunsError::Exists { .. } | RunsError::Live { .. }) => ApiError::conflict(error.to_string()),
        RunsError::Invalid(text) => ApiError::invalid(text),
        error => ApiError::internal(&error),
    }
}

pub(crate) fn already_exists(error: &RunsError) -> bool {
    matches!(error, RunsError::Exists { .. })
}

pub(crate) fn saver(error: &SaverError) -> ApiError {
    match error {
        SaverError::Busy { .. } | SaverError::Superseded { .. } => ApiError::conflict(error.to_string()),
        SaverError::Deleted { thread } => ApiError::no_thread(thread),
        SaverError::Invalid(text) => ApiError::invalid(text.clone()),
        error => ApiError::internal(error),
    }
}

pub(crate) fn graph(error: &RunError) -> ApiError {
    match error {
        RunError::Saver { error, .. } => saver(error),
        RunError::NoCheckpointer { .. } | RunError::Cancelled { .. } | RunError::OutcomeTaken => {
            ApiError::internal(error)
        }
        error => ApiError::new(StatusCode::BAD_REQUEST, error.to_string()),
    }
}

pub(crate) fn store(error: StoreError) -> ApiError {
    match error {
        StoreError::Invalid(text) => ApiError::invalid(text),
        StoreError::Saver(error) => saver(&error),
        error => ApiError::internal(&error),
    }
}
