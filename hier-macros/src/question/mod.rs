//! `#[derive(Question)]`: parse → check → expand.

mod expand;
mod parse;

use proc_macro2::TokenStream;

use crate::crate_path::Hier;
use crate::diag::Errors;

pub(crate) fn derive(input: TokenStream, hier: &Hier) -> TokenStream {
    let mut errors = Errors::default();
    let question = errors.keep(syn::parse2(input)).and_then(|input| parse::parse(&input, &mut errors));
    let code = question.map(|question| {
        let hier = hier.path(question.home.as_ref(), &mut errors);
        expand::expand(&question, &hier)
    });
    let errors = errors.into_tokens();
    quote::quote!(#errors #code)
}
