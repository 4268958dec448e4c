//! Values that setters of builders take.

use proc_macro2::Span;
use syn::parse::ParseStream;
use syn::parse::discouraged::Speculative;
use syn::spanned::Spanned;
use syn::{Expr, Ident, Path, Result, braced};

use super::{always, colon, doubled, list, no_such, skip_value};
use crate::diag::Errors;

/// Parses the argument of the builder method of this name.
pub(super) fn set(input: ParseStream<'_>, word: &Ident, errors: &mut Errors) -> Result<Expr> {
    let value = input.parse()?;
    errors.words.set(&word.to_string(), &value);
    Ok(value)
}

/// The options inside braces, with their location.
pub(super) type Setters = (Span, Vec<(Ident, Expr)>);

/// `Owner { option: value }`, with its location: the setters of a type. Returns `None` for another expression.
pub(super) fn setters(
    input: ParseStream<'_>,
    (owner, known): (&'static str, &[&str]),
    errors: &mut Errors,
) -> Result<Option<Setters>> {
    let ahead = input.fork();
    let path = ahead
        .parse::<Path>()
        .ok()
        .filter(|path| path.segments.last().is_some_and(|last| last.ident == owner) && ahead.peek(syn::token::Brace));
    let Some(path) = path else { return Ok(None) };
    input.advance_to(&ahead);
    let content;
    braced!(content in input);
    let mut given = Vec::new();
    let braces = errors.words.braces(owner);
    let fields = list(&content, errors, always, |input, errors| {
        let word: Ident = input.parse()?;
        errors.words.field(braces, &word);
        doubled("option", &word, &mut given, errors);
        if !known.contains(&&*word.to_string()) {
            skip_value(input);
            return Err(syn::Error::new_spanned(&word, no_such(&format!("`{owner}`"), "option", &word, known)));
        }
        colon(input, &word, "…")?;
        Ok((word, super::value(input, errors)?))
    });
    Ok(Some((path.span(), fields.found)))
}
