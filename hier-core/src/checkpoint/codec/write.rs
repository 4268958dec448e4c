//! Serializes a value as `MessagePack` with field names.
//!
//! It differs from most serde formats in two ways, so that a value is read back as it was: a `Some` whose content is empty is written as
//! an extension (`MessagePack` has one nil), and a number that `serde_json` passes as text is written as a number.

use serde::ser::{
    Error as _, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use super::{EMPTY_SOME, FIXEXT1, I128, NIL, U128, number};
use crate::checkpoint::CodecError;

/// The struct as which `serde_json` serializes a number with its feature `arbitrary_precision`.
const NUMBER: &str = "$serde_json::private::Number";

/// Writes values behind the bytes that are there.
pub(super) struct Writer<'a> {
    pub(super) bytes: &'a mut Vec<u8>,
    /// Returned by [`Serializer::is_human_readable`].
    pub(super) is_readable: bool,
}

/// The kinds of headers that have a length.
#[derive(Clone, Copy)]
enum Header {
    List,
    Map,
}

impl Header {
    /// Writes the header of a collection, and returns how many bytes it has.
    fn write(self, bytes: &mut Vec<u8>, length: usize) -> Result<usize, CodecError> {
        let before = bytes.len();
        let length = u32::try_from(length).map_err(|_| CodecError::new("a list or map has more than 2³² items"))?;
        match self {
            Self::List => rmp::encode::write_array_len(bytes, length),
            Self::Map => rmp::encode::write_map_len(bytes, length),
        }
        .map_err(CodecError::custom)?;
        Ok(bytes.len() - before)
    }
}

/// A collection that is being written.
pub(super) struct Items<'w, 'a> {
    writer: &'w mut Writer<'a>,
    header: Header,
    start: usize,
    header_size: usize,
    announced: usize,
    written: usize,
}

impl Items<'_, '_> {
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CodecError> {
        self.written += 1;
        value.serialize(&mut *self.writer)
    }

    fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), CodecError> {
        self.written += 1;
        (&mut *self.writer).serialize_str(name)?;
        value.serialize(&mut *self.writer)
    }

    /// Corrects the header if the collection has another length than it announced.
    #[inline]
    fn close(self) -> Result<(), CodecError> {
        if self.written == self.announced { Ok(()) } else { self.correct() }
    }

    #[cold]
    fn correct(self) -> Result<(), CodecError> {
        let Self { writer, header, start, header_size, written, .. } = self;
        let mut corrected = Vec::with_capacity(5);
        header.write(&mut corrected, written)?;
        writer.bytes.splice(start..start + header_size, corrected);
        Ok(())
    }
}

/// A struct that is being written.
pub(super) enum Fields<'w, 'a> {
    Named(Items<'w, 'a>),
    /// A number of `serde_json` as text, at this place.
    Number(&'w mut Writer<'a>, usize),
}

impl<'a> Writer<'a> {
    #[inline]
    fn items(&mut self, header: Header, length: Option<usize>) -> Result<Items<'_, 'a>, CodecError> {
        let (start, announced) = (self.bytes.len(), length.unwrap_or(0));
        let header_size = header.write(self.bytes, announced)?;
        Ok(Items { writer: self, header, start, header_size, announced, written: 0 })
    }

    /// Writes the name of an enum's variant, in front of its content.
    #[inline]
    fn variant(&mut self, name: &str) -> Result<(), CodecError> {
        Header::Map.write(self.bytes, 1)?;
        self.serialize_str(name)
    }

    #[inline]
    fn signed(&mut self, value: i64) -> Result<(), CodecError> {
        rmp::encode::write_sint(self.bytes, value).map(drop).map_err(CodecError::custom)
    }

    #[inline]
    fn unsigned(&mut self, value: u64) -> Result<(), CodecError> {
        rmp::encode::write_uint(self.bytes, value).map(drop).map_err(CodecError::custom)
    }

