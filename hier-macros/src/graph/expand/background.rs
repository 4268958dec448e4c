//! Subagents in the background.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};

use super::super::ast::agent::{AgentFields, Attachment, PolicyFields};

/// The fields of the policy.
pub(super) fn fields(policy: &PolicyFields) -> TokenStream {
    let flags = [&policy.background, &policy.detached].into_iter().flatten();
    flags.map(|(word, flag)| quote!(#word: __hier::core::option::Option::Some(#flag),)).collect()
}

/// A check of a subagent in the background: its own policy returns no channels, either.
pub(super) fn returns(attachment: &Attachment, constant: &Ident, name: &str) -> Option<TokenStream> {
    let word = attachment.in_background()?;
    let message = format!(
        "the policy of `{name}` merges or discards channels, but only the report of a background subagent returns: replace its list here, \
         `merge_fields: []`"
    );
    Some(quote_spanned!(word.span()=> __hier::core::assert!(!#constant.returns_fields(), #message);))
}

/// A check of a tool or subagent: it does not have the name of a tool that a subagent in the background adds.
pub(super) fn check(agent: &AgentFields, here: Span, name: &TokenStream, owner: &str) -> Option<TokenStream> {
    agent.subagents.iter().find_map(Attachment::in_background)?;
    let message = format!("{owner} has the name of a tool that `background: true` adds: rename it");
    Some(quote_spanned!(here=> const _: () = __hier::core::assert!(!__hier::is_background_tool(#name), #message);))
}
