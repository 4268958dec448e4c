//! The graphs of nodes with tools.

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{ExprClosure, Path, Type};

use super::super::ast::NodeDecl;
use super::super::model::GraphModel;
use super::{code, named, tool_rules, trust};

/// The node for calls of unknown tools, as `hier_core` names it.
const UNKNOWN: &str = "unknown tool";
/// The node for calls of unknown tools in a graph with toolsets, which may contain these tools.
const LISTED: &str = "listed tool";

pub(super) fn graphs(model: &GraphModel, state: &Type, context: &TokenStream) -> TokenStream {
    let nodes = model.nodes.iter().filter_map(|node| Some((node, node.tools.as_ref()?, node.path.get_ident()?)));
    nodes.map(|(node, tools, ident)| graph(model, (node, tools, ident), state, context)).collect()
}

fn graph(
    model: &GraphModel,
    (node, (tools, toolsets), ident): (&NodeDecl, &(Vec<Path>, Vec<ExprClosure>), &Ident),
    state: &Type,
    context: &TokenStream,
) -> TokenStream {
    let (name, agent) = (syn::ext::IdentExt::unraw(&node.name).to_string(), &*model.spec.name);
    let other = if toolsets.is_empty() { UNKNOWN } else { LISTED };
    let typed: Vec<_> = tools.iter().map(|path| (code::span(path), named::tool(model, path))).collect();
    let names = typed.iter().map(|(here, tool)| quote_spanned!(*here=> <#tool as __hier::NamedTool>::NAME));
    let names: Vec<TokenStream> = names.chain([quote!(#other)]).collect();
    let each: Vec<usize> = (0..names.len()).collect();
    let made = typed.iter().zip(&node.rules.named).map(|((here, tool), options)| {
        if let Some(approval) = &options.approve {
            let rule = approval.rule(tool, context);
            quote_spanned!(*here=> __hier::ruled_tool_of::<#state, #context, #tool>(#rule))
        } else {
            quote_spanned!(*here=> __hier::tool_of::<#state, #context, #tool>())
        }
    });
    let errors = node
        .options
        .tool_errors
        .as_ref()
        .map_or_else(|| quote!(::core::default::Default::default()), |(_, errors)| quote!(#errors));
    let sets = toolsets.iter().zip(&node.rules.sets).map(|(choose, options)| {
        let with = tool_rules::set_options(options, context).map(|options| quote!(.with(#options)));
        quote_spanned!(choose.span()=> __hier::toolset_of::<#context, _>(#choose) #with)
    });
    // The compiler reports a state without a conversation at the node.
    let parts = quote_spanned!(ident.span()=> __hier::tool_parts(#name, #agent, __hier::std::vec![#(#made),*], __hier::std::vec![#(#sets),*], #errors));
    let (last, trust) = (tools.len(), trust::of_tools(model, (tools, toolsets), &node.rules));
    let doubled = tools.iter().enumerate().map(|(place, path)| {
        let tool = path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
        let message = format!("the tool `{tool}` has the name of another tool of this node: rename one");
        quote_spanned!(code::span(path)=> const _: () = __hier::core::assert!(#ident::DOUBLED != #place, #message);)
    });
    quote! {
        #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug)]
        struct #ident;
        impl #ident {
            const NAMES: &'static [&'static ::core::primitive::str] = &[#(#names),*];
            const DOUBLED: ::core::primitive::usize = __hier::first_doubled(Self::NAMES);
        }
        #(#doubled)*
        impl __hier::Graph for #ident {
            type State = #state;
            type Context = #context;
            type Input = __hier::FullState;
            type Output = #state;
            const NAME: &'static ::core::primitive::str = #name;
            const SPEC: &'static __hier::GraphSpec = &__hier::GraphSpec::declared(
                #name,
                "",
                const { &[#(__hier::NodeSpec::new(Self::NAMES[#each])),*] },
                const { &[
                    __hier::EdgeSpec::route(
                        __hier::Source::Start,
                        "tool_calls",
                        const { &[#(__hier::ArmSpec::declared(Self::NAMES[#each], &[__hier::ArmTarget::Send(#each)])),*] },
                    ),
                    #(__hier::EdgeSpec::Plain { from: __hier::Source::Node(#each), to: __hier::SpecTarget::End }),*
                ] },
                &[],
                &[],
            );
            const DEPTH: ::core::primitive::usize = __hier::deepest(&[0; #last]);
            #trust
            fn parts() -> __hier::Parts<#state, #context> {
                #parts
            }
        }
        impl __hier::FitsContext<#context> for #ident {
            fn context(outer: &__hier::Arc<#context>) -> __hier::Arc<#context> {
                __hier::Arc::clone(outer)
            }
        }
    }
}