    fn extension(&mut self, kind: i8, content: &[u8]) -> Result<(), CodecError> {
        let length = u32::try_from(content.len()).map_err(CodecError::custom)?;
        rmp::encode::write_ext_meta(self.bytes, length, kind).map_err(CodecError::custom)?;
        self.bytes.extend_from_slice(content);
        Ok(())
    }
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
        rmp::encode::write_bool(self.bytes, value).map_err(CodecError::custom)
    }

    #[inline]
    fn serialize_i8(self, value: i8) -> Result<(), CodecError> {
        self.signed(value.into())
    }

    #[inline]
    fn serialize_i16(self, value: i16) -> Result<(), CodecError> {
        self.signed(value.into())
    }

    #[inline]
    fn serialize_i32(self, value: i32) -> Result<(), CodecError> {
        self.signed(value.into())
    }

    #[inline]
    fn serialize_i64(self, value: i64) -> Result<(), CodecError> {
        self.signed(value)
    }

    fn serialize_i128(self, value: i128) -> Result<(), CodecError> {
        if let Ok(value) = i64::try_from(value) {
            self.signed(value)
        } else if let Ok(value) = u64::try_from(value) {
            self.unsigned(value)
        } else {
            self.extension(I128, &value.to_be_bytes())
        }
    }

    #[inline]
    fn serialize_u8(self, value: u8) -> Result<(), CodecError> {
        self.unsigned(value.into())
    }

    #[inline]
    fn serialize_u16(self, value: u16) -> Result<(), CodecError> {
        self.unsigned(value.into())
    }

    #[inline]
    fn serialize_u32(self, value: u32) -> Result<(), CodecError> {
        self.unsigned(value.into())
    }

    #[inline]
    fn serialize_u64(self, value: u64) -> Result<(), CodecError> {
        self.unsigned(value)
    }

    fn serialize_u128(self, value: u128) -> Result<(), CodecError> {
        match i128::try_from(value) {
            Ok(value) => self.serialize_i128(value),
            Err(_) => self.extension(U128, &value.to_be_bytes()),
        }
    }

    #[inline]
    fn serialize_f32(self, value: f32) -> Result<(), CodecError> {
        rmp::encode::write_f32(self.bytes, value).map_err(CodecError::custom)
    }

    #[inline]
    fn serialize_f64(self, value: f64) -> Result<(), CodecError> {
        rmp::encode::write_f64(self.bytes, value).map_err(CodecError::custom)
    }

    #[inline]
    fn serialize_char(self, value: char) -> Result<(), CodecError> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    #[inline]
    fn serialize_str(self, value: &str) -> Result<(), CodecError> {
        rmp::encode::write_str(self.bytes, value).map_err(CodecError::custom)
    }

    #[inline]
    fn serialize_bytes(self, value: &[u8]) -> Result<(), CodecError> {
        rmp::encode::write_bin(self.bytes, value).map_err(CodecError::custom)
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
        self.extension(EMPTY_SOME, &[depth])
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
        self.variant(variant)?;
        value.serialize(self)
    }

    #[inline]
    fn serialize_seq(self, length: Option<usize>) -> Result<Items<'w, 'a>, CodecError> {
        self.items(Header::List, length)
    }

    #[inline]
    fn serialize_tuple(self, length: usize) -> Result<Items<'w, 'a>, CodecError> {
        self.items(Header::List, Some(length))
    }

    fn serialize_tuple_struct(self, _: &'static str, length: usize) -> Result<Items<'w, 'a>, CodecError> {
        self.items(Header::List, Some(length))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Items<'w, 'a>, CodecError> {
        self.variant(variant)?;
        self.items(Header::List, Some(length))
    }

    #[inline]
    fn serialize_map(self, length: Option<usize>) -> Result<Items<'w, 'a>, CodecError> {
        self.items(Header::Map, length)
    }

    #[inline]
    fn serialize_struct(self, name: &'static str, length: usize) -> Result<Fields<'w, 'a>, CodecError> {
        if name == NUMBER {
            let start = self.bytes.len();
            return Ok(Fields::Number(self, start));
        }
        self.items(Header::Map, Some(length)).map(Fields::Named)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Items<'w, 'a>, CodecError> {
        self.variant(variant)?;
        self.items(Header::Map, Some(length))
    }
}

/// The traits of collections, which differ in the names of their methods.
macro_rules! collections {
    ($($trait:ident $method:ident),*) => {$(
        impl $trait for Items<'_, '_> {
            type Ok = ();
            type Error = CodecError;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CodecError> {
                self.item(value)
            }

            #[inline]
            fn end(self) -> Result<(), CodecError> {
                self.close()
            }
        }
    )*};
}

collections!(
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
);

impl SerializeMap for Items<'_, '_> {
    type Ok = ();
    type Error = CodecError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), CodecError> {
        self.item(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CodecError> {
        value.serialize(&mut *self.writer)
    }

    #[inline]
    fn end(self) -> Result<(), CodecError> {
        self.close()
    }
}

impl SerializeStructVariant for Items<'_, '_> {
    type Ok = ();
    type Error = CodecError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), CodecError> {
        self.field(name, value)
    }

    #[inline]
    fn end(self) -> Result<(), CodecError> {
        self.close()
    }
}

impl SerializeStruct for Fields<'_, '_> {
    type Ok = ();
    type Error = CodecError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), CodecError> {
        match self {
            Self::Named(fields) => fields.field(name, value),
            Self::Number(writer, _) => value.serialize(&mut **writer),
        }
    }

    fn end(self) -> Result<(), CodecError> {
        let (writer, start) = match self {
            Self::Named(fields) => return fields.close(),
            Self::Number(writer, start) => (writer, start),
        };
        let text: String = super::read::plain(&writer.bytes[start..])?;
        writer.bytes.truncate(start);
        match number::parse(&text)? {
            number::Parsed::Signed(value) => writer.serialize_i128(value),
            number::Parsed::Unsigned(value) => writer.serialize_u128(value),
            number::Parsed::Float(value) => writer.serialize_f64(value),
        }
    }
}
