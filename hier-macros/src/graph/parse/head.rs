//! `/// docs  pub Review<Filing, Desk> = Graph { … }`

use proc_macro2::TokenTree;
use syn::parse::ParseStream;
use syn::parse::discouraged::Speculative;
use syn::{Attribute, Ident, Result, Token, Type, Visibility, braced};

use super::super::ast::{Ast, Body, Head};
use super::{body, pass_over};
use crate::diag::{Errors, unknown};
use crate::symbol;

const SHAPE: &str = "a graph is declared as `Name<State, Context> = Graph { nodes: […], edges: […] }`";

/// The whole call. An error only if not even the graph's name is there.
pub(super) fn graph(input: ParseStream<'_>, errors: &mut Errors) -> Result<Ast> {
    let attributes = input.call(Attribute::parse_outer)?;
    let visibility: Visibility = input.parse()?;
    let name: Ident = input.parse().map_err(|error| syn::Error::new(error.span(), SHAPE))?;
    let mut head = Head { attributes, visibility, name, state: None, context: None };
    let result = types(input, &mut head);
    errors.keep(result);
    while !input.is_empty() && !input.peek(Token![=]) {
        let _ = input.parse::<TokenTree>(); // what `types` could not parse
    }
    let result = kind(input, errors);
    let body = errors.keep(result).unwrap_or_else(|| {
        pass_over(input);
        Body { shapeless: true, ..Body::default() }
    });
    if !input.is_empty() {
        errors.combine(input.error("one graph a call: declare the next one in a `graph!` of its own"));
    }
    Ok(Ast { head, body })
}

/// `<Filing, Desk>` or `::<Filing, Desk>`.
fn types(input: ParseStream<'_>, head: &mut Head) -> Result<()> {
    let name = &head.name;
    let _ = input.parse::<Option<Token![::]>>();
    if !input.peek(Token![<]) {
        return Err(syn::Error::new_spanned(name, format!("`{name}` needs its state: `{name}<State>`")));
    }
    input.parse::<Token![<]>()?;
    head.state = Some(ty(input)?);
    if input.parse::<Option<Token![,]>>()?.is_some() && !input.peek(Token![>]) {
        head.context = Some(ty(input)?);
        let _ = input.parse::<Option<Token![,]>>();
    }
    if !input.peek(Token![>]) {
        return Err(input.error(format!("a graph has a state and a context, no more: `{name}<State, Context>`")));
    }
    input.parse::<Token![>]>().map(drop)
}

/// A type. What cannot be parsed is tried ahead of the input: a group that the input itself was left in the middle of would
/// count as an error of the whole call, which would be lost with it.
fn ty(input: ParseStream<'_>) -> Result<Type> {
    let ahead = input.fork();
    let ty = ahead.parse()?;
    input.advance_to(&ahead);
    Ok(ty)
}

/// `= Graph { … }`
fn kind(input: ParseStream<'_>, errors: &mut Errors) -> Result<Body> {
    input.parse::<Token![=]>().map_err(|error| syn::Error::new(error.span(), SHAPE))?;
    let kind: Ident = input.parse().map_err(|error| syn::Error::new(error.span(), SHAPE))?;
    errors.words.one_of("kinds", &kind);
    let name = kind.to_string();
    let known = hier_spec::nearest(&name, symbol::KINDS.iter().copied());
    if !symbol::KINDS.contains(&&*name) {
        errors.push(&kind, unknown("kind of graph", &name, symbol::KINDS));
    }
    if !input.peek(syn::token::Brace) {
        return Err(syn::Error::new_spanned(&kind, format!("`{kind}` needs its fields: `{kind} {{ … }}`")));
    }
    let content;
    braced!(content in input);
    match known {
        Some(known) => Ok(body(&content, known, errors)),
        None => Ok(Body { shapeless: true, ..body(&content, symbol::GRAPH, &mut Errors::default()) }),
    }
}
