//! Declared questions: `asks: [Pay, Pick]`, its rules, and the enum of the graph's questions.
//!
//! 1. [`check`]: two questions have different variants.
//! 2. `check_declared` of `hier-core`: the graph declares what its nodes, tools and subgraphs ask.
//! 3. `check_distinct`: two questions have different stored names.
//! 4. `check_asked`: something asks each question, if that is known for certain.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::spanned::Spanned;
use syn::{Ident, LitStr, Path, Result, Token};

use super::agent;
use super::expand::{code, named};
use super::model::GraphModel;
use crate::diag::Errors;
use crate::symbol;

/// `Pay`, `billing::Pay` or `Invoice = billing::Pay`
pub(super) struct AskedQuestion {
    /// The variant of the enum.
    name: Ident,
    path: Path,
}

/// Parses an item of `asks: […]`.
pub(super) fn item(input: ParseStream<'_>, errors: &mut Errors) -> Result<AskedQuestion> {
    const EXPECTED: &str = "expected a question: the path of a type with `#[derive(Question)]`";
    if input.peek(LitStr) {
        return Err(input.error("a question is the path of a type with `#[derive(Question)]`: remove the quotes"));
    }
    let name = if input.peek(syn::Ident) && input.peek2(Token![=]) {
        let name: Ident = input.parse()?;
        input.parse::<Token![=]>()?;
        Some(name)
    } else {
        None
    };
    let path: Path = input.parse().map_err(|error| syn::Error::new(error.span(), EXPECTED))?;
    errors.words.ty(&path);
    if input.peek(syn::token::Brace) || input.peek(syn::token::Paren) {
        return Err(input.error("a question is named by its type alone: remove this"));
    }
    let last = path.segments.last().map(|last| last.ident.clone());
    // `self` and `crate` are paths, and not names of variants.
    match name.or(last).filter(|name| syn::parse2::<Ident>(name.to_token_stream()).is_ok()) {
        Some(name) => Ok(AskedQuestion { name, path }),
        None => Err(syn::Error::new_spanned(path, EXPECTED)),
    }
}

fn declared(model: &GraphModel) -> &[AskedQuestion] {
    model.asks.as_ref().map_or(&[], |asks| &*asks.found)
}

/// Each question has a variant of its own.
pub(super) fn check(model: &GraphModel, errors: &mut Errors) {
    let asks = declared(model);
    for (place, asked) in asks.iter().enumerate() {
        let Some(first) = asks[..place].iter().find(|other| other.name == asked.name) else { continue };
        let name = &asked.name;
        let message = if first.path == asked.path {
            format!("the question `{name}` is given twice: remove one")
        } else {
            format!("two questions are called `{name}`: name one, `Other{name} = …`")
        };
        errors.push(name, message);
        errors.push(&first.name, format!("… also here: the question `{name}`"));
    }
}

/// The questions without those that are given twice, which were reported.
fn distinct(model: &GraphModel) -> impl Iterator<Item = &AskedQuestion> {
    let asks = declared(model);
    asks.iter()
        .enumerate()
        .filter(|(place, asked)| asks[..*place].iter().all(|other| other.name != asked.name))
        .map(|(_, asked)| asked)
}

