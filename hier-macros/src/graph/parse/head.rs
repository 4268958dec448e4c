//! `/// docs  pub Review<Filing, Desk> = Graph { … }`

use proc_macro2::TokenTree;
use syn::parse::ParseStream;
use syn::parse::discouraged::Speculative;
use syn::{Attribute, Ident, Lifetime, Result, Token, Type, Visibility, braced};

use super::super::ast::{Ast, GraphFields, GraphHead};
use super::{body, pass_over};
use crate::diag::{Errors, unknown};
use crate::symbol;

const SHAPE: &str = "expected a graph: `Name<State, Context> = Graph { nodes: […], edges: […] }`";

/// Parses the whole call. Fails only if the graph's name is missing.
pub(super) fn graph(input: ParseStream<'_>, errors: &mut Errors) -> Result<Ast> {
    let attributes = input.call(Attribute::parse_outer)?;
    // The attributes become those of the type, and `cfg` would remove the type without its implementations.
    let is_condition = |attribute: &Attribute| attribute.path().is_ident("cfg");
    let (conditions, attributes): (Vec<_>, Vec<_>) = attributes.into_iter().partition(is_condition);
    for condition in conditions {
        errors.push(condition, "`#[cfg(…)]` is not possible here: write it above `graph! { … }`");
    }
    let visibility: Visibility = input.parse()?;
    let name: Ident = input.parse().map_err(|error| syn::Error::new(error.span(), SHAPE))?;
    let mut head = GraphHead { attributes, visibility, name, state: None, context: None };
    let result = types(input, &mut head);
    let result = result.and_then(|()| if input.peek(Token![=]) { Ok(()) } else { Err(input.error(SHAPE)) });
    errors.keep(result);
    while !input.is_empty() && !input.peek(Token![=]) {
        let _ = input.parse::<TokenTree>(); // what `types` could not parse
    }
    // Without `=`, there is an error already.
    let result = (!input.is_empty()).then(|| kind(input, errors));
    let body = result.and_then(|result| errors.keep(result)).unwrap_or_else(|| {
        pass_over(input);
        GraphFields { shapeless: true, ..GraphFields::default() }
    });
    if !input.is_empty() {
        let is_last = input.fork().parse::<Token![;]>().is_ok()
            && input.cursor().token_tree().is_some_and(|(_, rest)| rest.eof());
        let message = if is_last {
            "a `graph!` ends at its `}`: remove the semicolon"
        } else {
            "a `graph!` declares one graph: declare the next one in another `graph!`"
        };
        errors.combine(input.error(message));
    }
    Ok(Ast { head, body })
}

/// `<Filing, Desk>` or `::<Filing, Desk>`
fn types(input: ParseStream<'_>, head: &mut GraphHead) -> Result<()> {
    let name = head.name.clone();
    let _ = input.parse::<Option<Token![::]>>();
    if !input.peek(Token![<]) {
        return Err(syn::Error::new_spanned(&name, format!("`{name}` needs its state: `{name}<State>`")));
    }
    state_and_context(input, head)?;
    if !input.peek(Token![<]) {
        return Ok(());
    }
    // In `Review<T><Filing>`, the user meant the first list as parameters, and the second list contains the state.
    let (parameter, _) = (head.state.take(), head.context.take());
    state_and_context(input, head)?;
    Err(syn::Error::new_spanned(parameter, format!("a graph has no type parameters: write `{name}<State>`")))
}

fn state_and_context(input: ParseStream<'_>, head: &mut GraphHead) -> Result<()> {
    let name = &head.name;
    input.parse::<Token![<]>()?;
    if input.peek(Lifetime) {
        return Err(input.error(format!("a graph has no lifetimes: write `{name}<State>`")));
    }
    let (state, by_reference) = match ty(input, name)? {
        Type::Reference(reference) => (*reference.elem, Some(reference.and_token)),
        state => (state, None),
    };
    head.state = Some(state);
    if input.parse::<Option<Token![,]>>()?.is_some() && !input.peek(Token![>]) {
        head.context = Some(ty(input, name)?);
        let _ = input.parse::<Option<Token![,]>>();
    }
    if !input.peek(Token![>]) {
        return Err(input.error(format!("a graph takes a state and a context: `{name}<State, Context>`")));
    }
    input.parse::<Token![>]>()?;
    match by_reference {
        Some(sign) => Err(syn::Error::new_spanned(sign, "a graph takes the type of its state: remove the `&`")),
        None => Ok(()),
    }
}

/// Parses a type from a fork: syn reports an unfinished group of the input itself as an error of the whole call.
fn ty(input: ParseStream<'_>, name: &Ident) -> Result<Type> {
    let ahead = input.fork();
    let expected = |error: syn::Error| {
        syn::Error::new(
            error.span(),
            format!("expected a type: a graph takes a state and a context, `{name}<State, Context>`"),
        )
    };
    let ty = ahead.parse().map_err(expected)?;
    input.advance_to(&ahead);
    Ok(ty)
}

fn kind(input: ParseStream<'_>, errors: &mut Errors) -> Result<GraphFields> {
    input.parse::<Token![=]>()?;
    let kind: Ident = input.parse().map_err(|error| syn::Error::new(error.span(), SHAPE))?;
    errors.words.one_of("kinds", &kind);
    let name = kind.to_string();
    let foreign = symbol::FOREIGN_KINDS.iter().find(|(foreign, _)| *foreign == name).map(|(_, ours)| *ours);
    let known = foreign.or_else(|| hier_spec::nearest(&name, symbol::KINDS.iter().copied()));
    if let Some(ours) = foreign {
        errors.push(&kind, format!("unknown kind of graph `{name}`; did you mean `{ours}`?"));
    } else if !symbol::KINDS.contains(&&*name) {
        errors.push(&kind, unknown("kind of graph", &name, symbol::KINDS));
    }
    if !input.peek(syn::token::Brace) {
        let ours = known.unwrap_or(&name);
        return Err(syn::Error::new_spanned(&kind, format!("`{ours}` needs its fields: `{ours} {{ … }}`")));
    }
    let content;
    braced!(content in input);
    match known {
        Some(known) => {
            let mut body = body(&content, known, errors);
            if known == symbol::SIMPLE_GRAPH && body.compute.is_none() && !body.shapeless {
                errors.push(&kind, "a `SimpleGraph` runs one function: add `compute: function`");
                body.shapeless = true;
            }
            Ok(body)
        }
        None => Ok(GraphFields { shapeless: true, ..body(&content, symbol::GRAPH, &mut Errors::default()) }),
    }
}
