//! The arguments with which the generated code of a tool calls the function.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, Ident, Lit, Type};

use super::context::Context;
use super::model::{Need, ParamRole, ToolModel};
use crate::diag::local;

/// Returns the variables of the arguments, and the expressions that read them from the call.
pub(super) fn arguments(tool: &ToolModel) -> (Vec<Ident>, Vec<TokenStream>) {
    let arguments = tool.params.iter().enumerate().filter_map(|(place, param)| {
        let reader = |ty: &Type| local("__arguments", ty.span());
        let value = match &param.role {
            ParamRole::Whole(ty) => {
                let arguments = reader(ty);
                quote_spanned!(ty.span()=> #arguments.whole::<#ty>())
            }
            ParamRole::Argument(argument) => {
                let (ty, name, arguments) = (&argument.ty, argument.name(), reader(&argument.ty));
                match &argument.need {
                    Need::Required => quote_spanned!(ty.span()=> #arguments.required::<#ty>(#name)),
                    Need::Optional(inner) => quote_spanned!(ty.span()=> #arguments.optional::<#inner>(#name)),
                    Need::Default(default) => {
                        let here = Span::call_site().located_at(ty.span());
                        let default = default_value(default.as_ref(), here);
                        quote_spanned!(here=> #arguments.defaulted::<#ty>(#name, || #default))
                    }
                }
            }
            _ => return None,
        };
        Some((variable(place), value))
    });
    arguments.unzip()
}

/// Converts a string literal into the type of the argument, which is usually `String`.
fn default_value(default: Option<&Expr>, here: Span) -> TokenStream {
    match default {
        None => quote_spanned!(here=> ::core::default::Default::default()),
        Some(Expr::Lit(literal)) if matches!(literal.lit, Lit::Str(_)) => quote!(::core::convert::Into::into(#literal)),
        Some(value) => value.to_token_stream(),
    }
}

fn variable(place: usize) -> Ident {
    format_ident!("__argument_{place}", span = Span::mixed_site())
}

/// Returns the arguments with which the generated code calls the function.
pub(super) fn given(tool: &ToolModel, context: &Context<'_>) -> Vec<TokenStream> {
    let task = |here: Span| local("__task", here);
    let given = tool.params.iter().enumerate().map(|(place, param)| match &param.role {
        ParamRole::Argument(_) | ParamRole::Whole(_) => variable(place).to_token_stream(),
        ParamRole::Run(_) if matches!(context, Context::Part(_)) => quote!(&__run),
        ParamRole::Run(_) => {
            let task = task(param.span);
            quote_spanned!(param.span=> #task.run())
        }
        ParamRole::State(part) => {
            let task = task(part.span());
            quote_spanned!(part.span()=> <__State as __hier::Contains<#part>>::part(#task.state()))
        }
        ParamRole::Call => quote!(__call),
        ParamRole::CallId => quote!(__hier::ToolCallId::new(__call.id.as_str())),
        ParamRole::Inject(ty) | ParamRole::Ask(ty, _) => {
            let task = task(ty.span());
            quote_spanned!(ty.span()=> <#ty as __hier::Extract<'_, _, _>>::extract(#task)?)
        }
        ParamRole::Wrong => TokenStream::new(),
    });
    given.collect()
}
