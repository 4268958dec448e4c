//! The code of layers: arguments of `AgentBuilder::layer`.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Expr, Path, PathArguments};

use super::super::ast::agent::LayerExpr;
use crate::symbol::Infer;

pub(in super::super) fn span(layer: &LayerExpr) -> Span {
    match layer {
        LayerExpr::Fields(path, _)
        | LayerExpr::Literal(path, _)
        | LayerExpr::Made(path, ..)
        | LayerExpr::Wrapper(path, _) => path.span(),
        LayerExpr::Method(receiver, _) => span(receiver),
        LayerExpr::Given(expression) => expression.span(),
    }
}

/// Returns the name in drawings: the layer's type, as far as the syntax shows the type.
pub(super) fn name(layer: &LayerExpr) -> String {
    match layer {
        LayerExpr::Fields(path, _) | LayerExpr::Literal(path, _) | LayerExpr::Made(path, ..) => type_of(path),
        LayerExpr::Wrapper(path, inner) => format!("{}({})", type_of(path), name(inner)),
        LayerExpr::Method(receiver, _) => name(receiver),
        LayerExpr::Given(expression) => made_by(expression).map_or_else(|| "a layer".to_owned(), type_of),
    }
}

/// The type in a path: `Tone` in `Tone::new`. Defaults to the last segment.
fn type_of(path: &Path) -> String {
    let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.unraw().to_string()).collect();
    let is_type =
        |name: &&String| name.chars().next().is_some_and(char::is_uppercase) && name.chars().any(char::is_lowercase);
    names.iter().rfind(is_type).or(names.last()).cloned().unwrap_or_default()
}

/// Returns the first path in an expression.
fn made_by(expression: &Expr) -> Option<&Path> {
    match expression {
        Expr::Path(path) => Some(&path.path),
        Expr::Struct(literal) => Some(&literal.path),
        Expr::Call(call) => made_by(&call.func),
        Expr::MethodCall(call) => made_by(&call.receiver),
        Expr::Paren(inner) => made_by(&inner.expr),
        _ => None,
    }
}

pub(in super::super) fn layer(layer: &LayerExpr, state: &TokenStream, context: &TokenStream) -> TokenStream {
    let here = span(layer);
    match layer {
        LayerExpr::Fields(path, given) => {
            let fields = given.iter().map(|(field, value)| quote_spanned!(field.span()=> .#field(#value)));
            // A closure in a field is a function of the context.
            let has_closure = given.iter().any(|(_, value)| matches!(value, Expr::Closure(_)));
            let of = (has_closure && is_plain(path)).then(|| quote!(::<#context>));
            quote_spanned!(here=> #path #of::new() #(#fields)*)
        }
        LayerExpr::Literal(path, fields) => {
            let fields = fields.iter().map(|(field, value)| quote!(#field: #value,));
            quote_spanned! {here=>
                #path {
                    #(#fields)*
                    ..::core::default::Default::default()
                }
            }
        }
        LayerExpr::Made(path, infer, arguments) => {
            let of = match infer {
                Infer::Context => Some(context),
                Infer::State if matches!(arguments.first(), Some(Expr::Closure(_))) => Some(state),
                Infer::State | Infer::Nothing => None,
            };
            let of = of.filter(|_| is_plain(path)).map(|of| quote!(::<#of>));
            quote_spanned!(here=> #path #of::new(#(#arguments),*))
        }
        LayerExpr::Wrapper(path, inner) => {
            // An inherited layer sees the base of a state.
            let inner = self::layer(inner, &quote!(__hier::BaseState), context);
            quote_spanned!(here=> #path::new(#inner))
        }
        LayerExpr::Method(receiver, call) => {
            let (receiver, method, arguments) = (self::layer(receiver, state, context), &call.method, &call.args);
            let turbofish = &call.turbofish;
            quote_spanned!(method.span()=> #receiver.#method #turbofish (#arguments))
        }
        LayerExpr::Given(expression) => expression.to_token_stream(),
    }
}

/// Returns true if the path has no type arguments.
fn is_plain(path: &Path) -> bool {
    path.segments.last().is_some_and(|last| matches!(last.arguments, PathArguments::None))
}
