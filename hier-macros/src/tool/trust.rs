//! The code of a tool's labels, of its arguments as one value, and of its condition for approval.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;

use super::context::Context;
use super::model::{Argument, ToolModel};
use crate::approval::{Approval, labels};

/// Returns the constant of `NamedTool`, if the tool has trust labels or an approval.
pub(super) fn constant(tool: &ToolModel) -> Option<TokenStream> {
    let is_approved = tool.options.needs_approval || tool.options.approve.is_some();
    if tool.options.labels.is_empty() && !is_approved {
        return None;
    }
    let labels = labels(&tool.options.labels);
    Some(quote!(const TRUST: __hier::ToolTrust = __hier::ToolTrust::new(#labels, #is_approved);))
}

pub(super) fn methods(tool: &ToolModel, context: &Context<'_>) -> TokenStream {
    let labels = (!tool.options.labels.is_empty()).then(|| {
        quote! {
            fn labels(&self) -> __hier::TrustLabels {
                <Self as __hier::NamedTool>::TRUST.labels
            }
        }
    });
    let approval = tool.options.approve.as_ref().map(|(_, approval)| {
        let mode = match approval {
            Approval::Always(_) => quote!(Always),
            Approval::Tainted(_) => quote!(Tainted),
            Approval::Function(_) | Approval::Closure(_) => quote!(Condition),
        };
        let decision = matches!(approval, Approval::Function(_) | Approval::Closure(_));
        let decision = decision.then(|| must_approve(tool, approval, context));
        quote! {
            fn approval(&self) -> __hier::ApprovalMode {
                __hier::ApprovalMode::#mode
            }
            #decision
        }
    });
    quote!(#labels #approval)
}

/// Generates the condition for approval. The condition takes the context of the tool's run, or `()` if the tool takes
/// no run.
fn must_approve(tool: &ToolModel, approval: &Approval, context: &Context<'_>) -> TokenStream {
    let (ident, ty) = (&tool.function.sig.ident, context.ty());
    let (part, given) = context.of_condition();
    let rule = approval.rule(&quote!(#ident), &part);
    quote! {
        fn must_approve<'__a>(
            &'__a self,
            __call: &'__a __hier::ToolCall,
            __task: &'__a __hier::Task<__State, #ty>,
            __labels: __hier::TrustLabels,
        ) -> __hier::BoxFuture<'__a, ::core::result::Result<::core::primitive::bool, __hier::NodeError>> {
            ::std::boxed::Box::pin(#rule.decide(__call, #given, __labels))
        }
    }
}

/// Returns the struct with a field for each argument. A tool with `#[args]` already has such a struct.
pub(super) fn arguments(tool: &ToolModel) -> (Ident, TokenStream) {
    let ident = &tool.function.sig.ident;
    let name = format_ident!("__{}Args", pascal_case(&ident.unraw().to_string()));
    let fields = tool.arguments().map(|Argument { ident, ty, .. }| quote!(pub #ident: #ty,));
    let code = quote! {
        #[allow(
            dead_code,
            missing_debug_implementations,
            missing_docs,
            non_camel_case_types,
            non_snake_case,
            private_interfaces,
            unnameable_types,
            unreachable_pub
        )]
        pub struct #name { #(#fields)* }
        #[automatically_derived]
        impl __hier::NamedArgs for #ident {
            type Args = #name;
        }
    };
    (name, code)
}

/// `look_up` → `LookUp`
pub(super) fn pascal_case(name: &str) -> String {
    let words = name.split('_').map(|word| {
        let mut letters = word.chars();
        let first = letters.next().into_iter().flat_map(char::to_uppercase);
        first.chain(letters).collect::<String>()
    });
    words.collect()
}
