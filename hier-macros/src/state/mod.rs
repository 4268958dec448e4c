//! `#[derive(State)]`: parse → model → check → expand.
//!
//! A mistake never stops the pipeline. The macro leaves out an invalid part or replaces it with the nearest valid one.
//! The state, its update and its keys therefore always exist, and only the mistake is reported.

mod check;
mod expand;
mod model;
mod parse;
#[cfg(test)]
mod tests;

use proc_macro2::{Ident, TokenStream};
use syn::ext::IdentExt;

use crate::crate_path::Hier;
use crate::diag::Errors;

/// The hash of a field's name, by which generated code names the field in constants.
pub(crate) fn field_hash(field: &Ident) -> u64 {
    expand::hash64(&field.unraw().to_string())
}

pub(crate) fn derive(input: TokenStream, hier: &Hier) -> TokenStream {
    let mut errors = Errors::default();
    let Some(input) = errors.keep(syn::parse2(input)) else { return errors.into_tokens() };
    let input = parse::parse(input, &mut errors);
    let hier = hier.path(input.home.as_ref(), &mut errors);
    let mut model = model::build(&input, hier);
    check::check(&input, &model, &mut errors);
    if !errors.is_empty() {
        model.make_names_unique();
    }
    let code = expand::expand(&model);
    let errors = errors.into_tokens();
    quote::quote!(#errors #code)
}