/// The enum of the graph's questions, next to the graph.
pub(super) fn questions(model: &GraphModel) -> Option<TokenStream> {
    model.asks.as_ref()?;
    let (visibility, graph, hier) = (&model.head.visibility, &model.head.name, &model.hier);
    let name = enum_name(model);
    let text = graph.unraw().to_string();
    let about = format!("The questions of [`{text}`] and of the graphs within it.");
    let variants = distinct(model).map(|AskedQuestion { name, path }| {
        let doc = format!("The question `{name}`.");
        quote_spanned!(code::span(path)=> #[doc = #doc] #name(#hier::OpenQuestion<#path>))
    });
    // Aliases, so that the compiler reports a type that is not a question once.
    let aliases = distinct(model).enumerate().map(|(place, AskedQuestion { path, .. })| {
        let alias = alias(place, path);
        quote_spanned! {code::span(path)=>
            type #alias = <
                __hier::Checked<#path, { let _ = <#path as __hier::DeclaredQuestion>::NAME; true }> as __hier::Known
            >::Type;
        }
    });
    let types = distinct(model).enumerate().map(|(place, AskedQuestion { path, .. })| alias(place, path));
    let reads = distinct(model).enumerate().map(|(place, AskedQuestion { name, path })| {
        let alias = alias(place, path);
        quote! {
            if question.is::<#alias>() {
                return __hier::OpenQuestion::<#alias>::read(question).map(Self::#name);
            }
        }
    });
    let arms = distinct(model).map(|AskedQuestion { name, .. }| quote!(Self::#name(ref open) => open.stored(),));
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

/// The alias of a question's type.
fn alias(place: usize, path: &Path) -> Ident {
    Ident::new(&format!("__HierQuestion{place}"), code::span(path))
}

/// The name of the enum.
fn enum_name(model: &GraphModel) -> Ident {
    let graph = &model.head.name;
    format_ident!("{graph}Question", span = graph.span())
}

/// A part of the graph that asks.
struct Part {
    /// Its kind and name, as messages call it.
    label: String,
    /// The token at which it is reported.
    here: Span,
    /// The expression of its `QuestionFacts`.
    facts: TokenStream,
}

/// The parts of the graph whose types tell what they ask.
fn parts(model: &GraphModel) -> Vec<Part> {
    let mut parts = match &model.agent {
        Some(agent) => of_agent(model, agent),
        None => of_graph(model),
    };
    let hooks = [(symbol::ON_ENTRY, &model.member.on_entry), (symbol::ON_EXIT, &model.member.on_exit)];
    parts.extend(hooks.into_iter().filter_map(|(word, hook)| {
        let (path, site) = (hook.as_ref()?, code::site());
        let here = code::span(path);
        let facts = quote_spanned!(here=> #site.hook_questions(#path));
        Some(Part { label: format!("`{word}`"), here, facts })
    }));
    parts
}

fn of_graph(model: &GraphModel) -> Vec<Part> {
    let mut parts = Vec::new();
    for (index, node) in code::nodes(model) {
        let name = &node.name;
        if let Some((tools, _)) = &node.tools {
            parts.extend(tools.iter().map(|path| tool(model, path)));
            continue;
        }
        let facts = code::facts(index);
        let here = code::span(&node.path);
        parts.push(Part { label: format!("node `{name}`"), here, facts: quote!(#facts.questions()) });
        if let Some(handler) = &node.options.on_error {
            let (bound, label) = (code::bound_node(handler), format!("the error handler of node `{name}`"));
            parts.push(Part { label, here: code::span(handler), facts: quote!(#bound.facts().questions()) });
        }
    }
    parts
}

fn of_agent(model: &GraphModel, agent: &agent::ast::AgentFields) -> Vec<Part> {
    let mut parts: Vec<Part> = agent.tools.iter().map(|path| tool(model, path)).collect();
    for (number, attachment) in agent::expand::numbered(model, agent) {
        let kind = if number < agent.subagents.len() { "subagent" } else { "stage" };
        let (member, here) = (agent::expand::member(number), code::span(&attachment.path));
        let label = format!("the {kind} `{}`", last(&attachment.path));
        parts.push(Part { label, here, facts: quote!(#member.questions()) });
    }
    parts
}

fn tool(model: &GraphModel, path: &Path) -> Part {
    let (here, tool) = (code::span(path), named::tool(model, path));
    let facts = quote_spanned!(here=> <#tool as __hier::NamedTool>::QUESTIONS);
    Part { label: format!("the tool `{}`", last(path)), here, facts }
}

/// True if a part of the graph is chosen at run time.
fn has_toolsets(model: &GraphModel) -> bool {
    let of_nodes = model.nodes.iter().filter_map(|node| node.tools.as_ref()).any(|(_, sets)| !sets.is_empty());
    of_nodes || model.agent.as_ref().is_some_and(|agent| !agent.toolsets.is_empty())
}

/// The constant of `impl Graph`.
pub(super) fn facts(model: &GraphModel) -> TokenStream {
    let facts = parts(model).into_iter().map(|part| part.facts);
    let unknown = has_toolsets(model).then(|| quote!(__hier::QuestionFacts::Unknown));
    let facts = facts.chain(unknown);
    quote!(const QUESTIONS: __hier::QuestionFacts = __hier::QuestionFacts::All(&[#(#facts),*]);)
}

/// The checks, each at its token.
pub(super) fn checks(model: &GraphModel) -> TokenStream {
    let (graph, name) = (model.head.name.unraw().to_string(), &model.head.name);
    let declared = model
        .asks
        .as_ref()
        .map_or_else(|| quote!(::core::option::Option::None), |_| quote!(::core::option::Option::Some(__HIER_ASKS)));
    // After an error in the graph or in the list, these would report its consequences.
    let is_distinct = distinct(model).count() == self::declared(model).len();
    let is_whole = !model.holes && is_distinct && model.asks.as_ref().is_none_or(|asks| !asks.broken);
    let parts = if is_whole { parts(model) } else { Vec::new() };
    let parts = parts.into_iter().map(|Part { label, here, facts }| {
        let check = quote_spanned!(here=> __hier::check_declared(#label, &#facts, #graph, #declared));
        quote!(const _: () = #check;)
    });
    let list = model.asks.as_ref().map(|_| {
        let questions = enum_name(model);
        let checks = distinct(model).enumerate().map(|(place, AskedQuestion { path, .. })| {
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
    quote!(#list #(#parts)*)
}

fn last(path: &Path) -> String {
    path.segments.last().map(|last| last.ident.unraw().to_string()).unwrap_or_default()
}
