//! What a client is told when its request cannot be served: a status, and a text that says what is wrong with which field.

use std::fmt;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// A request that is refused. As a body it is `{"detail": text}`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ApiError {
    /// The status.
    pub status: StatusCode,
    /// What is wrong, and how to mend it.
    pub detail: String,
}

/// The result of a handler.
pub(crate) type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    /// An error with this status.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into() }
    }

    /// 400: the request cannot be carried out as it stands.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// 401: nobody knows who asks.
    pub fn unauthenticated(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, detail)
    }

    /// 403: who asks may not do this.
    pub fn forbidden() -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden")
    }

    /// 404.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// 409: what is there stands in the way.
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }

    /// 422: a field of the request is not what it has to be.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    /// 500: the server's own fault. What happened is logged, and not told.
    pub(crate) fn internal(error: &dyn fmt::Display) -> Self {
        tracing::error!(%error, "a request failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error")
    }

    /// A thread that is not there, or not for who asks.
    pub(crate) fn no_thread(id: impl fmt::Display) -> Self {
        Self::not_found(format!("Thread with ID {id} not found"))
    }

    /// An assistant that is not there, or not for who asks.
    pub(crate) fn no_assistant(id: impl fmt::Display) -> Self {
        Self::not_found(format!("Assistant with ID {id} not found"))
    }

    /// The body.
    pub(crate) fn body(&self) -> Value {
        json!({ "detail": self.detail })
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status.as_u16(), self.detail)
    }
}

impl std::error::Error for ApiError {}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(self.body())).into_response()
    }
}
