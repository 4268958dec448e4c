//! The fields of agents and of subagents: `subagents: [Worker { merge_fields: [artifact] }]`, `policy: Policy { … }`.

use hier_spec::agent::AgentKind;
use proc_macro2::{Delimiter, Spacing, TokenTree};
use syn::parse::ParseStream;
use syn::{Expr, ExprClosure, Ident, Lit, LitBool, LitStr, Path, Result, Token};

use super::super::ast::agent::{AgentFields, AgentModelOptions, Attachment, PolicyFields, ToolItem, parted};
use super::super::ast::{GraphFields, ParsedList};
use super::setters::{set, setters};
use super::{bracket, colon, doubled, name, no_such, skip_value};
use crate::diag::Errors;
use crate::symbol;
use crate::words::Words;

/// Returns an agent of this kind without fields, or `None` for kinds that ask no model.
pub(super) fn kind(kind: &str) -> Option<AgentFields> {
    let kinds = [
        (symbol::AGENT, AgentKind::Agent),
        (symbol::REACT_GRAPH, AgentKind::React),
        (symbol::TODO_GRAPH, AgentKind::Todo),
    ];
    let (_, kind) = kinds.into_iter().find(|(word, _)| *word == kind)?;
    Some(AgentFields { kind, ..AgentFields::default() })
}

pub(super) fn field(input: ParseStream<'_>, word: &Ident, body: &mut GraphFields, errors: &mut Errors) -> Result<()> {
    match &*word.to_string() {
        symbol::POLICY => body.member.policy = Some(policy(input, errors)?),
        symbol::ARGS => body.member.args = Some(super::ty(input, errors)?),
        symbol::ON_ENTRY => body.member.on_entry = Some(super::value(input, errors)?),
        symbol::ON_EXIT => body.member.on_exit = Some(super::value(input, errors)?),
        symbol::INBOX => body.member.inbox = Some(channel(input, errors)?),
        _ => {
            if let Some(agent) = &mut body.agent {
                return agent_field(input, word, agent, errors);
            }
        }
    }
    Ok(())
}

fn agent_field(input: ParseStream<'_>, word: &Ident, agent: &mut AgentFields, errors: &mut Errors) -> Result<()> {
    match &*word.to_string() {
        symbol::SYSTEM => agent.system = Some(set(input, word, errors)?),
        symbol::MODEL => agent.model = Some(model(input, word, errors)?),
        symbol::OPTIONS => agent.options = Some(model_options(input, errors)?),
        symbol::LAYERS => agent.layers = bracket(input, "a list of layers", errors, super::layers::layer)?.found,
        symbol::ANSWER => agent.answer = Some(answer(input, errors)?),
        symbol::ANSWER_ATTEMPTS => {
            agent.attempts = Some(at_least_one(input, "an agent", symbol::ANSWER_ATTEMPTS, errors)?);
        }
        symbol::REASONING => agent.reasoning = Some(set(input, word, errors)?),
        symbol::TOOLS => {
            let tools = bracket(input, "a list of tools", errors, tool)?.found;
            (agent.tools, agent.toolsets, agent.rules) = parted(tools);
        }
        symbol::SEARCH => agent.search = Some(super::search::search(input, word, errors)?),
        symbol::TOOL_ERRORS => agent.tool_errors = Some(set(input, word, errors)?),
        symbol::MAX_ITERATIONS => agent.max_iterations = Some(iterations(input, "an agent", errors)?),
        symbol::MAX_REPEATS => agent.max_repeats = Some(at_least_one(input, "an agent", symbol::MAX_REPEATS, errors)?),
        symbol::REPORTS_TO_SUPERVISOR => agent.reports = Some(set(input, word, errors)?),
        symbol::REPORT_INTO => agent.report_into = Some(channel(input, errors)?),
        symbol::FRONT => agent.front = attachments(input, "a list of stages", errors)?,
        symbol::BACK => agent.back = attachments(input, "a list of stages", errors)?,
        symbol::SUBAGENTS => agent.subagents = attachments(input, "a list of subagents", errors)?,
        symbol::PARALLEL_SUBAGENTS => {
            // The macro rejects some policies if it is true, so it must be a literal.
            let error = "`parallel_subagents` needs a literal: write `true` or `false`";
            agent.parallel = input.parse::<LitBool>().map_err(|at| syn::Error::new(at.span(), error))?.value;
        }
        symbol::TODO_CHECK => agent.todo_check = Some(set(input, word, errors)?),
        symbol::TODO_REFUSAL => agent.todo_refusal = Some(set(input, word, errors)?),
        _ => {}
    }
    Ok(())
}

