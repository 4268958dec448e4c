use serde::ser::{
    Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use super::super::{number, read};
use super::{Fields, Items};
use crate::checkpoint::CodecError;

/// Implements the traits that differ only in the name of a method.
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
        self.item(value)
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
        let text: String = read::plain(&writer.bytes[start..])?;
        writer.bytes.truncate(start);
        match number::parse(&text)? {
            number::Parsed::Signed(value) => writer.serialize_i128(value),
            number::Parsed::Unsigned(value) => writer.serialize_u128(value),
            number::Parsed::Float(value) => writer.serialize_f64(value),
        }
    }
}
