//! `#[tool]`: parse → check → expand.
//!
//! The function stays what it is. Beside it comes a type of its name, which is the tool; what was understood is
//! generated even where something is wrong, so that the type is there and no errors follow elsewhere.

mod check;
mod context;
mod expand;
mod model;
mod parse;

use proc_macro2::{Span, TokenStream};
use quote::quote;

use crate::crate_path::Hier;
use crate::diag::Errors;

/// Expands `#[tool(options)] item`.
pub(crate) fn expand(options: TokenStream, item: &TokenStream, hier: &Hier) -> TokenStream {
    let mut errors = Errors::default();
    let options = parse::options(options, &mut errors);
    let Some(function) = parse::function(item, &mut errors) else {
        let errors = errors.into_tokens();
        return quote!(#item #errors);
    };
    let hier = hier.with_agents(options.home.as_ref(), &mut errors).unwrap_or_else(|| {
        let fix = "add `hier` or `hier-agents` to its dependencies";
        errors
            .at(Span::call_site(), format!("tools are for agents, and this crate depends on `hier-core` alone: {fix}"));
        hier.path(options.home.as_ref(), &mut errors)
    });
    let tool = parse::tool(function, options, &mut errors);
    check::check(&tool, &mut errors);
    let sound = errors.is_empty();
    let errors = errors.into_tokens();
    let code = expand::expand(&tool, &hier, sound);
    quote!(#code #errors)
}

#[cfg(test)]
mod tests;
