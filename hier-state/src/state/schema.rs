//! Schemas of channels whose types have one.

use std::marker::PhantomData;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator};

/// A stand-in for the type `T`, on which generated code calls `schema`. If `T` has a JSON Schema, the compiler finds
/// the method here. Otherwise, it finds the method of [`Untyped`], to which this type dereferences.
#[derive(Debug)]
pub struct SchemaOf<T: ?Sized>(PhantomData<T>);

impl<T: ?Sized> SchemaOf<T> {
    /// The stand-in for `T`.
    pub const TYPE: Self = Self(PhantomData);
}

impl<T: JsonSchema> SchemaOf<T> {
    /// Returns the JSON Schema of `T`.
    #[allow(clippy::unused_self)] // for method resolution
    pub fn schema(&self, generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(generator.subschema_for::<T>())
    }
}

/// The fallback of [`SchemaOf`] for types without a JSON Schema.
#[derive(Debug)]
pub struct Untyped;

impl Untyped {
    /// Returns `None`, because the type has no JSON Schema.
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
