//! `#[tool]`: parse → check → expand.
//!
//! The function stays as it is. The macro adds a type of the same name, which is the tool. The type exists even after a
//! mistake, so that no errors follow elsewhere.

mod arguments;
mod check;
mod client;
mod context;
mod expand;
mod facts;
mod model;
mod parse;
mod trust;

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::Attribute;

use crate::crate_path::Hier;
use crate::diag::Errors;

pub(crate) fn expand(options: TokenStream, item: &TokenStream, hier: &Hier) -> TokenStream {
    let mut errors = Errors::default();
    let options = parse::options(options, &mut errors);
    let Some(function) = parse::function(item, &options, &mut errors) else {
        let errors = errors.into_tokens();
        return quote!(#item #errors);
    };
    // Both calls would generate the tool.
    if let Some(again) = function.0.attrs.iter().find(|attribute| is_tool(attribute, hier)) {
        errors.push(again, "`#[tool]` is given twice: remove one");
        let errors = errors.into_tokens();
        return quote!(#item #errors);
    }
    let hier = hier.with_agents(options.home.as_ref(), &mut errors).unwrap_or_else(|| {
        let fix = "add `hier-graph` or `hier-agents` to its dependencies";
        errors
            .at(Span::call_site(), format!("tools are for agents, but this crate depends only on `hier-core`: {fix}"));
        hier.path(options.home.as_ref(), &mut errors)
    });
    let tool = parse::tool(function, options, &mut errors);
    if tool.function.sig.receiver().is_some() {
        return expand::method(&tool, &errors.into_tokens());
    }
    check::check(&tool, &mut errors);
    let sound = errors.is_empty();
    let errors = errors.into_tokens();
    let code = expand::expand(&tool, &hier, sound);
    quote!(#code #errors)
}

/// Returns true for this macro by its name or by a path in hier, and false for the `tool` of another crate.
fn is_tool(attribute: &Attribute, hier: &Hier) -> bool {
    let segments = &attribute.path().segments;
    segments.last().is_some_and(|last| last.ident == "tool")
        && (segments.len() == 1 || segments.first().is_some_and(|first| hier.is_named(&first.ident)))
}

/// Returns the items in the attribute of a tool's type. They are not next to the type, because the compiler would
/// report each of them in an `impl` block, where none is possible.
pub(crate) fn items(input: TokenStream) -> TokenStream {
    let items = |input: syn::DeriveInput| {
        let packed = input.attrs.into_iter().filter(|attribute| attribute.path().is_ident("tool_items"));
        packed.map(|attribute| Ok(attribute.meta.require_list()?.tokens.clone())).collect::<syn::Result<TokenStream>>()
    };
    syn::parse2(input).and_then(items).unwrap_or_else(|error| error.to_compile_error())
}

#[cfg(test)]
mod tests;
