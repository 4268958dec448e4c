//! `graph!`: parse → model → check → expand.
//!
//! After an error, the macro still generates the parts that it understood. The graph's type therefore always exists,
//! and no errors follow elsewhere.

mod agent;
mod asks;
mod ast;
mod check;
mod expand;
mod model;
mod parse;
mod text;

pub(crate) use ast::Length;
pub(crate) use parse::{NO_TIME, positive};
use proc_macro2::TokenStream;
pub(crate) use text::snake_case;

use crate::crate_path::Hier;
use crate::diag::Errors;

pub(crate) fn expand(input: TokenStream, hier: &Hier) -> TokenStream {
    let mut errors = Errors::default();
    let mut output = TokenStream::new();
    if let Some(ast) = parse::parse(input, &mut errors) {
        let mut model = model::model(ast, hier, &mut errors);
        let doubtful = check::check(&model, &mut errors);
        asks::check(&model, &mut errors);
        needs_agents(&model, &mut errors);
        model.is_sound = errors.is_empty();
        agent::check::check(&model.head.name, model.agent.as_mut(), &model.member, &mut errors);
        output = expand::expand(&model, &doubtful, &errors.words);
    }
    output.extend(errors.into_tokens());
    output
}

/// Agents and nodes with tools need a crate that has agents.
fn needs_agents(model: &model::GraphModel, errors: &mut Errors) {
    const FIX: &str =
        "but this crate depends only on `hier-core`: add `hier-graph` or `hier-agents` to its dependencies";
    if model.agents {
        return;
    }
    let name = &model.head.name;
    if model.agent.is_some() {
        errors.push(name, format!("`{name}` is an agent, {FIX}"));
    }
    if model.agent.is_none() && (model.member.policy.is_some() || model.member.args.is_some()) {
        errors.push(name, format!("the policy and the arguments of `{name}` are for agents, {FIX}"));
    }
    for node in model.nodes.iter().filter(|node| node.tools.is_some()) {
        errors.push(&node.name, format!("node `{}` calls tools, {FIX}", node.name));
    }
}

#[cfg(test)]
mod round;
#[cfg(test)]
mod tests;
