//! Types by which generated code names the types of users, so that what is wrong with one is said once.

use std::marker::PhantomData;

/// A type that something must hold for, which a constant checks. Where it does not, the constant is what the compiler reports,
/// and the [`Known::Type`] of this is a type of which it asks nothing more.
pub struct Checked<T, const HOLDS: bool>(PhantomData<T>);

/// A type that was [`Checked`].
pub trait Known {
    /// The type.
    type Type;
}

impl<T, const HOLDS: bool> Known for Checked<T, HOLDS> {
    type Type = T;
}

/// What code says of a type to name another one, whatever functions the type has.
pub trait Mention {
    /// Names it.
    fn __mention<T>() {}
}

impl<T> Mention for T {}

/// A type in a bound of which the compiler can say nothing before it knows the parameter, the implementor. A bound that has no
/// parameter in it is an error where it is written if it does not hold, and so is one that follows from it.
pub trait Late<T> {
    /// The type.
    type Type;
}

impl<T, Parameter> Late<T> for Parameter {
    type Type = T;
}
