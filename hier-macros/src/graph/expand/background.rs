//! Subagents in the background.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};

use super::super::ast::agent::{AgentFields, Attachment, PolicyFields};

pub(super) fn fields(policy: &PolicyFields) -> TokenStream {
    let flags = [&policy.background, &policy.detached].into_iter().flatten();
    flags.map(|(word, flag)| quote!(#word: __hier::core::option::Option::Some(#flag),)).collect()
}

/// Checks that the own policy of a background subagent returns no channels.
pub(super) fn returns(attachment: &Attachment, constant: &Ident, name: &str) -> Option<TokenStream> {
    let word = attachment.in_background()?;
    let message = format!(
        "the policy of `{name}` merges or discards channels, but only the report of a background subagent returns: replace its list here, \
         `merge_fields: []`"
    );
    Some(quote_spanned!(word.span()=> __hier::core::assert!(!#constant.returns_fields(), #message);))
}

/// Checks that a tool or subagent does not have the name of a tool that a background subagent adds.
pub(super) fn check(agent: &AgentFields, here: Span, name: &TokenStream, owner: &str) -> Option<TokenStream> {
    agent.subagents.iter().find_map(Attachment::in_background)?;
    let message = format!("{owner} has the name of a tool that `background: true` adds: rename it");
    Some(quote_spanned!(here=> const _: () = __hier::core::assert!(!__hier::is_background_tool(#name), #message);))
}
