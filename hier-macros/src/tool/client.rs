//! Client tools, `#[tool(client)] async fn pick_file(kind: String) -> FileRef;`: their rules and their code.
//!
//! 1. [`of_model`]: its arguments come from the model.
//! 2. [`plain_result`]: it returns the result itself. A client reports a failure separately.
//! 3. [`repeated_by_client`]: the server neither records nor repeats it.

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{ReturnType, Type};

use super::model::{ParamRole, ToolModel};
use super::trust::pascal_case;
use crate::diag::Errors;
use crate::symbol;

pub(super) fn check(tool: &ToolModel, errors: &mut Errors) {
    if tool.options.client.is_some() {
        of_model(tool, errors);
        plain_result(tool, errors);
        repeated_by_client(tool, errors);
    }
}

/// A client tool cannot use the state, the run or the context, which exist only on the server.
fn of_model(tool: &ToolModel, errors: &mut Errors) {
    for param in &tool.params {
        if !matches!(param.role, ParamRole::Argument(_) | ParamRole::Whole(_) | ParamRole::Wrong) {
            errors.at(
                param.span,
                "a client tool runs in the client, so the model passes all of its arguments: remove this",
            );
        }
    }
}

fn plain_result(tool: &ToolModel, errors: &mut Errors) {
    let ReturnType::Type(_, ty) = &tool.function.sig.output else { return };
    let Type::Path(path) = &**ty else { return };
    if path.path.segments.last().is_some_and(|last| last.ident == symbol::RESULT) {
        errors.push(
            ty,
            "a client tool returns its result, and a client can always report a failure instead: write the type of the result",
        );
    }
}

fn repeated_by_client(tool: &ToolModel, errors: &mut Errors) {
    if let Some(word) = &tool.options.step {
        errors.push(word, "the answer of a client is stored like every answer to a question: remove this");
    }
    if let Some(retry) = &tool.options.retry {
        errors.push(retry, "the server cannot repeat a call that the client makes: remove `retry`");
    }
}

/// The type of the question, `PickFileCall` for the tool `pick_file`.
fn call_ident(tool: &ToolModel) -> Ident {
    let ident = &tool.function.sig.ident;
    let name = format!("{}Call", pascal_case(&ident.unraw().to_string()));
    Ident::new(&name, ident.span())
}

/// The alias for the question, next to the tool.
pub(super) fn call_type(tool: &ToolModel, hier: &TokenStream) -> Option<TokenStream> {
    tool.options.client.as_ref()?;
    let (visibility, ident, call) = (&tool.function.vis, &tool.function.sig.ident, call_ident(tool));
    let doc = format!("The question of a run that waits for a client to run the tool `{}`.", ident.unraw());
    Some(quote! {
        #[doc = #doc]
        #[allow(dead_code)]
        #visibility type #call = #hier::ClientCall<#ident>;
    })
}

/// The question in the facts of the tool.
pub(super) fn question(tool: &ToolModel) -> Option<TokenStream> {
    tool.options.client.as_ref()?;
    Some(quote!(__hier::QuestionFacts::One(__hier::QuestionType::of::<__hier::ClientCall<Self>>())))
}

/// `impl ClientTool`, for a tool with arguments of this type.
pub(super) fn implementation(tool: &ToolModel, args: &TokenStream) -> Option<TokenStream> {
    tool.options.client.as_ref()?;
    let (ident, call) = (&tool.function.sig.ident, call_ident(tool).to_string());
    let output = match &tool.function.sig.output {
        ReturnType::Default => quote!(
            type Output = __hier::NoResult;
        ),
        // The compiler reports a type that cannot be a result at the return type.
        ReturnType::Type(_, ty) => quote_spanned!(ty.span()=> type Output = #ty;),
    };
    Some(quote! {
        #[automatically_derived]
        impl __hier::ClientTool for #ident {
            type Args = #args;
            #output
            const IDENT: &'static ::core::primitive::str = #call;
            const MODULE: &'static ::core::primitive::str = ::core::module_path!();
            fn client_args(__call: &__hier::ToolCall) -> ::core::result::Result<#args, ::std::string::String> {
                <Self as __hier::ToolArgs<#args>>::read_args(__call)
            }
        }
    })
}

/// The body of `Tool::call`, with an optional duration.
pub(super) fn call(tool: &ToolModel, timeout: &TokenStream) -> Option<TokenStream> {
    tool.options.client.as_ref()?;
    Some(quote!(::std::boxed::Box::pin(__hier::ask_client::<Self, __State, __Context>(__call, __task, #timeout))))
}
