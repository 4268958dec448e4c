//! The code of a question.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::LitStr;
use syn::ext::IdentExt;
use syn::spanned::Spanned;

use super::parse::{QuestionModel, name_span};
use crate::graph::snake_case;

pub(super) fn expand(question: &QuestionModel, hier: &TokenStream) -> TokenStream {
    let QuestionModel { ident, answer, .. } = question;
    let text = ident.unraw().to_string();
    let name = question.name.as_ref().map_or_else(|| snake_case(&text), LitStr::value);
    let name = LitStr::new(&name, name_span(question));
    // If a check fails, the alias is unknown, so that the compiler reports the check and nothing else.
    let checks = [quote!(#ident), quote!(#answer)].into_iter().zip([ident.span(), answer.span()]);
    let checks = checks.map(|(ty, here)| quote_spanned!(here=> __hier::question_data::<#ty>();));
    quote! {
        #[allow(unused_qualifications)]
        const _: () = {
            use #hier as __hier;

            #[cfg(doc)]
            type __Checked = #ident;
            #[cfg(not(doc))]
            type __Checked = <__hier::Checked<#ident, { #(#checks)* true }> as __hier::Known>::Type;

            #[automatically_derived]
            impl __hier::DeclaredQuestion for #ident
            where
                __Checked: ::core::marker::Sized,
            {
                type Answer = #answer;
                const NAME: &'static ::core::primitive::str = #name;
                const IDENT: &'static ::core::primitive::str = #text;
                const MODULE: &'static ::core::primitive::str = ::core::module_path!();
            }
        };
    }
}
