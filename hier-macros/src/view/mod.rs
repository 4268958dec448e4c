//! `#[derive(View)]`: parse → check → expand.
//!
//! A view is a struct of some of a state's fields. One that borrows is what a node takes; one that owns is the input or
//! the output of a graph. Its fields are named like the state's, and the compiler itself resolves them: they become
//! fields of the state's keys.

mod expand;
mod parse;

use proc_macro2::TokenStream;

use crate::crate_path::Hier;
use crate::diag::Errors;

/// The derive: errors, all of them, and the code.
pub(crate) fn derive(input: TokenStream, hier: &Hier) -> TokenStream {
    let mut errors = Errors::default();
    let view = errors.keep(syn::parse2(input)).and_then(|input| parse::parse(input, &mut errors));
    let code = view.map(|view| {
        let hier = hier.path(view.home.as_ref(), &mut errors);
        expand::expand(&view, &hier)
    });
    let errors = errors.into_tokens();
    quote::quote!(#errors #code)
}
