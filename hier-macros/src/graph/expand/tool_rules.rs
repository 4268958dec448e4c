//! The rules of single tools and toolsets, and the probes for channels without text.

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};

use super::super::ast::agent::ToolItemOptions;
use crate::approval;

/// Returns an expression that is true if the values of the channel cannot carry text. Method resolution decides this,
/// in a closure that is never called.
pub(super) fn is_channel_text_free(state: &TokenStream, channel: &Ident) -> TokenStream {
    let probe = probe(state, channel);
    quote_spanned! {channel.span()=>
        __hier::answered(&|| {
            #[allow(unused_imports)]
            use __hier::{IsTextFree as _, MayHaveText as _};
            (&#probe).is_text_free()
        })
    }
}

pub(super) fn probe(state: &TokenStream, channel: &Ident) -> TokenStream {
    quote_spanned!(channel.span()=> __hier::probe(&<#state as __hier::State>::channels().#channel))
}

/// The value for `AgentBuilder::tool`.
pub(super) fn ruled_tool(tool: &TokenStream, options: &ToolItemOptions, context: &TokenStream) -> TokenStream {
    let value = quote!(<#tool as __hier::NamedTool>::TOOL);
    match &options.approve {
        Some(approval) => {
            let rule = approval.rule(tool, context);
            quote!(#rule.of(#value))
        }
        None => value,
    }
}

/// The `ToolsetOptions` of a toolset, if it has some.
pub(super) fn set_options(options: &ToolItemOptions, context: &TokenStream) -> Option<TokenStream> {
    let labels = options.labels.as_ref().map(|labels| {
        let labels = approval::labels(labels);
        quote!(.labels(#labels))
    });
    let approve = options.approve.as_ref().map(|approval| {
        let rule = approval.rule(&quote!(__hier::AnyTool), context);
        quote!(.approve(#rule))
    });
    (labels.is_some() || approve.is_some()).then(|| quote!(__hier::ToolsetOptions::<#context>::new() #labels #approve))
}
