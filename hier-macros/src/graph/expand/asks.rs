//! Declared questions: the enum of a graph's questions, and the checks that need types.
//!
//! 1. `check_declared` of `hier-core`: the graph declares what its nodes, tools and subgraphs ask.
//! 2. `check_distinct`: two questions have different stored names.
//! 3. `check_asked`: something asks each question, if that is known for certain.
//! 4. `check_hook`: code of `on_entry` and `on_exit` asks nothing.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{ExprClosure, Ident, Path};

use super::super::asks;
use super::super::ast::AskedQuestion;
use super::super::ast::agent::{AgentFields, ToolItemOptions, ToolRules};
use super::super::model::GraphModel;
use super::{agent, code, named};
use crate::symbol;

/// The enum of the graph's questions, next to the graph.
pub(super) fn questions(model: &GraphModel) -> Option<TokenStream> {
    model.asks.as_ref()?;
    let (visibility, graph, hier) = (&model.head.visibility, &model.head.name, &model.hier);
    let name = enum_name(model);
    let text = graph.unraw().to_string();
    let about = format!("The questions of [`{text}`] and of the graphs within it.");
    let variants = asks::distinct(model).map(|AskedQuestion { name, path }| {
        let doc = format!("The question `{name}`.");
        quote_spanned!(code::span(path)=> #[doc = #doc] #name(#hier::OpenQuestion<#path>))
    });
    // Aliases, so that the compiler reports a type that is not a question once.
    let aliases = asks::distinct(model).enumerate().map(|(place, AskedQuestion { path, .. })| {
        let alias = alias(place, path);
        quote_spanned! {code::span(path)=>
            type #alias = <
                __hier::Checked<#path, { let _ = __hier::QuestionType::of::<#path>(); true }> as __hier::Known
            >::Type;
        }
    });
    let types = asks::distinct(model).enumerate().map(|(place, AskedQuestion { path, .. })| alias(place, path));
    let reads = asks::distinct(model).enumerate().map(|(place, AskedQuestion { name, path })| {
        let alias = alias(place, path);
        quote! {
            if question.is::<#alias>() {
                return __hier::OpenQuestion::<#alias>::read(question).map(Self::#name);
            }
        }
    });
    let arms = asks::distinct(model).map(|AskedQuestion { name, .. }| quote!(Self::#name(ref open) => open.stored(),));
    Some(quote! {
        #[doc = #about]
        #[allow(unused_qualifications, clippy::all, clippy::pedantic, clippy::nursery)]
        #[derive(::core::fmt::Debug)]
        #visibility enum #name {
            #(#variants,)*
        }
        #[allow(unused_qualifications, clippy::all, clippy::pedantic, clippy::nursery)]
        const _: () = {
            use #hier as __hier;
            #(#aliases)*
            impl __hier::QuestionSet for #name {
                const TYPES: &'static [__hier::QuestionType] = &[#(__hier::QuestionType::of::<#types>()),*];
                fn read(
                    question: &__hier::StoredQuestion,
                ) -> ::core::result::Result<Self, __hier::QuestionError> {
                    #(#reads)*
                    ::core::result::Result::Err(__hier::QuestionError::undeclared(#text, question))
                }
                fn stored(&self) -> &__hier::StoredQuestion {
                    match *self {
                        #(#arms)*
                    }
                }
            }
        };
    })
}

fn alias(place: usize, path: &Path) -> Ident {
    Ident::new(&format!("__HierQuestion{place}"), code::span(path))
}

fn enum_name(model: &GraphModel) -> Ident {
    let graph = &model.head.name;
    format_ident!("{graph}Question", span = graph.span())
}

/// A part of the graph that can ask questions.
struct Part {
    /// The kind and the name of the part, for messages.
    label: String,
    here: Span,
    /// An expression of the type `QuestionFacts`.
    facts: TokenStream,
}

/// The parts of the graph whose types show the questions that they ask.
fn parts(model: &GraphModel) -> Vec<Part> {
    match &model.agent {
        Some(agent) => of_agent(model, agent),
        None => of_graph(model),
    }
}

fn hook_checks(model: &GraphModel) -> impl Iterator<Item = TokenStream> {
    let hooks = [(symbol::ON_ENTRY, &model.member.on_entry), (symbol::ON_EXIT, &model.member.on_exit)];
    hooks.into_iter().filter_map(|(word, hook)| {
        let path = hook.as_ref()?;
        let site = code::site_at(code::span(path));
        let check = quote_spanned!(code::span(path)=> __hier::check_hook(#word, #site.hook(&#path).1));
        Some(quote!(const _: () = #check;))
    })
}

fn of_graph(model: &GraphModel) -> Vec<Part> {
    let mut parts = Vec::new();
    for (index, node) in code::nodes(model) {
        let name = &node.name;
        if let Some((tools, sets)) = &node.tools {
            parts.extend(tools.iter().zip(&node.rules.named).map(|(path, options)| tool(model, path, options)));
            parts.extend(approvals(sets, &node.rules));
        } else {
            let facts = code::facts(index);
            let here = code::span(&node.path);
            parts.push(Part { label: format!("node `{name}`"), here, facts: quote!(#facts.questions()) });
        }
        if let Some(handler) = &node.options.on_error {
            let (bound, label) = (code::bound_node(handler), format!("the error handler of node `{name}`"));
            parts.push(Part { label, here: code::span(handler), facts: quote!(#bound.facts().questions()) });
        }
    }
    parts
}

fn of_agent(model: &GraphModel, agent: &AgentFields) -> Vec<Part> {
    let tools = agent.tools.iter().zip(&agent.rules.named);
    let mut parts: Vec<Part> = tools.map(|(path, options)| tool(model, path, options)).collect();
    parts.extend(approvals(&agent.toolsets, &agent.rules));
    for (number, attachment) in agent::numbered(model, agent) {
        let kind = if number < agent.subagents.len() { "subagent" } else { "stage" };
        let (member, here) = (agent::member(number), code::span(&attachment.path));
        let label = format!("the {kind} `{}`", last(&attachment.path));
        parts.push(Part { label, here, facts: quote!(#member.questions()) });
    }
    parts
}

/// Returns the approvals that the graph demands for the tools of toolsets.
fn approvals(sets: &[ExprClosure], rules: &ToolRules) -> Vec<Part> {
    let approved = sets.iter().zip(&rules.sets).filter(|(_, options)| options.approve.is_some());
    let part = |(choose, _): (&ExprClosure, _)| {
        let (label, here) = ("a toolset".to_owned(), choose.span());
        let facts = quote!(__hier::QuestionFacts::One(__hier::QuestionType::of::<__hier::ApprovalRequest>()));
        Part { label, here, facts }
    };
    approved.map(part).collect()
}

/// Returns a tool as a part, which asks the questions of its function and requests the approval that the graph demands.
fn tool(model: &GraphModel, path: &Path, options: &ToolItemOptions) -> Part {
    let (here, tool) = (code::span(path), named::tool(model, path));
    let own = quote_spanned!(here=> <#tool as __hier::NamedTool>::QUESTIONS);
    let facts = if options.approve.is_some() {
        quote_spanned! {here=>
            __hier::QuestionFacts::All(&[
                #own,
                __hier::QuestionFacts::One(__hier::QuestionType::of::<__hier::ApprovalRequest>()),
            ])
        }
    } else {
        own
    };
    Part { label: format!("the tool `{}`", last(path)), here, facts }
}

/// True if the graph chooses some of its tools at run time.
fn has_toolsets(model: &GraphModel) -> bool {
    let of_nodes = model.nodes.iter().filter_map(|node| node.tools.as_ref()).any(|(_, sets)| !sets.is_empty());
    of_nodes || model.agent.as_ref().is_some_and(|agent| !agent.toolsets.is_empty())
}

pub(super) fn facts(model: &GraphModel) -> TokenStream {
    let facts = parts(model).into_iter().map(|part| part.facts);
    let unknown = has_toolsets(model).then(|| quote!(__hier::QuestionFacts::Unknown));
    let facts = facts.chain(unknown);
    quote!(const QUESTIONS: __hier::QuestionFacts = __hier::QuestionFacts::All(&[#(#facts),*]);)
}

fn declared(model: &GraphModel) -> TokenStream {
    if model.asks.is_some() {
        quote!(::core::option::Option::Some(__HIER_ASKS))
    } else {
        quote!(::core::option::Option::None)
    }
}

/// Returns false after an error in the graph or in the list, because the checks would report consequences of the error.
fn is_whole(model: &GraphModel) -> bool {
    let is_distinct = asks::distinct(model).count() == asks::declared(model).len();
    !model.holes && is_distinct && model.asks.as_ref().is_none_or(|asks| !asks.broken)
}

pub(super) fn checks(model: &GraphModel) -> TokenStream {
    let (graph, name) = (model.head.name.unraw().to_string(), &model.head.name);
    let (declared, is_whole) = (declared(model), is_whole(model));
    let parts = if is_whole { parts(model) } else { Vec::new() };
    let parts = parts.into_iter().map(|Part { label, here, facts }| {
        let check = quote_spanned!(here=> __hier::check_declared(#label, #facts, #graph, #declared));
        quote!(const _: () = #check;)
    });
    let list = model.asks.as_ref().map(|_| {
        let questions = enum_name(model);
        let checks = asks::distinct(model).enumerate().map(|(place, AskedQuestion { path, .. })| {
            let here = path.span();
            let distinct = quote_spanned!(here=> __hier::check_distinct(__HIER_ASKS, #place));
            let asked = is_whole.then(|| {
                quote_spanned! {here=>
                    __hier::check_asked(&__HIER_ASKS[#place], &<#name as __hier::Graph>::QUESTIONS, #graph)
                }
            });
            let asked = asked.map(|asked| quote!(const _: () = #asked;));
            quote!(const _: () = #distinct; #asked)
        });
        quote! {
            const __HIER_ASKS: &[__hier::QuestionType] = <#questions as __hier::QuestionSet>::TYPES;
            #(#checks)*
        }
    });
    let hooks = hook_checks(model).filter(|_| is_whole);
    quote!(#list #(#parts)* #(#hooks)*)
}

fn last(path: &Path) -> String {
    path.segments.last().map(|last| last.ident.unraw().to_string()).unwrap_or_default()
}
