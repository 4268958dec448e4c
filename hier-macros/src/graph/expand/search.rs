//! The search for tools.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::spanned::Spanned;

use super::super::ast::agent::{AgentFields, SearchExpr};

pub(super) fn setter(search: &SearchExpr) -> TokenStream {
    match search {
        SearchExpr::Flag(flag) => quote_spanned!(flag.span()=> .search(#flag)),
        SearchExpr::Given(given) => quote_spanned!(given.span()=> .search(#given)),
        SearchExpr::Fields(here, fields) => {
            let fields = fields.iter().map(|(option, value)| quote_spanned!(option.span()=> .#option(#value)));
            quote_spanned!(*here=> .search(__hier::ToolSearch::new() #(#fields)*))
        }
    }
}

/// Checks that a tool or subagent does not have the name of the tool that the search adds.
pub(super) fn check(agent: &AgentFields, here: Span, name: &TokenStream, owner: &str) -> Option<TokenStream> {
    let is_off = |search: &SearchExpr| matches!(search, SearchExpr::Flag(flag) if !flag.value);
    agent.search.as_ref().filter(|search| !is_off(search))?;
    let message = format!("{owner} has the name of the tool that `search` adds: rename it");
    Some(quote_spanned!(here=> const _: () = __hier::core::assert!(!__hier::is_search_tool(#name), #message);))
}
