//! The graph as editors see it, which the compiler never does: no code, but each word of the call as what it names. So a node's
//! function is renamed with its mentions in the edges, and what can stand at a place is offered there, even while the call is wrong.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Ident, Type};

use super::super::ast::Node;
use super::super::model::Model;
use crate::symbol;
use crate::words::Words;

/// The graph without code, and its words.
pub(super) fn outline(model: &Model, state: &Type, words: &Words) -> TokenStream {
    let (name, context) = (&model.head.name, super::context(model));
    let (graph, types) = (&*model.spec.name, super::types(model, state));
    // Those of no node first, and then always one, and so with channels: what is about to be written has something of its form in its place, from
    // which editors learn what it is a part of. So the order is that of what is least often lost behind a mistake.
    let (known, unknown): (Vec<_>, Vec<_>) = words.nodes.iter().partition(|word| declared(model, word).is_some());
    let mentions = known.into_iter().map(|word| mention(model, word));
    let (lists, channels, statements) = (words.lists(), &words.channels, words.statements());
    let names = names(model);
    let membership = model.agents.then(|| {
        quote! {
            impl __hier::Membership for #name {
                const POLICY: ::core::option::Option<__hier::PolicySpec> = ::core::option::Option::None;
            }
        }
    });
    let agent = model.agents.then(|| quote!(__agent: __hier::AgentBuilder<#state, #context>));
    quote! {
        impl __hier::Graph for #name {
            #types
            const NAME: &'static ::core::primitive::str = #graph;
            const SPEC: &'static __hier::GraphSpec = __hier::words::any();
            const DEPTH: ::core::primitive::usize = 0;
            fn parts() -> __hier::Parts<#state, #context> { __hier::words::any() }
        }
        #membership
        #[allow(non_upper_case_globals)]
        mod __hier_nodes { #names }
        fn __hier_words(__state: &#state, #agent) {
            let __channels = <#state as __hier::State>::channels();
            #lists
            #(let _ = __hier_nodes::#unknown;)*
            let _ = __hier_nodes::START;
            #(let _ = &__channels.#channels;)*
            let _ = &__channels;
            #statements
            #(#mentions)*
        }
    }
}

/// The node of this name.
fn declared<'a>(model: &'a Model, word: &Ident) -> Option<&'a Node> {
    model.index(word).and_then(|index| model.nodes.get(index))
}

/// A mention of a node.
fn mention(model: &Model, word: &Ident) -> Option<TokenStream> {
    let graph = &model.head.name;
    let mut path = declared(model, word)?.path.clone();
    Some(match path.segments.last_mut() {
        // A node under its own name is its function or graph.
        Some(last) if last.ident == *word => {
            last.ident.set_span(word.span());
            quote!(let _ = #path;)
        }
        // One under another name is its target, which is declared where the name is given.
        _ => quote!(let _ = #graph::#word;),
    })
}

/// What can stand where a node can stand, to be offered.
fn names(model: &Model) -> TokenStream {
    let nodes = model.nodes.iter().map(|node| node.name.unraw().to_string());
    let names = nodes.chain([symbol::START.to_owned(), symbol::END.to_owned()]).map(|name| {
        // Not at the place of the name: it is no definition.
        let here = Span::call_site();
        // Raw, since a name may be a keyword in the edition of the user's crate or of this one.
        let name = Ident::new_raw(&name, here);
        quote_spanned!(here=> pub const #name: () = ();)
    });
    names.collect()
}
