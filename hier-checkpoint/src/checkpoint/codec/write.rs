//! Serializes a value as `MessagePack` with field names.
//!
//! Two differences from most serde formats preserve the value. A `Some` with an empty content is written as an extension,
//! because `MessagePack` has one nil. A number that `serde_json` passes as text is written as a number.

mod collections;

use serde::ser::{Serialize, Serializer};

use super::{EMPTY_SOME, FIXEXT1, I128, NIL, U128, pack, too_deep};
use crate::checkpoint::CodecError;

/// The name of the struct with which `serde_json` serializes a number if its feature `arbitrary_precision` is on.
const NUMBER: &str = "$serde_json::private::Number";

pub(super) struct Writer<'a> {
    bytes: &'a mut Vec<u8>,
    is_readable: bool,
    depth: usize,
    max_depth: usize,
}

pub(super) struct Items<'w, 'a> {
    writer: &'w mut Writer<'a>,
    outer: usize,
    is_map: bool,
    start: usize,
    /// The number of values that the header announces. Keys count as values.
    announced: usize,
    written: usize,
}

impl Items<'_, '_> {
    #[inline]
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CodecError> {
        self.written += 1;
        value.serialize(&mut *self.writer)
    }

    #[inline]
    fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), CodecError> {
        self.written += 2;
        pack::text(self.writer.bytes, name)?;
        value.serialize(&mut *self.writer)
    }

    /// Ends the collection. Corrects the header if the collection has a different length than announced.
    #[inline]
    fn close(self) -> Result<(), CodecError> {
        if self.written > 0 && self.writer.depth > self.writer.max_depth {
            return Err(too_deep(self.writer.max_depth));
        }
        self.writer.depth = self.outer;
        if self.written == self.announced { Ok(()) } else { self.correct() }
    }

    #[cold]
    fn correct(self) -> Result<(), CodecError> {
        let Self { writer, is_map, start, announced, written, .. } = self;
        if is_map && written % 2 != 0 {
            return Err(CodecError::new("a map has a key without a value"));
        }
        let (mut wrong, mut right) = (Vec::new(), Vec::new());
        header(&mut wrong, is_map, announced)?;
        header(&mut right, is_map, written)?;
        writer.bytes.splice(start..start + wrong.len(), right);
        Ok(())
    }
}

#[inline]
fn header(bytes: &mut Vec<u8>, is_map: bool, values: usize) -> Result<(), CodecError> {
    if is_map { pack::map(bytes, values / 2) } else { pack::list(bytes, values) }
}

pub(super) enum Fields<'w, 'a> {
    Named(Items<'w, 'a>),
    /// A number that `serde_json` passes as text, with its start in the bytes.
    Number(&'w mut Writer<'a>, usize),
}

impl<'a> Writer<'a> {
    pub(super) fn new(bytes: &'a mut Vec<u8>, is_readable: bool, max_depth: usize) -> Self {
        Self { bytes, is_readable, depth: 0, max_depth }
    }

    #[inline]
    fn list(&mut self, length: Option<usize>) -> Result<Items<'_, 'a>, CodecError> {
        self.items(false, length.unwrap_or(0))
    }

    #[inline]
    fn map(&mut self, length: Option<usize>) -> Result<Items<'_, 'a>, CodecError> {
        self.items(true, length.unwrap_or(0).saturating_mul(2))
    }

    #[inline]
    fn items(&mut self, is_map: bool, announced: usize) -> Result<Items<'_, 'a>, CodecError> {
        let (outer, start) = (self.depth, self.bytes.len());
        self.depth += 1;
        header(self.bytes, is_map, announced)?;
        Ok(Items { writer: self, outer, is_map, start, announced, written: 0 })
    }

    #[inline]
    fn variant(&mut self, name: &str) -> Result<(), CodecError> {
        self.depth += 1;
        if self.depth > self.max_depth {
            return Err(too_deep(self.max_depth));
        }
        pack::map(self.bytes, 1)?;
        pack::text(self.bytes, name)
    }
}

macro_rules! integers {
    ($($method:ident: $type:ty as $form:ident),*) => {$(
        #[inline]
        fn $method(self, value: $type) -> Result<(), CodecError> {
            pack::$form(self.bytes, value.into());
            Ok(())
        }
    )*};
}

