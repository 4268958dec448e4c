//! `#[derive(View)]`: parse → check → expand.
//!
//! A view is a struct of some fields of a state. A view that borrows is the parameter of a node. A view that owns its
//! values is the return value of a node, or the input or output of a graph. The compiler resolves the field names,
//! which are fields of the state's keys.

mod expand;
mod parse;

use proc_macro2::TokenStream;

use crate::crate_path::Hier;
use crate::diag::Errors;

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
