//! A check that two states give equal types to channels with equal names, which they share.
//!
//! The compiler makes the check. Each state has a binary trie over 32 bits of the hashes of its channels' names, with
//! the types at the leaves. For each channel of the other state, an [`Agree`] bound walks down the trie. It holds if no
//! such channel exists, or if the leaf has the same type. Neither texts nor type ids are compared, so that an alias
//! equals its type.

use std::marker::PhantomData;

/// A part of a trie without channels.
pub struct Empty;
/// A part of a trie that branches at the next bit of the names: `Zeros` for the bit 0, and `Ones` for the bit 1.
pub struct Fork<Zeros, Ones>(PhantomData<fn() -> (Zeros, Ones)>);
/// A part of a trie with a single channel of type `T`. `Bits` are the remaining bits of the hash of the channel's name.
pub struct Leaf<Bits, T>(PhantomData<fn() -> (Bits, T)>);
/// A bit with the value 0 in the hash of a name.
pub struct O;
/// A bit with the value 1 in the hash of a name.
pub struct I;

/// A trie that has no channel with the name `Name`, or has it with the type `T`. `Bits` are the bits of the name's hash
/// as nested pairs, such as `(O, (I, ()))`.
pub trait Agree<Bits, Name, T> {}

impl<Bits, Name, T> Agree<Bits, Name, T> for Empty {}
impl<Z: Agree<Bits, Name, T>, U, Bits, Name, T> Agree<(O, Bits), Name, T> for Fork<Z, U> {}
impl<Z, U: Agree<Bits, Name, T>, Bits, Name, T> Agree<(I, Bits), Name, T> for Fork<Z, U> {}
impl<Rest, A, Bits, Name, T> Agree<(O, Bits), Name, T> for Leaf<(O, Rest), A> where Leaf<Rest, A>: Agree<Bits, Name, T> {}
impl<Rest, A, Bits, Name, T> Agree<(I, Bits), Name, T> for Leaf<(I, Rest), A> where Leaf<Rest, A>: Agree<Bits, Name, T> {}
impl<Rest, A, Bits, Name, T> Agree<(O, Bits), Name, T> for Leaf<(I, Rest), A> {}
impl<Rest, A, Bits, Name, T> Agree<(I, Bits), Name, T> for Leaf<(O, Rest), A> {}
impl<A: SameType<Name, T>, Name, T> Agree<(), Name, T> for Leaf<(), A> {}
/// A channel type that equals the type in the other state.
#[diagnostic::on_unimplemented(
    message = "the channel `{Name}` has different types in the two states: `{T}` in the subgraph's, `{Self}` in the graph's",
    label = "the subgraph's `{Name}` is a `{T}`, the graph's a `{Self}`",
    note = "a subgraph shares channels by name: give both the same type, or rename one with `#[state(rename = \"…\")]`"
)]
pub trait SameType<Name, T> {}

impl<Name, T> SameType<Name, T> for T {}

/// A state that can contain a subgraph with the state `Graph`: channels with the same name in both states also have the
/// same type.
pub trait SharesWith<Graph> {}

macro_rules! nibbles {
    ($($name:ident: $a:ident $b:ident $c:ident $d:ident,)*) => {
        /// Type aliases for groups of four bits. Generated code uses them to shorten the bits of a name's hash.
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
