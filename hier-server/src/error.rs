//! The errors that clients receive.

use std::fmt;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// An error response with the body `{"detail": …}`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}: {detail}", .status.as_u16())]
#[non_exhaustive]
pub struct ApiError {
    /// The HTTP status.
    pub status: StatusCode,
    /// The reason, and how to fix the request.
    pub detail: String,
}

pub(crate) type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    /// Creates an error with this status.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into() }
    }

    /// 400: the request cannot be carried out.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// 401: the user is unknown.
    pub fn unauthenticated(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, detail)
    }

    /// 403: the user has no access.
    pub fn forbidden() -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden")
    }

    /// 404: the resource does not exist, or the user has no access to it.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// 409: the request conflicts with the current state.
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }

    /// 422: a field of the request is invalid.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    /// 500: an error of the server. It is logged, but not sent to the client.
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
