//! Merges parts of stored values by a rule that is not the rule of the channel's reducer.

use std::marker::PhantomData;
use std::ops::Deref;

use crate::checkpoint::CodecError;
use crate::checkpoint::delta::Rule;
use crate::reducer::{Append, ExtendWith, MergeMessages, ReduceError, Upsert, builtin};

/// A function that merges the second value into the first.
#[doc(hidden)]
pub type MergeFn<T> = fn(&mut T, T) -> Result<(), ReduceError>;

/// The functions of `append`, `extend`, `by_id` and `messages` for a type.
#[doc(hidden)]
pub type MergeFns<T> = [Option<MergeFn<T>>; 4];

/// Represents a type. Method resolution finds the methods of types with a reducer before those of `Unmerged`, to which this
/// dereferences.
#[derive(Debug)]
pub struct MergeOf<T>(PhantomData<T>);

impl<T> MergeOf<T> {
    /// The type.
    pub const TYPE: Self = Self(PhantomData);
}

macro_rules! found {
    ($($bound:ident $method:ident: $merge:expr;)*) => {
        $(impl<T: $bound> MergeOf<T> {
            /// Merges by the reducer of this name.
            #[allow(clippy::unused_self)] // for method resolution
            pub fn $method(&self) -> Option<MergeFn<T>> {
                Some($merge)
            }
        })*

        impl<T> Unmerged<T> {
            $(
                /// Returns `None`.
                #[allow(clippy::unused_self)]
                pub fn $method(&self) -> Option<MergeFn<T>> {
                    None
                }
            )*
        }
    };
}

/// A type that a reducer cannot merge.
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

/// Merges a part of a value. Returns false if the type does not support the rule.
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
