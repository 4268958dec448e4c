//! The names and types of a state's channels, and the bounds that compare them with another state's.
//!
//! See `hier_core::state::SharesWith`: a binary trie over 32 bits of the hash of each name.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{GenericParam, Ident, parse_quote};

use super::StateNames;
use crate::state::model::{ChannelModel, StateModel};

const BITS: u32 = u32::BITS;

/// FNV-1a of a channel's name. Crates of different versions must agree on it.
pub(in crate::state) fn hash(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// FNV-1a of a text.
pub(in crate::state) fn hash64(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// `impl Agree`, by the trie of the state and by the flattened state. The trie is a bound rather than an associated
/// type, so that a public state may have channels of private types.
fn agree(model: &StateModel, names: &StateNames) -> TokenStream {
    let mut leaves: Vec<(u32, TokenStream)> =
        model.channels.iter().map(|channel| (hash(&channel.name), compared(channel))).collect();
    leaves.sort_by_key(|(hash, _)| *hash);
    // The macro has reported two names with the same hash.
    leaves.dedup_by_key(|(hash, _)| *hash);
    let trie = trie(&leaves, 0);
    let mut generics = names.declared.clone();
    generics.params.extend::<[GenericParam; 3]>([parse_quote!(__Bits), parse_quote!(__Name), parse_quote!(__Type)]);
    let predicates = &mut generics.make_where_clause().predicates;
    predicates.push(parse_quote!(#trie: __hier::Agree<__Bits, __Name, __Type>));
    if let Some(flattened) = &model.flattened {
        let ty = &flattened.ty;
        predicates.push(parse_quote!(#ty: __hier::Agree<__Bits, __Name, __Type>));
    }
    let (impl_generics, _, conditions) = generics.split_for_impl();
    let state = &names.state;
    quote! {
        #[automatically_derived]
        impl #impl_generics __hier::Agree<__Bits, __Name, __Type> for #state #conditions {}
    }
}

/// Returns the type of a channel for the comparison. A secret channel differs from an open channel of the same type.
fn compared(ChannelModel { ty, secret, .. }: &ChannelModel) -> TokenStream {
    if secret.is_some() { quote!(__hier::Secret<#ty>) } else { quote!(#ty) }
}

/// The trie of sorted leaves whose hashes agree in the first `depth` bits.
fn trie(leaves: &[(u32, TokenStream)], depth: u32) -> TokenStream {
    match leaves {
        [] => quote!(__hier::Empty),
        [(hash, ty)] => {
            let rest = bits(*hash, depth);
            quote!(__hier::Leaf<#rest, #ty>)
        }
        _ => {
            let one = |(hash, _): &(u32, TokenStream)| hash >> (BITS - 1 - depth) & 1 == 0;
            let (zeros, ones) = leaves.split_at(leaves.partition_point(one));
            let (zeros, ones) = (trie(zeros, depth + 1), trie(ones, depth + 1));
            quote!(__hier::Fork<#zeros, #ones>)
        }
    }
}

/// The bits of a hash from `depth` on, as a type: a list of `O` and `I`, or of nibbles where four bits are aligned.
fn bits(hash: u32, depth: u32) -> TokenStream {
    if depth == BITS {
        return quote!(());
    }
    if depth.is_multiple_of(4) {
        let rest = bits(hash, depth + 4);
        let nibble = format_ident!("N{:X}", hash >> (BITS - 4 - depth) & 0xf);
        return quote!(__hier::#nibble<#rest>);
    }
    let rest = bits(hash, depth + 1);
    if hash >> (BITS - 1 - depth) & 1 == 0 { quote!((__hier::O, #rest)) } else { quote!((__hier::I, #rest)) }
}

pub(super) fn expand(model: &StateModel, names: &StateNames) -> TokenStream {
    let agree = agree(model, names);
    let shares_with = shares_with(model, names);
    quote!(#agree #shares_with)
}

/// `impl SharesWith`, with one bound per channel. The channel's name is a type, so that compiler messages contain it.
fn shares_with(model: &StateModel, names: &StateNames) -> TokenStream {
    let state = &names.state;
    let mut generics = names.with(parse_quote!(__Graph));
    let predicates = &mut generics.make_where_clause().predicates;
    let types = name_types(model);
    for (channel, name_type) in model.channels.iter().zip(&types) {
        let (bits, ty) = (bits(hash(&channel.name), 0), compared(channel));
        predicates.push(parse_quote!(__Graph: __hier::Agree<#bits, __names::#name_type, #ty>));
    }
    if let Some(flattened) = &model.flattened {
        let ty = &flattened.ty;
        predicates.push(parse_quote!(#ty: __hier::SharesWith<__Graph>));
    }
    let (impl_generics, _, conditions) = generics.split_for_impl();
    quote! {
        #[allow(non_camel_case_types, dead_code)]
        mod __names { #(pub enum #types {})* }
        #[automatically_derived]
        impl #impl_generics __hier::SharesWith<__Graph> for #state #conditions {}
    }
}

/// The types that represent the names of channels, in order. A name that is not a valid identifier is represented by a
/// numbered type.
fn name_types(model: &StateModel) -> Vec<Ident> {
    let mut types: Vec<Ident> = Vec::new();
    for ChannelModel { name, field, .. } in &model.channels {
        // The field's own token is valid in the edition of its crate.
        let own = (field.unraw() == name).then(|| field.clone());
        let word = || syn::parse_str::<Ident>(name).ok().filter(|word| word != "_" && word != "gen");
        let numbered = |number: usize| format_ident!("name_{number}");
        let candidates = own.into_iter().chain(word().map(|word| Ident::new(&word.to_string(), Span::call_site())));
        let free = |ident: &Ident| !types.contains(ident);
        let ident = candidates.chain((1..=model.channels.len()).map(numbered)).find(free);
        types.extend(ident);
    }
    types
}
