//! The conversation in system prompts. An agent that reports makes its system prompt once, when it is entered: the
//! prompt then reads the conversation of the supervisor, unless the policy clears it.

use hier_spec::agent::AgentKind;
use proc_macro2::TokenStream;
use quote::quote_spanned;
use syn::Expr;
use syn::spanned::Spanned;

use super::super::ast::agent::{AgentFields, MembershipFields};
use super::super::model::GraphModel;
use super::secret;

/// The function of a system prompt that reads the conversation as it is when the agent is entered.
fn prompt<'a>(agent: &'a AgentFields, member: &MembershipFields) -> Option<&'a Expr> {
    // These may write messages before. An `Agent` makes its prompt with each request.
    let is_first = agent.front.is_empty() && member.on_entry.is_none() && member.inbox.is_none();
    let is_made_once = !matches!(agent.kind, AgentKind::Agent);
    agent.system.as_ref().filter(|prompt| is_first && is_made_once && !agent.flawed && secret::is_checked(prompt))
}

/// The constant of `impl Membership`.
pub(super) fn constant(model: &GraphModel) -> Option<TokenStream> {
    let prompt = prompt(model.agent.as_ref()?, &model.member)?;
    let make = secret::function("system");
    Some(quote_spanned! {prompt.span()=>
        const PROMPT_READS_MESSAGES: ::core::primitive::bool = __hier::reads_messages(#make);
    })
}

/// Refuses a prompt that reads what the agent's own policy clears.
pub(super) fn check(model: &GraphModel) -> Option<TokenStream> {
    let prompt = prompt(model.agent.as_ref()?, &model.member)?;
    // Without this word, a supervisor may decide otherwise.
    let clears = model.member.policy.as_ref()?.clear_messages.as_ref()?;
    let make = secret::function("system");
    Some(quote_spanned! {prompt.span()=>
        const _: () = __hier::core::assert!(!__hier::reads_cleared(#make, #clears), #MESSAGE);
    })
}

const MESSAGE: &str = "this prompt reads `messages`, which `clear_messages: true` leaves empty: write \
                       `clear_messages: false`, or read `messages` in `reasoning:`";
