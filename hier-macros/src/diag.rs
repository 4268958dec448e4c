//! The errors of one macro call, which are collected and reported together, and the words that were read, for editors.

use std::fmt::Display;

use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;

use crate::words::Words;

#[derive(Default)]
pub(crate) struct Errors {
    found: Vec<syn::Error>,
    pub(crate) words: Words,
}

impl Errors {
    /// Adds an error whose span covers these tokens.
    pub(crate) fn push(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.found.push(syn::Error::new_spanned(tokens, message));
    }

    pub(crate) fn at(&mut self, span: Span, message: impl Display) {
        self.found.push(syn::Error::new(span, message));
    }

    /// Adds an error of a parser, which may contain several errors.
    pub(crate) fn combine(&mut self, error: syn::Error) {
        self.found.push(error);
    }

    /// Returns the value of a result, or adds its error.
    pub(crate) fn keep<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.combine(error)).ok()
    }

    pub(crate) fn len(&self) -> usize {
        self.found.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Returns one `compile_error!` for each error, at its tokens.
    pub(crate) fn into_tokens(self) -> TokenStream {
        self.found.iter().map(syn::Error::to_compile_error).collect()
    }
}

pub(crate) fn unknown(what: &str, word: &str, known: &[&str]) -> String {
    format!("unknown {what} `{word}`{}", hier_spec::did_you_mean(word, known.iter().copied()))
}

/// Returns a name of the generated code with the user's location. It resolves at the call of the macro, because a type
/// from the caller of a `macro_rules!` does not see what the macro binds.
pub(crate) fn local(name: &str, here: Span) -> Ident {
    Ident::new(name, Span::call_site().located_at(here))
}
