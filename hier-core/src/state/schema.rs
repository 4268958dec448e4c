//! Schemas of channels, as far as their types have one.

use std::marker::PhantomData;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator};

/// Stands for a type, whether it has a schema or not: the method of a type that has one is found before that of `Untyped`, which
/// it dereferences to.
#[derive(Debug)]
pub struct SchemaOf<T: ?Sized>(PhantomData<T>);

impl<T: ?Sized> SchemaOf<T> {
    /// The type.
    pub const TYPE: Self = Self(PhantomData);
}

impl<T: JsonSchema> SchemaOf<T> {
    /// The schema of a type that has one.
    #[allow(clippy::unused_self)] // by which it is found before the other
    pub fn schema(&self, generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(generator.subschema_for::<T>())
    }
}

/// A type without a schema.
#[derive(Debug)]
pub struct Untyped;

impl Untyped {
    /// None.
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
