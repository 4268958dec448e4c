//! The parser. After an error, it continues at the next comma, so that it reports all mistakes of a call at once and
//! keeps the rest of the graph.

mod agent;
mod asks;
mod duration;
mod edge;
mod head;
mod layers;
mod node;
mod search;
mod setters;
mod trust;

pub(crate) use duration::{NO_TIME, positive};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::discouraged::Speculative;
use syn::parse::{Parse, ParseStream, Parser};
use syn::{Ident, LitStr, Path, Result, Token, Type, braced, bracketed};

use super::ast::{Ast, GraphFields, ParsedList};
use crate::diag::Errors;
use crate::symbol;
use crate::words::Words;

/// Parses a call of `graph!`. Returns `None` only without the graph's name.
pub(super) fn parse(input: TokenStream, errors: &mut Errors) -> Option<Ast> {
    let call = |input: ParseStream<'_>| {
        let result = head::graph(input, errors);
        pass_over(input); // reported already, or about to be
        result
    };
    let result = call.parse2(input);
    errors.keep(result)
}

fn body(input: ParseStream<'_>, kind: &'static str, errors: &mut Errors) -> GraphFields {
    let known = symbol::fields(kind);
    let braces = errors.words.braces(kind);
    let agent = agent::kind(kind);
    let mut body = GraphFields { agent, ..GraphFields::default() };
    let mut given = Vec::new();
    let mut shapeless = false;
    let fields = list(input, errors, always, |input, errors| {
        let word: Ident = input.call(Ident::parse_any)?;
        errors.words.field(braces, &word);
        shapeless |= given.contains(&word) && SHAPE.contains(&&*word.to_string());
        doubled("field", &word, &mut given, errors);
        if !known.contains(&&*word.to_string()) {
            skip_value(input);
            shapeless = true;
            errors.push(&word, no_field(kind, &word, &known));
            return Ok(());
        }
        let result = colon(input, &word, "…").and_then(|()| field(input, &word, &mut body, errors));
        shapeless |= result.is_err() && SHAPE.contains(&&*word.to_string());
        result
    });
    // Items before a missing comma are known. Items after it are lost.
    let is_shape = |word: &Ident| SHAPE.contains(&&*word.to_string());
    let lost = fields.broken && !given.iter().any(is_shape);
    body.shapeless = shapeless || lost || fields.lost.iter().any(is_shape);
    body
}

/// The fields that declare nodes and edges.
const SHAPE: &[&str] = &[symbol::NODES, symbol::EDGES, symbol::COMPUTE];

fn field(input: ParseStream<'_>, word: &Ident, body: &mut GraphFields, errors: &mut Errors) -> Result<()> {
    match &*word.to_string() {
        symbol::NODES => body.nodes = bracket(input, "a list of nodes", errors, node::node)?,
        symbol::EDGES => {
            let before = errors.len();
            body.edges = bracket(input, "a list of edges", errors, edge::chain)?;
            // A list or a route inside an edge may have lost a node.
            body.edges.broken |= errors.len() > before;
        }
        symbol::COMPUTE => body.compute = Some(node::node(input, errors)?),
        symbol::INPUT => (body.trust.untrusted, body.input) = trust::input(input, errors)?,
        symbol::ALLOW => {
            // The macro reports a mistake in the reason without the leak that the reason accepts.
            body.trust.allowed = true;
            trust::allow(input)?;
        }
        symbol::OUTPUT => body.output = Some(ty(input, errors)?),
        symbol::INTERRUPT_BEFORE => body.before = names(input, "a list of nodes", Words::node, errors)?,
        symbol::INTERRUPT_AFTER => body.after = names(input, "a list of nodes", Words::node, errors)?,
        symbol::NAME => body.name = Some(input.parse::<LitStr>()?),
        symbol::DESCRIPTION => body.description = Some(input.parse::<LitStr>()?),
        symbol::ASKS => body.asks = Some(bracket(input, "a list of questions", errors, asks::item)?),
        symbol::CRATE => body.home = Some(input.call(Path::parse_mod_style)?),
        _ => return agent::field(input, word, body, errors),
    }
    Ok(())
}

fn names(
    input: ParseStream<'_>,
    what: &str,
    note: fn(&mut Words, &Ident),
    errors: &mut Errors,
) -> Result<ParsedList<Ident>> {
    bracket(input, what, errors, |input, errors| name(input, "expected a name", note, errors))
}

fn ty(input: ParseStream<'_>, errors: &mut Errors) -> Result<Type> {
    let ty = input.parse()?;
    errors.words.ty(&ty);
    Ok(ty)
}

fn value<T: Parse + ToTokens>(input: ParseStream<'_>, errors: &mut Errors) -> Result<T> {
    let value = input.parse()?;
    errors.words.value(&value);
    Ok(value)
}

/// Parses the name of a node or a channel, START or END.
fn name(input: ParseStream<'_>, expected: &str, note: fn(&mut Words, &Ident), errors: &mut Errors) -> Result<Ident> {
    if !input.peek(Ident) {
        return Err(input.error(expected));
    }
    let name: Ident = input.parse()?;
    note(&mut errors.words, &name);
    if input.peek(Token![::]) {
        let message = "a node is named by its name alone here, not by a path";
        return Err(syn::Error::new_spanned(name, message));
    }
    Ok(name)
}