impl<'w, 'a> Serializer for &'w mut Writer<'a> {
    type Ok = ();
    type Error = CodecError;
    type SerializeSeq = Items<'w, 'a>;
    type SerializeTuple = Items<'w, 'a>;
    type SerializeTupleStruct = Items<'w, 'a>;
    type SerializeTupleVariant = Items<'w, 'a>;
    type SerializeMap = Items<'w, 'a>;
    type SerializeStruct = Fields<'w, 'a>;
    type SerializeStructVariant = Items<'w, 'a>;

    fn is_human_readable(&self) -> bool {
        self.is_readable
    }

    #[inline]
    fn serialize_bool(self, value: bool) -> Result<(), CodecError> {
        pack::bool(self.bytes, value);
        Ok(())
    }

    integers!(
        serialize_i8: i8 as signed, serialize_i16: i16 as signed, serialize_i32: i32 as signed, serialize_i64: i64 as signed,
        serialize_u8: u8 as unsigned, serialize_u16: u16 as unsigned, serialize_u32: u32 as unsigned,
        serialize_u64: u64 as unsigned
    );

    fn serialize_i128(self, value: i128) -> Result<(), CodecError> {
        if let Ok(value) = i64::try_from(value) {
            self.serialize_i64(value)
        } else if let Ok(value) = u64::try_from(value) {
            self.serialize_u64(value)
        } else {
            pack::large(self.bytes, I128, value.to_be_bytes());
            Ok(())
        }
    }

    fn serialize_u128(self, value: u128) -> Result<(), CodecError> {
        if let Ok(value) = i128::try_from(value) {
            return self.serialize_i128(value);
        }
        pack::large(self.bytes, U128, value.to_be_bytes());
        Ok(())
    }

    #[inline]
    fn serialize_f32(self, value: f32) -> Result<(), CodecError> {
        pack::f32(self.bytes, value);
        Ok(())
    }

    #[inline]
    fn serialize_f64(self, value: f64) -> Result<(), CodecError> {
        pack::f64(self.bytes, value);
        Ok(())
    }

    #[inline]
    fn serialize_char(self, value: char) -> Result<(), CodecError> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    #[inline]
    fn serialize_str(self, value: &str) -> Result<(), CodecError> {
        pack::text(self.bytes, value)
    }

    #[inline]
    fn serialize_bytes(self, value: &[u8]) -> Result<(), CodecError> {
        pack::binary(self.bytes, value)
    }

    #[inline]
    fn serialize_none(self) -> Result<(), CodecError> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), CodecError> {
        let start = self.bytes.len();
        value.serialize(&mut *self)?;
        let depth = match self.bytes[start..] {
            [NIL] => 1,
            [FIXEXT1, kind, depth] if kind == EMPTY_SOME.cast_unsigned() => {
                depth.checked_add(1).ok_or_else(|| CodecError::new("more than 255 options are nested"))?
            }
            _ => return Ok(()),
        };
        self.bytes.truncate(start);
        pack::somes(self.bytes, depth);
        Ok(())
    }

    #[inline]
    fn serialize_unit(self) -> Result<(), CodecError> {
        self.bytes.push(NIL);
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), CodecError> {
        self.serialize_unit()
    }

    #[inline]
    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), CodecError> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), CodecError> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), CodecError> {
        let outer = self.depth;
        self.variant(variant)?;
        value.serialize(&mut *self)?;
        self.depth = outer;
        Ok(())
    }

    #[inline]
    fn serialize_seq(self, length: Option<usize>) -> Result<Items<'w, 'a>, CodecError> {
        self.list(length)
    }

    #[inline]
    fn serialize_tuple(self, length: usize) -> Result<Items<'w, 'a>, CodecError> {
        self.list(Some(length))
    }

    fn serialize_tuple_struct(self, _: &'static str, length: usize) -> Result<Items<'w, 'a>, CodecError> {
        self.list(Some(length))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Items<'w, 'a>, CodecError> {
        let outer = self.depth;
        self.variant(variant)?;
        Ok(Items { outer, ..self.list(Some(length))? })
    }

    #[inline]
    fn serialize_map(self, length: Option<usize>) -> Result<Items<'w, 'a>, CodecError> {
        self.map(length)
    }

    #[inline]
    fn serialize_struct(self, name: &'static str, length: usize) -> Result<Fields<'w, 'a>, CodecError> {
        if name == NUMBER {
            let start = self.bytes.len();
            return Ok(Fields::Number(self, start));
        }
        self.map(Some(length)).map(Fields::Named)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Items<'w, 'a>, CodecError> {
        let outer = self.depth;
        self.variant(variant)?;
        Ok(Items { outer, ..self.map(Some(length))? })
    }
}
