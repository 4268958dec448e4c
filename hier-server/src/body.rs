//! Reads JSON bodies and ids from requests, with errors that name the field.

use std::cell::Cell;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use hier_core::runs::nested_values;
use schemars::JsonSchema;
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::error::{ApiError, ApiResult};

/// A JSON body. Its content type is not checked, because clients differ.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> ApiResult<Self> {
        let bytes = Bytes::from_request(request, state).await.map_err(|error| unread(&error))?;
        parse(&bytes).map(Self)
    }
}

#[derive(Debug)]
pub(crate) struct OptionalBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for OptionalBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> ApiResult<Self> {
        let bytes = Bytes::from_request(request, state).await.map_err(|error| unread(&error))?;
        let bytes = if bytes.trim_ascii().is_empty() { &b"{}"[..] } else { &bytes };
        parse(bytes).map(Self)
    }
}

fn unread(rejection: &axum::extract::rejection::BytesRejection) -> ApiError {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body is larger than the server accepts: send less, or raise `Server::max_body`",
        );
    }
    ApiError::new(rejection.status(), rejection.body_text())
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> ApiResult<T> {
    from_value(value(bytes)?)
}

/// Maximum nesting of lists and objects in a client's data. Parsers of servers and clients read up to 128 levels. Rows,
/// events and frames add some levels to the data.
const MAX_DEPTH: usize = 100;

pub(crate) fn value(bytes: &[u8]) -> ApiResult<Value> {
    let value = serde_json::from_slice(bytes).map_err(|_| ApiError::invalid("Invalid JSON in request body"))?;
    if is_deeper(&value, MAX_DEPTH) {
        let text = format!("the body is nested deeper than {MAX_DEPTH} levels: send its inner parts as text");
        return Err(ApiError::invalid(text));
    }
    Ok(value)
}

fn is_deeper(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|item| is_deeper(item, levels - 1)),
        Value::Object(fields) => levels == 0 || fields.values().any(|field| is_deeper(field, levels - 1)),
        _ => false,
    }
}

/// A JSON value that deserializes structs only from objects. By default, serde also accepts lists of the fields'
/// values. Counts the comparisons of unknown fields that are left for the body.
struct Strict<'a>(Value, &'a Cell<usize>);

impl IntoDeserializer<'_, serde_json::Error> for Strict<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Strict<'_> {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        let Self(value, left) = self;
        match value {
            Value::Array(items) => {
                let mut items = SeqDeserializer::new(items.into_iter().map(|item| Strict(item, left)));
                let value = visitor.visit_seq(&mut items)?;
                items.end().map(|()| value)
            }
            Value::Object(fields) => {
                let fields = fields.into_iter().map(|(name, value)| (name, Strict(value, left)));
                let mut fields = MapDeserializer::new(fields);
                let value = visitor.visit_map(&mut fields)?;
                fields.end().map(|()| value)
            }
            other => other.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        match &self.0 {
            Value::Array(_) => return Err(serde::de::Error::custom("expected an object, found a list")),
            Value::Object(given) => misspelt(given, fields, self.1).map_or(Ok(()), Err)?,
            _ => {}
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        // By default, null counts as an empty object.
        if self.0.is_null() {
            return Err(serde::de::Error::custom("expected an object, found null"));
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.0.deserialize_enum(name, variants, visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct
        identifier ignored_any
    }
}

/// Maximum number of comparisons of unknown fields with known fields for each body. A body can have 100,000 objects.
const MAX_COMPARED: usize = 4_096;

/// Returns an error for an unknown field whose name is nearly that of a missing field. Other unknown fields are
/// ignored, because newer clients may send fields that this server does not know. Subtracts the number of comparisons
/// from `left`, and compares no further fields when none are left.
fn misspelt(given: &Map<String, Value>, fields: &[&str], left: &Cell<usize>) -> Option<serde_json::Error> {
    let unknown = given.keys().filter(|name| !fields.contains(&name.as_str()));
    let nearly = unknown.map_while(|name| {
        let most = if name.len() < 8 { 1 } else { 2 };
        // A distance is at least the difference in length, so only short names are compared.
        let similar = |field: &&&str| field.len() > 3 && name.len().abs_diff(field.len()) <= most;
        let missing: Vec<&str> =
            fields.iter().filter(similar).filter(|field| !given.contains_key(**field)).copied().collect();
        left.set(left.get().checked_sub(missing.len())?);
        let nearest = missing.into_iter().map(|field| (strsim::osa_distance(name, field), field));
        let nearest = nearest.min_by_key(|(distance, _)| *distance);
        Some(nearest.filter(|(distance, _)| *distance <= most).map(|(_, meant)| (name, meant)))
    });
    let (name, meant) = nearly.flatten().next()?;
    Some(serde::de::Error::custom(format!("unknown field `{name}`: did you mean `{meant}`?")))
}

/// Maximum number of values in lists and objects of a [`SearchFilter`]'s lists. A search compares each of them with
/// each value of an object.
const MAX_NESTED: usize = 100;

/// Entries that the found objects must contain, in their metadata or their values.
#[derive(Clone, Debug, Default, JsonSchema)]
#[schemars(transparent)]
pub(crate) struct SearchFilter(pub(crate) Map<String, Value>);

impl<'de> Deserialize<'de> for SearchFilter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let filter = Map::deserialize(deserializer)?;
        let nested: usize = filter.values().map(nested_values).sum();
        if nested > MAX_NESTED {
            return Err(serde::de::Error::custom(format!(
                "the lists of the filter contain lists and objects with {nested} values: send at most {MAX_NESTED}"
            )));
        }
        Ok(Self(filter))
    }
}

/// Deserializes a value. The error names the field.
pub(crate) fn from_value<T: DeserializeOwned>(value: Value) -> ApiResult<T> {
    serde_path_to_error::deserialize(Strict(value, &Cell::new(MAX_COMPARED))).map_err(|error| {
        let path = error.path().to_string();
        let error = error.into_inner();
        ApiError::invalid(if path == "." { error.to_string() } else { format!("`{path}`: {error}") })
    })
}

/// Parses the id of a thread, run, assistant or cron from a path.
pub(crate) fn id(what: &str, text: &str) -> ApiResult<Uuid> {
    Uuid::try_parse(text).map_err(|_| ApiError::invalid(format!("Invalid {what} ID: must be a UUID")))
}
