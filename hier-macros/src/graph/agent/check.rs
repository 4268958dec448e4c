//! The rules of agents and policies that the syntax decides:
//!
//! 1. [`merged_or_discarded`]: a channel is not both merged and discarded.
//! 2. [`not_itself`]: an agent does not contain itself.
//! 3. [`once`]: an agent lists a subagent once.
//! 4. [`one_compact`]: one layer selects the part of the conversation that is sent.
//! 5. [`background`]: only a subagent runs in the background, and it returns only its report.
//!
//! The compiler checks rules that need types: see [`expand`](super::expand).

use syn::{Ident, Path};

use super::super::ast::agent::{AgentFields, Attachment, LayerExpr, MembershipFields, PolicyFields};
use super::shape::members;
use crate::diag::Errors;

pub(in super::super) fn check(
    name: &Ident,
    agent: Option<&mut AgentFields>,
    member: &MembershipFields,
    errors: &mut Errors,
) {
    let before = errors.len();
    if let Some(policy) = &member.policy {
        merged_or_discarded(policy, errors);
        for (word, _) in [&policy.background, &policy.detached].into_iter().flatten() {
            let message = format!(
                "`{word}` stands where a supervisor attaches the graph: `subagents: [{name} {{ {word}: true }}]`"
            );
            errors.push(word, message);
        }
    }
    let Some(agent) = agent else { return };
    background(agent, errors);
    for attachment in members(agent) {
        if let Some(policy) = &attachment.policy {
            merged_or_discarded(policy, errors);
        }
        not_itself(name, &attachment.path, errors);
    }
    once(agent, errors);
    one_compact(&agent.layers, errors);
    agent.flawed = errors.len() > before;
}

/// The engine copies a merged field back and does not copy a discarded field.
fn merged_or_discarded(policy: &PolicyFields, errors: &mut Errors) {
    let discarded = policy.discard_fields.as_deref().unwrap_or_default();
    for field in policy.merge_fields.as_deref().unwrap_or_default() {
        if let Some(other) = discarded.iter().find(|other| *other == field) {
            errors.push(field, format!("`{field}` is both merged and discarded: remove one"));
            errors.push(other, format!("… also here: `{field}` is both merged and discarded"));
        }
    }
}

/// A background subagent runs on its own thread, and a stage runs before or after the agent.
fn background(agent: &AgentFields, errors: &mut Errors) {
    for word in agent.front.iter().chain(&agent.back).filter_map(Attachment::in_background) {
        let message = format!("stages run one after the other: remove `{word}`, or make the stage a subagent");
        errors.push(word, message);
    }
    for policy in agent.subagents.iter().filter_map(|subagent| subagent.policy.as_ref()) {
        let Some(word) = policy.in_background() else { continue };
        if let Some((not, _)) = policy.background.as_ref().filter(|(_, flag)| !flag.value) {
            errors.push(not, "a detached subagent runs in the background: remove `background: false`");
        }
        let lists = [("merge_fields", &policy.merge_fields), ("discard_fields", &policy.discard_fields)];
        for (option, first) in lists.into_iter().filter_map(|(option, list)| Some((option, list.as_ref()?.first()?))) {
            let message = format!(
                "`{option}` does not go with `{word}: true`: only the report of a background subagent returns; remove one"
            );
            errors.push(first, message);
            errors.push(word, format!("… also here: `{word}: true` does not go with `{option}`"));
        }
    }
}

fn not_itself(name: &Ident, path: &Path, errors: &mut Errors) {
    if is_itself(name, path) {
        errors.push(path, format!("`{name}` cannot contain itself: its runs would never end"));
    }
}

pub(in super::super) fn is_itself(name: &Ident, path: &Path) -> bool {
    path.get_ident().is_some_and(|path| path == name || path == "Self")
}

/// A model calls a subagent by its name.
fn once(agent: &AgentFields, errors: &mut Errors) {
    for (place, attachment) in agent.subagents.iter().enumerate() {
        let path = &attachment.path;
        if let Some(first) = agent.subagents[..place].iter().find(|other| other.path == *path) {
            let name = path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
            errors.push(path, format!("the subagent `{name}` is given twice: remove one"));
            errors.push(&first.path, format!("… also here: the subagent `{name}` is given twice"));
        }
    }
}

/// The second of two layers that select a part of the conversation would have no effect. An inherited layer may
/// accompany the agent's own.
fn one_compact(layers: &[LayerExpr], errors: &mut Errors) {
    let found = layers.iter().filter_map(|layer| match layer {
        LayerExpr::Wrapper(_, inner) => Some((true, compact_of(inner)?)),
        layer => Some((false, compact_of(layer)?)),
    });
    let found: Vec<(bool, &Path)> = found.collect();
    for (place, (is_inherited, path)) in found.iter().enumerate() {
        if let Some((_, first)) = found[..place].iter().find(|(other, _)| other == is_inherited) {
            errors.push(path, "`Compact` is given twice: remove one, which would have no effect");
            errors.push(first, "… also here: `Compact` is given twice");
        }
    }
}

fn compact_of(layer: &LayerExpr) -> Option<&Path> {
    match layer {
        LayerExpr::Fields(path, _) => path.segments.last().is_some_and(|last| last.ident == "Compact").then_some(path),
        LayerExpr::Method(receiver, _) => compact_of(receiver),
        _ => None,
    }
}
