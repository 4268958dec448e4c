//! The context of the runs in which a tool can be called.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Ident, Type};

use super::model::Tool;
use crate::symbol;

/// Under which contexts a tool can be used.
pub(super) enum Context<'a> {
    /// Under each: it takes no run.
    Any,
    /// Under each of which its own is a part: every context has none, those of agents have a `BaseContext`.
    Part(&'a Type),
    /// Under each that the function's own parameter allows.
    Parameter(&'a Ident),
    /// Under its own.
    Own(&'a Type),
}

impl<'a> Context<'a> {
    pub(super) fn of(tool: &'a Tool) -> Self {
        let Some(ty) = tool.context() else { return Self::Any };
        let is_part = match ty {
            Type::Tuple(tuple) => tuple.elems.is_empty(),
            Type::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == symbol::BASE_CONTEXT),
            _ => false,
        };
        match tool.function.sig.generics.type_params().next() {
            Some(parameter) => Self::Parameter(&parameter.ident),
            None if is_part => Self::Part(ty),
            None => Self::Own(ty),
        }
    }

    /// The context of the tasks for which it is a tool.
    pub(super) fn ty(&self) -> TokenStream {
        match self {
            Self::Any | Self::Part(_) => quote!(__Context),
            Self::Parameter(ident) => ident.to_token_stream(),
            Self::Own(ty) => ty.to_token_stream(),
        }
    }

    /// The parameter of the implementation.
    pub(super) fn parameter(&self, tool: &Tool) -> Option<TokenStream> {
        let every = quote!(::core::marker::Send + ::core::marker::Sync + 'static);
        match self {
            Self::Any | Self::Part(Type::Tuple(_)) => Some(quote!(, __Context: #every)),
            Self::Part(ty) => Some(quote_spanned!(ty.span()=> , __Context: ::core::convert::AsRef<#ty> + #every)),
            Self::Parameter(ident) => {
                let parameter = tool.function.sig.generics.type_params().next();
                let bounds = parameter.into_iter().flat_map(|parameter| &parameter.bounds);
                Some(quote!(, #ident: #(#bounds +)* #every))
            }
            Self::Own(_) => None,
        }
    }

    /// The run with the part of the context that the function takes, if it takes a part.
    pub(super) fn run(&self) -> Option<TokenStream> {
        match self {
            Self::Part(Type::Tuple(_)) => Some(quote!(let __run = __hier::narrowed(__task.run(), |_| ());)),
            Self::Part(ty) => Some(quote! {
                let __run = __hier::narrowed(__task.run(), |__context| {
                    ::core::clone::Clone::clone(::core::convert::AsRef::<#ty>::as_ref(__context))
                });
            }),
            _ => None,
        }
    }
}
