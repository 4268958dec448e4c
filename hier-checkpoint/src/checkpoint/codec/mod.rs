//! Encodes values as `MessagePack` with field names, preceded by a byte for the format.
//!
//! Because of the field names, stored values stay readable when you add a field with `#[serde(default)]` to a type. The
//! channel determines the type of a decoded value. The bytes cannot select a type or code.
//!
//! For serde, the format is *human readable* like JSON. A type that has two serialized forms uses the readable one: for
//! example, an `IpAddr` is a string.

mod canonical;
mod head;
mod json;
mod number;
mod pack;
mod read;
mod shape;
mod write;

use std::any::type_name;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::head::{Head, Heads};
use self::write::Writer;
use super::error::CodecError;
use crate::panics;

/// The byte in front of the engine's own records, which are compact: ids are bytes.
const RECORD: u8 = 1;
/// The byte in front of a value of the program.
const VALUE: u8 = 2;

/// Added to the byte of a write that replaces the channel's value.
const OVERWRITE: u8 = 0x10;

const NIL: u8 = 0xc0;
const FIXEXT1: u8 = 0xd4;
const FIXEXT16: u8 = 0xd8;
/// The kind of the extension for a nil inside `Some`s. The content is the number of `Some`s.
const EMPTY_SOME: i8 = 1;
/// The kind of the extension for integers of 128 bits, in big-endian order.
const I128: i8 = 2;
/// The kind of the extension for integers that do not fit in an `i128`, in big-endian order.
const U128: i8 = 3;

/// Maximum nesting depth of lists and objects. The input may be untrusted and must not exhaust the stack.
const DEPTH: usize = 128;

/// Marks an encoded write as an overwrite: the write replaces the channel's value, and no reducer merges it.
#[doc(hidden)]
pub fn mark_overwrite(bytes: &mut [u8]) {
    if let Some(format) = bytes.first_mut() {
        *format |= OVERWRITE;
    }
}

/// Returns true if [`mark_overwrite`] has marked this encoded write.
#[doc(hidden)]
pub fn is_overwrite(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|format| format & OVERWRITE != 0)
}

/// Encodes a value.
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, CodecError> {
    let mut bytes = Vec::with_capacity(16);
    encode_into(value, &mut bytes)?;
    Ok(bytes)
}

/// Encodes a value, and appends the encoded value to `bytes`.
pub fn encode_into<T: Serialize + ?Sized>(value: &T, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
    write(value, bytes, VALUE)
}

/// Encodes a record of a fixed type, such as a checkpoint. Ids are stored as bytes. If the record contains values of
/// channels, they must already be encoded.
pub fn encode_record<T: Serialize + ?Sized>(record: &T) -> Result<Vec<u8>, CodecError> {
    let mut bytes = Vec::with_capacity(64);
    encode_record_into(record, &mut bytes)?;
    Ok(bytes)
}

/// Encodes a record as [`encode_record`] does, and appends the encoded record to `bytes`.
pub fn encode_record_into<T: Serialize + ?Sized>(record: &T, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
    write(record, bytes, RECORD)
}

fn write<T: Serialize + ?Sized>(value: &T, bytes: &mut Vec<u8>, format: u8) -> Result<(), CodecError> {
    bytes.push(format);
    guarded::<T, _>("Serialize", || value.serialize(&mut Writer::new(bytes, format != RECORD, DEPTH)))
}

/// Calls the `Serialize` or the `Deserialize` of a type. A panic becomes an error, so that it ends only the call that
/// has this value.
fn guarded<T: ?Sized, R>(of: &str, call: impl FnOnce() -> Result<R, CodecError>) -> Result<R, CodecError> {
    panics::catch(call).unwrap_or_else(|payload| {
        Err(CodecError(format!("the `{of}` of `{}` panicked: {}", short_name::<T>(), panics::text(&*payload))))
    })
}

#[cold]
fn too_deep(depth: usize) -> CodecError {
    CodecError(format!("it is nested deeper than {depth} levels: flatten it, or store its inner parts as strings"))
}

/// Decodes a value from these bytes.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    let (format, value) = split(bytes)?;
    guarded::<T, _>("Deserialize", || read::read(value, format != RECORD))
}

fn open(bytes: &[u8]) -> Result<(u8, &[u8]), CodecError> {
    let (format, value) = split(bytes)?;
    if shape::check(value, DEPTH)? < value.len() {
        return Err(more());
    }
    Ok((format, value))
}