fn channel(input: ParseStream<'_>, errors: &mut Errors) -> Result<Ident> {
    name(input, "expected a channel", Words::channel, errors)
}

fn model(input: ParseStream<'_>, word: &Ident, errors: &mut Errors) -> Result<Expr> {
    if input.peek(LitStr) {
        return Err(input.error("`model` selects a model of the context: `model: |context| &context.smart`"));
    }
    set(input, word, errors)
}

fn answer(input: ParseStream<'_>, errors: &mut Errors) -> Result<Ident> {
    let expected = "`answer` names the channel that stores the answer: `answer: verdict`";
    if !input.peek(Ident) {
        return Err(input.error(expected));
    }
    let channel: Ident = input.parse()?;
    errors.words.channel(&channel);
    if channel.to_string().starts_with(char::is_uppercase) {
        return Err(syn::Error::new_spanned(
            &channel,
            format!("{expected}; the type of the channel is the type of the answer"),
        ));
    }
    Ok(channel)
}

fn model_options(input: ParseStream<'_>, errors: &mut Errors) -> Result<AgentModelOptions> {
    if begins_with_field(input) {
        return Err(input.error("`options` takes a value of a type: write `ModelOptions { … }`"));
    }
    match setters(input, (symbol::MODEL_OPTIONS, symbol::MODEL_OPTION_FIELDS), errors)? {
        Some((here, fields)) => Ok(AgentModelOptions::Fields(here, fields)),
        None => super::value(input, errors).map(AgentModelOptions::Given),
    }
}

/// Returns true for `{ name: …`, which is not a block.
fn begins_with_field(input: ParseStream<'_>) -> bool {
    let Ok(TokenTree::Group(group)) = input.fork().parse() else { return false };
    let mut tokens = group.stream().into_iter();
    let is_name = group.delimiter() == Delimiter::Brace && matches!(tokens.next(), Some(TokenTree::Ident(_)));
    let colon = tokens.next();
    is_name
        && matches!(colon, Some(TokenTree::Punct(mark)) if mark.as_char() == ':' && mark.spacing() == Spacing::Alone)
}

pub(super) fn tool(input: ParseStream<'_>, errors: &mut Errors) -> Result<ToolItem> {
    if input.peek(Token![|]) || input.peek(Token![move]) {
        let choose: ExprClosure = input.parse()?;
        if choose.inputs.len() != 1 {
            let message = "a toolset depends only on the context: write `|desk| &desk.crm`";
            return Err(syn::Error::new_spanned(choose, message));
        }
        return Ok(ToolItem::Set(choose, super::trust::options(input, true, errors)?));
    }
    if input.peek(LitStr) {
        return Err(input.error("a tool is the path of a `#[tool]` function: remove the quotes"));
    }
    let path: Path = input
        .parse()
        .map_err(|error| syn::Error::new(error.span(), "expected a tool: the path of a `#[tool] async fn`"))?;
    if input.peek(syn::token::Paren) {
        return Err(input.error("a tool is named, not called: remove the parentheses"));
    }
    errors.words.value(&path);
    Ok(ToolItem::Named(path, super::trust::options(input, false, errors)?))
}

fn attachments(input: ParseStream<'_>, what: &str, errors: &mut Errors) -> Result<Vec<Attachment>> {
    Ok(bracket(input, what, errors, attachment)?.found)
}

