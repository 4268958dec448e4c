//! Merges parts of stored values by a rule that is not the rule of the channel's reducer.

use std::marker::PhantomData;
use std::ops::Deref;

use crate::checkpoint::CodecError;
use crate::checkpoint::delta::Rule;
use crate::reducer::{Append, ExtendWith, MergeMessages, ReduceError, Upsert, builtin};

/// A function that merges the second value into the first.
#[doc(hidden)]
pub type MergeFn<T> = fn(&mut T, T) -> Result<(), ReduceError>;

/// The functions with which the reducers `append`, `extend`, `by_id` and `messages` merge values of a type. A function
/// is `None` if the reducer cannot merge the type.
#[doc(hidden)]
pub type MergeFns<T> = [Option<MergeFn<T>>; 4];

/// A stand-in for the type `T`, on which generated code calls methods such as `append`. If `T` supports the reducer,
/// the compiler finds the method here. Otherwise, it finds the method of [`Unmerged`], to which this type dereferences.
#[derive(Debug)]
pub struct MergeOf<T>(PhantomData<T>);

impl<T> MergeOf<T> {
    /// The stand-in for `T`.
    pub const TYPE: Self = Self(PhantomData);
}

macro_rules! found {
    ($($bound:ident $method:ident: $merge:expr;)*) => {
        $(impl<T: $bound> MergeOf<T> {
            /// Returns the function with which the reducer of this name merges values.
            #[allow(clippy::unused_self)] // for method resolution
            pub fn $method(&self) -> Option<MergeFn<T>> {
                Some($merge)
            }
        })*

        impl<T> Unmerged<T> {
            $(
                /// Returns `None`, because the reducer of this name cannot merge the type.
                #[allow(clippy::unused_self)]
                pub fn $method(&self) -> Option<MergeFn<T>> {
                    None
                }
            )*
        }
    };
}

/// The fallback of [`MergeOf`] for types that a reducer cannot merge.
#[derive(Debug)]
pub struct Unmerged<T>(PhantomData<T>);

impl<T> Unmerged<T> {
    const TYPE: Self = Self(PhantomData);
}

found! {
    Append append: |old, new| {
        builtin::append(old, new);
        Ok(())
    };
    ExtendWith extend: |old, new| {
        builtin::extend(old, new);
        Ok(())
    };
    Upsert by_id: |old, new| {
        builtin::by_id(old, new);
        Ok(())
    };
    MergeMessages messages: builtin::messages;
}

impl<T> Deref for MergeOf<T> {
    type Target = Unmerged<T>;

    fn deref(&self) -> &Unmerged<T> {
        &Unmerged::TYPE
    }
}

/// Calls `part` to decode a stored addition, and merges the addition into `value` by `rule`. Returns false without a
/// call of `part` if the type `T` does not support the rule.
pub fn merge_stored<T>(
    value: &mut T,
    rule: &Rule<'_>,
    part: impl FnOnce() -> Result<T, CodecError>,
    [append, extend, by_id, messages]: MergeFns<T>,
) -> Result<bool, CodecError> {
    let merge = match rule {
        Rule::Append => append,
        Rule::Extend => extend,
        Rule::ById => by_id,
        Rule::Messages => messages,
        Rule::Custom(_) => None,
    };
    let Some(merge) = merge else { return Ok(false) };
    merge(value, part()?).map_err(|error| CodecError::new(error.to_string()))?;
    Ok(true)
}