fn split(bytes: &[u8]) -> Result<(u8, &[u8]), CodecError> {
    let (format, value) = bytes.split_first().ok_or_else(|| CodecError::new("the value is empty"))?;
    let format = format & !OVERWRITE;
    if !matches!(format, RECORD | VALUE) {
        return Err(CodecError(format!("the codec {format} is not known to this version of hier")));
    }
    Ok((format, value))
}

#[cold]
fn more() -> CodecError {
    CodecError::new("there are extra bytes after the value")
}

/// Checks that these bytes can be decoded as a `T`. An error for a value that was just encoded shows that the
/// `Serialize` and `Deserialize` of the type do not match.
#[doc(hidden)]
pub fn check_readable<T: DeserializeOwned>(bytes: &[u8]) -> Result<(), CodecError> {
    // The value is also dropped here.
    guarded::<T, _>("Deserialize", || decode::<T>(bytes).map(drop)).map_err(|error| {
        CodecError(format!(
            "a `{}` cannot be read back from its serialized form: {error}; make its `Deserialize` accept the output of its `Serialize`",
            short_name::<T>()
        ))
    })
}

/// Returns the name of the type `T` without module paths, because a module path can change although the type stays the
/// same.
#[doc(hidden)]
pub fn short_name<T: ?Sized>() -> String {
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

/// Decodes a value of any type to JSON. To convert this JSON to a value of a known type, use [`from_json`].
///
/// Values that JSON cannot represent are converted:
///
/// * A map key that is not a string becomes a string that contains the JSON of the key.
/// * A number that is not finite becomes `"NaN"`, `"inf"` or `"-inf"`.
/// * An integer of more than 64 bits becomes a string.
/// * Bytes become a list of numbers.
/// * `Some(())` and `Some(None)` become null.
pub fn decode_json(bytes: &[u8]) -> Result<Value, CodecError> {
    json::value(&mut Heads(open(bytes)?.1))
}

/// Converts a value to JSON. For values that JSON cannot represent, see [`decode_json`].
pub fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<Value, CodecError> {
    // These bytes are well-formed, and may be nested deeper than stored values.
    let mut bytes = Vec::with_capacity(16);
    guarded::<T, _>("Serialize", || value.serialize(&mut Writer::new(&mut bytes, true, usize::MAX)))?;
    json::value(&mut Heads(&bytes))
}

/// Converts JSON to a value of the type `T`. Also accepts the converted forms that [`decode_json`] describes.
pub fn from_json<T: DeserializeOwned>(value: &Value) -> Result<T, CodecError> {
    decode(&encode(value)?)
}

/// Hashes a value. The hash does not depend on the order of a map's keys. All other differences change the hash, such
/// as the difference between `-0.0` and `0.0`, `None` and `Some(None)`, or NaN and `None`.
#[doc(hidden)]
pub fn hash<T: Serialize + ?Sized>(value: &T) -> Result<u128, CodecError> {
    hash_encoded(&encode(value)?)
}

/// Hashes an encoded value, as [`hash`] does.
#[doc(hidden)]
pub fn hash_encoded(bytes: &[u8]) -> Result<u128, CodecError> {
    let bytes = bytes.get(1..).unwrap_or_default();
    let mut canonical = Vec::with_capacity(bytes.len());
    canonical::sort(&mut Heads(bytes), &mut canonical)?;
    Ok(xxhash_rust::xxh3::xxh3_128(&canonical))
}

/// Returns true if an encoded value is `None` or `()`, or a `Some` of such a value.
#[doc(hidden)]
pub fn is_empty(bytes: &[u8]) -> bool {
    matches!(Heads(bytes.get(1..).unwrap_or_default()).next(), Ok(Head::Nil | Head::Somes(_)))
}

/// Encodes an object from the names of its fields and their encoded values.
#[doc(hidden)]
pub fn pack_fields(fields: &[(&str, Vec<u8>)]) -> Result<Vec<u8>, CodecError> {
    let mut bytes = vec![VALUE];
    canonical::pack_fields(fields, &mut bytes)?;
    shape::check(&bytes[1..], DEPTH)?;
    Ok(bytes)
}

pub(crate) type EncodedFields = Vec<(String, Vec<u8>)>;

/// Splits an encoded object into the names of its fields and their encoded values. Returns `None` if the value is not
/// an object, or if a key is not a string.
#[doc(hidden)]
pub fn unpack_fields(bytes: &[u8]) -> Result<Option<EncodedFields>, CodecError> {
    let (format, value) = open(bytes)?;
    canonical::unpack(format, Heads(value))
}

#[cfg(test)]
#[path = "../../../tests/unit/misfits.rs"]
mod tests;
