//! Checks that no prompt, answer, report or output shows a secret channel. Each check has the span of the user's token.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Expr, Type};

use super::super::ast::agent::AgentFields;

/// Returns true for a function, whose type shows which channels it reads. A path may also name a constant text.
pub(super) fn is_checked(value: &Expr) -> bool {
    matches!(value, Expr::Path(_) | Expr::Closure(_))
}

/// Returns the name of the function that makes a prompt.
pub(super) fn function(method: &str) -> Ident {
    format_ident!("__hier_{method}")
}

/// `.system(text)`, or `.checked_system(function)`.
pub(super) fn setter(method: &str, value: Option<&Expr>) -> Option<TokenStream> {
    let value = value?;
    let set = Ident::new(method, value.span());
    if !is_checked(value) {
        return Some(quote_spanned!(value.span()=> .#set(#value)));
    }
    let (set, make) = (format_ident!("checked_{method}"), function(method));
    Some(quote!(.#set(|__state| __hier::Prompt::into_text(#make(__state)))))
}

pub(super) fn checks(agent: &AgentFields, state: &Type) -> TokenStream {
    let prompts = [("system", &agent.system), ("reasoning", &agent.reasoning)].map(|(method, value)| {
        let value = value.as_ref().filter(|value| is_checked(value))?;
        let make = function(method);
        let lifetime = syn::Lifetime::new("'__state", Span::mixed_site());
        let given = Ident::new("__state", Span::mixed_site().located_at(value.span()));
        let prompt = quote_spanned!(value.span()=> __hier::prompt(#given, #value));
        let refused = quote_spanned! {value.span()=>
            const _: () = __hier::core::assert!(!__hier::shows_secret(#make), #PROMPT);
        };
        Some(quote! {
            fn #make<#lifetime>(#given: &#lifetime #state) -> impl __hier::Prompt + use<#lifetime> { #prompt }
            #refused
        })
    });
    let written = [("answer", &agent.answer), ("report_into", &agent.report_into)];
    let written = written.into_iter().filter_map(|(field, channel)| Some((field, channel.as_ref()?)));
    let written = written.map(|(field, channel)| {
        let message = format!(
            "a model writes `{field}`, so the conversation has what the secret channel `{channel}` would hide: use another channel"
        );
        hidden(state, channel, &message)
    });
    let (prompts, written) = (prompts.into_iter().flatten(), written.collect::<TokenStream>());
    quote!(#(#prompts)* #written)
}

const PROMPT: &str = "this prompt reads a secret channel, which a model must not see: take a view without it, as \
                      `fn prompt(view: Summary<'_>) -> String`";

/// Generates the check that a channel is not secret.
pub(in super::super) fn hidden(state: &Type, channel: &Ident, message: &str) -> TokenStream {
    let field = channel.unraw().to_string();
    quote_spanned! {channel.span()=>
        const _: () = __hier::core::assert!(!<#state as __hier::State>::CHANNELS.hides(#field), #message);
    }
}

/// Generates the check that the inbox is not secret.
pub(in super::super) fn inbox(channel: Option<&Ident>, state: &Type) -> Option<TokenStream> {
    let message = "messages for an inbox can be listed, so the inbox cannot be secret: use another channel";
    Some(hidden(state, channel?, message))
}

/// Generates the check that the output shows no secret channel.
pub(in super::super) fn output(view: Option<&Type>) -> Option<TokenStream> {
    let view = view?;
    let message = "this output shows a secret channel, which does not leave a run: remove the field from the view";
    Some(quote_spanned! {view.span()=>
        const _: () = {
            #[allow(unused_imports)]
            use __hier::MayShow as _;
            __hier::core::assert!(!__hier::Shown::<#view>::SECRET, #message)
        };
    })
}