fn bracket<T>(
    input: ParseStream<'_>,
    what: &str,
    errors: &mut Errors,
    item: impl FnMut(ParseStream<'_>, &mut Errors) -> Result<T>,
) -> Result<ParsedList<T>> {
    if !input.peek(syn::token::Bracket) {
        return Err(input.error(format!("expected {what}: `[…]`")));
    }
    let content;
    bracketed!(content in input);
    Ok(list(&content, errors, always, item))
}

fn always<T>(_: &T) -> bool {
    true
}

const NO_ATTRIBUTES: &str =
    "attributes and doc comments are not possible here: for `#[cfg(…)]`, write it above a `graph! { … }`";

/// Items separated by commas. Reports an item that cannot be parsed and continues at the next comma.
fn list<T>(
    input: ParseStream<'_>,
    errors: &mut Errors,
    needs_comma: fn(&T) -> bool,
    mut item: impl FnMut(ParseStream<'_>, &mut Errors) -> Result<T>,
) -> ParsedList<T> {
    let mut items = ParsedList::default();
    while !input.is_empty() {
        let ahead = input.fork();
        if input.peek(Token![#]) {
            errors.combine(input.error(NO_ATTRIBUTES));
            skip(input, &ahead, &mut items);
            let _ = input.parse::<Option<Token![,]>>();
            continue;
        }
        match item(&ahead, errors) {
            Ok(item) => {
                let comma = needs_comma(&item);
                items.found.push(item);
                input.advance_to(&ahead);
                if comma && !input.is_empty() && !input.peek(Token![,]) {
                    errors.combine(input.error("expected `,`"));
                    skip(input, &ahead, &mut items);
                }
            }
            Err(error) => {
                errors.combine(error);
                skip(input, &ahead, &mut items);
            }
        }
        // The item needed no comma, or the comma is next.
        let _ = input.parse::<Option<Token![,]>>();
    }
    items
}

/// Skips to the first comma that does not precede `failed`, where parsing stopped.
fn skip<T>(input: ParseStream<'_>, failed: ParseStream<'_>, items: &mut ParsedList<T>) {
    items.broken = true;
    while !input.is_empty() && (input.cursor() < failed.cursor() || !input.peek(Token![,])) {
        match input.parse() {
            Ok(token) => lost_words(token, &mut items.lost),
            Err(_) => return,
        }
    }
}

/// Collects identifiers, also in groups and in string literals: `("fetch", fetch)` is the declaration of a node in other
/// frameworks.
fn lost_words(token: TokenTree, lost: &mut Vec<Ident>) {
    match token {
        TokenTree::Ident(word) => lost.push(word),
        TokenTree::Group(group) => group.stream().into_iter().for_each(|token| lost_words(token, lost)),
        TokenTree::Literal(literal) => {
            lost.extend(
                syn::parse_str::<LitStr>(&literal.to_string()).ok().and_then(|text| text.parse::<Ident>().ok()),
            );
        }
        TokenTree::Punct(_) => {}
    }
}

fn skip_value(input: ParseStream<'_>) {
    while !input.is_empty() && !input.peek(Token![,]) {
        if input.parse::<TokenTree>().is_err() {
            return;
        }
    }
}

fn pass_over(input: ParseStream<'_>) {
    while input.parse::<TokenTree>().is_ok() {}
}

fn colon(input: ParseStream<'_>, word: &Ident, example: &str) -> Result<()> {
    if input.peek(Token![:]) && !input.peek(Token![::]) {
        input.parse::<Token![:]>()?;
        if !input.is_empty() && !input.peek(Token![,]) {
            return Ok(());
        }
    }
    Err(syn::Error::new_spanned(word, format!("`{word}` needs a value: `{word}: {example}`")))
}

fn no_such(owner: &str, what: &str, word: &Ident, known: &[&str]) -> String {
    let word = word.to_string();
    format!("{owner} has no {what} `{word}`{}", hier_spec::did_you_mean(&word, known.iter().copied()))
}

fn no_field(kind: &str, field: &Ident, known: &[&str]) -> String {
    let (owner, word) = (symbol::with_article(kind), field.to_string());
    let edges = if known.contains(&symbol::EDGES) { symbol::FOREIGN_EDGES } else { &[] };
    if let Some((_, ours)) = symbol::FOREIGN.iter().chain(edges).find(|(foreign, _)| *foreign == word) {
        return format!("{owner} has no field `{word}`: {ours}");
    }
    let others = symbol::kinds_with(&word);
    if !others.is_empty() {
        let others: Vec<String> = others.into_iter().map(symbol::with_article).collect();
        return format!("{owner} has no field `{word}`: it is a field of {}", others.join(" and "));
    }
    no_such(&owner, "field", field, known)
}

/// `{ option: value }`: options, each at most once. With an owner, editors complete their words as its fields.
fn options(
    input: ParseStream<'_>,
    owner: Option<&'static str>,
    errors: &mut Errors,
    mut option: impl FnMut(ParseStream<'_>, &Ident, &mut Errors) -> Result<()>,
) -> Result<()> {
    let content;
    braced!(content in input);
    let mut given = Vec::new();
    let braces = owner.map(|owner| errors.words.braces(owner));
    list(&content, errors, always, |input, errors| {
        let word: Ident = input.call(Ident::parse_any)?;
        if let Some(braces) = braces {
            errors.words.field(braces, &word);
        }
        doubled("option", &word, &mut given, errors);
        option(input, &word, errors)
    });
    Ok(())
}

/// Reports the second use of a word.
fn doubled(what: &str, word: &Ident, given: &mut Vec<Ident>, errors: &mut Errors) {
    if let Some(first) = given.iter().find(|other| *other == word) {
        errors.push(word, format!("the {what} `{word}` is given twice: remove one"));
        errors.push(first, format!("… also here: the {what} `{word}` is given twice"));
    } else {
        given.push(word.clone());
    }
}
