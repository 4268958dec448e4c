//! Deserializes `MessagePack`.
//!
//! Stored data may be untrusted. The reader rejects a collection if the bytes are too few for the values that all open
//! collections still announce. A false length therefore reserves no memory. A limit on nesting protects the stack.
//!
//! The reader also accepts the JSON forms of values that JSON cannot represent, where anything else would be an error:
//! keys as strings, and numbers as strings if they are not finite or have more than 64 bits.

mod access;

use serde::de::value::{BorrowedStrDeserializer, SeqDeserializer};
use serde::de::{Deserializer, Error as _, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::Value;

use super::head::{Head, Heads, cut};
use super::{DEPTH, more, short_name, too_deep};
use crate::checkpoint::CodecError;

pub(super) struct Reader<'de> {
    heads: Heads<'de>,
    is_readable: bool,
    next: Next,
    depth: usize,
    /// The number of values that the open collections announce and that have not been read.
    owed: usize,
    of: fn() -> String,
}

#[derive(Clone, Copy)]
enum Next {
    Value,
    Key,
    Somes(u8),
}

pub(super) fn plain(bytes: &[u8]) -> Result<String, CodecError> {
    read(bytes, true)
}

pub(super) fn read<'de, T: Deserialize<'de>>(bytes: &'de [u8], is_readable: bool) -> Result<T, CodecError> {
    let of = short_name::<T>;
    let mut reader = Reader { heads: Heads(bytes), is_readable, next: Next::Value, depth: 0, owed: 0, of };
    let value = T::deserialize(&mut reader)?;
    if reader.heads.0.is_empty() { Ok(value) } else { Err(more()) }
}

impl<'de> Reader<'de> {
    #[inline]
    fn head(&mut self) -> Result<Head<'de>, CodecError> {
        match std::mem::replace(&mut self.next, Next::Value) {
            Next::Value | Next::Key => self.heads.next(),
            Next::Somes(0) => Ok(Head::Nil),
            Next::Somes(depth) => Ok(Head::Somes(depth)),
        }
    }

    #[inline]
    fn key(&mut self) -> Result<Option<&'de str>, CodecError> {
        if matches!(self.next, Next::Key) { self.text_of_key() } else { Ok(None) }
    }

    fn text_of_key(&mut self) -> Result<Option<&'de str>, CodecError> {
        match self.heads.peek() {
            Some(Head::Text(text)) => {
                self.head()?;
                utf8(text).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Enters a collection of this many values. The caller leaves it with [`leave`](Self::leave).
    #[inline]
    fn enter(&mut self, values: usize) -> Result<(), CodecError> {
        self.owed = self.owed.saturating_add(values);
        if self.owed > self.heads.0.len() {
            return Err(cut());
        }
        self.depth += 1;
        if self.depth > DEPTH && values > 0 { Err(too_deep(DEPTH)) } else { Ok(()) }
    }

    #[cold]
    fn unfit(&self, found: &Head<'_>) -> CodecError {
        CodecError::new(format!("{} does not fit in a `{}`", found.in_words(), (self.of)()))
    }

    fn any<V: Visitor<'de>>(&mut self, visitor: V, are_bytes_wanted: bool) -> Result<V::Value, CodecError> {
        let head = self.head()?;
        self.visit(head, visitor, are_bytes_wanted)
    }

    fn visit<V: Visitor<'de>>(
        &mut self,
        head: Head<'de>,
        visitor: V,
        are_bytes_wanted: bool,
    ) -> Result<V::Value, CodecError> {
        match head {
            Head::Nil => visitor.visit_unit(),
            Head::Bool(value) => visitor.visit_bool(value),
            Head::Unsigned(value) => visitor.visit_u64(value),
            Head::Signed(value) => visitor.visit_i64(value),
            Head::F32(value) => visitor.visit_f32(value),
            Head::F64(value) => visitor.visit_f64(value),
            Head::Text(text) => visitor.visit_borrowed_str(utf8(text)?),
            Head::Bytes(bytes) if are_bytes_wanted => visitor.visit_borrowed_bytes(bytes),
            Head::Bytes(bytes) => visitor.visit_seq(SeqDeserializer::new(bytes.iter().copied())),
            Head::List(length) => {
                self.enter(length)?;
                let mut items = Items { reader: &mut *self, left: length };
                let value = visitor.visit_seq(&mut items)?;
                let left = items.left;
                self.leave(left)?;
                Ok(value)
            }
            Head::Map(length) => {
                self.enter(length.saturating_mul(2))?;
                let mut items = Items { reader: &mut *self, left: length };
                let value = visitor.visit_map(&mut items)?;
                let left = items.left;
                self.leave(left)?;
                Ok(value)
            }
            Head::I128(value) => visitor.visit_i128(i128::from_be_bytes(*value)),
            Head::U128(value) => visitor.visit_u128(u128::from_be_bytes(*value)),
            Head::Somes(depth) => {
                self.next = Next::Somes(depth - 1);
                visitor.visit_some(self)
            }
        }
    }

    /// Leaves a collection. `left` is the number of items that have not been read.
    #[inline]
    fn leave(&mut self, left: usize) -> Result<(), CodecError> {
        self.depth -= 1;
        if left > 0 { Err(self.longer()) } else { Ok(()) }
    }

    #[cold]
    fn longer(&self) -> CodecError {
        CodecError::new(format!("a list has more items than there are in a `{}`", (self.of)()))
    }

    fn text<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, CodecError> {
        match self.head()? {
            Head::Text(text) => visitor.visit_borrowed_str(utf8(text)?),
            other => self.visit(other, visitor, true),
        }
    }

    fn number<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, CodecError> {
        if let Some(text) = self.key()? {
            return self.number_of(text, visitor);
        }
        match self.head()? {
            Head::Nil => visitor.visit_unit(),
            Head::Bool(value) => visitor.visit_bool(value),
            Head::Unsigned(value) => visitor.visit_u64(value),
            Head::Signed(value) => visitor.visit_i64(value),
            Head::F32(value) => visitor.visit_f32(value),
            Head::F64(value) => visitor.visit_f64(value),
            Head::I128(value) => visitor.visit_i128(i128::from_be_bytes(*value)),
            Head::U128(value) => visitor.visit_u128(u128::from_be_bytes(*value)),
            // JSON has no numbers for these values, so they are strings.
            Head::Text(text @ (b"NaN" | b"inf" | b"-inf")) => self.number_of(utf8(text)?, visitor),
            other => Err(self.unfit(&other)),
        }
    }

    /// Reads a number of up to 128 bits. In JSON, a large one is a string.
    fn large<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, CodecError> {
        match self.heads.peek() {
            Some(Head::Text(text)) => {
                self.head()?;
                self.number_of(utf8(text)?, visitor)
            }
            _ => self.number(visitor),
        }
    }

    fn number_of<V: Visitor<'de>>(&self, text: &str, visitor: V) -> Result<V::Value, CodecError> {
        if let Ok(value) = text.parse::<u64>() {
            visitor.visit_u64(value)
        } else if let Ok(value) = text.parse::<i64>() {
            visitor.visit_i64(value)
        } else if let Ok(value) = text.parse::<i128>() {
            visitor.visit_i128(value)
        } else if let Ok(value) = text.parse::<u128>() {
            visitor.visit_u128(value)
        } else if let Ok(value) = text.parse::<f64>() {
            visitor.visit_f64(value)
        } else {
            Err(self.unfit(&Head::Text(text.as_bytes())))
        }
    }

    /// Reads a key from its JSON if a key is next and is a text. Keys that are not strings have this form in JSON.
    fn quoted(&mut self) -> Result<Option<Value>, CodecError> {
        let Some(text) = self.key()? else { return Ok(None) };
        let value = serde_json::from_str(text);
        value.map(Some).map_err(|_| self.unfit(&Head::Text(text.as_bytes())))
    }
}

