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
    // The compiler reports an answer that cannot be stored at its type.
    let answer = quote_spanned!(answer.span()=> type Answer = #answer;);
    quote! {
        #[allow(unused_qualifications)]
        const _: () = {
            use #hier as __hier;

            #[automatically_derived]
            impl __hier::DeclaredQuestion for #ident {
                #answer
                const NAME: &'static ::core::primitive::str = #name;
                const IDENT: &'static ::core::primitive::str = #text;
                const MODULE: &'static ::core::primitive::str = ::core::module_path!();
            }
        };
    }
}
