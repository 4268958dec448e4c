//! Answers whose type says what their body is.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

/// An answer with headers of its own, or one that comes later, whose body is the JSON of this type.
pub(crate) struct As<T>(pub(crate) Response, PhantomData<T>);

impl<T> As<T> {
    /// What is answered, by whoever makes sure that it is of this type.
    pub(crate) fn of(response: Response) -> Self {
        Self(response, PhantomData)
    }
}

impl<T: Serialize> As<T> {
    pub(crate) fn json(body: &T) -> Self {
        Self::of(Json(body).into_response())
    }
}

impl<T> IntoResponse for As<T> {
    fn into_response(self) -> Response {
        self.0
    }
}

/// An answer that is a stream of server-sent events.
pub(crate) struct Streamed(pub(crate) Response);

impl IntoResponse for Streamed {
    fn into_response(self) -> Response {
        self.0
    }
}

/// An answer that comes at once without a body, or when something has ended.
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

/// The fields of an object that a client has selected; all if it has selected none.
pub(crate) struct Selected<T>(Value, PhantomData<T>);

impl<T: Serialize> Selected<T> {
    pub(crate) fn of(object: &T, fields: Option<&[String]>) -> Self {
        let mut value = json!(object);
        if let (Some(object), Some(fields)) = (value.as_object_mut(), fields) {
            object.retain(|name, _| fields.iter().any(|field| field == name));
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
