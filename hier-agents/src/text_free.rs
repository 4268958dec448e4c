//! Types that cannot carry text from one agent to another.

use std::num::{
    NonZeroI8, NonZeroI16, NonZeroI32, NonZeroI64, NonZeroI128, NonZeroIsize, NonZeroU8, NonZeroU16, NonZeroU32,
    NonZeroU64, NonZeroU128, NonZeroUsize,
};
use std::time::{Duration, SystemTime};

use uuid::Uuid;

/// A type whose values cannot carry text. Numbers, `bool`, times and ids are text-free. Options, boxes, arrays, tuples
/// of two or three values, enums and structs are text-free if they contain only text-free values. If the typed answer
/// of a subagent has a text-free type, untrusted text that the subagent has read cannot reach its supervisor.
///
/// Derive the trait with `#[derive(TextFree)]`, which checks that each field is text-free. To accept a field of a type
/// from another crate, such as a date, mark the field with `#[text_free(assume)]`. Example of two text-free types:
///
/// ```
/// use hier_agents::prelude::*;
///
/// #[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, TextFree)]
/// enum Topic {
///     Invoice,
///     Complaint,
///     Other,
/// }
///
/// #[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, TextFree)]
/// struct Verdict {
///     topic: Topic,
///     order: Option<u32>,
/// }
/// ```
///
/// Strings, `char` and lists without a fixed length are not text-free.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can carry text",
    label = "not text-free",
    note = "text-free types are numbers, `bool`, `Duration`, `SystemTime`, `Uuid`, and options, arrays, tuples, structs and enums of these",
    note = "write `#[derive(TextFree)]` above a type of your own, and `#[text_free(assume)]` above a field of a foreign type without text"
)]
pub trait TextFree {}

macro_rules! text_free {
    ($($ty:ty),+ $(,)?) => { $(impl TextFree for $ty {})+ };
}

text_free!(bool, (), i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize, f32, f64);
text_free!(Duration, SystemTime, Uuid);
text_free!(
    NonZeroI8,
    NonZeroI16,
    NonZeroI32,
    NonZeroI64,
    NonZeroI128,
    NonZeroIsize,
    NonZeroU8,
    NonZeroU16,
    NonZeroU32,
    NonZeroU64,
    NonZeroU128,
    NonZeroUsize,
);

impl<T: TextFree> TextFree for Option<T> {}
impl<T: TextFree> TextFree for Box<T> {}
impl<T: TextFree, const N: usize> TextFree for [T; N] {}
impl<A: TextFree, B: TextFree> TextFree for (A, B) {}
impl<A: TextFree, B: TextFree, C: TextFree> TextFree for (A, B, C) {}

/// Fails to compile if `T` is not text-free. Code that `#[derive(TextFree)]` generates calls this function for each
/// field.
#[doc(hidden)]
pub const fn assert_text_free<T: TextFree>() {}