fn attachment(input: ParseStream<'_>, errors: &mut Errors) -> Result<Attachment> {
    let path: Path = input
        .parse()
        .map_err(|error| syn::Error::new(error.span(), "expected a graph: the path of a type made by `graph!`"))?;
    errors.words.ty(&path);
    let policy = if input.peek(syn::token::Brace) { Some(options(input, errors)?) } else { None };
    Ok(Attachment { path, policy })
}

fn policy(input: ParseStream<'_>, errors: &mut Errors) -> Result<PolicyFields> {
    let shape = "expected a policy: `Policy { merge_fields: […], … }`";
    let word: Ident = input.parse().map_err(|error| syn::Error::new(error.span(), shape))?;
    errors.words.one_of("policy", &word);
    if !symbol::POLICIES.contains(&&*word.to_string()) || !input.peek(syn::token::Brace) {
        return Err(syn::Error::new_spanned(word, shape));
    }
    options(input, errors)
}

fn options(input: ParseStream<'_>, errors: &mut Errors) -> Result<PolicyFields> {
    let mut policy = PolicyFields::default();
    super::options(input, Some("Policy"), errors, |input, word, errors| option(input, word, &mut policy, errors))?;
    Ok(policy)
}

fn option(input: ParseStream<'_>, word: &Ident, policy: &mut PolicyFields, errors: &mut Errors) -> Result<()> {
    let text = &*word.to_string();
    if !symbol::POLICY_OPTIONS.contains(&text) {
        skip_value(input);
        errors.push(word, no_such("a policy", "option", word, symbol::POLICY_OPTIONS));
        return Ok(());
    }
    let example = match text {
        symbol::MAX_ITERATIONS => "8",
        symbol::MERGE_FIELDS | symbol::DISCARD_FIELDS => "[channel]",
        symbol::BACKGROUND | symbol::DETACHED => "true",
        _ => "false",
    };
    colon(input, word, example)?;
    match text {
        symbol::CLEAR_MESSAGES => policy.clear_messages = Some(super::value(input, errors)?),
        symbol::PRESERVE_CHAT => policy.preserve_chat = Some(super::value(input, errors)?),
        symbol::RESET_ITERATION => policy.reset_iteration = Some(super::value(input, errors)?),
        symbol::MAX_ITERATIONS => policy.max_iterations = Some(iterations(input, "a subagent", errors)?),
        symbol::BACKGROUND => policy.background = Some((word.clone(), literal(input, word)?)),
        symbol::DETACHED => policy.detached = Some((word.clone(), literal(input, word)?)),
        symbol::MERGE_FIELDS => policy.merge_fields = Some(channels(input, errors)?),
        _ => policy.discard_fields = Some(channels(input, errors)?),
    }
    Ok(())
}

/// Parses `true` or `false`. The value must be a literal, because the macro rejects other options if it is true.
fn literal(input: ParseStream<'_>, word: &Ident) -> Result<LitBool> {
    let error = format!("`{word}` needs a literal: write `true` or `false`");
    input.parse().map_err(|at| syn::Error::new(at.span(), error))
}

/// `[artifact, findings]`, each once.
fn channels(input: ParseStream<'_>, errors: &mut Errors) -> Result<Vec<Ident>> {
    let ParsedList { found, .. } = bracket(input, "a list of channels", errors, channel)?;
    let mut given = Vec::new();
    for channel in &found {
        doubled("channel", channel, &mut given, errors);
    }
    Ok(given)
}

fn iterations(input: ParseStream<'_>, of: &str, errors: &mut Errors) -> Result<Expr> {
    at_least_one(input, of, symbol::MAX_ITERATIONS, errors)
}

fn at_least_one(input: ParseStream<'_>, of: &str, option: &str, errors: &mut Errors) -> Result<Expr> {
    let number: Expr = super::value(input, errors)?;
    if let Expr::Lit(literal) = &number
        && let Lit::Int(digits) = &literal.lit
        && digits.base10_digits() == "0"
    {
        let message = format!("{of} with `{option}: 0` does nothing: write at least 1");
        return Err(syn::Error::new_spanned(number, message));
    }
    Ok(number)
}
