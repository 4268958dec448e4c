//! The errors of one macro call: collected while going on, reported all at once; and the words that were read, for editors.

use std::fmt::Display;

use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;

use crate::words::Words;

/// The errors found so far, in the order of their report.
#[derive(Default)]
pub(crate) struct Errors {
    found: Vec<syn::Error>,
    /// What was read so far.
    pub(crate) words: Words,
}

impl Errors {
    /// An error at all of these tokens.
    pub(crate) fn push(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.found.push(syn::Error::new_spanned(tokens, message));
    }

    /// An error at this place.
    pub(crate) fn at(&mut self, span: Span, message: impl Display) {
        self.found.push(syn::Error::new(span, message));
    }

    /// An error that a parser made; it may consist of several.
    pub(crate) fn combine(&mut self, error: syn::Error) {
        self.found.push(error);
    }

    /// The value of a result; its error is kept for the report.
    pub(crate) fn keep<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.combine(error)).ok()
    }

    /// The number of errors so far.
    pub(crate) fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether nothing is wrong.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The report: one `compile_error!` for each error, at its tokens.
    pub(crate) fn into_tokens(self) -> TokenStream {
        self.found.iter().map(syn::Error::to_compile_error).collect()
    }
}

/// The error text for a word that is not among those known at its place.
pub(crate) fn unknown(what: &str, word: &str, known: &[&str]) -> String {
    format!("unknown {what} `{word}`{}", hier_spec::did_you_mean(word, known.iter().copied()))
}

/// A name of the generated code, shown at a place of the user's. It is resolved where the macro is called, whatever the
/// place: a type that comes from the caller of a `macro_rules!` does not see what the macro binds.
pub(crate) fn local(name: &str, here: Span) -> Ident {
    Ident::new(name, Span::call_site().located_at(here))
}
