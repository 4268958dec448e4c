//! The trust of a graph: the labels of its parts as constants, and the checks at the parts that send. The rules are in
//! `hier_spec::trust`.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{ExprClosure, Path, Type};

use super::super::ast::agent::{AgentFields, ToolRules};
use super::super::model::GraphModel;
use super::super::text::compact;
use super::agent as agents;
use super::tool_rules::is_channel_text_free;
use super::{code, named};
use crate::approval;

#[derive(Default)]
pub(super) struct TrustCode {
    /// The constant with all parts, and the checks.
    pub(super) items: TokenStream,
    /// The constant of `impl Graph`.
    pub(super) constant: TokenStream,
}

/// A part of the graph: the span of its check, and an expression of the type `TrustSource`.
type Source = (Span, TokenStream);

pub(super) fn code(model: &GraphModel, state: &Type) -> TrustCode {
    let mut sources = match &model.agent {
        Some(agent) => of_agent(model, agent),
        None => of_graph(model, state),
    };
    // The input sends nothing, so it has no check.
    let checked = sources.len();
    sources.extend(model.trust.untrusted.as_ref().map(|word| {
        let here = word.span();
        (here, quote_spanned!(here=> __hier::TrustSource::input()))
    }));
    if sources.is_empty() {
        return TrustCode::default();
    }
    let parts = sources.iter().map(|(_, source)| source);
    let allowed = model.trust.allowed;
    let is_flawed = model.agent.as_ref().is_some_and(|agent| agent.flawed);
    let checks = sources[..checked].iter().enumerate().filter(|_| !allowed && !is_flawed).map(|(place, (here, _))| {
        quote_spanned! {*here=>
            const _: () = if __hier::leaks(__HIER_SOURCES, #place) {
                __hier::core::panic!("{}", __hier::leak_message(__HIER_SOURCES, #place).as_str())
            };
        }
    });
    let text_free = is_text_free(model, state);
    TrustCode {
        items: quote! {
            const __HIER_SOURCES: &[__hier::TrustSource<'static>] = &[#(#parts),*];
            #(#checks)*
        },
        constant: quote! {
            const TRUST: __hier::GraphTrust = __hier::GraphTrust::of(__HIER_SOURCES, #allowed, #text_free);
        },
    }
}

fn of_agent(model: &GraphModel, agent: &AgentFields) -> Vec<Source> {
    let tools = tools(model, &agent.tools, &agent.toolsets, &agent.rules);
    let members = agents::numbered(model, agent).map(|(number, attachment)| {
        let (constant, here) = (agents::member(number), code::span(&attachment.path));
        let name = last(&attachment.path);
        (here, quote_spanned!(here=> #constant.trust_source(#name)))
    });
    tools.into_iter().chain(members).collect()
}

/// Returns the constant of `impl Graph` for a node with tools. A command of a tool for the outer graph carries the labels
/// in this constant.
pub(super) fn of_tools(model: &GraphModel, (named, sets): (&[Path], &[ExprClosure]), rules: &ToolRules) -> TokenStream {
    let sources = tools(model, named, sets, rules).into_iter().map(|(_, source)| source);
    let allowed = model.trust.allowed;
    quote! {
        const TRUST: __hier::GraphTrust = __hier::GraphTrust::of(&[#(#sources),*], #allowed, false);
    }
}

/// Returns the tools of all nodes, which share the conversation of the state, and the nested graphs.
fn of_graph(model: &GraphModel, state: &Type) -> Vec<Source> {
    let mut sources = Vec::new();
    for (index, node) in code::nodes(model) {
        let name = last(&node.path);
        if let Some((named, sets)) = &node.tools {
            sources.extend(tools(model, named, sets, &node.rules));
        } else if name.starts_with(char::is_uppercase) {
            let (facts, here) = (code::facts(index), code::span(&node.path));
            let trust = quote!(#facts.trust(&<#state as __hier::State>::CHANNELS));
            sources.push((here, quote_spanned!(here=> __hier::TrustSource::graph(#name, #trust, false))));
        }
    }
    sources
}

fn tools(model: &GraphModel, named: &[Path], sets: &[ExprClosure], rules: &ToolRules) -> Vec<Source> {
    let named = named.iter().zip(&rules.named).map(|(path, options)| {
        let (here, tool, name) = (code::span(path), named::tool(model, path), last(path));
        let is_approved = options.approve.is_some();
        let trust = quote_spanned!(here=> <#tool as __hier::NamedTool>::TRUST.approved(#is_approved));
        (here, quote_spanned!(here=> __hier::TrustSource::tool(#name, #trust)))
    });
    let sets = sets.iter().zip(&rules.sets).map(|(choose, options)| {
        let (here, name) = (choose.body.span(), compact(&choose.body));
        let labels = match &options.labels {
            Some(labels) => approval::labels(labels),
            None => {
                quote!(__hier::TrustLabels::NONE.with(__hier::TrustLabels::UNTRUSTED).with(__hier::TrustLabels::SENDS))
            }
        };
        let is_approved = options.approve.is_some();
        (here, quote_spanned!(here=> __hier::TrustSource::tool(#name, __hier::ToolTrust::new(#labels, #is_approved))))
    });
    named.chain(sets).collect()
}

/// Returns an expression that is true if the report of the agent is a value that cannot carry text. Code of `on_exit`
/// and back stages may return any value.
fn is_text_free(model: &GraphModel, state: &Type) -> TokenStream {
    let agent = model.agent.as_ref().filter(|agent| agent.back.is_empty() && model.member.on_exit.is_none());
    let answer = agent.and_then(|agent| agent.answer.as_ref());
    answer.map_or_else(|| quote!(false), |channel| is_channel_text_free(&quote!(#state), channel))
}

fn last(path: &Path) -> String {
    path.segments.last().map(|last| last.ident.unraw().to_string()).unwrap_or_default()
}
