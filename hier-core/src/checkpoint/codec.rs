//! How values become bytes: `MessagePack` with field names, after a byte that says so.
//!
//! Field names make a value survive fields that are added with `#[serde(default)]`. Decoding is closed: the type is the
//! channel's, and nothing in the bytes chooses a type or code.

use std::any::type_name;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::codec_shape;
use super::error::CodecError;

/// The byte in front of `MessagePack` with field names.
const NAMED: u8 = 1;

/// The same, of a write that replaces the channel's value.
const NAMED_OVERWRITE: u8 = 2;

/// How deep a value may be nested, in lists and objects. What is read may come from anybody, and must not exhaust the stack.
const DEPTH: usize = 128;

/// Marks an encoded value as one that replaces what the channel holds.
pub(crate) fn mark_overwrite(bytes: &mut [u8]) {
    if let Some(codec) = bytes.first_mut() {
        *codec = NAMED_OVERWRITE;
    }
}

/// Whether an encoded value replaces what the channel holds.
pub(crate) fn is_overwrite(bytes: &[u8]) -> bool {
    bytes.first() == Some(&NAMED_OVERWRITE)
}

/// A value as bytes.
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, CodecError> {
    let mut bytes = Vec::with_capacity(16);
    encode_into(value, &mut bytes)?;
    Ok(bytes)
}

/// A value as bytes, behind those that are there.
pub fn encode_into<T: Serialize + ?Sized>(value: &T, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
    bytes.push(NAMED);
    let start = bytes.len();
    let mut serializer = rmp_serde::Serializer::new(&mut *bytes).with_struct_map();
    value.serialize(&mut serializer).map_err(|error| CodecError(error.to_string()))?;
    // What could not be read must not be written. Each level is a byte at least.
    if bytes.len() - start <= DEPTH {
        return Ok(());
    }
    codec_shape::check(&bytes[start..], DEPTH).map(drop)
}

/// The value that these bytes are.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    match bytes.split_first() {
        Some((&(NAMED | NAMED_OVERWRITE), rest)) => {
            if codec_shape::check(rest, DEPTH)? < rest.len() {
                return Err(CodecError("there is something behind the value".to_owned()));
            }
            // Texts are read where they are, and copied once.
            let mut deserializer = rmp_serde::Deserializer::from_read_ref(rest);
            T::deserialize(&mut deserializer).map_err(|error| unfit::<T>(&error))
        }
        Some((other, _)) => Err(CodecError(format!("the codec {other} is not known to this version of hier"))),
        None => Err(CodecError("there are no bytes".to_owned())),
    }
}

/// Why bytes are no value of a type: in terms of the value, not of the bytes.
#[cold]
fn unfit<T>(error: &rmp_serde::decode::Error) -> CodecError {
    use rmp_serde::decode::Error;

    let of = short_name::<T>();
    CodecError(match error {
        Error::TypeMismatch(found) => format!("{} does not fit in a `{of}`", kind(found.to_u8())),
        Error::OutOfRange => format!("a number is too large or too small for a `{of}`"),
        Error::LengthMismatch(_) => format!("a list has more items than there are in a `{of}`"),
        // What serde says itself is of the value.
        error => error.to_string(),
    })
}

/// What a value is that begins with this byte of `MessagePack`.
fn kind(marker: u8) -> &'static str {
    match marker {
        0xc0 => "nothing",
        0xc2 | 0xc3 => "a yes or no",
        0x00..=0x7f | 0xca..=0xd3 | 0xe0..=0xff => "a number",
        0xa0..=0xbf | 0xd9..=0xdb => "a text",
        0x90..=0x9f | 0xdc | 0xdd => "a list",
        0x80..=0x8f | 0xde | 0xdf => "an object",
        _ => "a row of bytes",
    }
}

/// A type's name without its modules, which may change without the type.
pub(crate) fn short_name<T>() -> String {
    let name = type_name::<T>();
    let mut short = String::with_capacity(name.len());
    let mut start = 0;
    for (at, letter) in name.char_indices().filter(|(_, letter)| !letter.is_alphanumeric() && *letter != '_') {
        let end = at + letter.len_utf8();
        if letter == ':' {
            start = end;
        } else {
            short.push_str(&name[start..end]);
            start = end;
        }
    }
    short.push_str(&name[start..]);
    short
}

/// The value that these bytes are, as JSON, whatever its type: bytes become a list of numbers, keys that are no texts become
/// texts.
pub fn decode_json(bytes: &[u8]) -> Result<Value, CodecError> {
    decode::<loose::Loose>(bytes).map(|loose| loose.0)
}

/// Reads what has no JSON as the JSON that is nearest.
mod loose {
    use std::fmt;

    use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
    use serde_json::{Map, Number, Value};

    pub(super) struct Loose(pub(super) Value);

    impl<'de> Deserialize<'de> for Loose {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(AnyValue).map(Loose)
        }
    }

    struct AnyValue;

    impl<'de> Visitor<'de> for AnyValue {
        type Value = Value;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a value")
        }

        fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
            Ok(Value::Bool(value))
        }

        fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
            Ok(Value::from(value))
        }

        fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
            Ok(Value::from(value))
        }

        fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
            Ok(Value::String(value.to_string()))
        }

        fn visit_u128<E>(self, value: u128) -> Result<Value, E> {
            Ok(Value::String(value.to_string()))
        }

        fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
            Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
        }

        fn visit_str<E>(self, value: &str) -> Result<Value, E> {
            Ok(Value::String(value.to_owned()))
        }

        fn visit_bytes<E>(self, value: &[u8]) -> Result<Value, E> {
            Ok(Value::Array(value.iter().map(|byte| Value::from(*byte)).collect()))
        }

        fn visit_unit<E>(self) -> Result<Value, E> {
            Ok(Value::Null)
        }

        fn visit_none<E>(self) -> Result<Value, E> {
            Ok(Value::Null)
        }

        fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
            deserializer.deserialize_any(Self)
        }

        fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
            deserializer.deserialize_any(Self)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
            let mut list = Vec::new();
            while let Some(Loose(item)) = items.next_element()? {
                list.push(item);
            }
            Ok(Value::Array(list))
        }

        fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
            let mut object = Map::new();
            while let Some((Loose(key), Loose(value))) = entries.next_entry()? {
                let key = match key {
                    Value::String(key) => key,
                    other => other.to_string(),
                };
                object.insert(key, value);
            }
            Ok(Value::Object(object))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::{decode, encode};

    fn wrong<T: DeserializeOwned>(value: &Value) -> String {
        let bytes = encode(value).expect("JSON can be stored");
        decode::<T>(&bytes).err().expect("it is none").to_string()
    }

    #[test]
    fn what_does_not_fit_is_told_in_terms_of_the_value() {
        assert!(wrong::<f64>(&json!("x")).ends_with("a text does not fit in a `f64`"));
        assert!(wrong::<Vec<u8>>(&json!([1, {}])).ends_with("an object does not fit in a `Vec<u8>`"));
        assert!(wrong::<u64>(&json!([1])).ends_with("a list does not fit in a `u64`"));
        let all = [json!(null), json!(true), json!(-1.5), json!(300), json!("x"), json!([1, 2, 3]), json!({ "a": 1 })];
        for value in &all {
            for error in [wrong::<(u8, u8)>(value), wrong::<Option<(bool, char)>>(&json!([value]))] {
                assert!(!error.contains("msgpack") && !error.contains("marker"), "{value}: {error}");
            }
        }
    }
}
