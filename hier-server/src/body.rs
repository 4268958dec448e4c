//! Reads bodies, queries and ids from requests, and says which field is wrong.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use crate::error::{ApiError, ApiResult};

/// A JSON body, whatever its content type says: clients differ in that.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> ApiResult<Self> {
        let bytes = Bytes::from_request(request, state).await.map_err(|error| unread(&error))?;
        parse(&bytes).map(Self)
    }
}

/// The same where the body may be left out.
#[derive(Debug)]
pub(crate) struct MaybeBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for MaybeBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> ApiResult<Self> {
        let bytes = Bytes::from_request(request, state).await.map_err(|error| unread(&error))?;
        let bytes = if bytes.trim_ascii().is_empty() { &b"{}"[..] } else { &bytes };
        parse(bytes).map(Self)
    }
}

fn unread(rejection: &axum::extract::rejection::BytesRejection) -> ApiError {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than the server takes");
    }
    ApiError::new(rejection.status(), rejection.body_text())
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> ApiResult<T> {
    let value: Value = serde_json::from_slice(bytes).map_err(|_| ApiError::invalid("Invalid JSON in request body"))?;
    from_value(value)
}

/// A value of this type, or a text that names the field that is wrong.
pub(crate) fn from_value<T: DeserializeOwned>(value: Value) -> ApiResult<T> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let error = error.into_inner();
        ApiError::invalid(if path == "." { error.to_string() } else { format!("`{path}`: {error}") })
    })
}

/// The query of the address as pairs, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> ApiResult<Self> {
        let query = axum::extract::Query::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        query.map(|query| Self(query.0)).map_err(|error| ApiError::invalid(error.body_text()))
    }
}

impl Query {
    /// The value of a parameter; the last, if it is there more than once.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Every value of a parameter, also of those that are separated by commas or written as lists (`name[]`).
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = move |key: &str| key == name || key.strip_suffix("[]").is_some_and(|key| key == name);
        let values = self.0.iter().filter(move |(key, _)| named(key));
        values.flat_map(|(_, value)| value.split(',')).filter(|value| !value.is_empty())
    }

    /// Whether a parameter says yes.
    pub(crate) fn flag(&self, name: &str) -> ApiResult<bool> {
        match self.get(name).map(str::to_ascii_lowercase).as_deref() {
            None | Some("" | "0" | "false" | "no") => Ok(false),
            Some("1" | "true" | "yes") => Ok(true),
            Some(other) => Err(ApiError::invalid(format!("`{name}`: `{other}` is neither true nor false"))),
        }
    }

    /// A number.
    pub(crate) fn number(&self, name: &str, unless: u64) -> ApiResult<u64> {
        let Some(text) = self.get(name) else { return Ok(unless) };
        text.parse().map_err(|_| ApiError::invalid(format!("`{name}`: `{text}` is no number from 0 on")))
    }
}

/// The id of a thread, run, assistant or cron, from the path.
pub(crate) fn id(what: &str, text: &str) -> ApiResult<Uuid> {
    Uuid::try_parse(text).map_err(|_| ApiError::invalid(format!("Invalid {what} ID: must be a UUID")))
}
