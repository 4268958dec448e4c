//! Checks of a tool that need types: the secret channels that it reads, and the questions that it asks.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use super::client;
use super::model::{ParamRole, ToolModel};

/// Rejects parameters that read a secret channel, because a model reads the result of a tool.
pub(super) fn secrets(tool: &ToolModel) -> TokenStream {
    let read = tool.params.iter().filter_map(|param| match &param.role {
        ParamRole::State(ty) | ParamRole::Inject(ty) => Some(ty),
        _ => None,
    });
    let checks = read.map(|ty| {
        quote_spanned! {ty.span()=>
            const _: () = {
                #[allow(unused_imports)]
                use __hier::MayShow as _;
                __hier::core::assert!(!__hier::Shown::<#ty>::SECRET, #SECRET)
            };
        }
    });
    checks.collect()
}

const SECRET: &str =
    "a model reads what this tool returns, and this parameter reads a secret channel: take a view without it";

/// The questions that a call can ask, as far as the signature shows them.
pub(super) fn questions(tool: &ToolModel) -> TokenStream {
    let asked = tool.params.iter().filter_map(|param| match &param.role {
        ParamRole::Ask(_, question) => {
            Some(quote_spanned!(question.span()=> __hier::QuestionFacts::One(__hier::QuestionType::of::<#question>())))
        }
        ParamRole::Inject(ty) => Some(quote_spanned! {ty.span()=>
            {
                #[allow(unused_imports)]
                use __hier::MayAsk as _;
                __hier::ArgumentQuestions::<#ty>::QUESTIONS
            }
        }),
        _ => None,
    });
    let may_need_approval = tool.options.needs_approval || tool.options.approve.is_some();
    let approval = may_need_approval
        .then(|| quote!(__hier::QuestionFacts::One(__hier::QuestionType::of::<__hier::ApprovalRequest>())));
    let asked = asked.chain(approval).chain(client::question(tool));
    quote!(const QUESTIONS: __hier::QuestionFacts = __hier::QuestionFacts::All(&[#(#asked),*]);)
}
