//! Schemas of channels whose types have one.

use std::marker::PhantomData;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator};

/// Represents a type with or without a schema. Method resolution finds the method of types with a schema before that of `Untyped`, to
/// which this dereferences.
#[derive(Debug)]
pub struct SchemaOf<T: ?Sized>(PhantomData<T>);

impl<T: ?Sized> SchemaOf<T> {
    /// The type.
    pub const TYPE: Self = Self(PhantomData);
}

impl<T: JsonSchema> SchemaOf<T> {
    /// Returns the schema.
    #[allow(clippy::unused_self)] // for method resolution
    pub fn schema(&self, generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(generator.subschema_for::<T>())
    }
}

/// A type without a schema.
#[derive(Debug)]
pub struct Untyped;

impl Untyped {
    /// Returns `None`.
    #[allow(clippy::unused_self)]
    pub fn schema(&self, generator: &mut SchemaGenerator) -> Option<Schema> {
        let _ = generator;
        None
    }
}

impl<T: ?Sized> Deref for SchemaOf<T> {
    type Target = Untyped;

    fn deref(&self) -> &Untyped {
        &Untyped
    }
}
