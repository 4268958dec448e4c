//! The errors that clients receive.

use std::fmt;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// An error that the client receives as a response with the body `{"detail": …}`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}: {detail}", .status.as_u16())]
#[non_exhaustive]
pub struct ApiError {
    /// The HTTP status.
    pub status: StatusCode,
    /// The reason, and the way to fix the request.
    pub detail: String,
}

pub(crate) type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    /// Creates an error with this status.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into() }
    }

    /// Creates an error with status 400, for a request that the server cannot understand or carry out.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// Creates an error with status 401, for credentials that do not identify a user.
    pub fn unauthenticated(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, detail)
    }

    /// Creates an error with status 403, for a user who has no access.
    pub fn forbidden() -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden")
    }

    /// Creates an error with status 404, for a resource that does not exist or to which the user has no access.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// Creates an error with status 409, for a request that conflicts with the current state of the resource.
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }

    /// Creates an error with status 422, for a request with an invalid field.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    /// Creates an error with status 500. Logs the given error, which the client does not receive.
    pub(crate) fn internal(error: &dyn fmt::Display) -> Self {
        tracing::error!(%error, "a request failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error")
    }

    pub(crate) fn no_thread(id: impl fmt::Display) -> Self {
        Self::not_found(format!("Thread with ID {id} not found"))
    }

    pub(crate) fn no_assistant(id: impl fmt::Display) -> Self {
        Self::not_found(format!("Assistant with ID {id} not found"))
    }

    pub(crate) fn body(&self) -> Value {
        json!({ "detail": self.detail })
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(self.body())).into_response()
    }
}
