//! Two states share the channels whose names are equal; the types of shared channels must be equal too.
//!
//! The compiler checks it: behind each state stands a binary trie over 32 bits of the hash of each channel's name, with
//! the channel's type at the leaf. For each channel of the other state, one [`Agree`] bound walks down the trie; it ends
//! where there is no such channel, or at a leaf of the same type. So neither text nor type ids are compared, and an alias
//! of a type is that type.

use std::marker::PhantomData;

/// No channel has a name that starts like this.
pub struct Empty;
/// Names go on with a 0 bit, and with a 1 bit.
pub struct Fork<Zeros, Ones>(PhantomData<fn() -> (Zeros, Ones)>);
/// The one channel whose name starts like this goes on with `Bits` and has type `T`.
pub struct Leaf<Bits, T>(PhantomData<fn() -> (Bits, T)>);
/// A 0 bit of a name.
pub struct O;
/// A 1 bit of a name.
pub struct I;

/// A state, or the trie behind it, has no channel of this name, or one of type `T`. `Bits` is a list `(O, (I, …()))`.
pub trait Agree<Bits, Name, T> {}

impl<Bits, Name, T> Agree<Bits, Name, T> for Empty {}
impl<Z: Agree<Bits, Name, T>, U, Bits, Name, T> Agree<(O, Bits), Name, T> for Fork<Z, U> {}
impl<Z, U: Agree<Bits, Name, T>, Bits, Name, T> Agree<(I, Bits), Name, T> for Fork<Z, U> {}
impl<Rest, A, Bits, Name, T> Agree<(O, Bits), Name, T> for Leaf<(O, Rest), A> where Leaf<Rest, A>: Agree<Bits, Name, T> {}
impl<Rest, A, Bits, Name, T> Agree<(I, Bits), Name, T> for Leaf<(I, Rest), A> where Leaf<Rest, A>: Agree<Bits, Name, T> {}
impl<Rest, A, Bits, Name, T> Agree<(O, Bits), Name, T> for Leaf<(I, Rest), A> {}
impl<Rest, A, Bits, Name, T> Agree<(I, Bits), Name, T> for Leaf<(O, Rest), A> {}
impl<A: SameType<Name, T>, Name, T> Agree<(), Name, T> for Leaf<(), A> {}
/// A channel's type in one state is its type in the other.
#[diagnostic::on_unimplemented(
    message = "the channel `{Name}` has different types in the two states: `{T}` in the subgraph's, `{Self}` in the graph's",
    label = "the subgraph's `{Name}` is a `{T}`, the graph's a `{Self}`",
    note = "a subgraph shares channels by name: give both the same type, or rename one with `#[state(rename = \"…\")]`"
)]
pub trait SameType<Name, T> {}

impl<Name, T> SameType<Name, T> for T {}

/// A state whose channels can be shared with those of `Graph`: equal names have equal types.
///
/// Derived for every state; the bound stands where a graph becomes a node of another.
pub trait SharesWith<Graph> {}

macro_rules! nibbles {
    ($($name:ident: $a:ident $b:ident $c:ident $d:ident,)*) => {
        /// Four bits at once, as generated code writes them.
        pub mod nibbles {
            use super::{I, O};
            $(/// Four bits.
            pub type $name<Rest> = ($a, ($b, ($c, ($d, Rest))));)*
        }
    };
}

nibbles! {
    N0: O O O O, N1: O O O I, N2: O O I O, N3: O O I I, N4: O I O O, N5: O I O I, N6: O I I O, N7: O I I I,
    N8: I O O O, N9: I O O I, NA: I O I O, NB: I O I I, NC: I I O O, ND: I I O I, NE: I I I O, NF: I I I I,
}
