//! Types with which generated code names the types of users, so that the compiler reports a wrong one once.

use std::marker::PhantomData;

use serde::{Deserialize, Serialize};

/// A type with a condition that a constant checks. If the condition does not hold, the compiler reports the constant and nothing else
/// about the type.
pub struct Checked<T, const HOLDS: bool>(PhantomData<T>);

/// A [`Checked`] type.
pub trait Known {
    /// The type.
    type Type;
}

impl<T, const HOLDS: bool> Known for Checked<T, HOLDS> {
    type Type = T;
}

/// A type parameter of a state, in the checks of a generic state: it has the bounds of one, and nothing else.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AnyParameter;

/// Names a type in code about another type.
pub trait Mention {
    /// Names the type.
    fn __mention<T>() {}
}

impl<T> Mention for T {}

/// A type in a bound that the compiler checks when it knows the implementor. Bounds without parameters are checked where they are
/// written.
pub trait Late<T> {
    /// The type.
    type Type;
}

impl<T, Parameter> Late<T> for Parameter {
    type Type = T;
}
