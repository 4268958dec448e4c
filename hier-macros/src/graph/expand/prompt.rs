//! System prompts that read the conversation. An agent that reports makes its system prompt once, when the run enters
//! the agent. The prompt then reads the conversation of the supervisor, unless the policy clears that conversation.

use hier_spec::agent::AgentKind;
use proc_macro2::TokenStream;
use quote::quote_spanned;
use syn::Expr;
use syn::spanned::Spanned;

use super::super::ast::agent::{AgentFields, MembershipFields};
use super::super::model::GraphModel;
use super::secret;

/// Returns the system prompt if it is a function that is called once, when the run enters the agent, and before other
/// code of the agent can write messages.
fn prompt<'a>(agent: &'a AgentFields, member: &MembershipFields) -> Option<&'a Expr> {
    // Each of these parts may write messages before the prompt is made. An `Agent` makes its prompt for each request.
    let is_first = agent.front.is_empty() && member.on_entry.is_none() && member.inbox.is_none();
    let is_made_once = !matches!(agent.kind, AgentKind::Agent);
    agent.system.as_ref().filter(|prompt| is_first && is_made_once && !agent.flawed && secret::is_checked(prompt))
}

pub(super) fn constant(model: &GraphModel) -> Option<TokenStream> {
    let prompt = prompt(model.agent.as_ref()?, &model.member)?;
    let make = secret::function("system");
    Some(quote_spanned! {prompt.span()=>
        const PROMPT_READS_MESSAGES: ::core::primitive::bool = __hier::reads_messages(#make);
    })
}

/// Generates the check that the prompt does not read messages that the agent's own policy clears.
pub(super) fn check(model: &GraphModel) -> Option<TokenStream> {
    let prompt = prompt(model.agent.as_ref()?, &model.member)?;
    // If the policy does not set `clear_messages`, a supervisor may set it.
    let clears = model.member.policy.as_ref()?.clear_messages.as_ref()?;
    let make = secret::function("system");
    Some(quote_spanned! {prompt.span()=>
        const _: () = __hier::core::assert!(!__hier::reads_cleared(#make, #clears), #MESSAGE);
    })
}

const MESSAGE: &str = "this prompt reads `messages`, which `clear_messages: true` leaves empty: write \
                       `clear_messages: false`, or read `messages` in `reasoning:`";
