//! The JSON of a value of any type.
//!
//! Values that JSON cannot represent become strings: map keys that are not strings, numbers that are not finite, and
//! integers of more than 64 bits. Bytes become a list of numbers, and a `Some` without content becomes null.

use serde_json::{Map, Number, Value};

use super::head::{Head, Heads};
use super::read::utf8;
use crate::checkpoint::CodecError;

pub(super) fn value(rest: &mut Heads<'_>) -> Result<Value, CodecError> {
    Ok(match rest.next()? {
        Head::Nil | Head::Somes(_) => Value::Null,
        Head::Bool(value) => Value::Bool(value),
        Head::Unsigned(value) => Value::from(value),
        Head::Signed(value) => Value::from(value),
        Head::F32(value) => float(value.into()),
        Head::F64(value) => float(value),
        Head::I128(value) => Value::String(i128::from_be_bytes(*value).to_string()),
        Head::U128(value) => Value::String(u128::from_be_bytes(*value).to_string()),
        Head::Text(text) => Value::String(utf8(text)?.to_owned()),
        Head::Bytes(bytes) => bytes.iter().map(|byte| Value::from(*byte)).collect(),
        Head::List(length) => {
            let mut items = Vec::with_capacity(length);
            for _ in 0..length {
                items.push(value(rest)?);
            }
            Value::Array(items)
        }
        Head::Map(length) => {
            let mut fields = Map::new();
            for _ in 0..length {
                let key = match value(rest)? {
                    Value::String(key) => key,
                    other => other.to_string(),
                };
                fields.insert(key, value(rest)?);
            }
            Value::Object(fields)
        }
    })
}

fn float(value: f64) -> Value {
    Number::from_f64(value).map_or_else(|| Value::String(value.to_string()), Value::Number)
}
