//! Reads JSON bodies and ids from requests, with errors that name the field.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use serde::Deserializer;
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer, Visitor};
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
/// values.
struct Strict(Value);

impl IntoDeserializer<'_, serde_json::Error> for Strict {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Strict {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self.0 {
            Value::Array(items) => {
                let mut items = SeqDeserializer::new(items.into_iter().map(Strict));
                let value = visitor.visit_seq(&mut items)?;
                items.end().map(|()| value)
            }
            Value::Object(fields) => {
                let mut fields = MapDeserializer::new(fields.into_iter().map(|(name, value)| (name, Strict(value))));
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
            Value::Object(given) => misspelt(given, fields).map_or(Ok(()), Err)?,
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

/// Maximum number of unknown fields of an object that are compared with the known fields.
const MAX_COMPARED: usize = 64;

/// Returns an error for an unknown field whose name is nearly that of a missing field. Other unknown fields are
/// ignored, because newer clients may send fields that this server does not know.
fn misspelt(given: &Map<String, Value>, fields: &[&str]) -> Option<serde_json::Error> {
    let unknown = given.keys().filter(|name| !fields.contains(&name.as_str())).take(MAX_COMPARED);
    let mut nearly = unknown.filter_map(|name| {
        let most = if name.len() < 8 { 1 } else { 2 };
        // A distance is at least the difference in length, so only short names are compared.
        let missing = fields.iter().filter(|field| {
            field.len() > 3 && name.len().abs_diff(field.len()) <= most && !given.contains_key(**field)
        });
        let meant = missing.min_by_key(|field| strsim::osa_distance(name, field))?;
        (strsim::osa_distance(name, meant) <= most).then_some((name, meant))
    });
    let (name, meant) = nearly.next()?;
    Some(serde::de::Error::custom(format!("unknown field `{name}`: did you mean `{meant}`?")))
}

/// Deserializes a value. The error names the field.
pub(crate) fn from_value<T: DeserializeOwned>(value: Value) -> ApiResult<T> {
    serde_path_to_error::deserialize(Strict(value)).map_err(|error| {
        let path = error.path().to_string();
        let error = error.into_inner();
        ApiError::invalid(if path == "." { error.to_string() } else { format!("`{path}`: {error}") })
    })
}

/// Parses the id of a thread, run, assistant or cron from a path.
pub(crate) fn id(what: &str, text: &str) -> ApiResult<Uuid> {
    Uuid::try_parse(text).map_err(|_| ApiError::invalid(format!("Invalid {what} ID: must be a UUID")))
}
