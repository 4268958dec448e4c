//! `#[tool]`: parse → check → expand.
//!
//! The function stays what it is. Beside it comes a type of its name, which is the tool; what was understood is
//! generated even where something is wrong, so that the type is there and no errors follow elsewhere.

mod check;
mod expand;
mod model;
mod parse;

use proc_macro2::TokenStream;
use quote::quote;

use crate::diag::Errors;

/// Expands `#[tool(options)] item`.
pub(crate) fn expand(options: TokenStream, item: &TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let options = parse::options(options, &mut errors);
    let Some(function) = parse::function(item, &mut errors) else {
        let errors = errors.into_tokens();
        return quote!(#item #errors);
    };
    let tool = parse::tool(function, options, &mut errors);
    check::check(&tool, &mut errors);
    let sound = errors.is_empty();
    let errors = errors.into_tokens();
    let code = expand::expand(&tool, sound);
    quote!(#code #errors)
}

#[cfg(test)]
mod tests;
