//! Types with which generated code names the types of users, so that the compiler reports each wrong type only once.

use std::marker::PhantomData;

use serde::{Deserialize, Serialize};

/// The type `T`, checked by a constant that generated code passes as `HOLDS`. If the check fails, the compiler reports
/// the constant, and no other errors about the type.
pub struct Checked<T, const HOLDS: bool>(PhantomData<T>);

/// A trait with which generated code reads the type from a [`Checked`] type.
pub trait Known {
    /// The checked type.
    type Type;
}

impl<T, const HOLDS: bool> Known for Checked<T, HOLDS> {
    type Type = T;
}

/// A type that stands for a type parameter when generated code checks a generic state. It implements only the traits
/// that states require of their type parameters.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AnyParameter;

/// A trait that every type implements. `graph!` uses it to mention the tools of a graph as types. For a tool that does
/// not exist, the compiler then suggests a similar name or an import.
pub trait Mention {
    /// Does nothing. Generated code passes the mentioned type as `T`.
    fn __mention<T>() {}
}

impl<T> Mention for T {}

/// A trait that delays the check of a bound. Generated code writes a bound on [`Self::Type`], which is always `T`. The
/// compiler then checks the bound only when it knows the implementor.
pub trait Late<T> {
    /// Always the type `T`.
    type Type;
}

impl<T, Parameter> Late<T> for Parameter {
    type Type = T;
}
