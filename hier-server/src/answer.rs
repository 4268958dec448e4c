//! Responses whose type describes their body in the OpenAPI document.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;

use axum::Json;
use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use futures_util::{StreamExt, TryStreamExt, stream};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::error::{ApiError, ApiResult};

/// A response whose body is the JSON of `T`. It may have custom headers, or be sent later.
pub(crate) struct As<T>(pub(crate) Response, PhantomData<T>);

impl<T> As<T> {
    /// Wraps a response. The caller ensures that its body is a `T`.
    pub(crate) fn of(response: Response) -> Self {
        Self(response, PhantomData)
    }
}

impl<T: Serialize> As<T> {
    pub(crate) fn json(body: &T) -> Self {
        Self::of(Json(body).into_response())
    }
}

impl<T: Serialize + Send + 'static> As<Vec<T>> {
    /// Sends each item when the stream returns it, because all items of a list may exceed the memory. An error before the
    /// first item is returned. A later error interrupts the response.
    pub(crate) async fn streamed(items: impl Stream<Item = ApiResult<T>> + Send + 'static) -> ApiResult<Self> {
        let mut items = Box::pin(items);
        let Some(first) = items.try_next().await? else { return Ok(Self::json(&Vec::new())) };
        let mut before = b'[';
        let parts = stream::iter([Ok(first)]).chain(items).map(move |item: ApiResult<T>| {
            let mut part = vec![std::mem::replace(&mut before, b',')];
            serde_json::to_writer(&mut part, &item?).map_err(|error| ApiError::internal(&error))?;
            Ok::<_, ApiError>(part)
        });
        let body = Body::from_stream(parts.chain(stream::iter([Ok(b"]".to_vec())])));
        Ok(Self::of(([(header::CONTENT_TYPE, "application/json")], body).into_response()))
    }
}

impl<T> IntoResponse for As<T> {
    fn into_response(self) -> Response {
        self.0
    }
}

pub(crate) struct Streamed(pub(crate) Response);

impl IntoResponse for Streamed {
    fn into_response(self) -> Response {
        self.0
    }
}

/// A response that is sent either at once and without a body, or at the end of a run.
pub(crate) enum MayWait<T> {
    Accepted,
    Ended(As<T>),
}

impl<T> IntoResponse for MayWait<T> {
    fn into_response(self) -> Response {
        match self {
            Self::Accepted => StatusCode::ACCEPTED.into_response(),
            Self::Ended(answer) => answer.into_response(),
        }
    }
}

/// The form of the response that a client prefers, from the header `Prefer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefers {
    Representation,
    /// No body: `return=minimal`.
    Minimal,
}

impl<S: Send + Sync> FromRequestParts<S> for Prefers {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let values = parts.headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
        let is_minimal = values.flat_map(|value| value.split(',')).any(|word| word.trim() == "return=minimal");
        Ok(if is_minimal { Self::Minimal } else { Self::Representation })
    }
}

/// A response with a body of this type, or without a body if the client prefers that.
pub(crate) struct Preferred<T>(pub(crate) Option<Json<T>>);

impl<T: Serialize> IntoResponse for Preferred<T> {
    fn into_response(self) -> Response {
        self.0.map_or_else(|| StatusCode::NO_CONTENT.into_response(), IntoResponse::into_response)
    }
}

/// An object with the fields that a client has selected. Defaults to all fields.
pub(crate) struct Selected<T>(Value, PhantomData<T>);

impl<T: JsonSchema> Selected<T> {
    /// Refuses unknown field names.
    pub(crate) fn check(fields: Option<&BTreeSet<String>>) -> ApiResult<()> {
        let schema = T::json_schema(&mut SchemaGenerator::default()).to_value();
        let known: Vec<&str> =
            schema["properties"].as_object().into_iter().flat_map(|known| known.keys().map(String::as_str)).collect();
        match fields.into_iter().flatten().find(|field| !known.contains(&field.as_str())) {
            None => Ok(()),
            Some(other) => Err(ApiError::invalid(format!(
                "`select`: unknown field `{other}`: the fields are {}",
                known.join(", ")
            ))),
        }
    }
}

impl<T: Serialize> Selected<T> {
    /// Selects fields of an object. The fields are a set, because a client can send a million names, and a response can
    /// have 1,000 objects.
    pub(crate) fn of(object: &T, fields: Option<&BTreeSet<String>>) -> Self {
        let mut value = json!(object);
        if let (Some(object), Some(fields)) = (value.as_object_mut(), fields) {
            object.retain(|name, _| fields.contains(name));
        }
        Self(value, PhantomData)
    }
}

impl<T> Selected<T> {
    pub(crate) fn value(&self) -> &Value {
        &self.0
    }
}

impl<T> fmt::Debug for Selected<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> Serialize for Selected<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<T: JsonSchema> JsonSchema for Selected<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("Selected{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = T::json_schema(generator);
        schema.remove("required");
        schema
    }
}
