//! The generated code: the type, its targets, and `impl Graph` with the spec as a constant.

mod agent;
mod asks;
mod background;
mod code;
mod flow;
mod named;
mod outline;
mod prompt;
mod search;
mod secret;
mod spec;
mod tool_rules;
mod tools;
pub(super) mod trust;

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Ident, Type, parse_quote};

use super::ast::agent::AgentFields;
use super::model::{GRAPH_ITEMS, GraphModel};
use crate::words::Words;

pub(super) fn expand(model: &GraphModel, doubtful: &[Ident], words: &Words) -> TokenStream {
    let (attributes, visibility, name) = (&model.head.attributes, &model.head.visibility, &model.head.name);
    let questions = asks::questions(model);
    // The compiler would report each use of a deprecated graph in its own code.
    let is_deprecated = attributes.iter().any(|attribute| attribute.path().is_ident("deprecated"));
    let deprecated = is_deprecated.then(|| quote!(#[allow(deprecated)]));
    let rest = model.head.state.as_ref().map(|state| {
        let (hier, targets) = (&model.hier, targets(model, state));
        let (checked, alias) = checked(state);
        let (graph, fits_context) = (named::around(model, graph(model, &alias, doubtful)), fits_context(model));
        // Editors complete the first of several mentions.
        let outline = outline::outline(model, state, words);
        quote! {
            #[allow(clippy::all, clippy::pedantic, clippy::nursery, unexpected_cfgs, unused_qualifications)]
            #deprecated
            const _: () = {
                #[cfg(rust_analyzer)]
                const _: () = {
                    use #hier as __hier;
                    #outline
                    #fits_context
                };
                #[cfg(not(rust_analyzer))]
                const _: () = {
                    use #hier as __hier;
                    #checked
                    #graph
                    #fits_context
                };
            };
            #deprecated
            #targets
        }
    });
    quote! {
        #questions
        #(#attributes)*
        #[derive(Clone, Copy, Debug, Default)]
        #visibility struct #name;
        #rest
    }
}

/// Returns an alias of the state. If the type is not a state, the alias is unknown to the compiler, which then reports
/// the mistake once, at the state, and not at every node. Documentation shows the type itself.
fn checked(state: &Type) -> (TokenStream, Type) {
    let here = state.span();
    let alias = Ident::new("__HierState", Span::call_site().located_at(here));
    let checked = quote_spanned! {here=>
        #[cfg(doc)]
        type #alias = #state;
        #[cfg(not(doc))]
        type #alias = <__hier::Checked<#state, { let _ = <#state as __hier::State>::CHANNELS; true }> as __hier::Known>::Type;
    };
    (checked, parse_quote!(#alias))
}

fn targets(model: &GraphModel, state: &Type) -> TokenStream {
    let (visibility, name, hier) = (&model.head.visibility, &model.head.name, &model.hier);
    let graph = &*model.spec.name;
    // A constant with the name of a graph's own item would cause an error wherever the item is used.
    let nodes = model.nodes.iter().zip(model.spec.nodes.iter());
    let constants = nodes.filter(|(_, spec)| !GRAPH_ITEMS.contains(&&*spec.name)).map(|(node, spec)| {
        let (ident, text) = (&node.name, &*spec.name);
        let doc = format!("The node `{text}`, as the target of a command.");
        quote! {
            #[doc = #doc]
            #visibility const #ident: #hier::Target<#state> = #hier::Target::new(#graph, #text);
        }
    });
    quote! {
        #[allow(non_upper_case_globals, dead_code, unused_qualifications, clippy::all, clippy::pedantic, clippy::nursery)]
        impl #name {
            #(#constants)*
        }
    }
}

fn graph(model: &GraphModel, state: &Type, doubtful: &[Ident]) -> TokenStream {
    let (name, context) = (&model.head.name, context(model));
    let graph = &*model.spec.name;
    let spec = spec::spec(model);
    let site = code::site();
    let KindCode { items, depth, asks_model, methods } = match &model.agent {
        Some(asking) => agent_code(model, asking, state, &context),
        None => plain_code(model, state, &context, doubtful),
    };
    let depth = quote_spanned! {name.span()=>
        const DEPTH: ::core::primitive::usize = __hier::deepest(&[#depth]);
    };
    let trust::TrustCode { items: trusted, constant: trust } = trust::code(model, state);
    let hooks = agent::hooks(&model.member, state, &context);
    let inbox = agent::inbox(&model.member, state);
    let secrets = [secret::inbox(model.member.inbox.as_ref(), state), secret::output(model.output.as_ref())];
    let secrets = secrets.into_iter().flatten();
    let membership = model.agents.then(|| agent::membership(model, state));
    let types = types(model, state);
    let (asks, questions) = (asks::checks(model), asks::facts(model));
    quote! {
        const #site: __hier::Site<#state, #context> = __hier::Site::new();
        #items
        #trusted
        #asks
        impl __hier::Graph for #name {
            #types
            const NAME: &'static ::core::primitive::str = #graph;
            const SPEC: &'static __hier::GraphSpec = #spec;
            #depth
            const ASKS_MODEL: ::core::primitive::bool = #asks_model;
            #trust
            #questions
            #hooks
            #inbox
            #methods
        }
        #membership
        #(#secrets)*
    }
}

/// The types of an `impl Graph`. Each has the span of its source, where the compiler rejects a private type in a public
/// graph.
fn types(model: &GraphModel, state: &Type) -> TokenStream {
    let context = context(model);
    let input = model.input.as_ref().map_or_else(|| quote!(__hier::FullState), |view| quote!(#view));
    let output = model.output.as_ref().unwrap_or(state);
    let types = [quote!(State = #state), quote!(Context = #context), quote!(Input = #input), quote!(Output = #output)];
    let types = types.into_iter().map(|ty| {
        let here = ty.clone().into_iter().last().map_or_else(Span::call_site, |token| token.span());
        quote_spanned!(here=> type #ty;)
    });
    types.collect()
}

struct KindCode {
    items: TokenStream,
    /// The depths of the subgraphs, as a list expression.
    depth: TokenStream,
    /// An expression that is true if the graph or a subgraph asks a model.
    asks_model: TokenStream,
    methods: TokenStream,
}

fn plain_code(model: &GraphModel, state: &Type, context: &TokenStream, doubtful: &[Ident]) -> KindCode {
    let facts: Vec<Ident> = code::nodes(model).map(|(index, _)| code::facts(index)).collect();
    let body = code::parts(model, state, doubtful);
    let body = marked(model, quote!({ #body }));
    let (items, tools) = (code::items(model, state, context), tools::graphs(model, state, context));
    let flow = model.is_sound.then(|| flow::items(model, state, context));
    let flow_of = model.is_sound.then(|| {
        let flow = flow::constant();
        quote!(const FLOW: __hier::GraphFlow = #flow.graph();)
    });
    KindCode {
        items: quote!(#tools #items #flow),
        depth: quote!(#(#facts.depth()),*),
        asks_model: quote!(false #(|| #facts.asks_model())*),
        methods: quote! {
            #flow_of
            fn parts() -> __hier::Parts<#state, #context> { #body }
        },
    }
}

fn agent_code(model: &GraphModel, asking: &AgentFields, state: &Type, context: &TokenStream) -> KindCode {
    let members = agent::numbered(model, asking).map(|(number, _)| agent::member(number));
    KindCode {
        items: agent::items(model, asking, state, context),
        depth: quote!(#(#members.depth()),*),
        asks_model: quote!(true),
        methods: agent::methods(state, context, |parts| marked(model, parts)),
    }
}

/// Marks the messages of `input: untrusted`. States without agents have no record of labels.
fn marked(model: &GraphModel, parts: TokenStream) -> TokenStream {
    if model.trust.untrusted.is_some() && model.agents { quote!(__hier::untrusted_input(#parts)) } else { parts }
}

/// Converts the context of an outer graph: the same context, or any context if this graph has none.
fn fits_context(model: &GraphModel) -> TokenStream {
    let (name, context) = (&model.head.name, context(model));
    let none = match &model.head.context {
        None => true,
        Some(Type::Tuple(tuple)) => tuple.elems.is_empty(),
        Some(_) => false,
    };
    if model.agent.is_some() && model.head.context.is_none() {
        let outer = local("__Outer", Span::call_site());
        quote! {
            impl<#outer: ::core::convert::AsRef<#context>> __hier::FitsContext<#outer> for #name {
                fn context(outer: &__hier::Arc<#outer>) -> __hier::Arc<#context> {
                    __hier::Arc::new(::core::clone::Clone::clone((**outer).as_ref()))
                }
            }
        }
    } else if none {
        let outer = local("__Outer", Span::call_site());
        quote! {
            impl<#outer> __hier::FitsContext<#outer> for #name {
                fn context(_: &__hier::Arc<#outer>) -> __hier::Arc<()> {
                    __hier::Arc::new(())
                }
            }
        }
    } else {
        quote! {
            impl __hier::FitsContext<#context> for #name {
                fn context(outer: &__hier::Arc<#context>) -> __hier::Arc<#context> {
                    __hier::Arc::clone(outer)
                }
            }
        }
    }
}

fn context(model: &GraphModel) -> TokenStream {
    match (&model.head.context, &model.agent) {
        (Some(context), _) => quote!(#context),
        (None, Some(_)) => quote!(__hier::BaseContext),
        (None, None) => quote!(()),
    }
}

fn local(name: &str, span: Span) -> Ident {
    Ident::new(name, Span::mixed_site().located_at(span))
}
