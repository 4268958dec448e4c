//! The contexts in which a tool can be called.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Ident, Type};

use super::model::ToolModel;
use crate::symbol;

pub(super) enum Context<'a> {
    /// Any context: the tool takes no run.
    Any,
    /// Any context that contains this one. Every context contains `()`, and the contexts of agents contain a
    /// `BaseContext`.
    Part(&'a Type),
    /// Any context that satisfies the bounds of the function's parameter.
    Parameter(&'a Ident),
    /// This context only.
    Own(&'a Type),
}

impl<'a> Context<'a> {
    pub(super) fn of(tool: &'a ToolModel) -> Self {
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

    /// The context of the tasks that can call the tool.
    pub(super) fn ty(&self) -> TokenStream {
        match self {
            Self::Any | Self::Part(_) => quote!(__Context),
            Self::Parameter(ident) => ident.to_token_stream(),
            Self::Own(ty) => ty.to_token_stream(),
        }
    }

    pub(super) fn parameter(&self, tool: &ToolModel) -> Option<TokenStream> {
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

    /// The context of a condition, and its value.
    pub(super) fn of_condition(&self) -> (TokenStream, TokenStream) {
        match self {
            Self::Any | Self::Part(Type::Tuple(_)) => (quote!(()), quote!(&())),
            Self::Part(ty) => {
                (ty.to_token_stream(), quote!(::core::convert::AsRef::<#ty>::as_ref(__task.run().context())))
            }
            Self::Parameter(ident) => (ident.to_token_stream(), quote!(__task.run().context())),
            Self::Own(ty) => (ty.to_token_stream(), quote!(__task.run().context())),
        }
    }

    /// Binds the run with a part of the context, if the function takes a part.
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