pub(super) fn utf8(text: &[u8]) -> Result<&str, CodecError> {
    std::str::from_utf8(text).map_err(|error| CodecError::new(format!("a string is not UTF-8: {error}")))
}

fn of_key<T>(read: Result<T, serde_json::Error>) -> Result<T, CodecError> {
    read.map_err(CodecError::custom)
}

macro_rules! read_by {
    ($($how:ident: $($method:ident)*;)*) => {$($(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
            self.$how(visitor)
        }
    )*)*};
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = CodecError;

    fn is_human_readable(&self) -> bool {
        self.is_readable
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        self.any(visitor, true)
    }

    read_by! {
        number: deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16 deserialize_u32
            deserialize_u64 deserialize_f32 deserialize_f64;
        large: deserialize_i128 deserialize_u128;
        text: deserialize_char deserialize_str deserialize_string deserialize_identifier;
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        match self.key()? {
            Some("true") => visitor.visit_bool(true),
            Some("false") => visitor.visit_bool(false),
            Some(other) => Err(self.unfit(&Head::Text(other.as_bytes()))),
            None => self.number(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        let may_be_empty = matches!(self.next, Next::Somes(_)) || self.heads.may_be_empty();
        match if may_be_empty { self.head()? } else { return visitor.visit_some(self) } {
            Head::Nil => visitor.visit_none(),
            Head::Somes(depth) => {
                self.next = Next::Somes(depth - 1);
                visitor.visit_some(self)
            }
            other => Err(self.unfit(&other)),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, CodecError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        match self.quoted()? {
            Some(key) => of_key(key.deserialize_unit(visitor)),
            None => self.any(visitor, true),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, CodecError> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        match self.quoted()? {
            Some(key) => of_key(key.deserialize_seq(visitor)),
            None => self.any(visitor, false),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, CodecError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, CodecError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        match self.quoted()? {
            Some(key) => of_key(key.deserialize_map(visitor)),
            None => self.any(visitor, true),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, CodecError> {
        match self.quoted()? {
            Some(key) => of_key(key.deserialize_map(visitor)),
            None => self.any(visitor, false),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, CodecError> {
        let is_key = matches!(self.next, Next::Key);
        match self.head()? {
            Head::Text(text) if is_key && text.starts_with(b"{") => {
                let key: Value = of_key(serde_json::from_slice(text))?;
                of_key(key.deserialize_enum(name, variants, visitor))
            }
            Head::Text(text) => visitor.visit_enum(BorrowedStrDeserializer::new(utf8(text)?)),
            Head::Map(1) => {
                self.enter(2)?;
                self.owed -= 2;
                let value = visitor.visit_enum(Variant(&mut *self))?;
                self.leave(0)?;
                Ok(value)
            }
            other => Err(self.unfit(&other)),
        }
    }

    forward_to_deserialize_any! {
        bytes byte_buf ignored_any
    }
}

struct Items<'r, 'de> {
    reader: &'r mut Reader<'de>,
    left: usize,
}

struct Variant<'r, 'de>(&'r mut Reader<'de>);
