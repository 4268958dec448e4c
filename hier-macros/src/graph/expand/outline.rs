//! The graph as editors see it: no code, but a mention of each word of the call. Renaming a node's function renames its
//! mentions in the edges, and editors complete names even while the call has errors. The compiler never sees this code.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Ident, Type};

use super::super::ast::NodeDecl;
use super::super::model::GraphModel;
use crate::symbol;
use crate::words::Words;

pub(super) fn outline(model: &GraphModel, state: &Type, words: &Words) -> TokenStream {
    let (name, context) = (&model.head.name, super::context(model));
    let (graph, types) = (&*model.spec.name, super::types(model, state));
    // Completion needs a valid expression of the same form at each place. Mentions of unknown nodes come first, and one
    // valid mention follows them. The order is the same for channels. The order follows how rarely an error hides the
    // place.
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

fn declared<'a>(model: &'a GraphModel, word: &Ident) -> Option<&'a NodeDecl> {
    model.index(word).and_then(|index| model.nodes.get(index))
}

fn mention(model: &GraphModel, word: &Ident) -> Option<TokenStream> {
    let graph = &model.head.name;
    let mut path = declared(model, word)?.path.clone();
    Some(match path.segments.last_mut() {
        // A node without an explicit name has the name of its function or graph.
        Some(last) if last.ident == *word => {
            last.ident.set_span(word.span());
            quote!(let _ = #path;)
        }
        // A node with an explicit name is mentioned as its target constant, which has the span of the name.
        _ => quote!(let _ = #graph::#word;),
    })
}

fn names(model: &GraphModel) -> TokenStream {
    let nodes = model.nodes.iter().map(|node| node.name.unraw().to_string());
    let names = nodes.chain([symbol::START.to_owned(), symbol::END.to_owned()]).map(|name| {
        // The span of the name would make this the definition of the name.
        let here = Span::call_site();
        // Raw, because a name may be a keyword in the edition of either crate.
        let name = Ident::new_raw(&name, here);
        quote_spanned!(here=> pub const #name: () = ();)
    });
    names.collect()
}
